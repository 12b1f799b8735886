"""Taking the rows of a store elsewhere, one by one, and copying it as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from memkit_core.models import MemoryRecord, Message, RecordChange, RecordType, Session, StoredValue, Summary
from memkit_core.ports.vectors import Vector, VectorSpace
from memkit_core.scope import Scope


class RowKind(StrEnum):
    """What is moved one by one."""

    SESSION = "session"
    MESSAGE = "message"
    SUMMARY = "summary"
    VALUE = "value"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows of a store are moved; every given condition holds for each of them.

    Attributes:
        scopes: whose rows; of a user those of the user's sessions too. None for everybody's.
        spaces: records of these spaces; `messages` stands for sessions with messages, turns and
            summaries, `notes` and `runs` for the values of these kinds. All when empty.
        types: only records of these types, and nothing that has no type: no conversations, no values.
        since, until: only records, messages and values created in this time, and sessions that
            were begun, or hold such a message.
        changed_after: only what changed after the change of this number, and tombstones of what was
            deleted, or changed and has expired, after it, these whatever `types`, `since` and `until` say.
        now: the moment; what has expired by then is left out.
    """

    scopes: tuple[Scope, ...] | None = None
    spaces: tuple[str, ...] = ()
    types: tuple[RecordType, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    changed_after: int | None = None
    now: datetime

    def conversations(self) -> bool:
        """Whether sessions, messages and summaries are meant."""
        return not self.types and (not self.spaces or "messages" in self.spaces)

    def values(self, kind: str) -> bool:
        """Whether the values of `kind` are meant."""
        return not self.types and (not self.spaces or kind in self.spaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedSession:
    """A session; its messages go one by one. `next_position` is the place of the next one appended."""

    session: Session
    next_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedMessage:
    """A message that arrives; one that is new takes its own place, or the next of the session.

    Attributes:
        replace: whether it takes the place of one with its id that says something else.
        after: the id of the message before it, None for the first. A new one stands behind it, so where
            its own place is not, it takes the next of the session.
    """

    message: Message
    replace: bool = True
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedValue:
    """A stored value with the versions that are kept, oldest first."""

    scope: Scope
    kind: str
    versions: tuple[StoredValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRecord:
    """A record of any space with what a store keeps beside it.

    Attributes:
        vector_space: the space its vector is of, or waits for: a given one, or the memory's own; None
            where the memory has none yet.
        vector: None while it waits for it, all zero or empty when there was nothing to embed.
        history: its changes after its making, oldest first.
    """

    record: MemoryRecord
    vector_space: VectorSpace | None = None
    vector: Vector | None = None
    history: tuple[RecordChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A row that was deleted; digests, because the names of what is deleted are gone.

    Attributes:
        kind: what it was.
        owner: digest of the scope it was of.
        name: 16 bytes that stand for it among the rows of its kind, see `memkit_core.stores.tombstones`.
        scope: that scope, None when the store holds nothing of it any more.
        made_at: when the row was made that has this place again, of a summary when it was written; such
            a one is not deleted. None when there is none.
        into: the scope to delete it from; None for `owner`.
    """

    kind: RowKind
    owner: bytes
    name: bytes
    scope: Scope | None = None
    made_at: datetime | None = None
    into: Scope | None = None


MovedRow = MovedSession | MovedMessage | Summary | MovedValue | MovedRecord | Tombstone


class Outcome(StrEnum):
    """What became of a row that was received."""

    INSERTED = "inserted"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    OLDER = "older"
    """The store has a newer one and keeps it."""
    DELETED = "deleted"
    REFUSED = "refused"


class Received(NamedTuple):
    """The outcome of one row, with the reason when it was refused."""

    outcome: Outcome
    reason: str = ""


class StoreSnapshot(Protocol):
    """The selected rows of a store as they were at one moment."""

    @property
    def change(self) -> int:
        """The number of the last change in it; what comes later has higher ones."""

    def count(self) -> int:
        """How many rows `rows` will give, at most."""

    def vector_spaces(self) -> list[VectorSpace]:
        """The vector spaces of the selected records, by fingerprint."""

    def rows(self) -> Iterator[MovedRow]:
        """Tombstones, then each session with its messages and its summary, then values, then records.

        Sessions by user, users and all else in the order they were first stored. Costs memory for a few
        rows, not for all.
        """


@runtime_checkable
class Portable(Protocol):
    """A store whose rows can be taken elsewhere, as they are."""

    def snapshot(self, selection: Selection) -> AbstractContextManager[StoreSnapshot]:
        """One consistent state for as long as the block lasts; others read and write meanwhile."""

    def receive(self, rows: Sequence[MovedRow]) -> list[Received]:
        """Take rows as they are, in order, in one transaction; returns what became of each.

        Ids, versions, times, statuses and histories are kept. Of two rows with one identity the
        newer one holds: of records and values by (version, updated_at), of summaries by (position,
        updated_at), of sessions by updated_at. Of two that are equally new the stored record, value or
        summary stays, and the given session holds. A message keeps the place it has; a new one takes
        its own if that is free, else the next. A turn goes with its message. The summary that covers a
        message goes when that is replaced, as in `MessageLog.append`.

        A vector is kept if its space is the one in use, or a given one; a record without one waits
        in the outbox for it. Each record that changes gets its outbox entry.

        Refused, and nothing changed for it: a record whose scope and space have vectors of another
        given space, a turn without its message, and a message or summary without its session.

        Which memory holds for a key is not looked at, since a later row may decide it: see `settle_keys`.
        """

    def settle_keys(self, *, now: datetime, limit: int) -> int:
        """Let one memory hold for each key of a scope and type, after `receive`; returns how many gave way.

        The newest holds, see `stores.succession.settled`; the others become superseded by it, in one
        transaction for at most `limit` keys, of all scopes. What has expired by `now` holds nothing. 0 means
        that no key is left to settle.
        """


@runtime_checkable
class Copyable(Protocol):
    """A store that can be copied as a whole while it is in use."""

    @property
    def path(self) -> Path:
        """The file it lives in."""

    def copy_to(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Write one consistent state into a new file at `path`, a store of its own.

        Others read and write meanwhile. `progress` is told how many of how many parts are done.
        """
