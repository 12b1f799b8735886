"""The profile documents of a user as they stand in each prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memkit_core.filters import FilterLike
from memkit_core.models import MemoryRecord, RecordPage, RecordType
from memkit_core.ports import TokenCounter
from memkit_core.prompts import profile_block, profile_line
from memkit_core.scope import Scope

_MOST = 100
_SHAPED: FilterLike = {"metadata.profile": {"exists": True}}


class ListOf(Protocol):
    """`Memory.list_records` as it is used here."""

    def __call__(
        self,
        *,
        scope: Scope,
        types: tuple[RecordType, ...],
        filters: FilterLike,
        order: str,
        limit: int,
        as_of: datetime | None = None,
    ) -> RecordPage:
        """See `Memory.list_records`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProfile:
    """What of a user's profile stands in a prompt.

    Attributes:
        text: the documents, fenced as data; "" without any.
        ids: the records they are kept in.
        points: those of these records.
        truncated: whether one was left out; `text` says so too, if there is any.
    """

    text: str = ""
    ids: tuple[str, ...] = ()
    points: frozenset[UUID] = frozenset()
    truncated: bool = False


def shown_profile(
    list_records: ListOf, user: Scope, *, room: int, count: TokenCounter, now: datetime
) -> ShownProfile:
    """The documents of `user` that hold at the moment `now`, whole ones within `room` tokens.

    The most important first, of the same importance the newest; one that does not fit leaves its room
    to those behind it. Looks at the first 100.
    """
    if room < 1:
        return ShownProfile()
    page = list_records(
        scope=user, types=(RecordType.PROFILE,), filters=_SHAPED, order="importance", limit=_MOST, as_of=now
    )
    number, more = len(page.records), page.cursor is not None
    lines: list[str] = []
    shown: list[MemoryRecord] = []
    for record in page.records:
        longer = [*lines, profile_line(record)]
        if count(profile_block([*longer, _left_out(number, more=True)])) <= room:
            lines = longer
            shown.append(record)
    truncated = more or len(shown) < number
    if lines and truncated:
        lines.append(_left_out(number - len(shown), more=more))
    return ShownProfile(
        text=profile_block(lines),
        ids=tuple(record.id for record in shown),
        points=frozenset(record.point_id for record in shown),
        truncated=truncated,
    )


def points_of_copies(
    list_records: ListOf, scopes: Sequence[Scope], user: Scope, ids: Sequence[str]
) -> frozenset[UUID]:
    """The points of what these documents of `user` were promoted to in `scopes`.

    Only broader scopes are asked, and of each key one document holds: they fit one page.
    """
    copies: FilterLike = {"promoted_from_id": {"in": [*ids]}}
    pages = [
        list_records(
            scope=scope, types=(RecordType.PROFILE,), filters=copies, order="created_at", limit=_MOST
        )
        for scope in scopes
        if scope.kind.breadth > user.kind.breadth
    ]
    return frozenset(record.point_id for page in pages for record in page.records)


def _left_out(number: int, *, more: bool) -> str:
    return f'<left_out documents="{f"more than {number}" if more else number}"/>'
