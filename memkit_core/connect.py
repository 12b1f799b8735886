"""From a path and settings to the parts a `Memory` is made of."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from memkit_core.config import Config, QdrantServer
from memkit_core.embedders import resolve_embedder
from memkit_core.embedders.absent import AbsentEmbedder
from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.errors import ConfigError, MissingDependencyError, shown
from memkit_core.indexes.edge_keeper import EdgeKeeper
from memkit_core.indexes.keeper import FlatKeeper, IndexKeeper
from memkit_core.indexing import Indexer, Indexers
from memkit_core.locks import SharedLock, ThreadLock
from memkit_core.ports import Embedder, RecordStore, VectorSource, VectorSpace
from memkit_core.recall.copies import PartitionCopies
from memkit_core.recall.words import Words
from memkit_core.stores.checks import other_model
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.times import Clock

IN_MEMORY = ":memory:"
"""The path that keeps everything in memory, for tests and trials."""


@dataclasses.dataclass(slots=True)
class _Change:
    """The last change of the model: the embedder since then, and what it was made from."""

    lock: ThreadLock = dataclasses.field(default_factory=ThreadLock)
    embedder: CheckedEmbedder | None = None
    given: tuple[object, str | None] | None = None


class Parts:
    """What memories own: a store, its indexes, an embedder, and what recall keeps in memory.

    Memories that this process opens on one file with one model and the same settings share store and
    indexes: an embedded index can be opened once, and whoever opened it again would go without.
    """

    def __init__(
        self,
        *,
        store: RecordStore,
        indexers: Indexers,
        embedder: CheckedEmbedder,
        copies: PartitionCopies,
        change: _Change | None = None,
        other_model: bool = False,
    ) -> None:
        """Owned by one memory so far; `change` is that of the parts it shares with others.

        `other_model` says that another one was asked for, to take over once all is embedded with it.
        """
        self.store = store
        self.indexers = indexers
        self.embedder = embedder
        self.copies = copies
        self.owners = 1
        self.other_model = other_model
        self._first = self
        self._change = change or _Change()

    def joined(self, embedder: CheckedEmbedder) -> Parts:
        """The same for one more owner, which has an embedder object of its own for the same vectors.

        Texts are embedded with the last one from now on: it may hold the key that works.
        """
        parts = Parts(
            store=self.store,
            indexers=self.indexers,
            embedder=embedder,
            copies=self.copies,
            change=self._change,
        )
        parts._first = self
        self.owners += 1
        self.indexers.own.embed_with(embedder)
        return parts

    def model(self, *, settled: bool = False) -> CheckedEmbedder:
        """See `CurrentModel`."""
        if settled:
            with self._change.lock:
                pass
        return self._change.embedder or self.embedder

    def changed_to(self) -> tuple[object, str | None] | None:
        """What to open the memory with again, embedder and name, once its model was changed."""
        return self._change.given

    def change_model(
        self, embedder: CheckedEmbedder, given: tuple[object, str | None], switch: Callable[[], int]
    ) -> int:
        """Have the store changed by `switch`, and everything that shares it embed with `embedder`.

        `given` is what that was made from. Returns what `switch` does.
        """
        change, first = self._change, self._first
        with change.lock:
            bare = switch()
            change.embedder, change.given = embedder, given
            self.indexers.own.embed_with(embedder)
        with _mutex:
            for key in [key for key, parts in _shared.items() if parts is first]:
                del _shared[key]
                _shared.setdefault((*key[:2], (embedder.model, embedder.revision), *key[3:]), first)
        return bare

    def release(self) -> None:
        """One owner less; the last one closes everything."""
        first = self._first
        with _mutex:
            first.owners -= 1
            if first.owners:
                return
            for key in [key for key, parts in _shared.items() if parts is first]:
                del _shared[key]
        try:
            self.indexers.close()
        finally:
            self.store.close()


_mutex = ThreadLock()
# By process, file, embedder, clock and settings. A forked child never looks at what it inherited.
_shared: dict[tuple[object, ...], Parts] = {}

_OF_A_MEMORY = frozenset(
    {
        "redact",
        "ranking",
        "agent_id",
        "max_content_chars",
        "max_batch",
        "max_top_k",
        "candidates",
        "forgetting",
        "upkeep",
        "profile_max_tokens",
        "extractor",
        "judge",
        "recall_log",
        "tracing",
        "max_note_chars",
        "note_versions",
        "index_messages",
        "rerank_depth",
        "rerank_seconds",
        "queue_debounce",
        "queue_age",
        "queue_size",
        "queue_concurrency",
        "queue_retries",
        "summary_threshold",
        "summary_keep",
        "summary_max_tokens",
    }
)
"""Settings that each memory reads for itself; the others are those of the parts."""


def connect(
    path: str | Path, config: Config, *, embedder: object, embedding_model: str | None, clock: Clock
) -> Parts:
    """Open the store at `path` with its index and embedder, or share what this process has open there.

    Raises:
        ConfigError: a path or embedder that cannot be used, a store that forgets in production, or a
            store that holds the vectors of another model.
        BackendError: the file cannot be opened.
    """
    if not isinstance(path, str | Path) or not _can_be_a_name(str(path)):
        raise ConfigError(f"path must be a file name or ':memory:', got {shown(path)}")
    resolved = resolve_embedder(embedder, model=embedding_model)
    if str(path) == IN_MEMORY:
        return _opened(path, config, resolved, clock)
    key = (
        os.getpid(),
        _whole(path),
        (resolved.model, resolved.revision),
        clock,
        tuple((name, value) for name, value in _settings(config) if name not in _OF_A_MEMORY),
    )
    with _mutex:
        parts = _shared.get(key)
        # Of a file that was deleted or replaced since, what is open is another memory.
        if parts is not None and (not isinstance(parts.store, SQLiteStore) or parts.store.in_place()):
            same = (parts.model().model, parts.model().revision) == (resolved.model, resolved.revision)
            if same and embedder is not None and not isinstance(embedder, str | Mapping):
                space = parts.store.vectors.space()
                dimension = None if space is None else space.dimension
                return parts.joined(checked_embedder(resolved, config, dimension=dimension))
            parts.owners += 1
            return parts
        # Under the lock, so that two threads do not open the same index side by side.
        parts = _shared[key] = _opened(path, config, resolved, clock)
        return parts


def _can_be_a_name(path: str) -> bool:
    try:
        return bool(path) and "\0" not in path and bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def _whole(path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:
        # A loop of symbolic links, a name that is too long, a folder that may not be looked into.
        raise ConfigError(
            f"cannot open {shown(str(path))}: {shown(str(error))}; give another path"
        ) from error


@functools.cache
def shared_words() -> Words:
    """By what all memories of the process compare words: some 30 MB when full, and the same words in all of them."""
    return Words(CheckedEmbedder(WordLlamaEmbedder()))


def _settings(config: Config) -> list[tuple[str, object]]:
    return [(field.name, getattr(config, field.name)) for field in dataclasses.fields(config)]


def _opened(path: str | Path, config: Config, resolved: Embedder, clock: Clock) -> Parts:
    store = _open_store(path, config)
    try:
        space = store.vectors.space()
        absent = isinstance(resolved, AbsentEmbedder)
        if absent and space is not None:
            resolved = AbsentEmbedder(space.model, revision=space.revision)
        other = space is not None and (space.model, space.revision) != (resolved.model, resolved.revision)
        if space is not None and other:
            resolved = _model_of(space, instead=resolved, config=config)
            absent = isinstance(resolved, AbsentEmbedder)
        checked = checked_embedder(resolved, config, dimension=None if space is None else space.dimension)
        return Parts(
            store=store,
            indexers=_indexers(store, None if absent else checked, config, clock),
            embedder=checked,
            copies=PartitionCopies(config.recall_copy_bytes),
            other_model=other,
        )
    except BaseException:
        store.close()
        raise


def _open_store(path: str | Path, config: Config) -> RecordStore:
    if str(path) == IN_MEMORY:
        if config.environment == "production":
            raise ConfigError(
                "':memory:' forgets everything when the process ends; give a file in production"
            )
        # Here, because a memory in a file has no use for it and imports should be quick.
        from memkit_core.stores.memory import InMemoryStore

        return InMemoryStore()
    return SQLiteStore(
        path,
        busy_timeout=config.busy_timeout,
        synchronous=config.synchronous,
        checkpoint_bytes=config.wal_checkpoint_bytes,
    )


def checked_embedder(
    embedder: Embedder, config: Config, *, dimension: int | None, given: bool = False
) -> CheckedEmbedder:
    """`embedder` with the checks, batches and cache of `config`."""
    return CheckedEmbedder(
        embedder,
        batch=config.embed_batch,
        cache_size=config.embedding_cache,
        cache_seconds=config.embedding_cache_seconds,
        dimension=dimension,
        given=given,
    )


def _indexers(store: RecordStore, embedder: CheckedEmbedder | None, config: Config, clock: Clock) -> Indexers:
    keeper = _keepers(store, config)

    def make(source: VectorSource, embedder: CheckedEmbedder | None) -> Indexer:
        return Indexer(
            source,
            embedder,
            keeper(source),
            embed_batch=config.embed_batch,
            attempts=config.outbox_attempts,
            retry_seconds=config.outbox_seconds,
            clock=clock,
        )

    return Indexers(store, embedder, make)


def _keepers(store: RecordStore, config: Config) -> Callable[[VectorSource], IndexKeeper]:
    """What makes the keeper of each vector space of `store`."""
    if not isinstance(store, SQLiteStore):
        return FlatKeeper
    home = store.path.with_name(store.path.name + ".index")
    lock = SharedLock(home.with_name(home.name + ".lock"))
    server = config.index
    if isinstance(server, QdrantServer):
        from memkit_core.indexes.qdrant_connection import package
        from memkit_core.indexes.qdrant_keeper import QdrantKeeper

        # At once, not at the first write: without the package nothing would ever be indexed.
        package()
        return lambda source: QdrantKeeper(source, home, server=server, batch=config.index_batch, lock=lock)
    return lambda source: EdgeKeeper(
        source, home, batch=config.index_batch, disk_reserve=config.disk_reserve, lock=lock
    )


def _model_of(space: VectorSpace, *, instead: Embedder, config: Config) -> Embedder:
    """The embedder that made the vectors of `space`, as far as its name tells; else none.

    Raises:
        ConfigError: the model is not to be changed to that of `instead`.
    """
    if config.reembed != "background":
        # At once, before the dimension of the new one is known.
        raise ConfigError(other_model(space, model=instead.model, revision=instead.revision))
    try:
        found = resolve_embedder(space.model)
    except (ConfigError, MissingDependencyError):
        found = None
    if found is not None and (found.model, found.revision) == (space.model, space.revision):
        return found
    return AbsentEmbedder(space.model, revision=space.revision)
