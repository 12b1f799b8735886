"""The records of every space."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memkit_core.filters import Filter
from memkit_core.models import (
    MEMORIES,
    DeleteReceipt,
    MemoryRecord,
    RecordChange,
    RecordPage,
    RecordPatch,
    RecordType,
    Status,
    Target,
)
from memkit_core.ports.rows import Access, Candidate, RecordCount, Standing
from memkit_core.ports.rules import MemoryView, Step
from memkit_core.ports.vectors import Matrix, VectorSpace
from memkit_core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What `list_records` asks for; every given condition holds for each record returned."""

    space: str = MEMORIES
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    types: tuple[RecordType, ...] = ()
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    where: Filter | None = None
    order: str = "created_at"
    limit: int = 100
    cursor: str | None = None


class RecordTable(Protocol):
    """The records of every space. Each method is one transaction.

    Reads that are told the time (`now`) never return what has expired by then.

    A method happens whole or not at all, also when the process is killed in it, and what it
    returned survives a kill.
    """

    def put(
        self,
        scope: Scope,
        records: Sequence[MemoryRecord],
        *,
        vector_space: VectorSpace | None = None,
        vectors: Matrix | None = None,
        merge: Collection[str] = (),
    ) -> list[MemoryRecord]:
        """Write records of `scope`, in order, and return them as stored.

        A known (space, id) is replaced: version counts up, and created_at and access statistics stay
        unless it has expired by the new record's `updated_at`.
        The same id twice in one call: the last one wins, at the place of the first. Each row gets
        its keyword rows and its outbox entry in the same transaction.

        A record whose id is in `merge` becomes one with the oldest record it duplicates, if there is
        one, also one written by the same call: a visible and active memory of its scope, type, key,
        occurred_at, valid_from and valid_until whose text has the same `normal_form`. That one keeps all it says of itself; tags are united,
        metadata keys added and none overwritten, the higher importance, the later expiry (none is the
        latest) and either's pin hold; mentions and version count up, updated_at moves. Visible means
        at the new record's `updated_at`. Returned is the record it became.

        An active memory with a key supersedes the active, visible one of its scope, type and key, if
        there is one and they did not become one: never do two hold at once. See
        `memkit_core.stores.succession` for what becomes of both.

        What a replaced, merged or superseded memory was before is added to its history, and what a
        merge dropped.

        Args:
            scope: whose records all of them are.
            records: what to write.
            vector_space: the given space their vectors are of; None for the memory's own. One that is
                not given is the memory's own too, as the caller knows it: the `vectors` are dropped if
                another is in use by now.
            vectors: shape `(n, d) float32`, the vectors of `records` in that given space, or else in
                the one in use, kept in the same transaction; the vector of a record that became one
                with another is dropped. Without them the rows wait in the outbox for theirs.
            merge: ids among `records` that nobody chose and that no record has; only of memories.

        Raises:
            ConfigError: the rows of this scope and space have vectors of another vector space.
            DimensionMismatchError: `vectors` are of another length than `vector_space` says.
        """

    def replace(
        self,
        scope: Scope,
        space: str,
        sources: Sequence[str],
        records: Sequence[MemoryRecord] = (),
        *,
        ids: Sequence[str] = (),
        vector_space: VectorSpace | None = None,
    ) -> tuple[list[MemoryRecord], DeleteReceipt]:
        """Put `records` in the place of those whose `source` is one of `sources`, in one transaction.

        They are written as `put` does. The other records of this scope and space with such a `source`, or
        with one of `ids`, expired or not, are deleted as `delete` does; the rest stays. Returns what was stored, in order, and
        what was deleted. Only for spaces of documents and of items.

        Raises:
            ConfigError: the rows of this scope and space have vectors of another vector space.
        """

    def get(self, scope: Scope, space: str, ids: Sequence[str], *, now: datetime) -> list[MemoryRecord]:
        """The visible records with these ids that exist, in the order of `ids`, without repeats."""

    def ids(
        self,
        scope: Scope,
        space: str,
        *,
        where: Filter | None,
        now: datetime,
        limit: int | None = None,
        offset: int = 0,
    ) -> Sequence[str]:
        """The ids of the visible, active records that satisfy `where`, without what they hold.

        Those changed last come first; of the same moment, the last made first. `offset` of them are left
        out, and then all but `limit`.
        """

    def change(
        self,
        scope: Scope,
        space: str,
        record_id: str,
        patch: RecordPatch,
        *,
        expected_version: int | None = None,
        now: datetime,
    ) -> MemoryRecord:
        """Change a visible record as `patch` says, at the moment `now`, and return it as stored.

        Reads and writes in the one transaction, so no change of another writer is lost. Version
        counts up and updated_at moves; of a memory the history tells what was before. A new text
        loses the vector of the old one. The row gets an outbox entry if the vector index knows
        anything that changed. When nothing differs, nothing is written. Turns change with their
        messages and are not found here.

        Raises:
            RecordNotFoundError: no visible record of this scope and space has the id.
            ConflictError: `expected_version` is given and is not the stored version, or it would be
                the second that holds with its type and key.
        """

    def decide(self, rule: Callable[[MemoryView], Sequence[Step]]) -> list[MemoryRecord]:
        """Let `rule` look at the memories and write what it says, in one transaction, in order.

        Returns what its `Add` and `Rewrite` steps became, in their order, as it stands at the end.
        Nothing is written when the rule raises. It is called once, looks at nothing but its view, and
        is quick: other writers wait. The rows get outbox entries as in `put` and `change`.
        """

    def sweep(self, *, now: datetime, limit: int) -> DeleteReceipt:
        """Delete up to `limit` records of all scopes and spaces that have expired by `now`, oldest first.

        Pinned records never expire.
        """

    def counts(self) -> Sequence[RecordCount]:
        """How many records there are of each kind, whoever's, expired ones included; none with 0."""

    def standing(self, status: Status, *, after: int, limit: int, now: datetime) -> list[Standing]:
        """Visible, unpinned memories of all scopes with this status, ascending by row number above `after`."""

    def archive_standing(self, seen: Sequence[Standing], *, now: datetime) -> list[Standing]:
        """Archive, at the moment `now`, the active ones of these memories; returns which, in order.

        What was changed or recalled since it was seen stays as it is. Version counts up, updated_at
        moves, the history tells it as `archived`, and each gets its outbox entry.
        """

    def delete_standing(self, seen: Sequence[Standing]) -> tuple[list[Standing], DeleteReceipt]:
        """Delete the archived ones of these memories that nobody changed or recalled since; returns which."""

    def history(self, scope: Scope, record_id: str, *, now: datetime) -> list[RecordChange]:
        """The changes of a visible memory, oldest first, its making the first; empty when unknown."""

    def touch(self, accesses: Mapping[UUID, Access]) -> None:
        """Add to access_count, and move last_accessed_at on, of the records with these point ids.

        No other column moves: no version, no updated_at, no outbox entry, no history. Unknown points
        are ignored.
        """

    def delete(self, scope: Scope, space: str, ids: Sequence[str]) -> DeleteReceipt:
        """Delete these records with vectors, keyword rows and history. Unknown ids count as nothing."""

    def delete_space(self, scope: Scope, space: str) -> DeleteReceipt:
        """Delete all records of one space of a scope, other than `messages`; see `MessageLog.clear`."""

    def delete_scope(self, scope: Scope) -> DeleteReceipt:
        """Delete all of a scope in every space, stored values too; of a user, the sessions too.

        Other scopes keep all.
        """

    def delete_everything(self) -> DeleteReceipt:
        """Delete all rows of all scopes."""

    def candidates(
        self, target: Target, points: Sequence[UUID], *, radius: int, where: Filter | None, now: datetime
    ) -> list[Candidate]:
        """Those of `points` that belong to `target`, satisfy `where` and are visible; any order.

        With a `radius`, also the turns that stand up to so many positions before or after one of
        them in its session, under the same conditions.
        """

    def fetch(self, target: Target, points: Sequence[UUID]) -> dict[UUID, MemoryRecord]:
        """Those of the target's records with these point ids that exist, expired or not.

        For points of candidates that were just returned: what may be seen was decided then.
        """

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, query: ListQuery, *, now: datetime) -> RecordPage:
        """One page, highest `query.order` first and then newest first; stable while others write."""
