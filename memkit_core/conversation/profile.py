"""The profile documents of a user as they stand in each prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from memkit_core.filters import FilterLike
from memkit_core.models import RecordPage, RecordType
from memkit_core.ports import TokenCounter
from memkit_core.prompts import profile_block, profile_line
from memkit_core.scope import Scope

_MOST = 100
_SHAPED: FilterLike = {"metadata.profile": {"exists": True}}


class ListOf(Protocol):
    """`Memory.list_records` as it is used here."""

    def __call__(
        self, *, scope: Scope, types: tuple[RecordType, ...], filters: FilterLike, order: str, limit: int
    ) -> RecordPage:
        """See `Memory.list_records`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProfile:
    """What of a user's profile stands in a prompt.

    Attributes:
        text: the documents, fenced as data; "" without any.
        ids: the records they are kept in.
        truncated: whether one was left out; `text` says so too, if there is any.
    """

    text: str = ""
    ids: tuple[str, ...] = ()
    truncated: bool = False


def shown_profile(list_records: ListOf, user: Scope, *, room: int, count: TokenCounter) -> ShownProfile:
    """The documents of `user` that hold now, whole ones within `room` tokens.

    The most important first, of the same importance the newest; one that does not fit leaves its room
    to those behind it. Looks at the first 100.
    """
    if room < 1:
        return ShownProfile()
    page = list_records(
        scope=user, types=(RecordType.PROFILE,), filters=_SHAPED, order="importance", limit=_MOST
    )
    number, more = len(page.records), page.cursor is not None
    lines: list[str] = []
    ids: list[str] = []
    for record in page.records:
        longer = [*lines, profile_line(record)]
        if count(profile_block([*longer, _left_out(number, more=True)])) <= room:
            lines = longer
            ids.append(record.id)
    truncated = more or len(ids) < number
    if lines and truncated:
        lines.append(_left_out(number - len(ids), more=more))
    return ShownProfile(text=profile_block(lines), ids=tuple(ids), truncated=truncated)


def _left_out(number: int, *, more: bool) -> str:
    return f'<left_out documents="{f"more than {number}" if more else number}"/>'
