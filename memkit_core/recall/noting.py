"""What is noted of each recall, off its path: how often records are returned, and the recall log."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from memkit_core.errors import MemkitError
from memkit_core.locks import ThreadLock
from memkit_core.models import RecallResult, ScoredRecord, Status
from memkit_core.ports import LoggedHit, LoggedRecall, RecallTable
from memkit_core.recall.access import AccessCounts

if TYPE_CHECKING:
    from memkit_core.recall.query import RecallQuery
    from memkit_core.settings import RecallLog

_MOST = 1_000
"""Recalls that wait at most to be written; then the oldest are lost. At half of it they are due."""

_NOW = timedelta(minutes=1)
"""A recall that counts recency from a moment nearer than this to the present asks about the present."""


class RecallNotes:
    """Keeps recalls until `write` hands them to the store. Thread-safe.

    A killed process loses what was not written. A forked child starts with nothing.
    """

    def __init__(self, recalls: RecallTable, settings: RecallLog) -> None:
        """Nothing waits yet."""
        self._recalls = recalls
        self._settings = settings
        self._mutex = ThreadLock()
        self._waiting: list[LoggedRecall] = []
        self._pid = os.getpid()

    @property
    def due(self) -> bool:
        """Whether so many wait that they should be written now."""
        return len(self._waiting) >= _MOST // 2

    def seen(self) -> int:
        """What `note` is to be told: asked for before the recall, so that nothing deleted since is kept."""
        return self._recalls.last_change()

    def note(self, query: RecallQuery, result: RecallResult, *, seen: int) -> str:
        """Log what `query` was answered; returns the id it can be named by. Never waits for the store."""
        recall = _logged(query, result, seen)
        with self._mutex:
            waiting = self._own()
            waiting.append(recall)
            del waiting[:-_MOST]
        return recall.id

    def write(self) -> None:
        """Hand what waits to the store in one transaction; nothing is done when nothing does.

        Raises:
            MemkitError: the store failed; what waits is kept for the next time.
        """
        with self._mutex:
            waiting = self._own()
            self._waiting = []
        if not waiting:
            return
        texts = self._settings.query == "text"
        try:
            self._recalls.append(waiting, keep=self._settings.keep, texts=texts)
        except MemkitError:
            with self._mutex:
                self._waiting = [*waiting, *self._own()][-_MOST:]
            raise

    def _own(self) -> list[LoggedRecall]:
        if self._pid != os.getpid():
            self._waiting, self._pid = [], os.getpid()
        return self._waiting


class Noted:
    """All that is noted of recalls, written down together."""

    def __init__(self, accesses: AccessCounts, recalls: RecallNotes | None) -> None:
        """Write these; `recalls` is None where none are logged."""
        self._accesses = accesses
        self._recalls = recalls
        self._writing = ThreadLock()

    def write(self) -> None:
        """Hand what was noted to the store, also what another thread is handing to it: both are there then.

        Raises:
            MemkitError: the store failed; what it did not take is kept for the next time.
        """
        with self._writing:
            try:
                self._accesses.write()
            finally:
                if self._recalls is not None:
                    self._recalls.write()


def _logged(query: RecallQuery, result: RecallResult, seen: int) -> LoggedRecall:
    return LoggedRecall(
        id=str(uuid.uuid4()),
        at=query.asked_at,
        query=query.text,
        scopes=query.scopes,
        top_k=query.top_k if query.finish is None else query.finish.top_k,
        types=query.types,
        include_messages=query.include_messages,
        repeatable=_repeatable(query),
        hits=_hits(result),
        seen=seen,
    )


def _hits(result: Sequence[ScoredRecord]) -> tuple[LoggedHit, ...]:
    return tuple(
        LoggedHit(
            record_id=hit.record.id,
            scope=hit.scope,
            space=hit.record.space,
            score=hit.score,
            signals=hit.signals,
        )
        for hit in result
    )


def _repeatable(query: RecallQuery) -> bool:
    """Whether `LoggedRecall` has a place for all that was asked."""
    finish = query.finish
    plain = finish is None or (
        finish.reranker is None and finish.token_budget is None and not finish.type_budgets
    )
    ordinary = query.where is None and query.as_of is None and not query.exclude
    return (
        plain and ordinary and query.statuses == (Status.ACTIVE,) and abs(query.asked_at - query.now) < _NOW
    )
