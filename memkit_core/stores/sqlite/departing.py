"""`StoreSnapshot` over SQLite: the selected rows of one read transaction, a few hundred at a time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from memkit_core.models import MEMORIES, MESSAGES, StoredValue, Summary
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    RowKind,
    Selection,
    Tombstone,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.stores.sqlite.log import MESSAGE_COLUMNS, SESSION_COLUMNS, read_message, read_session
from memkit_core.stores.sqlite.rows import SELECT_CHANGE, SELECT_RECORD, VISIBLE, read_change, read_record
from memkit_core.stores.sqlite.scopes import find_scope, read_scope, with_sessions
from memkit_core.stores.sqlite.tracking import last_change
from memkit_core.stores.sqlite.vectors import IN_USE, read_vector
from memkit_core.stores.tombstones import buried_space, grave_name, tombstone_of
from memkit_core.times import from_ms, to_ms

_SPACE = f"COALESCE(p.vector_space_id, {IN_USE})"
# A turn is as old as its message, which may have been said long before it was stored.
_SAID = """COALESCE((SELECT m.created_at FROM messages m WHERE m.scope_id = r.scope_id AND m.id = r.id
AND r.position IS NOT NULL), r.created_at)"""


class SQLiteSnapshot:
    """The rows that `selection` means, as `connection` sees them in the transaction it is in."""

    def __init__(self, connection: sqlite3.Connection, selection: Selection) -> None:
        """Read the numbers of the scopes; all else when it is asked for."""
        self._connection = connection
        self._selection = selection
        self.change = last_change(connection)
        self._values: dict[str, object] = {
            "now": to_ms(selection.now),
            "after": selection.changed_after,
            "since": None if selection.since is None else to_ms(selection.since),
            "until": None if selection.until is None else to_ms(selection.until),
            "scopes": json.dumps(self._scope_ids()),
            "owners": json.dumps([scope.digest.hex() for scope in selection.scopes or ()]),
            "spaces": json.dumps(selection.spaces),
            "types": json.dumps([kind.value for kind in selection.types]),
        }

    def _scope_ids(self) -> list[int]:
        found: dict[int, None] = {}
        for scope in self._selection.scopes or ():
            number = find_scope(self._connection, scope)
            if number is not None:
                found |= dict.fromkeys(with_sessions(self._connection, scope, number))
        return list(found)

    def count(self) -> int:
        """See `StoreSnapshot.count`."""
        sources = [f"SELECT count(*) FROM records r WHERE {self._of_records()}"]
        if self._selection.conversations():
            sources += [
                f"SELECT count(*) FROM sessions n WHERE {self._of_sessions()}",
                f"SELECT count(*) FROM messages m JOIN sessions n USING (scope_id) WHERE {self._of_messages()}",
                f"SELECT count(*) FROM summaries u WHERE {self._of_summaries()}",
            ]
        sources.append(f"SELECT count(*) FROM stored_values v WHERE {self._of_values()}")
        if self._selection.changed_after is not None:
            sources.append("SELECT count(*) FROM tombstones t WHERE t.number > :after")
            sources.append(f"SELECT count(*) FROM records r WHERE {self._of_expired()}")
        return sum(row[0] for source in sources for row in self._rows(source))

    def vector_spaces(self) -> list[VectorSpace]:
        """See `StoreSnapshot.vector_spaces`."""
        rows = self._rows(
            "SELECT model, revision, dimension, in_use FROM vector_spaces s WHERE s.id IN "
            f"(SELECT {_SPACE} FROM partitions p WHERE EXISTS "
            f"(SELECT 1 FROM records r WHERE r.partition_id = p.id AND {self._of_records()})) ORDER BY fingerprint"
        )
        return [VectorSpace(model=m, revision=r, dimension=d, given=not own) for m, r, d, own in rows]

    def rows(self) -> Iterator[MovedRow]:
        """See `StoreSnapshot.rows`."""
        if self._selection.changed_after is not None:
            yield from self._tombstones()
            yield from self._expired()
        if self._selection.conversations():
            yield from self._conversations()
        yield from self._stored_values()
        yield from self._records()

    # ------------------------------------------------------------------ conditions

    def _of(self, scope: str, changed: str, created: str | None) -> str:
        """What every row satisfies, whose columns these are."""
        chosen = self._selection
        conditions = ["1"]
        if chosen.scopes is not None:
            conditions.append(f"{scope} IN (SELECT value FROM json_each(:scopes))")
        if chosen.changed_after is not None:
            conditions.append(f"{changed} > :after")
        if chosen.since is not None and created is not None:
            conditions.append(f"{created} >= :since")
        if chosen.until is not None and created is not None:
            conditions.append(f"{created} < :until")
        return " AND ".join(conditions)

    def _of_records(self) -> str:
        chosen = self._selection
        timed = chosen.since is not None or chosen.until is not None
        conditions = [VISIBLE, self._of("r.scope_id", "r.changed", _SAID if timed else None)]
        if chosen.changed_after is not None:
            # Through the index by partition and change.
            conditions.append("r.partition_id IN (SELECT id FROM partitions WHERE changed > :after)")
        if chosen.spaces:
            conditions.append("r.space IN (SELECT value FROM json_each(:spaces))")
        if chosen.types:
            conditions.append("r.position IS NULL AND r.type IN (SELECT value FROM json_each(:types))")
        return " AND ".join(conditions)

    def _of_expired(self) -> str:
        chosen = self._selection
        conditions = [f"NOT {VISIBLE}", "r.changed > :after"]
        conditions.append("r.partition_id IN (SELECT id FROM partitions WHERE changed > :after)")
        if chosen.scopes is not None:
            conditions.append("r.scope_id IN (SELECT value FROM json_each(:scopes))")
        if chosen.spaces:
            conditions.append("r.space IN (SELECT value FROM json_each(:spaces))")
        return " AND ".join(conditions)

    def _of_messages(self) -> str:
        # No index of messages by change is needed: whoever changes one changes its session.
        session = "1" if self._selection.changed_after is None else "n.changed > :after"
        return f"{session} AND {self._of('m.scope_id', 'm.changed', 'm.created_at')}"

    def _of_summaries(self) -> str:
        return self._of("u.scope_id", "u.changed", "u.updated_at")

    def _of_sessions(self) -> str:
        own = self._of("n.scope_id", "n.changed", "n.created_at")
        chosen = self._selection
        if chosen.since is None and chosen.until is None and chosen.changed_after is None:
            return own
        return (
            f"({own} OR n.scope_id IN (SELECT u.scope_id FROM summaries u WHERE {self._of_summaries()}) OR "
            "n.scope_id IN (SELECT m.scope_id FROM messages m JOIN sessions n USING (scope_id) "
            f"WHERE {self._of_messages()}))"
        )

    def _of_values(self) -> str:
        chosen = self._selection
        kinds = "v.kind IN (SELECT value FROM json_each(:spaces))" if chosen.spaces else "1"
        typed = "0" if chosen.types else kinds
        return f"{typed} AND {self._of('v.scope_id', 'v.changed', 'v.created_at')}"

    # ------------------------------------------------------------------ rows

    def _rows(self, sql: str, **values: object) -> Iterator[Sequence[Any]]:
        # One by one: a row may hold megabytes.
        return self._connection.execute(sql, self._values | values)

    def _records(self) -> Iterator[MovedRow]:
        spaces = self._spaces_by_number()
        chosen = self._of_records()
        if self._selection.scopes is not None or self._selection.changed_after is not None:
            # Found by another order: only numbers are sorted, however much the records hold.
            chosen = f"r.seq IN (SELECT r.seq FROM records r WHERE {chosen})"
        rows = self._rows(
            f"SELECT r.seq, {_SPACE}, v.vector, {SELECT_RECORD} FROM records r "
            "CROSS JOIN partitions p ON p.id = r.partition_id "
            f"LEFT JOIN vectors v ON v.seq = r.seq AND v.vector_space_id = {_SPACE} "
            f"WHERE {chosen} ORDER BY r.seq"
        )
        for seq, space, blob, *rest in rows:
            record = read_record(rest)
            changed = record.version > 1 and record.space == MEMORIES
            yield MovedRecord(
                record=record,
                vector_space=spaces.get(space),
                vector=None if blob is None else read_vector(blob),
                history=tuple(map(read_change, self._history(seq))) if changed else (),
            )

    def _history(self, seq: int) -> Iterator[Sequence[Any]]:
        return self._rows(
            f"SELECT {SELECT_CHANGE} FROM history h WHERE h.seq = :seq ORDER BY h.version", seq=seq
        )

    def _spaces_by_number(self) -> dict[int | None, VectorSpace]:
        rows = self._rows("SELECT id, model, revision, dimension, in_use FROM vector_spaces")
        return {
            number: VectorSpace(model=m, revision=r, dimension=d, given=not own)
            for number, m, r, d, own in rows
        }

    def _conversations(self) -> Iterator[MovedRow]:
        rows = self._rows(
            f"SELECT n.scope_id, n.next_position, {SESSION_COLUMNS} FROM sessions n "
            f"JOIN scopes s ON s.id = n.scope_id WHERE {self._of_sessions()} ORDER BY s.parent_id, s.id"
        )
        for scope_id, next_position, *rest in rows:
            session = read_session(rest)
            yield MovedSession(session=session, next_position=next_position)
            for row in self._rows(
                f"SELECT {', '.join(f'm.{column}' for column in MESSAGE_COLUMNS)} FROM messages m "
                f"JOIN sessions n USING (scope_id) WHERE m.scope_id = :id AND {self._of_messages()} "
                "ORDER BY m.position",
                id=scope_id,
            ):
                yield MovedMessage(message=read_message(row, session.scope))
            yield from self._summaries(scope_id, session.scope)

    def _summaries(self, scope_id: int, session: Scope) -> Iterator[MovedRow]:
        for text, position, updated in self._rows(
            "SELECT u.text, u.position, u.updated_at FROM summaries u WHERE u.scope_id = :id "
            f"AND {self._of_summaries()}",
            id=scope_id,
        ):
            yield Summary(session=session, text=text, position=position, updated_at=from_ms(updated))

    def _stored_values(self) -> Iterator[MovedRow]:
        for number, path, kind, key, *newest in self._rows(
            "SELECT v.id, s.path, v.kind, v.key, v.value, v.label, v.version, v.created_at, v.updated_at "
            f"FROM stored_values v JOIN scopes s ON s.id = v.scope_id WHERE {self._of_values()} ORDER BY v.id"
        ):
            earlier = self._rows(
                "SELECT o.value, o.label, o.version, v.created_at, o.at FROM value_versions o "
                "JOIN stored_values v ON v.id = o.value_id WHERE o.value_id = :id ORDER BY o.version",
                id=number,
            )
            versions = tuple(_version(key, row) for row in (*earlier, newest))
            yield MovedValue(scope=read_scope(path), kind=kind, versions=versions)

    # ------------------------------------------------------------------ tombstones

    def _tombstones(self) -> Iterator[MovedRow]:
        chosen = "t.number > :after"
        if self._selection.scopes is not None:
            digests = "(SELECT value FROM json_each(:owners))"
            chosen += f" AND (lower(hex(t.owner)) IN {digests} OR lower(hex(t.scope)) IN {digests})"
        rows = self._rows(
            "SELECT t.scope, t.kind, t.name, t.space, s.id, s.path FROM tombstones t "
            f"LEFT JOIN scopes s ON s.digest = t.scope WHERE {chosen} ORDER BY t.scope, t.kind, t.name"
        )
        wanted = {buried_space(space) for space in self._selection.spaces}
        for (owner, scope_id, path), graves in groupby(rows, key=lambda row: (row[0], row[4], row[5])):
            made = {} if scope_id is None else self._made(scope_id, owner)
            scope = None if path is None else read_scope(path)
            for _, kind, name, space, _, _ in graves:
                if not wanted or space in wanted:
                    yield Tombstone(
                        kind=RowKind(kind),
                        owner=owner,
                        name=name,
                        scope=scope,
                        made_at=made.get((kind, name)),
                    )

    def _expired(self) -> Iterator[MovedRow]:
        """Records that changed since and have expired: a store that has them as they were must lose them."""
        for path, space, record_id in self._rows(
            "SELECT s.path, r.space, r.id FROM records r JOIN scopes s ON s.id = r.scope_id "
            f"WHERE {self._of_expired()} ORDER BY r.seq"
        ):
            yield tombstone_of(read_scope(path), space, record_id)

    def _made(self, scope_id: int, owner: bytes) -> dict[tuple[str, bytes], datetime]:
        """When the rows of a scope were made that changed after the watermark, perhaps deleted before that."""
        return {
            (kind.value, grave_name(owner, space, name)): from_ms(made)
            for kind, sql in _MADE.items()
            for space, name, made in self._rows(sql, id=scope_id)
        }


_MADE = {
    RowKind.RECORD: "SELECT space, id, created_at FROM records WHERE scope_id = :id AND changed > :after",
    RowKind.MESSAGE: f"SELECT '{MESSAGES}', id, created_at FROM messages WHERE scope_id = :id "
    "AND changed > :after",
    RowKind.VALUE: "SELECT kind, key, created_at FROM stored_values WHERE scope_id = :id AND changed > :after",
    RowKind.SESSION: f"SELECT '{MESSAGES}', '', created_at FROM sessions WHERE scope_id = :id",
    RowKind.SUMMARY: f"SELECT '{MESSAGES}', '', updated_at FROM summaries WHERE scope_id = :id",
}


def _version(key: str, row: Sequence[Any]) -> StoredValue:
    value, label, version, created, updated = row
    return StoredValue(
        key=key,
        value=json.loads(value),
        label=label,
        version=version,
        created_at=from_ms(created),
        updated_at=from_ms(updated),
    )
