"""Dates that a query names, and how well a record's time fits them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_NAMES_OF_MONTHS: Final = (
    "january february march april may june july august september october november december"
)
_MONTHS: Final = _NAMES_OF_MONTHS.split()
_NAMES: Final = "|".join(_MONTHS) + "|jan|feb|apr|jun|jul|aug|sept|sep|oct|nov|dec"
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th)?"
# Texts, which `re` compiles on first use and keeps: importing memkit should be quick.
_ENGLISH: Final = (
    rf"\b(?:(?P<before>{_DAY})\s(?:of\s)?)?(?P<month>{_NAMES})\b\.?"
    rf"(?:\s(?P<after>{_DAY})\b)?(?:,?\s(?P<year>{_YEAR})\b)?"
)
_ISO: Final = rf"\b(?P<year>{_YEAR})-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b"
_CJK: Final = (
    rf"(?:(?P<year>{_YEAR})\s?年\s?)?(?P<month>\d{{1,2}})\s?月(?:份)?(?:\s?(?P<day>\d{{1,2}})\s?[日号])?"
)
_YEAR_ALONE: Final = rf"(?<![\d.,-]){_YEAR}(?![\d.,-]\d|\d)"
# "may" and "march" are also verbs: alone they are a month only after one of these.
_BEFORE_MONTH: Final = r"\b(?:in|on|of|since|during|until|by|from|before|after|early|mid|late|last|this)[ -]$"


class NamedDate(NamedTuple):
    """A date as far as a query gives it: a year, a month, or a day of a month."""

    year: int | None
    month: int | None
    day: int | None


def dates_in(query: str) -> list[NamedDate]:
    """Return the distinct dates named in an English, Chinese, Japanese or ISO 8601 way, else nothing.

    A year counts alone only if no month is named. Relative dates ("yesterday") are not read.
    """
    text = " ".join(query[:10_000].lower().split())
    found = [_named(m["year"], m["month"], m["day"]) for m in re.finditer(_ISO, text)]
    found += [_named(m["year"], m["month"], m["day"]) for m in re.finditer(_CJK, text)]
    for match in re.finditer(_ENGLISH, text):
        day = match["before"] or match["after"]
        plain = match["month"] not in ("may", "march")
        if plain or day or match["year"] or re.search(_BEFORE_MONTH, text[: match.start()][-12:]):
            month = next(n for n, m in enumerate(_MONTHS, 1) if m.startswith(match["month"][:3]))
            found.append(_named(match["year"], str(month), day))
    named = list(dict.fromkeys(date for date in found if date is not None))
    return named or [NamedDate(int(y), None, None) for y in re.findall(_YEAR_ALONE, text)]


def date_fit(dates: Sequence[NamedDate], time: datetime | None) -> float:
    """Return the best fit: 1 for the month or day, 0.7 for the day's month, 0.5 for the year."""
    return max((_fit(date, time) for date in dates), default=0.0) if time else 0.0


def _fit(date: NamedDate, time: datetime) -> float:
    if date.year not in (None, time.year) or date.month not in (None, time.month):
        return 1.0 if _over_the_month(date, time) else 0.0
    if date.month is None:
        return 0.5
    # People tell on the next day what happened; the turn that says so is dated then.
    return 1.0 if date.day is None or abs(time.day - date.day) <= 1 else 0.7


def _over_the_month(date: NamedDate, time: datetime) -> bool:
    """Whether the time is on the day before or after the date, in another month."""
    if date.day is None or 1 not in (date.day, time.day):
        return False
    beside = time + timedelta(days=1 if date.day == 1 else -1)
    return date.year in (None, beside.year) and (date.month, date.day) == (beside.month, beside.day)


def _named(year: str | None, month: str, day: str | None) -> NamedDate | None:
    number = int(month)
    which = int(re.sub(r"\D", "", day)) if day else None
    if number not in range(1, 13) or which not in (None, *range(1, 32)):
        return None
    return NamedDate(int(year) if year else None, number, which)
