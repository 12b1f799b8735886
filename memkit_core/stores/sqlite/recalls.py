"""`RecallTable` over SQLite."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from memkit_core.models import RecordType, Signals, point_id
from memkit_core.ports import LoggedHit, LoggedRecall, RowKind
from memkit_core.scope import Scope, ScopeKind
from memkit_core.stores.recalls import kept_form
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.scopes import find_scope, read_scope, scope_text, with_sessions
from memkit_core.stores.sqlite.tracking import last_change
from memkit_core.stores.tombstones import owner_of
from memkit_core.times import from_ms, to_ms

_INSERT = """
INSERT OR IGNORE INTO recalls(id, at, query, digest, top_k, types, messages, repeatable)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_HIT = """
INSERT INTO recall_hits(recall, place, seq, score, signals, useful)
SELECT ?, ?, seq, ?, ?, ? FROM records WHERE point_id = ?
"""
_MARK = """
UPDATE recall_hits SET useful = :useful WHERE (recall, seq) IN (
  SELECT h.recall, h.seq FROM recalls c JOIN recall_hits h ON h.recall = c.number
  JOIN records r ON r.seq = h.seq JOIN scopes s ON s.id = r.scope_id
  WHERE c.id = :recall AND r.id = :record AND {allowed})
"""
_BURIED = """
SELECT kind FROM tombstones WHERE number > :seen AND (scope = :scope OR owner = :scope)
"""
_OLDER = "SELECT 1 FROM {table} WHERE changed <= ? AND scope_id IN (SELECT value FROM json_each(?)) LIMIT 1"
_OWNED = ("records", "sessions", "messages", "summaries", "stored_values")
_OWN = "s.digest = :scope"
_NAMED = "EXISTS (SELECT 1 FROM recall_scopes n WHERE n.recall = c.number AND n.scope = :scope)"
_JUDGED = "EXISTS (SELECT 1 FROM recall_hits h WHERE h.recall = recalls.number AND h.useful IS NOT NULL)"


class SQLiteRecalls:
    """The recall log of one file."""

    def __init__(self, database: Database) -> None:
        """Read and write in `database`."""
        self._database = database

    def append(self, recalls: Sequence[LoggedRecall], *, keep: int, texts: bool) -> None:
        """See `RecallTable.append`."""
        with self._database.write("log recalls") as connection:
            for recall in recalls:
                if not any(_deleted(connection, scope, recall.seen) for scope in recall.scopes):
                    _insert(connection, kept_form(recall, texts=texts))
            _forget(
                connection,
                "number <= (SELECT number FROM recalls ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (keep,),
            )

    def last_change(self) -> int:
        """See `RecallTable.last_change`."""
        with self._database.snapshot() as connection:
            return last_change(connection)

    def mark(self, scope: Scope, recall_id: str, record_id: str, *, useful: bool) -> bool:
        """See `RecallTable.mark`."""
        values = {"useful": useful, "recall": recall_id, "record": record_id, "scope": scope.digest}
        with self._database.write("mark recall") as connection:
            # One id may stand in several of the scopes that were named.
            return any(
                connection.execute(_MARK.format(allowed=allowed), values).rowcount > 0
                for allowed in (_OWN, _NAMED)
            )

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, *, judged: bool, limit: int) -> list[LoggedRecall]:
        """See `RecallTable.list`."""
        with self._database.snapshot() as connection:
            rows = connection.execute(
                "SELECT number, id, at, query, digest, top_k, types, messages, repeatable FROM recalls "
                f"WHERE {_JUDGED if judged else '1'} ORDER BY number DESC LIMIT ?",
                (limit,),
            ).fetchall()
            return [_read(connection, *row) for row in rows]


def forget_scope(connection: sqlite3.Connection, scope: Scope) -> None:
    """Forget every recall that named this scope or a session of this user."""
    _forget(
        connection,
        "number IN (SELECT recall FROM recall_scopes WHERE scope = :scope OR owner = :scope)",
        {"scope": scope.digest},
    )


