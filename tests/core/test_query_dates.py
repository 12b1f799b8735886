"""Dates that a query names."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from memkit_core.recall.query_dates import date_fit, dates_in


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What happened in May 2023?", [(2023, 5, None)]),
        ("on 7 May, 2023", [(2023, 5, 7)]),
        ("on the 7th of May", [(None, 5, 7)]),
        ("on September 3rd", [(None, 9, 3)]),
        ("since Sept. last year, or Dec 2022", [(None, 9, None), (2022, 12, None)]),
        ("between 2023-05-07 and 2023-06", [(2023, 5, 7), (2023, 6, None)]),
        ("2025年1月18日她去了哪里", [(2025, 1, 18)]),
        ("1月中旬的艺术展", [(None, 1, None)]),
        ("what did she paint in 2022?", [(2022, None, None)]),
        ("It may rain; we march on", []),
        ("may I ask in march", [(None, 3, None)]),
        ("version 3.2024 or 1,999 steps", []),
        ("13月", []),
        ("", []),
    ],
)
def test_dates_in(query: str, expected: list[tuple[int | None, int | None, int | None]]) -> None:
    """Months, days and years are read in the ways English, Chinese and ISO 8601 write them."""
    assert expected == dates_in(query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("in May 2023", 1.0),
        ("in May", 1.0),
        ("on 7 May 2023", 1.0),
        ("on 20 May 2023", 0.7),
        ("in 2023", 0.5),
        ("in May 2022", 0.0),
        ("in May or June", 1.0),
        ("yesterday", 0.0),
    ],
)
def test_date_fit(query: str, expected: float) -> None:
    """A time fits a named date by how much of it agrees; the day after still counts as the day."""
    when = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

    assert expected == date_fit(dates_in(query), when)
    assert date_fit(dates_in(query), None) == 0.0


@pytest.mark.parametrize(
    ("query", "when", "expected"),
    [
        ("on 31 May 2023", datetime(2023, 6, 1, tzinfo=UTC), 1.0),
        ("on June 1st", datetime(2023, 5, 31, tzinfo=UTC), 1.0),
        ("2023-12-31", datetime(2024, 1, 1, tzinfo=UTC), 1.0),
        ("on 1 January 2024", datetime(2023, 12, 31, tzinfo=UTC), 1.0),
        ("on 28 February 2024", datetime(2024, 2, 29, tzinfo=UTC), 1.0),
        ("on 28 February 2024", datetime(2024, 3, 1, tzinfo=UTC), 0.0),
        ("on 31 May 2022", datetime(2023, 6, 1, tzinfo=UTC), 0.0),
        ("on 30 May", datetime(2023, 6, 1, tzinfo=UTC), 0.0),
        ("in May", datetime(2023, 6, 1, tzinfo=UTC), 0.0),
    ],
)
def test_the_day_after_may_be_in_another_month(query: str, when: datetime, expected: float) -> None:
    """What is told on the day after the last of a month, or of a year, fits as on any other day."""
    assert expected == date_fit(dates_in(query), when)


def test_a_date_named_again() -> None:
    """A date that a query repeats is one."""
    assert dates_in("on 7 May 2023, 2023-05-07 or May 7th, 2023") == [(2023, 5, 7)]


def test_long_query_is_cheap() -> None:
    """A query of a million characters takes no longer than its beginning."""
    start = time.thread_time()
    dates_in("7 may 2023 1月" * 100_000)

    assert time.thread_time() - start < 2
