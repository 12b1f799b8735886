"""`Memory`: the object a user holds. It wires the ports, owns their lifetime, and holds the verbs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from memkit_core.config import Config
from memkit_core.errors import ConfigError, InvalidInputError, RecordNotFoundError, shown
from memkit_core.filters import FilterLike, conjunction, parse_filter
from memkit_core.inputs import (
    NewMemory,
    build_patch,
    build_records,
    checked_bool,
    checked_budget,
    checked_count,
    checked_enum,
    checked_id,
    checked_mapping,
    checked_scopes,
    checked_space,
    checked_statuses,
    checked_tags,
    checked_timeout,
    listed,
    listed_news,
    turn_point,
)
from memkit_core.live import Live
from memkit_core.models import (
    DOCUMENTS,
    MEMORIES,
    MESSAGES,
    STORE,
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    Message,
    Origin,
    RecallResult,
    RecordChange,
    RecordPage,
    RecordType,
    Status,
    Target,
)
from memkit_core.observing import Counters, Observer, observed
from memkit_core.observing.verbs import OF_MEMORY
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.recall.weights import Ranking
from memkit_core.scope import Scope, require_scope
from memkit_core.stores.handle import StoreHandle
from memkit_core.text.clean import storable
from memkit_core.times import Clock, TimeLike, checked_clock, to_utc, utc_now

if TYPE_CHECKING:
    from pathlib import Path

    from memkit_core.connect import Parts
    from memkit_core.conversation.context import TurnContext
    from memkit_core.conversation.queue import PersistQueue
    from memkit_core.documents import Documents
    from memkit_core.documents.rows import Rows
    from memkit_core.formation.formation import Formation
    from memkit_core.items import Items
    from memkit_core.life.life import Summarize
    from memkit_core.ports import OutboxState, TokenCounter
    from memkit_core.recall.noting import RecallNotes
    from memkit_core.recall.query import RecallQuery
    from memkit_core.settings import RecallLog
    from memkit_core.stores.redacting import Redaction
    from memkit_core.transfer import ExportReport, ImportReport, OnError
    from memkit_core.transfer.files import Place
    from memkit_core.transfer.mapping import ScopeMap
    from memkit_core.typed import Episodes, Profiles, Skills
    from memkit_core.worker import Worker

_log = logging.getLogger("memkit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a memory can do right now.

    Attributes:
        keyword: the keyword leg answers (always, while the store does).
        dense: an embedder is there; `embedding_model` names it, or that of the file.
        index: this process holds the vector index; when not, dense recall scans exactly.
        outbox: how far the index is behind.
    """

    keyword: bool
    dense: bool
    index: bool
    embedding_model: str
    outbox: OutboxState


