"""One rule for time: aware UTC inside, integer milliseconds on disk.

At the door, a number is seconds since 1970 when its magnitude is below 1e12 and milliseconds
otherwise; a string is ISO 8601, with `Z` or an offset; a plain date is its midnight. **Naive means
UTC**, everywhere and on every backend: a machine's local zone never changes what is stored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from memkit_core.errors import ConfigError, InvalidInputError, shown

TimeLike = datetime | date | str | int | float
"""What is accepted where a time is asked for."""

Clock = Callable[[], datetime]
"""Returns the present moment as an aware UTC datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_BELOW = 1e12
_LOWEST = int((datetime(1, 1, 2, tzinfo=UTC) - _EPOCH).total_seconds() * 1000)
_HIGHEST = int((datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds() * 1000)


def utc_now() -> datetime:
    """Now, aware, UTC, cut to milliseconds as it will be stored."""
    return from_ms(time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A clock of somebody else's; equal to another one of the same clock, so that memories can share it."""

    clock: Callable[[], object]

    def __call__(self) -> datetime:
        moment = self.clock()
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise ConfigError(
                f"clock must return an aware datetime, as datetime.now(UTC) is, got {shown(moment)}"
            )
        return to_utc(moment, name="clock")


def checked_clock(clock: object) -> Clock:
    """A clock that returns what `clock` does, in UTC and milliseconds; asked once, to see that it can.

    Raises:
        ConfigError: it is no function, or returns no aware datetime.
    """
    if clock is utc_now:
        return utc_now
    if not callable(clock):
        raise ConfigError(f"clock must be a function that returns the time, got {shown(clock)}")
    checked = _Checked(clock)
    checked()
    return checked


def from_ms(milliseconds: int) -> datetime:
    """The aware UTC datetime of a stored integer; exact."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_ms(moment: datetime) -> int:
    """Milliseconds since 1970 of an aware datetime, rounded down; exact, no floating point."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def to_utc(value: TimeLike, *, name: str = "time") -> datetime:
    """`value` as an aware UTC datetime with millisecond precision.

    Raises:
        InvalidInputError: when it is no time, not finite, or outside the years 1 to 9999.
    """
    milliseconds = _milliseconds(value, name)
    if not _LOWEST <= milliseconds <= _HIGHEST:
        raise InvalidInputError(f"{name} must lie within the years 1 to 9999, got {shown(value)}")
    return from_ms(milliseconds)


def _milliseconds(value: TimeLike, name: str) -> int:
    if isinstance(value, bool):
        raise InvalidInputError(f"{name} must be a time, got {shown(value)}")
    if isinstance(value, datetime):
        return to_ms(value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    if isinstance(value, date):
        return to_ms(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, int | float):
        # A whole number may be too large to be a float.
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInputError(f"{name} must be finite, got {shown(value)}")
        return math.floor(value * 1000) if abs(value) < _SECONDS_BELOW else math.floor(value)
    if isinstance(value, str):
        try:
            return _milliseconds(datetime.fromisoformat(value.strip()), name)
        except ValueError:
            pass
    raise InvalidInputError(
        f"{name} must be a datetime, a date, ISO 8601 text or a number of seconds or "
        f"milliseconds since 1970, got {shown(value)}"
    )
