"""The verbs on the life of a record, over the rules of this package. See `Memory` for what each promises."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from memkit_core.config import Config
from memkit_core.errors import CompactionError, InvalidPromotionError
from memkit_core.inputs import NewMemory, build_record, checked_id, checked_tags, listed
from memkit_core.life.compaction import check_sources, compacted, replace_sources, summarized
from memkit_core.life.promotion import check_promotion, promoted
from memkit_core.life.transitions import move, require_active, together, visible
from memkit_core.life.undo import undo
from memkit_core.models import MEMORIES, ChangeKind, MemoryRecord
from memkit_core.ports import Add, ListQuery, MemoryView, RecordStore, Remove, Rewrite, Step
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.stores.succession import succession
from memkit_core.times import Clock

Summarize = Callable[[list[MemoryRecord]], str]
"""Makes one text of several memories; what it raises, or returns that is no text, stops the compaction."""


class Life:
    """Changes the status, place and scope of memories. Thread-safe.

    Each verb returns the memory it is about, and every memory whose row it wrote.
    """

    def __init__(self, store: RecordStore, config: Config, clock: Clock) -> None:
        """Work on the memories of `store`."""
        self._store = store
        self._config = config
        self._clock = clock

    def move(self, record_id: str, scope: Scope, kind: ChangeKind) -> list[MemoryRecord]:
        """Confirm, reject, archive or restore a memory."""
        now, wanted = self._clock(), checked_id(record_id)
        found: list[MemoryRecord] = []

        def rule(view: MemoryView) -> Sequence[Step]:
            new, steps = move(view, scope, wanted, kind, now=now)
            found.append(new)
            return steps

        changed = self._store.records.decide(rule)
        return [*found, *changed]

    def supersede(
        self, record_id: str, scope: Scope, new: NewMemory, *, expected_version: int | None
    ) -> list[MemoryRecord]:
        """Put a new memory with the content, time and provenance of `new` in the place of one."""
        now, wanted = self._clock(), checked_id(record_id)
        record = self._built(new, scope, now)

        def rule(view: MemoryView) -> Sequence[Step]:
            old = visible(view, scope, wanted, verb="supersede", now=now, expected_version=expected_version)
            require_active(old, verb="supersede")
            carried = {name: getattr(old, name) for name in _CARRIED}
            earlier, later = succession(old, dataclasses.replace(record, **carried))
            return [*together([Rewrite(old, earlier, ChangeKind.SUPERSEDED)], later), Add(later)]

        return self._store.records.decide(rule)[::-1]

    def undo(self, record_id: str, scope: Scope) -> list[MemoryRecord]:
        """Take back the last change of a memory."""
        now, wanted = self._clock(), checked_id(record_id)
        return self._store.records.decide(lambda view: undo(view, scope, wanted, now=now))

    def promote(self, record_id: str, scope: Scope, to: Scope, *, move: bool) -> list[MemoryRecord]:
        """Copy, or move, a memory to a broader scope."""
        now, wanted = self._clock(), checked_id(record_id)
        check_promotion(scope, to)

        def rule(view: MemoryView) -> Sequence[Step]:
            record = visible(view, scope, wanted, verb="promote", now=now)
            require_active(record, verb="promote")
            copy = Add(promoted(record, to, now=now), merge=True)
            return [copy, Remove(record)] if move else [copy]

        return self._store.records.decide(rule)

    def latest(self, scope: Scope, tags: Iterable[str]) -> tuple[MemoryRecord, Scope] | None:
        """The newest active memory of a session that carries all these tags, and the session's user."""
        if scope.kind is not ScopeKind.SESSION or scope.parent is None:
            raise InvalidPromotionError(f"promote_latest: scope must be a session, got {scope}")
        query = ListQuery(tags=checked_tags(tags), limit=1)
        page = self._store.records.list(scope, query, now=self._clock())
        return (page.records[0], scope.parent) if page.records else None

    def compact(
        self,
        ids: Iterable[str],
        scope: Scope,
        summarize: Summarize,
        *,
        tags: Iterable[str],
        into: Scope | None,
    ) -> list[MemoryRecord]:
        """Make several memories one of type summary."""
        if into is not None and require_scope(into, verb="compact") != scope:
            raise CompactionError(
                f"compact: the records are of {scope}, they cannot become one of {into}; promote the summary"
            )
        wanted = list(dict.fromkeys(checked_id(i, "ids") for i in listed(ids, "ids")))
        own_tags = checked_tags(tags)
        if not wanted:
            raise CompactionError("compact: no ids were given")
        read = self._store.records.get(scope, MEMORIES, wanted, now=self._clock())
        check_sources(read, wanted)
        # Outside of the transaction: a model may take minutes, and nobody else should wait for it.
        text = summarized(read, summarize, max_chars=self._config.max_content_chars)
        summary = compacted(read, text, own_tags, now=self._clock(), config=self._config)
        return self._store.records.decide(lambda view: replace_sources(view, read, summary))

    def _built(self, new: NewMemory, scope: Scope, now: datetime) -> MemoryRecord:
        return build_record(
            new,
            scope=scope,
            now=now,
            agent_id=self._config.agent_id,
            max_chars=self._config.max_content_chars,
        )


_CARRIED = ("type", "key", "tags", "metadata", "importance", "pinned", "expires_at")
"""What a memory takes over from the one whose place it takes."""
