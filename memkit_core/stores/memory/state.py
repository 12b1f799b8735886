"""What an `InMemoryStore` holds, and the few changes its parts make to it."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import numpy as np

from memkit_core.errors import ClosedError
from memkit_core.filters import Filter, matches
from memkit_core.jsonvalues import JsonValue, canonical_json
from memkit_core.locks import ThreadLock
from memkit_core.models import (
    MESSAGES,
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    Message,
    RecordChange,
    StoredValue,
    Summary,
    Target,
)
from memkit_core.ports import CANDIDATE_TEXT, Candidate, JobState, LoggedRecall, RowKind, Vector, VectorSpace
from memkit_core.scope import Scope
from memkit_core.stores.changes import change_made, digest, is_duplicate, merged, replaced, seen_by_index
from memkit_core.stores.recalls import without_hits
from memkit_core.stores.succession import holds_slot, rivals, succession
from memkit_core.stores.tombstones import buried_space, grave_name, owner_of
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import to_ms, utc_now


@dataclass(slots=True, kw_only=True)
class Row:
    """A record with what hangs on it: `history` as it is kept, without the making of the record.

    `position` is None for what is no turn; `vector` is None while the text is not embedded, and
    empty when it held nothing to embed; `given` is its vector space, None for the memory's own;
    `beside` are its vectors of spaces that come or go, see `SpaceTable`.
    """

    seq: int
    record: MemoryRecord
    position: int | None
    terms: Counter[str]
    vector: Vector | None = None
    given: VectorSpace | None = None
    beside: dict[VectorSpace, Vector] = field(default_factory=dict)
    history: list[RecordChange] = field(default_factory=list)
    changed: int = 0


@dataclass(slots=True, kw_only=True)
class Partition:
    """The rows that share keyword statistics: one space of one owner.

    `changed` is the number of the last change of a row, `removed` of the last that took one away.
    """

    number: int = 0
    changed: int = 0
    removed: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    terms: int = 0
    given: VectorSpace | None = None
    frequencies: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Change:
    """An outbox entry; `row` is None when the point, of `scope` and `space`, was deleted."""

    number: int
    point_id: UUID
    scope: Scope
    space: str
    row: Row | None
    given: VectorSpace | None
    enqueued_at: datetime
    attempts: int = 0
    retry_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried:
    """What is known of a deleted row beside its name: digests, and the number of the change."""

    number: int
    owner: bytes
    space: bytes


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A session and its log; a dict keeps the place of a message that is replaced."""

    created_at: datetime
    updated_at: datetime
    title: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict)
    number: int = 0
    next_position: int = 0
    messages: dict[str, Message] = field(default_factory=dict)
    summary: Summary | None = None


@dataclass(slots=True, kw_only=True)
class Prepared:
    """A record that is ready to be written: from here on nothing can fail."""

    record: MemoryRecord
    terms: Counter[str]


def prepared(record: MemoryRecord) -> Prepared:
    """A copy of `record` that shares nothing with its caller.

    Raises:
        TypeError, ValueError: its metadata is not JSON.
    """
    metadata = json.loads(canonical_json(dict(record.metadata)))
    own = dataclasses.replace(record, metadata=metadata)
    return Prepared(record=own, terms=Counter(keyword_terms(own.index_text)))


def copied(record: MemoryRecord) -> MemoryRecord:
    """The record as it is handed out: changing its metadata changes nothing here."""
    return dataclasses.replace(record, metadata=copy.deepcopy(dict(record.metadata)))


def kept(vector: Vector) -> Vector:
    """A copy of `vector` to keep: empty for an all-zero one, which stands for nothing to embed."""
    return np.array(vector if vector.any() else (), np.float32)