@observed(OF_MEMORY)
class Memory(Live):
    """Long-term memory: scoped records and conversations, durable and searchable.

    Open one per process with `Memory.open` and share it; every method may be called from any thread.
    Use it as a context manager or call `close`. Copying or deep-copying returns the same object, and
    unpickling opens the same file again.
    """

    def __init__(self, parts: Parts, *, config: Config, clock: Clock = utc_now) -> None:
        """Wire the parts; `Memory.open` is the usual way in. The memory closes them."""
        # Here, so that importing memkit loads only what describes a memory, not what runs one.
        from memkit_core.closing import closed_when_dropped, shut
        from memkit_core.connect import shared_words
        from memkit_core.conversation.runs import Runs
        from memkit_core.conversation.sessions import Sessions
        from memkit_core.conversation.summary import Summaries
        from memkit_core.conversation.working import WorkingMemory
        from memkit_core.life import Life
        from memkit_core.recall.access import AccessCounts
        from memkit_core.recall.noting import Noted
        from memkit_core.recall.pipeline import Recall
        from memkit_core.recall.turns import turn_finder
        from memkit_core.transfer import Transfer
        from memkit_core.upkeep import Upkeep
        from memkit_core.upkeep.reembed import Reembedder
        from memkit_core.worker import Worker

        waiting = parts.indexers.state().length
        self.config = config
        self._parts = parts
        self._redaction = None if config.redact is None else _redaction(config.redact)
        # Closed with this memory, though others of this process may go on with the store.
        self._observer = Observer(config.tracing)
        self._store = StoreHandle(parts.store, self._redaction, observer=self._observer)
        self._clock = clock
        self._indexers = parts.indexers
        self._accesses = AccessCounts(parts.store.records)
        self._notes = None if config.recall_log is None else self._recall_notes(config.recall_log)
        self._noted = Noted(self._accesses, self._notes)
        self._worker = Worker(
            parts.indexers, self._noted, interval=config.outbox_seconds, observer=self._observer
        )
        self._recall = Recall(
            self._store, parts.model, parts.indexers.own, parts.copies, words=shared_words()
        )
        find = turn_finder(self._recall, config, clock)
        self.sessions = Sessions(
            self._store, config, clock, changed=self._worker.soon, find=find, settle=self._noted.write
        )
        self.summaries = Summaries(self._store, config, clock)
        self.working = WorkingMemory(self._store, config, clock)
        self.runs = Runs(self._store, config, clock)
        # Names the parts and not the memory, so that the thread of upkeep keeps no memory alive.
        self._form = partial(
            _formation, self._store, config, clock, queue=self.sessions.queue, worker=self._worker
        )
        reembedder = Reembedder(self._store, parts, config, changed=self._worker.wake)
        self.upkeep = Upkeep(
            self._store,
            parts.indexers,
            parts.model,
            config,
            clock,
            settle=self._noted.write,
            changed=self._worker.wake,
            reembedder=reembedder,
            formation=self._form,
        )
        self.transfer = Transfer(
            self._store, parts.model, clock, settle=self._settle, changed=self._worker.wake
        )
        self._life = Life(self._store, config, clock)
        self._reembedder = reembedder
        self._reopen: tuple[object, ...] | None = None
        # Closes a memory that was dropped without `close`, so that its files and lock are free.
        self._closing = partial(
            shut,
            self.sessions.queue,
            self.upkeep,
            self._store,
            self._worker,
            self._noted,
            parts,
            os.getpid(),
        )
        self._finalizer = closed_when_dropped(self, self._closing)
        if waiting:
            # What an earlier process could not do is tried again, also what used up its tries.
            parts.indexers.retry()
        if waiting or parts.store.spaces.retired():
            self._worker.wake()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        config: Config | None = None,
        embedder: object = None,
        embedding_model: str | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """A memory in the SQLite file at `path`, made if it is not there; `":memory:"` keeps no file.

        Beside the file stand `<path>.index` (the vector index, rebuilt from the file when missing)
        and lock files. The defaults need no key, no server and no download.

        Args:
            path: the file; its folder must exist.
            config: settings, `Config()` when None.
            embedder: None for the built-in WordLlama weights, a LangChain `Embeddings`, a LlamaIndex
                `BaseEmbedding`, an object with `embed_documents` and `embed_query`, a string such as
                `"openai:text-embedding-3-small"`, `"none"` to read and write without the file's model
                (words answer, new texts wait for the model), or a dict with `provider`, `model` and options;
                see `memkit_core.embedders.resolve`.
            embedding_model: the model's name, for an embedder object that does not know it.
            clock: returns the present moment, an aware datetime; for tests.

        Raises:
            ConfigError: path or embedder cannot be used, or the file holds another model's vectors (see
                `Upkeep.reembed`, and `Config.reembed` to have it changed in the background).
            SchemaError: the file is not memkit's, or a newer memkit wrote it.
        """
        # As in `__init__`.
        from pathlib import Path

        from memkit_core.connect import connect
        from memkit_core.embedders.resolve import without_secrets

        config = Config() if config is None else config
        if not isinstance(config, Config):
            raise ConfigError(f"config must be a memkit_core.Config, got {shown(config)}")
        clock = checked_clock(clock)
        parts = connect(path, config, embedder=embedder, embedding_model=embedding_model, clock=clock)
        try:
            memory = cls(parts, config=config, clock=clock)
        except BaseException:
            parts.release()
            raise
        if parts.store.durable:
            # What is pickled holds no key: the reopened memory takes it from the environment.
            memory._reopen = (
                str(Path(path).resolve()),
                config.without_secrets(),
                without_secrets(embedder),
                embedding_model,
            )
        if parts.other_model and parts.changed_to() is None:
            memory._reembedder.run_later(embedder, embedding_model)
        return memory

    # ------------------------------------------------------------------ writing

    def add(
        self,
        content: str,
        *,
        scope: Scope,
        id: str | None = None,  # noqa: A002 - the word every reader expects
        type: RecordType | str = RecordType.FACT,  # noqa: A002 - as above
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        important: bool = False,
        pinned: bool = False,
        occurred_at: TimeLike | None = None,
        expires_at: TimeLike | None = None,
        valid_from: TimeLike | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        confidence: float | None = None,
        origin: Origin | str = Origin.USER,
        source_message_ids: Sequence[str] = (),
        key: str | None = None,
        pending: bool = False,
        background: bool = False,
    ) -> MemoryRecord:
        """Remember `content` in `scope` and return the stored record.

        The record is committed, readable by id and found by keyword before anything slow starts; a
        failing embedder or index never loses it and never raises here (`capabilities.outbox` shows
        what waits). A given `id` that exists in this scope is replaced, with version + 1.

        Without an `id`, saying again what an active memory of this scope and type says (the same text
        but for case, width, white space, and quotes and sentence marks at the ends, with the same
        `occurred_at` and `valid_from`) makes no second one: the first keeps its id, content, metadata,
        provenance and created_at, and is returned with mentions + 1 and version + 1. New tags and new
        metadata keys join it, the higher importance and the later expiry (never is the latest) hold,
        and it is pinned if either is. The same text at another time, or at none, is a memory of its
        own, and `10⁶` is not `106`. What the first did not take stands in `history` as `dropped`.

        With a `key` it is the value of that key from now on: what held for the same scope, type and
        key until then becomes `superseded` in the same transaction, see `supersede`. Two never hold at
        once, whatever threads and processes write.

        Args:
            content: the text. NUL and lone surrogates are stored as U+FFFD, all else verbatim.
            scope: whose memory it is.
            id: any text of at most 4,096 characters; a UUID is made when None.
            type: fact, preference, profile, event, skill or summary.
            tags: labels, lower-cased and without repeats.
            metadata: free JSON.
            importance: 0 to 1; by type and length when None, see `default_importance`.
            important: adds 0.3 to the default importance.
            pinned: never expires.
            occurred_at: when it happened. Numbers are seconds or milliseconds, naive means UTC.
            expires_at: from this moment on no read returns it.
            valid_from: since when it holds.
            agent_id: who wrote it; `Config.agent_id` when None.
            source: where it came from.
            confidence: how sure the writer is, 0 to 1.
            origin: user, assistant, tool or import.
            source_message_ids: the messages it was made from.
            key: the name of what this is the value of, such as "ui.theme"; any id.
            pending: hide it from recall and lists until `confirm` or `reject`.
            background: return after the commit and embed in a worker thread; see `flush`.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: a value that cannot be stored; nothing is written.
            BackendError: the store failed; nothing is written.
        """
        new = NewMemory(
            content=content, id=id, type=type, tags=tags, metadata=metadata,
            importance=importance, important=important, pinned=pinned, occurred_at=occurred_at,
            expires_at=expires_at, valid_from=valid_from, agent_id=agent_id, source=source,
            confidence=confidence, origin=origin, source_message_ids=source_message_ids, key=key,
            pending=pending,
        )  # fmt: skip
        return self._add([new], scope, background=background, verb="add")[0]

    def add_many(
        self, items: Iterable[NewMemory | str], *, scope: Scope, background: bool = False
    ) -> list[MemoryRecord]:
        """Remember many items in one transaction; returns the stored records in the order given.

        All or nothing, as if added one after the other, see `add`; what became one record is returned
        in each place. A text stands for `NewMemory(content=text)`. Embedding happens in batches of
        at most `Config.embed_batch` texts; see `add` for what a failing embedder means.
        """
        return self._add(listed_news(items), scope, background=background, verb="add_many")

    def _add(
        self, news: Sequence[NewMemory], scope: Scope, *, background: bool, verb: str
    ) -> list[MemoryRecord]:
        require_scope(scope, verb=verb)
        checked_bool(background, f"{verb}: background")
        records = build_records(news, scope=scope, now=self._clock(), config=self.config, verb=verb)
        if not records:
            return []
        chosen = {new.id for new in news}
        merge = {record.id for record in records if record.id not in chosen}
        # What is redacted on its way into the store is embedded as it stands there.
        later = background or self._redaction is not None
        texts = [record.index_text for record in records]
        space, vectors = (None if later else self._indexers.own.at_once(texts)) or (None, None)
        stored = self._store.records.put(scope, records, vector_space=space, vectors=vectors, merge=merge)
        self._worker.index(stored, embedded=vectors is not None, background=background, verb=verb)
        return stored

    def update(
        self,
        id: str,  # noqa: A002 - the word every reader expects
        *,
        scope: Scope,
        content: str | Omitted = OMITTED,
        type: RecordType | str | Omitted = OMITTED,  # noqa: A002 - as above
        importance: float | Omitted = OMITTED,
        tags: Iterable[str] | Omitted = OMITTED,
        metadata: Mapping[str, object] | Omitted = OMITTED,
        expires_at: TimeLike | Omitted | None = OMITTED,
        pinned: bool | Omitted = OMITTED,
        expected_version: int | None = None,
    ) -> MemoryRecord:
        """Change what is given of one memory, for a better wording, and return it as stored.

        All else stays: id, scope, created_at, provenance, and what other writers changed meanwhile.
        version counts up, updated_at moves, and the values before are kept, see `history`. A new
        content is embedded as in `add`; it is never merged with a record that says the same. When
        nothing differs nothing is written and the record is returned as it is.

        Args:
            id: the memory.
            scope: whose memory it is.
            content: the new text.
            type: its new type.
            importance: 0 to 1; a new content or type alone does not change it.
            tags: all its tags from now on.
            metadata: keys with their new values; other keys stay, a key given as None is removed.
            expires_at: the new moment; None removes the expiry.
            pinned: whether it never expires.
            expected_version: change it only if it still has this version.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: a value that cannot be stored; nothing is changed.
            RecordNotFoundError: no such memory in this scope; it may have expired or been deleted.
            ConflictError: it has another version than `expected_version`, or another memory holds for
                its key with the new type; read it again and decide.
            BackendError: the store failed; nothing is changed.
        """
        require_scope(scope, verb="update")
        if expected_version is not None:
            checked_count(expected_version, "update: expected_version", most=2**63 - 1)
        patch = build_patch(
            content=content, kind=type, importance=importance, tags=tags, metadata=metadata,
            expires_at=expires_at, pinned=pinned, max_chars=self.config.max_content_chars,
        )  # fmt: skip
        changed = self._store.records.change(
            scope, MEMORIES, checked_id(id), patch, expected_version=expected_version, now=self._clock()
        )
        self._worker.index([changed], verb="update")
        return changed

    # ------------------------------------------------------------------ the life of a record

    def confirm(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - the word every reader expects
        """Make a pending memory an active one that recall finds; returns it as stored.

        It supersedes what holds for its key, as `add` does. Of `confirm`, `reject`, `archive` and
        `restore` each changes nothing on a memory that is there already; the changes that are possible
        stand in `memkit_core.life`. All of them count version up, move updated_at and are told by
        `history`.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            RecordNotFoundError: no such memory in this scope; it may have expired or been deleted.
            InvalidTransitionError: its status does not allow it; nothing is changed.
            BackendError: the store failed; nothing is changed.
        """
        require_scope(scope, verb="confirm")
        return self._lived(self._life.move(id, scope, ChangeKind.CONFIRMED), verb="confirm")

    def reject(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """Archive a pending memory without it ever having been active; see `confirm`."""
        require_scope(scope, verb="reject")
        return self._lived(self._life.move(id, scope, ChangeKind.REJECTED), verb="reject")

    def archive(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """Hide an active memory from recall and lists that do not ask for `archived`; see `confirm`."""
        require_scope(scope, verb="archive")
        return self._lived(self._life.move(id, scope, ChangeKind.ARCHIVED), verb="archive")

    def restore(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """Make an archived or superseded memory active again; see `confirm`.

        What superseded it stays as it is: `undo` takes that out.

        Raises:
            ConflictError: another memory holds for its key; nothing is changed.
        """
        require_scope(scope, verb="restore")
        return self._lived(self._life.move(id, scope, ChangeKind.RESTORED), verb="restore")

    def supersede(
        self,
        id: str,  # noqa: A002 - as above
        content: str,
        *,
        scope: Scope,
        valid_from: TimeLike | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        confidence: float | None = None,
        origin: Origin | str = Origin.USER,
        source_message_ids: Sequence[str] = (),
        expected_version: int | None = None,
    ) -> MemoryRecord:
        """Put a new memory in the place of one that is no longer so, and return the new one.

        The old one keeps its content as `superseded`, with `valid_until` and `superseded_by`; the new
        one has `supersedes`, takes over type, key, tags, metadata, importance, pin and expiry, and is
        never merged with a duplicate. Both are written in one transaction. Reads show the new one,
        also when `valid_from` is in the future; `as_of` shows what held when. For a better wording of
        what is still so, use `update`.

        Args:
            id: the memory that is no longer so.
            content: what is so instead.
            scope: whose memory it is.
            valid_from: since when; the present moment when None. The old one held until then.
            agent_id: who says so; `Config.agent_id` when None.
            source: where it came from.
            confidence: how sure the writer is, 0 to 1.
            origin: user, assistant, tool or import.
            source_message_ids: the messages it was made from.
            expected_version: do it only if the old one still has this version.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: a value that cannot be stored; nothing is changed.
            RecordNotFoundError: no such memory in this scope; it may have expired or been deleted.
            ConflictError: it has another version than `expected_version`.
            InvalidTransitionError: it is not active.
            BackendError: the store failed; nothing is changed.
        """
        require_scope(scope, verb="supersede")
        if expected_version is not None:
            checked_count(expected_version, "supersede: expected_version", most=2**63 - 1)
        new = NewMemory(
            content=content, valid_from=valid_from, agent_id=agent_id, source=source,
            confidence=confidence, origin=origin, source_message_ids=source_message_ids,
        )  # fmt: skip
        changed = self._life.supersede(id, scope, new, expected_version=expected_version)
        return self._lived(changed, verb="supersede")

    def undo(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """Take back the last change of a memory and return it as it is now; undoing again redoes it.

        An undo is a change of its own: version counts up and `history` tells it. What an update,
        merge, replacement or change of status did is as it was before. A supersession is one change of
        both memories: the old one holds again and the new one is archived, whichever of them is
        named; so with a compaction. A memory that was only made, also by promotion, is archived. A
        delete cannot be undone.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            RecordNotFoundError: no such memory in this scope; it may have expired or been deleted.
            ConflictError: what came after it was changed since, another one holds for its key by now,
                or there is nothing to undo; nothing is changed.
            BackendError: the store failed; nothing is changed.
        """
        require_scope(scope, verb="undo")
        return self._lived(self._life.undo(id, scope), verb="undo")

    def promote(self, id: str, *, scope: Scope, to: Scope, move: bool = False) -> MemoryRecord:  # noqa: A002
        """Remember an active memory in a broader scope as well, and return the record there.

        A session's goes to its user, to a workspace, an org or an object; an object's to a user, a
        workspace or an org; a user's to a workspace or an org; a workspace's to an org. The copy has
        an id of its own, `promoted_from_id`, and all that the original says of itself but for its
        access counts. It is written as by `add`: it becomes one with a duplicate, and supersedes what
        holds for its key there.

        Args:
            id: the memory.
            scope: whose memory it is.
            to: the broader scope.
            move: delete the original, in the same transaction.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidPromotionError: `to` is not above `scope`, or beside what `scope` stands under.
            RecordNotFoundError: no such memory in this scope; it may have expired or been deleted.
            InvalidTransitionError: it is not active.
            BackendError: the store failed; nothing is changed.
        """
        require_scope(scope, verb="promote")
        require_scope(to, verb="promote")
        checked_bool(move, "promote: move")
        record = self._lived(self._life.promote(id, scope, to, move=move), verb="promote")
        if move:
            self._worker.wake()
        return record

    def promote_latest(
        self, *, scope: Scope, tags: Iterable[str], to: Scope | None = None, move: bool = False
    ) -> MemoryRecord | None:
        """Promote the newest active memory of a session that carries all of `tags`; None without one.

        Args:
            scope: the session.
            tags: what it has to carry.
            to: the broader scope; the session's user when None.
            move: delete the original, see `promote`.
        """
        require_scope(scope, verb="promote_latest")
        found = self._life.latest(scope, tags)
        if found is None:
            return None
        record, user = found
        return self.promote(record.id, scope=scope, to=user if to is None else to, move=move)

    def compact(
        self,
        ids: Iterable[str],
        *,
        scope: Scope,
        summarize: Summarize,
        tags: Iterable[str] = (),
        into: Scope | None = None,
    ) -> MemoryRecord:
        """Make several active memories of a scope one of type summary, and return that.

        It has `compacted_from_ids`; the sources become `superseded` in the same transaction and can
        be restored, or brought back together by `undo`. No model is called but in `summarize`.

        Args:
            ids: the memories, in the order in which `summarize` gets them.
            scope: whose memories they are.
            summarize: called once with the list of records; returns the text of the summary.
            tags: the tags of the summary.
            into: the summary's scope, which is always that of its sources: another one is refused.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: ids or tags that cannot be.
            CompactionError: a source is missing, not active, of another scope or changed meanwhile, or
                `summarize` raised or returned no text; nothing is changed.
            BackendError: the store failed; nothing is changed.
        """
        require_scope(scope, verb="compact")
        changed = self._life.compact(ids, scope, summarize, tags=tags, into=into)
        return self._lived(changed, verb="compact")

    def _lived(self, changed: Sequence[MemoryRecord], *, verb: str) -> MemoryRecord:
        self._worker.index(changed, verb=verb)
        return changed[0]

    # ------------------------------------------------------------------ reading

    def recall(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        types: Iterable[RecordType | str] = (),
        status: Iterable[Status | str] | Status | str = Status.ACTIVE,
        include_messages: bool = False,
        exclude_messages: Iterable[Message] = (),
        ranking: Ranking | None = None,
        now: TimeLike | None = None,
        as_of: TimeLike | None = None,
        reranker: object = None,
        token_budget: int | None = None,
        type_budgets: Mapping[RecordType | str, int] | None = None,
        count: TokenCounter | None = None,
        explain: bool = False,
    ) -> RecallResult:
        """The records of the named scopes that answer `query`, best first.

        Each returned record counts one access, written down some seconds later: `access_count` and
        `last_accessed_at`. Keyword (BM25) and dense candidates are fused as a union and blended with importance and
        recency; see `memkit_core.recall`. A degraded answer says so in `.missing`.

        Args:
            query: plain text; a blank query recalls nothing. No character of it is special.
            scope: one scope, or several to read at once. A broad scope does not bring the records
                of narrower ones along. Of a memory and what it was promoted to, and of memories of
                two scopes with the same words, the one of the narrower scope is returned.
            top_k: the most hits, 1 to `Config.max_top_k`.
            filters: conditions that every hit satisfies, see `memkit_core.filters`.
            types: only these types; all when empty.
            status: only these statuses.
            include_messages: also search conversation turns: of a session scope its own, of a user
                scope those of all that user's sessions.
            exclude_messages: stored messages that the caller has already, such as the window in the
                prompt: neither hits nor part of what hits are measured against.
            ranking: weights for this call; `Config.ranking` when None.
            now: the moment recency counts back from; `as_of` or else the clock's when None. What has
                expired by the clock is never returned.
            as_of: what held at this moment, from `valid_from` or else `created_at` up to but not
                including `valid_until`: of what was superseded since, the value of then. In the wording
                of today; what was archived or deleted since is not returned.
            reranker: what `memkit_core.rerankers.resolve_reranker` takes: it orders the first
                `Config.rerank_depth` hits anew, within `Config.rerank_seconds`. When it fails they keep
                their order and `.missing` says so.
            token_budget: the most tokens of all hits together. Only whole records are returned; one
                that does not fit leaves its room to those behind it, and `.truncated` is set.
            type_budgets: the same for the hits of single types.
            count: counts the tokens of a text, see `resolve_token_counter`.
            explain: also say which vector each hit was compared by, and whether the index has it
                (`ScoredRecord.embedding`, `synced`): costs a further read. Why each hit is there stands
                in its `signals` and `why`, and for all of them in `.explain()`, always.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: `query` is no text, `top_k` out of range, or a budget or reranker that
                cannot be used.
            FilterError: an unknown operator or unusable key; never an empty answer instead.
        """
        from memkit_core.conversation.tokens import approximate_tokens, resolve_token_counter
        from memkit_core.recall.as_of import statuses_then
        from memkit_core.recall.finishing import Finish
        from memkit_core.recall.query import RecallQuery
        from memkit_core.rerankers import resolve_reranker

        if not isinstance(query, str):
            raise InvalidInputError(f"recall: query must be a string, got {shown(query)}")
        if ranking is not None and not isinstance(ranking, Ranking):
            raise InvalidInputError(
                f"recall: ranking must be a memkit_core.Ranking or None, got {shown(ranking)}"
            )
        then = None if as_of is None else to_utc(as_of, name="as_of")
        moment = then or self._clock() if now is None else to_utc(now, name="now")
        statuses = checked_statuses(status)
        counted = any(given is not None for given in (count, token_budget, type_budgets))
        finish = Finish(
            top_k=checked_count(top_k, "recall: top_k", most=self.config.max_top_k),
            reranker=None if reranker is None else resolve_reranker(reranker),
            depth=self.config.rerank_depth,
            seconds=self.config.rerank_seconds,
            token_budget=None if token_budget is None else checked_budget(token_budget, "token_budget"),
            type_budgets={
                checked_enum(RecordType, kind, "type_budgets"): checked_budget(most, "type_budgets")
                for kind, most in checked_mapping(type_budgets, "type_budgets").items()
            },
            # Looking for tiktoken's data takes longer than most of a recall's steps.
            count=resolve_token_counter(count) if counted else approximate_tokens,
        )
        return self._answered(
            RecallQuery(
                text=storable(query),
                scopes=checked_scopes(scope, verb="recall"),
                top_k=finish.wanted,
                where=parse_filter(filters),
                types=tuple(checked_enum(RecordType, kind, "types") for kind in listed(types, "types")),
                statuses=statuses if then is None else statuses_then(statuses),
                include_messages=checked_bool(include_messages, "recall: include_messages"),
                ranking=ranking or self.config.ranking,
                candidates=max(self.config.candidates, 3 * finish.wanted),
                asked_at=moment,
                as_of=then,
                explain=checked_bool(explain, "recall: explain"),
                finish=finish,
                now=self._clock(),
                exclude=frozenset(turn_point(m) for m in listed(exclude_messages, "exclude_messages")),
            )
        )

    def turn_context(
        self,
        session: Scope,
        query: str | None,
        *,
        system: str = "",
        working_memory: str | None = None,
        scopes: Sequence[Scope] | None = None,
        episodes: int = 3,
        skills: int = 2,
        memories: int = 5,
        recent: int | None = 10,
        include_messages: bool = False,
        max_tokens: int | None = None,
        recent_share: float = 1.0,
        count: TokenCounter | None = None,
    ) -> TurnContext:
        """All that the prompt of one turn is built from, in order; calls no chat model.

        System text, working memory and the user's profile documents (see `memkit_core.typed`; the most
        important first, within `Config.profile_max_tokens`), the rolling summary, the memories that
        answer `query` (episodes, skills, then the others, each best first), and the newest messages. A
        recall that fails leaves the memories out and says so in `.missing`.

        Args:
            session: whose turn it is, `Scope.session(id, user=...)`.
            query: the current input, to recall for; a blank one recalls nothing. None for the newest
                user message of the session.
            system: the system prompt.
            working_memory: what stands whole behind the system prompt; when None the notes of
                `memory.working` of session and user, fenced as data. Give
                `memory.working.instructions(scope=...)` where the model has the tools to change them.
            scopes: whose memories are recalled; the session and its user when None. A workspace is
                read only when it is named here.
            episodes: the most memories of type event; 0 for none.
            skills: the most of type skill; 0 for none.
            memories: the most of all other types; 0 for none.
            recent: so many of the newest messages, as whole turns; 0 for none, None for all that the
                summary does not cover, as far as `max_tokens`, needed then, has room.
            include_messages: also recall turns of conversations that are not among the recent ones,
                as part of `memories`; see `recall`.
            max_tokens: the budget of the whole prompt with the current input, None for no limit.
                System text and summary are never cut; the profile takes a quarter of it at most. The
                recent messages come next; recalled memories, whole ones only, take at most half of
                what is left then.
            recent_share: the part of what system text and summary leave that the recent messages
                may take; the rest of it is the recalled memories', also where it is more than half.
            count: counts tokens, see `resolve_token_counter`.

        Raises:
            ScopeError: `session` is not a session.
            InvalidInputError: a value out of range.
            BackendError: the session cannot be read.
        """
        from memkit_core.conversation.context import Wanted, build_turn_context
        from memkit_core.conversation.tokens import resolve_token_counter
        from memkit_core.prompts import note_block

        require_scope(session, verb="turn_context")
        own = [scope for scope in (session, session.parent) if scope is not None]
        named = checked_scopes(own if scopes is None else scopes, verb="turn_context")
        if working_memory is None:
            working_memory = note_block(self.working.get(scope=owner).text for owner in own)
        return build_turn_context(
            session,
            query,
            Wanted(
                system=system, working_memory=working_memory,
                profile_tokens=self.config.profile_max_tokens, scopes=named, episodes=episodes,
                skills=skills, memories=memories, recent=recent, include_messages=include_messages,
                max_tokens=max_tokens, recent_share=recent_share,
            ),
            sessions=self.sessions,
            summaries=self.summaries,
            list_records=self.list_records,
            recall=self._recall_of_turn,
            config=self.config,
            clock=self._clock,
            count=resolve_token_counter(count),
        )  # fmt: skip

    def turn_memories(
        self, session: Scope, query: str, *, scopes: Sequence[Scope] | None = None, top_k: int = 10
    ) -> RecallResult:
        """The memories that answer `query`: the session's first, then its user's, then broader ones.

        The best `top_k` of all, see `recall`, without repeats, grouped by how narrow their scope is and
        best first in each group.

        Args:
            session: whose turn it is, `Scope.session(id, user=...)`.
            query: the current input.
            scopes: whose memories are recalled; the session and its user when None. A workspace is
                read only when it is named here.
            top_k: the most hits, 1 to `Config.max_top_k`.
        """
        require_scope(session, verb="turn_memories")
        own = [scope for scope in (session, session.parent) if scope is not None]
        result = self.recall(query, scope=own if scopes is None else scopes, top_k=top_k)
        ordered = sorted(result, key=lambda hit: hit.scope.kind.breadth)
        return replace(result, hits=tuple(ordered))

    def _recall_of_turn(self, query: RecallQuery) -> RecallResult:
        # By a name of its own, for `observed`.
        return self._answered(query)

    def _answered(self, query: RecallQuery) -> RecallResult:
        if query.include_messages:
            for scope in query.scopes:
                self.sessions.queue.settle(scope)
        seen = 0 if self._notes is None else self._notes.seen()
        result = self._recall.run(query)
        self._accesses.count((hit.record for hit in result), now=query.now)
        if "dense" in result.missing:
            self._worker.wake()
        elif result:
            self._worker.start()
        if self._notes is not None and result:
            result = replace(result, recall_id=self._notes.note(query, result, seen=seen))
            if self._notes.due:
                self._worker.wake()
        return result

    def _recall_notes(self, settings: RecallLog) -> RecallNotes:
        # As in `__init__`.
        from memkit_core.recall.noting import RecallNotes

        # Of a handle of its own: they are written when that of this memory is closed already.
        return RecallNotes(StoreHandle(self._parts.store, self._redaction).recalls, settings)

    def feedback(self, recall_id: str, record_id: str, *, scope: Scope, useful: bool = True) -> None:
        """Say whether a record that a recall returned was useful; what was said last counts.

        Kept in the recall log, see `Config.recall_log`, for `memkit eval --from-log`. It changes no ranking.

        Args:
            recall_id: `RecallResult.recall_id` of the answer.
            record_id: the id of one of its hits.
            scope: whose record it is, or a scope that the recall named.
            useful: whether it helped.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: `recall_id` or `record_id` is no id; None means that nothing was logged.
            RecordNotFoundError: the log holds no such recall that returned such a record, as seen from
                `scope`: it was never there, is older than what is kept, or was deleted.
            BackendError: the store failed; nothing was noted of it.
        """
        require_scope(scope, verb="feedback")
        recall, record = checked_id(recall_id, "recall_id"), checked_id(record_id, "record_id")
        checked_bool(useful, "feedback: useful")
        recalls = self._store.recalls
        if self._notes is not None:
            self._notes.write()
        if not recalls.mark(scope, recall, record, useful=useful):
            raise RecordNotFoundError(
                f"feedback: the log has no recall {shown(recall_id)} of {scope} that returned {shown(record_id)}"
            )

    def get(self, id: str, *, scope: Scope, space: str = MEMORIES) -> MemoryRecord | None:  # noqa: A002
        """The record, or None when it is unknown, expired, deleted or in another scope."""
        require_scope(scope, verb="get")
        named, wanted = checked_space(space), checked_id(id)
        if named == MESSAGES:
            self.sessions.queue.settle(scope)
        found = self._store.records.get(scope, named, [wanted], now=self._clock())
        return found[0] if found else None

    def history(self, id: str, *, scope: Scope) -> list[RecordChange]:  # noqa: A002 - as above
        """Every change of one memory, its making first; empty when `get` would give None."""
        require_scope(scope, verb="history")
        return self._store.records.history(scope, checked_id(id), now=self._clock())

    def list_records(
        self,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        types: Iterable[RecordType | str] = (),
        status: Iterable[Status | str] | Status | str = Status.ACTIVE,
        filters: FilterLike | None = None,
        order: str = "created_at",
        limit: int = 100,
        cursor: str | None = None,
        space: str = MEMORIES,
        as_of: TimeLike | None = None,
    ) -> RecordPage:
        """Records without a query: newest first, or highest `order` first; the cursor pages on.

        Args:
            scope: whose records.
            tags: records that carry all of these.
            since: only records created at this moment or later.
            until: only records created before this moment.
            types: only these types; all when empty.
            status: only these statuses.
            filters: further conditions, see `memkit_core.filters`.
            order: `created_at`, `last_accessed_at`, `access_count` or `importance`.
            limit: the most records of one page, 1 to 10,000.
            cursor: `cursor` of the page before; right while others write.
            space: `"memories"`, or `"messages"` for conversation turns.
            as_of: what held at this moment, see `recall`.
        """
        # As in `__init__`.
        from memkit_core.ports import ListQuery
        from memkit_core.recall.as_of import held_at, statuses_then

        require_scope(scope, verb="list_records")
        then = None if as_of is None else to_utc(as_of, name="as_of")
        statuses = checked_statuses(status)
        query = ListQuery(
            space=checked_space(space),
            statuses=statuses if then is None else statuses_then(statuses),
            types=tuple(checked_enum(RecordType, kind, "types") for kind in listed(types, "types")),
            tags=checked_tags(tags),
            since=None if since is None else to_utc(since, name="since"),
            until=None if until is None else to_utc(until, name="until"),
            where=conjunction(parse_filter(filters), None if then is None else held_at(then)),
            order=order,
            limit=checked_count(limit, "list_records: limit", most=10_000),
            cursor=cursor,
        )
        if query.space == MESSAGES:
            self.sessions.queue.settle(scope)
        return self._store.records.list(scope, query, now=self._clock())

    # ------------------------------------------------------------------ documents

    def documents(
        self,
        name: str = "default",
        *,
        scope: Scope,
        embedder: object = None,
        embedding_model: str | None = None,
    ) -> Documents:
        """The collection `name` of `scope`: texts in a space of their own, searched like a vector store.

        Args:
            name: any id; the space is `documents:<name>`.
            scope: whose documents.
            embedder: a model of the collection's own, in any form `Memory.open` takes; None for the
                memory's.
            embedding_model: the name of the model; given without `embedder` it says that texts and
                queries come with their vectors of that model.

        Raises:
            ConfigError: the collection holds vectors of another model.
        """
        # As in `__init__`.
        from memkit_core.documents import Documents

        require_scope(scope, verb="documents")
        rows = self._rows(DOCUMENTS, name, scope, embedder=embedder, embedding_model=embedding_model)
        redact = None if self._redaction is None else self._redaction.text
        return Documents(name, rows, redact=redact)

    def items(
        self,
        name: str = "default",
        *,
        scope: Scope,
        embedder: object = None,
        embedding_model: str | None = None,
    ) -> Items:
        """The collection `name` of `scope`: JSON values by namespace and key, in a space of their own.

        Args:
            name: any id; the space is `store:<name>`.
            scope: whose items.
            embedder: a model of the collection's own, in any form `Memory.open` takes; None for the
                memory's.
            embedding_model: the name of that model, for an object that does not know it.

        Raises:
            ConfigError: the collection holds vectors of another model.
        """
        # As in `__init__`.
        from memkit_core.items import Items

        require_scope(scope, verb="items")
        if embedder is None and embedding_model is not None:
            raise ConfigError(
                f"items: embedding_model={shown(embedding_model)} names the model of embedder=, which was not given"
            )
        return Items(name, self._rows(STORE, name, scope, embedder=embedder, embedding_model=embedding_model))

    def _rows(
        self, kind: str, name: str, scope: Scope, *, embedder: object, embedding_model: str | None
    ) -> Rows:
        """The rows of the space `kind` and `name`; see `documents` for the rest."""
        # As in `__init__`.
        from memkit_core.connect import checked_embedder
        from memkit_core.documents.rows import Rows
        from memkit_core.embedders.resolve import resolve_embedder

        if embedding_model is not None:
            checked_id(embedding_model, "embedding_model")
        own = None
        if embedder is not None:
            resolved = resolve_embedder(embedder, model=embedding_model)
            own = checked_embedder(resolved, self.config, dimension=None, given=True)
        return Rows(
            Target(scope=scope, space=f"{kind}{checked_id(name, 'name')}"),
            store=self._store,
            indexers=self._indexers,
            own=self._parts.model,
            copies=self._parts.copies,
            embedder=own,
            model=embedding_model if own is None else own.model,
            config=self.config,
            clock=self._clock,
            changed=self._worker.soon,
        )

    # ------------------------------------------------------------------ memories with a shape

    @property
    def profiles(self) -> Profiles:
        """Documents about their owner, one a scope and key; see `memkit_core.typed`."""
        from memkit_core.typed import Profiles

        return Profiles(self)

    @property
    def episodes(self) -> Episodes:
        """What happened, with its time, outcome and insights; see `memkit_core.typed`."""
        from memkit_core.typed import Episodes

        return Episodes(self)

    @property
    def skills(self) -> Skills:
        """How things are done, step by step; see `memkit_core.typed`."""
        from memkit_core.typed import Skills

        return Skills(self)

    @property
    def formation(self) -> Formation:
        """From conversations to memories, once they are idle or on demand; see `memkit_core.formation`."""
        return self._form()

    # ------------------------------------------------------------------ deleting

    def delete(
        self,
        id: str | Omitted = OMITTED,  # noqa: A002 - the word every reader expects
        *,
        scope: Scope | None = None,
        everything: bool = False,
    ) -> DeleteReceipt:
        """Delete one record, a whole scope, or everything; returns what was removed. Idempotent.

        `delete(id, scope=s)` removes one memory. `delete(scope=s)` removes all of `s`: records,
        sessions, messages, turns and vectors, and for a user those of the user's sessions too.
        `delete(everything=True)` removes all rows. Nothing that was deleted is returned by any read
        from the moment this returns.

        Raises:
            ScopeError: neither a scope nor `everything=True` was given.
            InvalidInputError: `id` was given but is no id (None and "" never mean "all").
        """
        if checked_bool(everything, "delete: everything"):
            if scope is not None or not isinstance(id, Omitted):
                raise InvalidInputError("delete: give everything=True alone, or an id and a scope")
            self._settle(None)
            receipt = self._store.records.delete_everything()
        elif isinstance(id, Omitted):
            owner = require_scope(scope, verb="delete")
            # What is noted of its recalls too, so that it is deleted as well.
            self._settle(owner)
            receipt = self._store.records.delete_scope(owner)
        else:
            owner, one = require_scope(scope, verb="delete"), checked_id(id)
            if self._notes is not None:
                # As above: written later, it would tell of another memory with this id.
                self._notes.write()
            receipt = self._store.records.delete(owner, MEMORIES, [one])
        if not receipt.nothing:
            self._worker.wake()
        return receipt

    # ------------------------------------------------------------------ moving

    def export_jsonl(
        self,
        to: Place,
        *,
        scope: Scope | Sequence[Scope] | None = None,
        everything: bool = False,
        watermark: str | None = None,
    ) -> ExportReport:
        """Write what is remembered as JSONL; see `memory.transfer.export_jsonl`, which has more options."""
        return self.transfer.export_jsonl(to, scope=scope, everything=everything, watermark=watermark)

    def import_jsonl(
        self, source: Place, *, scopes: ScopeMap | None = None, on_error: OnError | str = "stop"
    ) -> ImportReport:
        """Take what `export_jsonl` wrote; see `memory.transfer.import_jsonl`."""
        return self.transfer.import_jsonl(source, scopes=scopes, on_error=on_error)

    def _settle(self, scope: Scope | None) -> None:
        self.sessions.queue.settle(scope, strict=True)
        self._noted.write()

    # ------------------------------------------------------------------ upkeep and lifetime

    @property
    def capabilities(self) -> Capabilities:
        """Which legs and models answer right now, and how far the index is behind."""
        self._store.check_open()
        return Capabilities(
            keyword=True,
            dense=not self._parts.model().absent and not self._indexers.own.outdated(),
            index=self._indexers.own.held() is not None,
            embedding_model=self._parts.model().model,
            outbox=self._indexers.state(),
        )

    @property
    def counters(self) -> Counters:
        """What was done through this memory since it was opened: writes, recalls and their latency, models asked."""
        return self._observer.counting.read()

    @property
    def redacted(self) -> dict[str, int]:
        """How many of which kind `Config.redact` took out since this memory was opened; never what.

        The kinds are those of `SecretRedactor`; for a function of your own, `changed` texts.
        """
        return {} if self._redaction is None else self._redaction.counts

    @property
    def path(self) -> str | None:
        """The absolute path of the file it lives in, None for a memory that keeps no file."""
        return None if self._reopen is None else str(self._reopen[0])

    @property
    def closed(self) -> bool:
        """Whether `close` was called; every verb raises `ClosedError` then."""
        return not self._finalizer.alive

    def flush(self, timeout: float | None = None) -> bool:
        """Store, embed and index all that waits, trying again what failed; whether nothing waits now.

        Returns after `timeout` seconds at the latest, also when the embedder hangs; a batch that was
        begun goes on. False also while another process, or a memory of this one with other
        settings, holds the index: it works off the outbox. Also
        writes down how often recall returned what.

        Raises:
            InvalidInputError: `timeout` is no number of seconds.
        """
        # As in `__init__`.
        from memkit_core.closing import work_off

        self._store.check_open()
        timeout = checked_timeout(timeout, "flush: timeout")
        ends = None if timeout is None else time.monotonic() + timeout
        stored = self.sessions.queue.flush(timeout)
        self._noted.write()
        work_off(self._indexers, None if ends is None else max(ends - time.monotonic(), 0.0), retry=True)
        return stored and self._indexers.state().length == 0

    def close(self) -> None:
        """Finish background work (at most some seconds), close files, free the lock. Idempotent.

        An embedder that hangs is not waited for; what it was given stays in the outbox.
        """
        if self._finalizer.detach() is not None:
            self._closing()

    def __enter__(self) -> Self:
        """The memory itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as "open this file again".

        Raises:
            ConfigError: it lives in memory only.
        """
        # As in `__init__`.
        from memkit_core.embedders.resolve import without_secrets

        if self._reopen is None:
            raise ConfigError("a memory without a file cannot be pickled; open it with a path")
        if (changed := self._parts.changed_to()) is None:
            return _open_again, self._reopen
        embedder, model = changed
        return _open_again, (*self._reopen[:2], without_secrets(embedder), model)


def _formation(
    store: StoreHandle, config: Config, clock: Clock, *, queue: PersistQueue, worker: Worker
) -> Formation:
    # As in `__init__`.
    from memkit_core.formation.formation import Formation

    return Formation(
        store,
        config,
        clock,
        settle=partial(queue.settle, strict=True),
        written=partial(worker.index, verb="formation"),
        changed=worker.wake,
    )


def _redaction(redact: Callable[[str], str]) -> Redaction:
    # Most memories redact nothing and need not load it.
    from memkit_core.stores.redacting import Redaction

    return Redaction(redact)


def _open_again(path: str, config: Config, embedder: object, embedding_model: str | None) -> Memory:
    return Memory.open(path, config=config, embedder=embedder, embedding_model=embedding_model)
