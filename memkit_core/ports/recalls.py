"""The recall log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memkit_core.models import RecordType, Signals
from memkit_core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedHit:
    """What a logged recall returned, at its place; `useful` is None while nobody has said."""

    record_id: str
    scope: Scope
    space: str
    score: float
    signals: Signals
    useful: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecall:
    """A recall as the log keeps it.

    Attributes:
        id: that of `RecallResult.recall_id`.
        at: when it was asked.
        query: its text; None where only the digest is kept.
        digest: SHA-256 of the text in hexadecimal; made by the store.
        scopes: those it named.
        top_k, types, include_messages: as they were asked for.
        repeatable: whether this is all it was asked with: no filter, status, `as_of`, `now`, excluded
            message, reranker or budget, of which the log keeps nothing.
        hits: best first; of a record that was deleted since nothing is left.
        seen: `RecallTable.last_change` from before it was answered; tells `append` what was deleted since,
            and is not kept.
    """

    id: str
    at: datetime
    query: str | None
    scopes: tuple[Scope, ...]
    top_k: int
    hits: tuple[LoggedHit, ...]
    types: tuple[RecordType, ...] = ()
    include_messages: bool = False
    repeatable: bool = True
    digest: str = ""
    seen: int = 0


class RecallTable(Protocol):
    """The recall log of a store. What is deleted takes along what the log has of it, in the same transaction.

    A hit goes with its record, however that is deleted, and a recall with its last hit, or with a scope
    that it named or a session of which it named, as `RecordTable.delete_scope` deletes them.
    """

    def append(self, recalls: Sequence[LoggedRecall], *, keep: int, texts: bool) -> None:
        """Add these, oldest first, and forget all but the newest `keep`; one transaction.

        They may come late: hits whose records are gone by now are left out, and a recall without hits, or
        that named a scope which was deleted after its `seen`, is not kept, also when the scope owns something
        again. Where all that a scope owns changed since, and something of it was deleted, it counts as deleted.
        Without `texts` only digests of queries are kept.
        """

    def last_change(self) -> int:
        """The number of the newest change of this store; a later change has a higher one."""

    def mark(self, scope: Scope, recall_id: str, record_id: str, *, useful: bool) -> bool:
        """Note whether a hit was useful; what was said last counts. False when there is no such hit.

        `scope` is that of the record, or one that the recall named: for any other there is no such hit.
        """

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, *, judged: bool, limit: int) -> list[LoggedRecall]:
        """The newest recalls, newest first; with `judged` only those of which a hit was marked."""