class State:
    """All of a store, behind one lock. Every method but `close` is called inside `open`."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._mutex = ThreadLock()
        self._closed = False
        self._last_seq = self._last_change = self.last_number = 0
        self.rows: dict[tuple[Scope, str, str], Row] = {}
        self.points: dict[UUID, Row] = {}
        # The rows of a scope that may say the same, by number.
        self.alike: dict[tuple[Scope, int | None], dict[int, Row]] = {}
        self.partitions: dict[tuple[Scope, str], Partition] = {}
        self.changes: dict[int, Change] = {}
        self.newest_change: dict[UUID, int] = {}
        self.conversations: dict[Scope | None, dict[Scope, Conversation]] = {}
        self.session_numbers: dict[Scope, int] = {}
        # The kept versions of each value by scope, kind and key, oldest first.
        self.values: dict[tuple[Scope, str, str], list[StoredValue]] = {}
        # The number of the last change of each row, and what was deleted: see `tombstones`.
        self.change = 0
        self.changed: dict[tuple[RowKind, Scope, str, str], int] = {}
        self.tombstones: dict[tuple[bytes, RowKind, bytes], Buried] = {}
        # The recall log by id, oldest first.
        self.recalls: dict[str, LoggedRecall] = {}
        self.vector_space: VectorSpace | None = None
        # Periodic work by name: its state, and who does it; and how long the outbox was when it was looked at.
        self.jobs: dict[str, tuple[JobState, str | None]] = {}
        self.looks: list[int] = []
        # In the order of their first use; the value is the highest number confirmed.
        self.synced_through: dict[VectorSpace | None, int] = {None: 0}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the lock of a store that is still open: one transaction."""
        with self._mutex:
            if self._closed:
                raise ClosedError("the store was closed; open the memory again")
            yield

    def close(self) -> None:
        """Let go of everything; later calls of `open` raise."""
        with self._mutex:
            self._closed = True
            self.rows, self.points, self.alike, self.partitions = {}, {}, {}, {}
            self.changes, self.newest_change, self.conversations = {}, {}, {}
            self.values, self.changed, self.tombstones, self.recalls = {}, {}, {}, {}

    def mark(self, kind: RowKind, scope: Scope, space: str = MESSAGES, row_id: str = "") -> None:
        """Note that a row changed; `space` is that of a record or the kind of a value."""
        self.change += 1
        self.changed[kind, scope, space, row_id] = self.change

    def bury(self, kind: RowKind, scope: Scope, space: str = MESSAGES, row_id: str = "") -> None:
        """Note that a row was deleted."""
        self.change += 1
        self.changed.pop((kind, scope, space, row_id), None)
        key = scope.digest, kind, grave_name(scope.digest, space, row_id)
        # Put last: they stand in the order of their numbers.
        self.tombstones.pop(key, None)
        self.tombstones[key] = Buried(
            number=self.change, owner=owner_of(scope).digest, space=buried_space(space)
        )

    def rows_of(self, target: Target) -> list[Row]:
        """The target's rows, oldest first, expired ones included."""
        partition = self.partitions.get((target.owner, target.space), Partition())
        return [row for row in partition.rows.values() if target.covers(row.record.scope)]

    def visible(self, target: Target, where: Filter | None, now: datetime) -> list[Row]:
        """The target's rows that have not expired and satisfy `where`, oldest first."""
        return [
            row
            for row in self.rows_of(target)
            if row.record.is_visible_at(now) and (where is None or matches(where, row.record))
        ]

    def write(
        self,
        new: Prepared,
        *,
        position: int | None = None,
        given: VectorSpace | None = None,
        moved: bool = False,
    ) -> Row:
        """Insert a record, or replace the one with its identity; returns its row.

        One that is `moved` is new, and supersedes nothing.
        """
        record = new.record
        row = self.rows.get((record.scope, record.space, record.id))
        if row is not None:
            record = replaced(row.record, record)
            later = self._succeeding(record)
            others = () if later is record else (str(later.supersedes),)
            after = dataclasses.replace(new, record=later)
            self.rewrite(row, after, kind=ChangeKind.REPLACED, tell=True, others=others)
            row.position = position
            return row
        record = record if moved else self._succeeding(record)
        self._last_seq += 1
        row = Row(seq=self._last_seq, record=record, position=position, terms=new.terms, given=given)
        self.rows[record.scope, record.space, record.id] = self.points[record.point_id] = row
        self._enter(row)
        self.enqueue(record, row, given)
        return row

    def merge(self, new: Prepared) -> Row:
        """Merge a record into the oldest that it duplicates, or insert it; returns its row."""
        alike = self.alike.get((new.record.scope, digest(new.record)), {})
        for _, row in sorted(alike.items()):
            old = row.record
            if is_duplicate(old, new.record):
                both = merged(old, new.record)
                after = Prepared(record=both, terms=row.terms)
                self.rewrite(row, after, kind=ChangeKind.MERGED, said=new.record)
                return row
        return self.write(new)

    def current(self, record: MemoryRecord, *, now: datetime) -> Row | None:
        """The row that holds the slot of `record`, other than its own; see `MemoryView.current`."""
        rows = [] if record.key is None else self.rows_of(Target(scope=record.scope, space=record.space))
        held = [
            row
            for row in rows
            if holds_slot(row.record) and rivals(row.record, record) and row.record.is_visible_at(now)
        ]
        return held[-1] if held else None

    def _succeeding(self, record: MemoryRecord) -> MemoryRecord:
        """The record in the place of what held its slot until now."""
        row = self.current(record, now=record.updated_at) if holds_slot(record) else None
        if row is None:
            return record
        earlier, later = succession(row.record, record)
        after = Prepared(record=earlier, terms=row.terms)
        self.rewrite(row, after, kind=ChangeKind.SUPERSEDED, others=(later.id,))
        return later

    def rewrite(
        self,
        row: Row,
        new: Prepared,
        *,
        kind: ChangeKind | None,
        tell: bool = False,
        said: MemoryRecord | None = None,
        others: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        """Put a record in the place of the row's own; `said` is what a merge made one with it.

        `tell` the vector index of it also when nothing it may know has changed. Without
        a `kind` its history stays as it is.
        """
        old = row.record
        change = None if kind is None else change_made(old, new.record, kind, said=said)
        self._leave(row)
        row.record, row.terms = new.record, new.terms
        if row.record.index_text != old.index_text:
            row.vector, row.beside = None, {}
        self._enter(row)
        if change is not None:
            row.history.append(dataclasses.replace(change, others=others, reason=reason))
        if tell or seen_by_index(old, new.record):
            self.enqueue(row.record, row, row.given)

    def note_change(self, row: Row) -> None:
        """Number a change that recall can see."""
        partition = self._partition(row)
        self._last_change += 1
        row.changed = partition.changed = self._last_change

    def remove(self, rows: list[Row]) -> DeleteReceipt:
        """Delete rows with all that hangs on them."""
        outbox = sum(row.record.point_id in self.newest_change for row in rows)
        for row in rows:
            record = row.record
            self.note_change(row)
            partition = self._partition(row)
            partition.removed = partition.changed
            self._leave(row)
            if not partition.rows:
                del self.partitions[Target(scope=record.scope, space=record.space).owner, record.space]
            self.bury(RowKind.RECORD, record.scope, record.space, record.id)
            del self.rows[record.scope, record.space, record.id]
            del self.points[record.point_id]
            self.enqueue(record, None, row.given)
        self.recalls = without_hits(self.recalls, [row.record for row in rows])
        turns = [row for row in rows if row.record.space == MESSAGES]
        return DeleteReceipt(
            records=len(rows) - len(turns),
            turns=len(turns),
            vectors=sum(row.vector is not None for row in rows),
            turn_vectors=sum(row.vector is not None for row in turns),
            history=sum(len(row.history) for row in rows),
            keywords=sum(len(row.terms) for row in rows),
            outbox=outbox,
        )

    def enqueue(self, record: MemoryRecord, row: Row | None, given: VectorSpace | None) -> None:
        """Tell the vector index that a point changed; its older change is forgotten."""
        point = record.point_id
        self.changes.pop(self.newest_change.get(point, 0), None)
        self.last_number += 1
        self.newest_change[point] = self.last_number
        self.changes[self.last_number] = Change(
            number=self.last_number,
            point_id=point,
            scope=record.scope,
            space=record.space,
            row=row,
            given=given,
            enqueued_at=utc_now(),
        )

    def confirm(self, number: int) -> None:
        """Forget a change; a newer one of the same point stays."""
        change = self.changes.pop(number, None)
        if change is not None:
            del self.newest_change[change.point_id]

    def conversation(self, session: Scope) -> Conversation | None:
        """The log of a session, None when nothing was appended."""
        return self.conversations.get(session.parent, {}).get(session)

    def candidate(self, row: Row) -> Candidate:
        """What ranking needs of a row."""
        record, turn = row.record, row.position is not None
        role = record.metadata.get("role") if turn else None
        return Candidate(
            point=record.point_id.bytes,
            row=row.seq,
            length=row.terms.total(),
            importance=record.importance,
            since=to_ms(record.valid_from or record.occurred_at or record.created_at),
            session=self._session_number(record.scope) if turn else -1,
            position=-1 if row.position is None else row.position,
            speaker=record.speaker,
            role=role if isinstance(role, str) else None,
            ending=record.content[-16:] if record.space == MESSAGES else "",
            text=record.content[:CANDIDATE_TEXT] if record.space == MESSAGES else "",
        )

    def _session_number(self, session: Scope) -> int:
        """A number that stands for a session in candidates."""
        return self.session_numbers.setdefault(session, len(self.session_numbers))

    def _enter(self, row: Row) -> None:
        """Have the row found by its words, and by its duplicates."""
        self.mark(RowKind.RECORD, row.record.scope, row.record.space, row.record.id)
        self.alike.setdefault((row.record.scope, digest(row.record)), {})[row.seq] = row
        partition = self._partition(row)
        partition.rows[row.seq] = row
        self.note_change(row)
        partition.terms += row.terms.total()
        partition.frequencies.update(row.terms.keys())

    def _leave(self, row: Row) -> None:
        """Undo `_enter`, before the record of the row changes."""
        key = (row.record.scope, digest(row.record))
        del self.alike[key][row.seq]
        if not self.alike[key]:
            del self.alike[key]
        partition = self._partition(row)
        del partition.rows[row.seq]
        partition.terms -= row.terms.total()
        partition.frequencies.subtract(row.terms.keys())

    def _partition(self, row: Row) -> Partition:
        """The partition of a row, made when new."""
        owner = Target(scope=row.record.scope, space=row.record.space).owner
        found = self.partitions.get((owner, row.record.space))
        if found is None:
            self._last_change += 1
            found = Partition(number=self._last_change, given=row.given)
            self.partitions[owner, row.record.space] = found
        return found
