"""What the contracts of moving write, and how they look at it."""

from __future__ import annotations

from typing import Any

import numpy as np

from memkit_core.models import (
    MEMORIES,
    NOTES,
    RUNS,
    RecordPatch,
    Role,
    Status,
    Summary,
)
from memkit_core.ports import (
    MovedRecord,
    MovedRow,
    Portable,
    RecordStore,
    Selection,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    HOSTILE_IDS,
    NOW,
    SPACE,
    TALK,
    append,
    embed_all,
    every_field,
    later,
    message,
    record,
)
from memkit_core.transfer.writing import written

GIVEN = VectorSpace(model="theirs", revision="", dimension=3, given=True)
OTHER = VectorSpace(model="others", revision="", dimension=3, given=True)
BOOKS = "documents:books"


class MovableStore(RecordStore, Portable):
    """A record store whose rows can be moved."""


def fill(store: RecordStore) -> None:
    """Something of everything, of two users."""
    store.vectors.use_space(SPACE)
    for scope in (ALICE, BOB, Scope.org("org"), Scope.object("ticket", within=ALICE)):
        names = HOSTILE_IDS[:6] if scope == ALICE else ("one",)
        store.records.put(scope, [record(scope, name, f"words {name}") for name in names])
        store.records.change(
            scope, MEMORIES, names[0], RecordPatch(content="newer words"), now=later(hours=1)
        )
    store.records.put(ALICE, [every_field(ALICE, "every"), record(ALICE, "empty", "\u2028")])
    store.records.put(ALICE, [record(ALICE, "old", status=Status.SUPERSEDED, metadata={"z": 1, "a": [1.0]})])
    store.records.put(
        ALICE,
        [record(ALICE, name, space=BOOKS) for name in ("a", "b")],
        vector_space=GIVEN,
        vectors=np.array([[1, 2, 3], [0, 0, 0]], np.float32),
    )
    for session in (TALK, Scope.session("s2", user=ALICE), Scope.session("s1", user=BOB)):
        store.log.create(session, title="a\r\ntitle", metadata={"n": 1}, now=NOW)
        append(
            store, session, [message("m1"), message("m2", role=Role.ASSISTANT, payload={"z": 1, "a": None})]
        )
        append(store, session, [message("m3", role=Role.SYSTEM), message("gone")], now=later(hours=1))
        store.log.delete(session, ["gone"])
        store.log.save_summary(
            Summary(session=session, text="so far", position=1, updated_at=NOW), after=-1, messages=2
        )
    for n in range(3):
        store.values.put(ALICE, NOTES, "note", {"z": n, "a": 1}, keep=2, now=later(hours=n))
        store.values.put(TALK, RUNS, f"run{n}", n, label="open", now=NOW)
    embed_all(store)


def rows_of(store: Portable, **selection: Any) -> list[MovedRow]:
    """The rows that a selection means, all by default; expiry is that of `NOW`."""
    with store.snapshot(Selection(now=NOW, **selection)) as snapshot:
        return list(snapshot.rows())


def shown(rows: list[MovedRow]) -> list[dict[str, object]]:
    """Rows as they can be compared."""
    return [written(row) for row in rows]


def kinds(rows: list[MovedRow]) -> set[str]:
    """Which kinds of rows there are."""
    return {str(line["kind"]) for line in shown(rows)}


def change_of(store: Portable) -> int:
    """The number of the last change."""
    with store.snapshot(Selection(now=NOW, scopes=())) as snapshot:
        return snapshot.change


def ids_of(rows: list[MovedRow]) -> list[str]:
    """The ids of records, in order."""
    return [row.record.id for row in rows if isinstance(row, MovedRecord)]
