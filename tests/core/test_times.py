"""One rule for time: aware UTC inside, integer milliseconds on disk, naive means UTC."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.errors import InvalidInputError
from memkit_core.times import from_ms, to_ms, to_utc, utc_now

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
MS = 1_777_636_800_000


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=-7))),
        "2026-05-01T12:00:00Z",
        "2026-05-01T12:00:00+00:00",
        "2026-05-01T05:00:00-07:00",
        "2026-05-01 12:00",
        "  2026-05-01T12:00:00  ",
        MS,
        MS / 1000,
        MS // 1000,
    ],
    ids=repr,
)
def test_one_moment_in_every_form(value):
    """Aware, naive, text with Z or an offset, seconds and milliseconds all name the same moment."""
    assert to_utc(value) == NOON
    assert to_utc(value).tzinfo is UTC


def test_a_date_is_its_midnight():
    """A plain date, also as text, is its first moment in UTC."""
    assert to_utc(date(2026, 5, 1)) == to_utc("2026-05-01") == datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "bad",
    [
        *(
            "",
            "yesterday",
            "2026-13-01",
            "2026-05-01T25:00",
            None,
            True,
            b"x",
            [],
            float("nan"),
            float("inf"),
        ),
        *(1e300, -1e300, 10**30, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), ...),
    ],
    ids=repr,
)
def test_what_is_no_time_is_a_typed_error(bad):
    """What is no time, not finite or outside the years 1 to 9999 raises an error that names the field."""
    with pytest.raises(InvalidInputError, match="occurred_at"):
        to_utc(bad, name="occurred_at")


@given(st.integers(-62 * 10**15, 253 * 10**15).map(lambda us: EPOCH + timedelta(microseconds=us)))
def test_milliseconds_are_exact(moment):
    """A moment survives as its millisecond, rounded down, before 1970 and far away too."""
    cut = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert from_ms(to_ms(moment)) == cut
    assert to_utc(moment) == cut
    assert to_ms(from_ms(to_ms(moment))) == to_ms(moment)


@given(st.integers(-6 * 10**10, 10**11))
def test_order_is_kept(seconds):
    """A later number of seconds is a later moment; a fraction counts down to the millisecond."""
    assert to_utc(seconds) < to_utc(seconds + 0.002)
    assert to_ms(to_utc(seconds)) == seconds * 1000


def test_the_border_between_seconds_and_milliseconds():
    """Below 1e12 a number is seconds, from there on milliseconds."""
    assert to_utc(1e12) == to_utc(1e9)
    assert to_utc(-1e12) == to_utc(-1e9)
    assert to_utc(10**11) > to_utc(10**12)


def test_now_is_aware_and_storable():
    """The present is aware UTC and already cut to milliseconds."""
    now = utc_now()
    assert now.tzinfo is UTC
    assert from_ms(to_ms(now)) == now
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=5)
