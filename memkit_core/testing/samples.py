"""The values that the contracts write: one place to read what they look like."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from memkit_core.inputs import build_turn
from memkit_core.models import MESSAGES, DeleteReceipt, MemoryRecord, Message, Role, Target
from memkit_core.ports import Matrix, OutboxEntry, RecordStore, VectorSpace
from memkit_core.scope import Scope

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
"""The moment at which the contracts read."""

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
TALK = Scope.session("s1", user="alice")

SPACE = VectorSpace(model="contract", revision="1", dimension=8)
"""The vector space in which the contracts keep vectors."""

INJECTIONS = (
    "'; DROP TABLE records; --", "' OR '1'='1", 'x") OR 1=1 --', "x') OR 1=1 --", "%", "_", "*", '"', "'",
    "\\", "\\'", "$", "$.a", "a[0]", "{}", "NULL", "--", "/*", ";", "\n", "?", ":now", "1 UNION SELECT 1",
)  # fmt: skip
"""Texts that mean something to a database, a path or a query language, and nothing to memkit."""

HOSTILE_IDS = (
    "u1", "u10", "u1/x", "u1.", "U1", "u1 ", " u1", "u", "u1%", "a:b", "a", "b", "ab", "x/y", "x_y", "x:y",
    "mia@lund.example", "7", "07", "🦉", "👩‍👧", "é", "e\u0301", "../../etc/x", "/abs", "C:\\x", "a/../b",
    ".", "CON", "None", "x" * 4000, "x" * 3999, *INJECTIONS,
)  # fmt: skip
"""Ids that some encoding somewhere confuses with each other."""


def later(**parts: float) -> datetime:
    """`NOW` and so much more: `later(hours=1)`."""
    return NOW + timedelta(**parts)


def record(scope: Scope, record_id: str, content: str = "some words", **fields: object) -> MemoryRecord:
    """An unremarkable record with the given fields."""
    plain = MemoryRecord(id=record_id, scope=scope, content=content, created_at=NOW, updated_at=NOW)
    return dataclasses.replace(plain, **fields)  # type: ignore[arg-type]  # any field of the record


def every_field(scope: Scope, record_id: str) -> MemoryRecord:
    """A record in which every field that a filter can name has a value."""
    times = dict.fromkeys(("occurred_at", "last_accessed_at", "valid_from", "valid_until"), NOW)
    texts = dict.fromkeys(("key", "agent_id", "source", "created_in_session_id", "promoted_from_id"), "a")
    return record(
        scope, record_id, "a", confidence=0.5, pinned=True, access_count=1, tags=("a",), expires_at=NOW, **times, **texts
    )  # fmt: skip


def message(
    message_id: str, text: str = "some words", *, role: Role = Role.USER, **fields: object
) -> Message:
    """An unremarkable message with the given fields."""
    return dataclasses.replace(Message(id=message_id, role=role, text=text), **fields)  # type: ignore[arg-type]


def append(
    store: RecordStore,
    session: Scope,
    messages: Sequence[Message],
    *,
    now: datetime = NOW,
    keep: Collection[str] | None = None,
) -> list[Message]:
    """Append messages with the turns that make them searchable."""
    newest = {one.id: one for one in messages}.values()
    turns = [build_turn(one, session=session, now=now) for one in newest if one.is_turn]
    return store.log.append(session, messages, turns, now=now, keep=keep)


def vectors_for(entries: Sequence[OutboxEntry]) -> Matrix:
    """Shape `(n, 8) float32`: a vector for each entry that depends on its text alone."""
    rows = [_vector("" if entry.record is None else entry.record.index_text) for entry in entries]
    return np.stack(rows) if rows else np.zeros((0, SPACE.dimension), np.float32)


def _vector(text: str) -> Matrix:
    seed = int.from_bytes(text.encode("utf-8", "replace")[:64] or b"\0", "big")
    return np.random.default_rng(seed).normal(size=SPACE.dimension).astype(np.float32)


def embed_all(store: RecordStore) -> None:
    """Give every row that has none its vector; the outbox stays as it is."""
    store.vectors.use_space(SPACE)
    entries = [one for one in due(store) if one.record is not None and one.vector is None]
    store.vectors.save(entries, vectors_for(entries))


def due(store: RecordStore) -> list[OutboxEntry]:
    """Everything the outbox holds that is due by the end of the century."""
    return store.outbox.due(now=datetime(2099, 1, 1, tzinfo=UTC), limit=100_000)


def confirm_all(store: RecordStore) -> None:
    """Empty the outbox."""
    store.outbox.mark_synced([entry.number for entry in due(store)])


def found_by_words(store: RecordStore, target: Target, words: str = "words") -> set[str]:
    """The ids that the keyword leg finds in `target`."""
    hits = store.keywords.search(target, words, where=None, now=NOW, limit=1000)
    return {one.id for one in store.records.fetch(target, [hit.point_id for hit in hits]).values()}


def stored_kinds(receipt: DeleteReceipt) -> DeleteReceipt:
    """The receipt without what is derived from the text of records and turns."""
    return dataclasses.replace(receipt, turn_vectors=0, keywords=0, outbox=0)


def turns(scope: Scope) -> Target:
    """The turns of a session, or of all sessions of a user."""
    return Target(scope=scope, space=MESSAGES)
