"""Rows as those see them who read many: light enough for thousands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from memkit_core.scope import Scope

CANDIDATE_TEXT = 1024
"""Characters of a turn that ranking may read."""


class Candidate(NamedTuple):
    """What ranking needs of a row: light enough to read a thousand for a query.

    A named tuple, like the hits of both legs: a recall makes hundreds of each.

    Attributes:
        point: the 16 bytes of the row's id in every index; a `UUID` costs more than all the rest.
        row: the store's own number of the row, for `KeywordIndex.counts`.
        length: how many terms its text has.
        importance: in [0, 1].
        since: milliseconds; `valid_from`, else `occurred_at` of a turn, else `created_at`.
        session: a number that names the turn's session, -1 for what is no turn.
        position: place of the turn in its session, -1 for what is no turn.
        speaker, role: who said it, for a turn.
        ending: the last characters of the text of a turn.
        text: the first `CANDIDATE_TEXT` characters of the text of a turn.
    """

    point: bytes
    row: int
    length: int
    importance: float
    since: int
    session: int = -1
    position: int = -1
    speaker: str | None = None
    role: str | None = None
    ending: str = ""
    text: str = ""

    @property
    def point_id(self) -> UUID:
        """The row's id in every index."""
        return UUID(bytes=self.point)


class RecordCount(NamedTuple):
    """How many records of all scopes have this space, status and type."""

    space: str
    status: str
    type: str
    number: int


class Standing(NamedTuple):
    """A memory as forgetting sees it: light enough to look at every one of a store.

    A named tuple, like `Candidate`. `row` is the store's own number of it; `created`, `updated` and
    `accessed` are milliseconds, the last None when no recall returned it.
    """

    row: int
    scope: Scope
    id: str
    version: int
    importance: float
    created: int
    updated: int
    accessed: int | None
    accesses: int


@dataclass(frozen=True, slots=True)
class Access:
    """How often recall returned a record, and when last."""

    count: int
    last: datetime
