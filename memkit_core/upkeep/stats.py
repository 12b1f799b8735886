"""What a store holds, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memkit_core.indexing import Indexer, Indexers
from memkit_core.models import MEMORIES, MemoryRecord, Target
from memkit_core.ports import OutboxState, VectorSource
from memkit_core.stores.handle import StoreHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStats:
    """One vector space.

    Attributes:
        name: the model whose vectors these are; of the memory's own there is none before the first.
        vectors: how many the store holds.
        index: the kind of index that searches them, None while this process cannot use it.
    """

    name: str
    vectors: int
    index: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a store holds, expired records included until they are swept.

    Attributes:
        by_status: memories by status.
        by_type: memories by type, whatever their status.
        by_space: records of every space; `messages` are searchable turns.
        sessions, messages: of conversations, searchable or not.
        model: of the memory's own vectors, "" while there is none.
        vector_spaces: the memory's own first.
        outbox: what waits for the indexes.
        file_bytes, log_bytes: of the file and its write-ahead log; None for a store without one.
    """

    by_status: Mapping[str, int]
    by_type: Mapping[str, int]
    by_space: Mapping[str, int]
    sessions: int
    messages: int
    model: str
    vector_spaces: tuple[SpaceStats, ...]
    outbox: OutboxState
    file_bytes: int | None
    log_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """How far one record has got.

    Attributes:
        embedding: the fingerprint of the vector space its vector is of; None while it has no vector.
        synced: whether the vector index has its newest state.
    """

    embedding: str | None
    synced: bool


def indexed(store: StoreHandle, record: MemoryRecord, *, now: datetime) -> Indexed:
    """How far `record` has got; see `Upkeep.indexed`."""
    target, point = Target(scope=record.scope, space=record.space), record.point_id
    space = store.space_of(target)
    source: VectorSource = store.given(space) if space is not None and space.given else store
    found, _ = source.vectors.scan(target, where=None, now=now, points=[point])
    waiting = {row.point_id for row in source.outbox.pending(target)}
    return Indexed(
        embedding=space.fingerprint if found and space is not None else None, synced=point not in waiting
    )


def stats_of(store: StoreHandle, indexers: Indexers) -> Stats:
    """Count everything; reads an index of every row, and no text."""
    statuses, types, spaces = Counter[str](), Counter[str](), Counter[str]()
    for space, status, kind, number in store.records.counts():
        spaces[space] += number
        if space == MEMORIES:
            statuses[status] += number
            types[kind] += number
    sessions, messages = store.log.counts()
    own, logged = store.vectors.space(), store.logged()
    return Stats(
        by_status=dict(statuses),
        by_type=dict(types),
        by_space=dict(spaces),
        sessions=sessions,
        messages=messages,
        model="" if own is None else own.model,
        vector_spaces=tuple(map(_space, indexers.all())),
        outbox=indexers.state(),
        file_bytes=None if logged is None else logged.path.stat().st_size,
        log_bytes=None if logged is None else logged.log_bytes(),
    )


def _space(indexer: Indexer) -> SpaceStats:
    index = indexer.held()
    return SpaceStats(
        name=indexer.name, vectors=indexer.points(), index=None if index is None else type(index).__name__
    )