def forget_hits(connection: sqlite3.Connection, rows: Sequence[int]) -> None:
    """Forget that these rows of `records` were ever recalled, and recalls that found nothing else."""
    touched = connection.execute(
        "DELETE FROM recall_hits WHERE seq IN (SELECT value FROM json_each(?)) RETURNING recall",
        (json.dumps(rows),),
    ).fetchall()
    if touched:
        _forget(
            connection,
            "number IN (SELECT value FROM json_each(?)) AND number NOT IN (SELECT recall FROM recall_hits)",
            (json.dumps([recall for (recall,) in touched]),),
        )


def forget_all(connection: sqlite3.Connection) -> None:
    """Empty the log."""
    _forget(connection, "1", ())


def _forget(connection: sqlite3.Connection, condition: str, values: Sequence[Any] | dict[str, Any]) -> None:
    gone = connection.execute(f"DELETE FROM recalls WHERE {condition} RETURNING number", values).fetchall()
    if gone:
        numbers = json.dumps([number for (number,) in gone])
        for table in ("recall_hits", "recall_scopes"):
            connection.execute(
                f"DELETE FROM {table} WHERE recall IN (SELECT value FROM json_each(?))", (numbers,)
            )


def _deleted(connection: sqlite3.Connection, scope: Scope, seen: int) -> bool:
    """Whether a scope was deleted after the change `seen`; one that never owned anything was not."""
    kinds = [kind for (kind,) in connection.execute(_BURIED, {"seen": seen, "scope": scope.digest})]
    if not kinds:
        return False
    if scope.kind is ScopeKind.SESSION and RowKind.SESSION in kinds:
        return True
    scope_id = find_scope(connection, scope)
    owners = json.dumps([] if scope_id is None else with_sessions(connection, scope, scope_id))
    # A row from before then was not deleted with the scope.
    return not any(
        connection.execute(_OLDER.format(table=table), (seen, owners)).fetchone() for table in _OWNED
    )


def _insert(connection: sqlite3.Connection, recall: LoggedRecall) -> None:
    types = json.dumps([kind.value for kind in recall.types])
    cursor = connection.execute(
        _INSERT,
        (
            recall.id,
            to_ms(recall.at),
            recall.query,
            recall.digest,
            recall.top_k,
            types,
            recall.include_messages,
            recall.repeatable,
        ),
    )
    number = cursor.lastrowid
    if not cursor.rowcount:
        return
    found = 0
    for place, hit in enumerate(recall.hits):
        point = point_id(hit.scope, hit.space, hit.record_id).bytes
        signals = json.dumps(dataclasses.asdict(hit.signals))
        values = (number, place, hit.score, signals, hit.useful, point)
        found += connection.execute(_INSERT_HIT, values).rowcount
    connection.executemany(
        "INSERT INTO recall_scopes(recall, place, scope, owner, path) VALUES (?, ?, ?, ?, ?)",
        [
            (number, place, scope.digest, owner_of(scope).digest, scope_text(scope))
            for place, scope in enumerate(recall.scopes)
        ],
    )
    if not found:
        _forget(connection, "number = ?", (number,))


def _read(
    connection: sqlite3.Connection,
    number: int,
    recall_id: str,
    at: int,
    query: str | None,
    digest: str,
    top_k: int,
    types: str,
    messages: int,
    repeatable: int,
) -> LoggedRecall:
    ask = connection.execute
    scopes = ask("SELECT path FROM recall_scopes WHERE recall = ? ORDER BY place", (number,)).fetchall()
    hits = ask(
        "SELECT r.id, s.path, r.space, h.score, h.signals, h.useful FROM recall_hits h "
        "JOIN records r ON r.seq = h.seq JOIN scopes s ON s.id = r.scope_id WHERE h.recall = ? ORDER BY h.place",
        (number,),
    ).fetchall()
    return LoggedRecall(
        id=recall_id,
        at=from_ms(at),
        query=query,
        digest=digest,
        scopes=tuple(read_scope(path) for (path,) in scopes),
        top_k=top_k,
        types=tuple(RecordType(kind) for kind in json.loads(types)),
        include_messages=bool(messages),
        repeatable=bool(repeatable),
        hits=tuple(
            LoggedHit(
                record_id=record_id,
                scope=read_scope(path),
                space=space,
                score=score,
                signals=Signals(**json.loads(signals)),
                useful=None if useful is None else bool(useful),
            )
            for record_id, path, space, score, signals, useful in hits
        ),
    )
