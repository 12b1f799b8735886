"""`RecordTable` over SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from memkit_core.filters import Filter
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    DeleteReceipt,
    MemoryRecord,
    RecordChange,
    RecordPage,
    RecordPatch,
    Status,
    Target,
)
from memkit_core.ports import (
    Access,
    Candidate,
    ListQuery,
    Matrix,
    MemoryView,
    RecordCount,
    Standing,
    Step,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.sequences import chunked
from memkit_core.stores.changes import patched, whole_history
from memkit_core.stores.checks import check_scopes, checked_given
from memkit_core.stores.cursors import check_order, read_cursor, write_cursor
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.deciding import SQLiteView, apply_steps
from memkit_core.stores.sqlite.filters import Parameters, compile_filter
from memkit_core.stores.sqlite.recalls import forget_all, forget_scope
from memkit_core.stores.sqlite.removing import delete_records, delete_sessions
from memkit_core.stores.sqlite.rows import (
    CHOSEN_RECORDS,
    SELECT_CHANGE,
    SELECT_RECORD,
    VISIBLE,
    chosen,
    chosen_bytes,
    marks,
    read_change,
    read_record,
    select_candidate,
)
from memkit_core.stores.sqlite.scopes import (
    drop_unused,
    ensure_vector_space,
    find_place,
    find_scope,
    with_sessions,
)
from memkit_core.stores.sqlite.standing import archive_rows, delete_rows, select_standing
from memkit_core.stores.sqlite.vectors import space_in_use, write_given
from memkit_core.stores.sqlite.writing import change_record, write_records
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import to_ms

_CHOSEN = f"""
SELECT {{columns}} FROM {CHOSEN_RECORDS}
WHERE {{place}} AND {VISIBLE} AND {{where}}
"""

# Each part by an index of its own: of the two joined by OR, SQLite would look at every row of the space.
_STOOD_FOR = """
r.seq IN (
  SELECT seq FROM records WHERE scope_id = ? AND space = ? AND source IS NOT NULL
    AND source IN (SELECT value FROM json_each(?))
  UNION
  SELECT seq FROM records WHERE scope_id = ? AND space = ? AND id IN (SELECT value FROM json_each(?))
) AND r.id NOT IN (SELECT value FROM json_each(?))
"""

_WITH_NEIGHBOURS = f"""
WITH chosen AS (
  SELECT r.seq, r.scope_id, r.position FROM {CHOSEN_RECORDS}
  WHERE {{place}} AND {VISIBLE} AND {{where}}
), wanted(seq) AS (
  SELECT seq FROM chosen
  UNION
  SELECT n.seq FROM chosen CROSS JOIN records n ON n.scope_id = chosen.scope_id
    AND n.position BETWEEN chosen.position - :radius AND chosen.position + :radius
)
SELECT {{columns}} FROM wanted CROSS JOIN records r ON r.seq = wanted.seq
WHERE {{place}} AND {VISIBLE} AND {{where}}
"""


# A statement binds at most 32,766 values; smaller chunks also keep the statement cache useful.
_CHUNK = 500


class SQLiteRecords:
    """The records of every space in one file."""

    def __init__(self, database: Database) -> None:
        """Read and write in `database`."""
        self._database = database

    def put(
        self,
        scope: Scope,
        records: Sequence[MemoryRecord],
        *,
        vector_space: VectorSpace | None = None,
        vectors: Matrix | None = None,
        merge: Collection[str] = (),
    ) -> list[MemoryRecord]:
        """See `RecordTable.put`."""
        check_scopes(scope, records)
        newest = {(record.space, record.id): record for record in records}
        prepared = [(record, None, keyword_terms(record.index_text)) for record in newest.values()]
        given = vector_space if vector_space is not None and vector_space.given else None
        with self._database.write("put") as connection:
            if vectors is not None:
                own = space_in_use(connection)
                if vector_space not in (None, given, own):
                    vectors = None
                else:
                    checked_given(records, given or own, vectors, backend="sqlite")
            space_id = ensure_vector_space(connection, given)
            written = write_records(connection, prepared, vector_space_id=space_id, merge=merge)
            if vectors is not None:
                write_given(connection, space_id, records, vectors)
        stored = dict(zip(newest, written, strict=True))
        return [stored[record.space, record.id] for record in records]

    def replace(
        self,
        scope: Scope,
        space: str,
        sources: Sequence[str],
        records: Sequence[MemoryRecord] = (),
        *,
        ids: Sequence[str] = (),
        vector_space: VectorSpace | None = None,
    ) -> tuple[list[MemoryRecord], DeleteReceipt]:
        """See `RecordTable.replace`."""
        check_scopes(scope, records)
        newest = {record.id: record for record in records}
        prepared = [(record, None, keyword_terms(record.index_text)) for record in newest.values()]
        given = vector_space if vector_space is not None and vector_space.given else None
        with self._database.write("replace") as connection:
            space_id = ensure_vector_space(connection, given)
            written = write_records(connection, prepared, vector_space_id=space_id)
            scope_id = find_scope(connection, scope)
            receipt = delete_records(
                connection,
                _STOOD_FOR,
                (
                    *(scope_id, space, json.dumps([*sources])),
                    *(scope_id, space, json.dumps([*ids])),
                    json.dumps([*newest]),
                ),
            )
            if scope_id is not None:
                drop_unused(connection, [scope_id])
        stored = dict(zip(newest, written, strict=True))
        return [stored[record.id] for record in records], receipt

    def change(
        self,
        scope: Scope,
        space: str,
        record_id: str,
        patch: RecordPatch,
        *,
        expected_version: int | None = None,
        now: datetime,
    ) -> MemoryRecord:
        """See `RecordTable.change`."""
        change = partial(
            patched, patch=patch, record_id=record_id, expected_version=expected_version, now=now
        )
        with self._database.write("update") as connection:
            return change_record(connection, scope, (space, record_id), change)

    def decide(self, rule: Callable[[MemoryView], Sequence[Step]]) -> list[MemoryRecord]:
        """See `RecordTable.decide`."""
        with self._database.write("decide") as connection:
            return apply_steps(connection, rule(SQLiteView(connection)))

    def sweep(self, *, now: datetime, limit: int) -> DeleteReceipt:
        """See `RecordTable.sweep`."""
        with self._database.write("sweep") as connection:
            rows = connection.execute(
                "SELECT seq, scope_id FROM records WHERE expires_at <= ? AND NOT pinned "
                "ORDER BY expires_at, seq LIMIT ?",
                (to_ms(now), limit),
            ).fetchall()
            receipt = delete_records(
                connection,
                "r.seq IN (SELECT value FROM json_each(?))",
                (json.dumps([seq for seq, _ in rows]),),
            )
            drop_unused(connection, dict.fromkeys(scope_id for _, scope_id in rows))
        return receipt

    def counts(self) -> Sequence[RecordCount]:
        """See `RecordTable.counts`."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT space, status, type, count(*) FROM records GROUP BY space, status, type"
            ).fetchall()
        return [RecordCount(*row) for row in rows]

    def standing(self, status: Status, *, after: int, limit: int, now: datetime) -> list[Standing]:
        """See `RecordTable.standing`."""
        with self._database.snapshot() as connection:
            return select_standing(connection, status, after=after, limit=limit, now=now)

    def archive_standing(self, seen: Sequence[Standing], *, now: datetime) -> list[Standing]:
        """See `RecordTable.archive_standing`."""
        with self._database.write("archive") as connection:
            return archive_rows(connection, seen, now=now)

    def delete_standing(self, seen: Sequence[Standing]) -> tuple[list[Standing], DeleteReceipt]:
        """See `RecordTable.delete_standing`."""
        with self._database.write("delete archived") as connection:
            return delete_rows(connection, seen)

    def history(self, scope: Scope, record_id: str, *, now: datetime) -> list[RecordChange]:
        """See `RecordTable.history`."""
        with self._database.snapshot() as connection:
            row = connection.execute(
                f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.scope_id = ? AND r.space = ? AND r.id = ?",
                (find_scope(connection, scope), MEMORIES, record_id),
            ).fetchone()
            if row is None or not (record := read_record(row[1:])).is_visible_at(now):
                return []
            rows = connection.execute(
                f"SELECT {SELECT_CHANGE} FROM history h WHERE h.seq = ? ORDER BY h.version", (row[0],)
            )
            return whole_history(record, [read_change(change) for change in rows])

    def touch(self, accesses: Mapping[UUID, Access]) -> None:
        """See `RecordTable.touch`."""
        with self._database.write("count accesses") as connection:
            connection.executemany(
                "UPDATE records SET access_count = access_count + :count, "
                "last_accessed_at = max(COALESCE(last_accessed_at, :last), :last) WHERE point_id = :point",
                [
                    {"point": point.bytes, "count": access.count, "last": to_ms(access.last)}
                    for point, access in accesses.items()
                ],
            )

    def get(self, scope: Scope, space: str, ids: Sequence[str], *, now: datetime) -> list[MemoryRecord]:
        """See `RecordTable.get`."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, MemoryRecord] = {}
        with self._database.snapshot() as connection:
            scope_id = find_scope(connection, scope)
            for chunk in chunked(wanted, _CHUNK) if scope_id is not None else ():
                rows = connection.execute(
                    f"SELECT {SELECT_RECORD} FROM records r WHERE r.scope_id = ? AND r.space = ? "
                    f"AND r.id IN ({marks(len(chunk))})",
                    (scope_id, space, *chunk),
                )
                found.update((record.id, record) for record in map(read_record, rows))
        return [found[i] for i in wanted if i in found and found[i].is_visible_at(now)]

    def ids(
        self,
        scope: Scope,
        space: str,
        *,
        where: Filter | None,
        now: datetime,
        limit: int | None = None,
        offset: int = 0,
    ) -> Sequence[str]:
        """See `RecordTable.ids`."""
        parameters = Parameters()
        filtered = compile_filter(where, parameters)
        with self._database.snapshot() as connection:
            place = find_place(connection, Target(scope=scope, space=space))
            if place is None:
                return []
            rows = connection.execute(
                f"SELECT r.id FROM records r WHERE {place.sql} AND r.status = 'active' AND {VISIBLE} "
                f"AND {filtered} ORDER BY r.updated_at DESC, r.seq DESC LIMIT :limit OFFSET :offset",
                {
                    **place.parameters,
                    **parameters.values,
                    "now": to_ms(now),
                    "limit": -1 if limit is None else limit,
                    "offset": offset,
                },
            ).fetchall()
        return [record_id for (record_id,) in rows]

    def delete(self, scope: Scope, space: str, ids: Sequence[str]) -> DeleteReceipt:
        """See `RecordTable.delete`."""
        with self._database.write("delete") as connection:
            scope_id = find_scope(connection, scope)
            if scope_id is None:
                return DeleteReceipt()
            receipts = [
                delete_records(
                    connection,
                    f"r.scope_id = ? AND r.space = ? AND r.id IN ({marks(len(chunk))})",
                    (scope_id, space, *chunk),
                )
                for chunk in chunked(list(dict.fromkeys(ids)), _CHUNK)
            ]
            drop_unused(connection, [scope_id])
        return sum(receipts, start=DeleteReceipt())

    def delete_space(self, scope: Scope, space: str) -> DeleteReceipt:
        """See `RecordTable.delete_space`."""
        with self._database.write("delete space") as connection:
            scope_id = find_scope(connection, scope)
            if scope_id is None:
                return DeleteReceipt()
            receipt = delete_records(connection, "r.scope_id = ? AND r.space = ?", (scope_id, space))
            drop_unused(connection, [scope_id])
        return receipt

    def delete_scope(self, scope: Scope) -> DeleteReceipt:
        """See `RecordTable.delete_scope`."""
        with self._database.write("delete scope") as connection:
            forget_scope(connection, scope)
            scope_id = find_scope(connection, scope)
            if scope_id is None:
                return DeleteReceipt()
            return _delete_scopes(connection, with_sessions(connection, scope, scope_id))

    def delete_everything(self) -> DeleteReceipt:
        """See `RecordTable.delete_everything`."""
        with self._database.write("delete everything") as connection:
            forget_all(connection)
            ids = [row[0] for row in connection.execute("SELECT id FROM scopes")]
            return _delete_scopes(connection, ids)

    def candidates(
        self, target: Target, points: Sequence[UUID], *, radius: int, where: Filter | None, now: datetime
    ) -> list[Candidate]:
        """See `RecordTable.candidates`."""
        parameters = Parameters()
        filtered = compile_filter(where, parameters)
        sql = _WITH_NEIGHBOURS if radius and target.space == MESSAGES else _CHOSEN
        with self._database.snapshot() as connection:
            place = find_place(connection, target)
            if place is None:
                return []
            values = chosen(points) | place.parameters | parameters.values
            rows = connection.execute(
                sql.format(columns=select_candidate(target.space), place=place.sql, where=filtered),
                values | {"now": to_ms(now), "radius": radius},
            ).fetchall()
        return [Candidate(*row) for row in rows]

    def fetch(self, target: Target, points: Sequence[UUID]) -> dict[UUID, MemoryRecord]:
        """See `RecordTable.fetch`."""
        known = {point.bytes: point for point in points}
        with self._database.snapshot() as connection:
            place = find_place(connection, target)
            if place is None:
                return {}
            rows = connection.execute(
                f"SELECT r.point_id, {SELECT_RECORD} FROM {CHOSEN_RECORDS} WHERE {place.sql}",
                chosen_bytes(known) | place.parameters,
            ).fetchall()
        return {known[row[0]]: read_record(row[1:]) for row in rows}

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, query: ListQuery, *, now: datetime) -> RecordPage:
        """See `RecordTable.list`."""
        column = check_order(query.order)
        value = f"COALESCE(r.{column}, 0)" if column == "last_accessed_at" else f"r.{column}"
        parameters = Parameters()
        conditions = [*_listing(query, parameters), VISIBLE, compile_filter(query.where, parameters)]
        if query.cursor is not None:
            last, seq = read_cursor(query.cursor, column)
            conditions.append(f"({value}, r.seq) < ({parameters.add(last)}, {parameters.add(seq)})")
        with self._database.snapshot() as connection:
            place = find_place(connection, Target(scope=scope, space=query.space))
            if place is None:
                return RecordPage(records=())
            rows = connection.execute(
                f"SELECT {value}, r.seq, {SELECT_RECORD} FROM records r "
                f"WHERE {' AND '.join([place.sql, *conditions])} "
                f"ORDER BY {value} DESC, r.seq DESC LIMIT {parameters.add(query.limit + 1)}",
                {**place.parameters, **parameters.values, "now": to_ms(now)},
            ).fetchall()
        more = len(rows) > query.limit
        rows = rows[: query.limit]
        cursor = write_cursor(column, rows[-1][0], rows[-1][1]) if more else None
        return RecordPage(records=tuple(read_record(row[2:]) for row in rows), cursor=cursor)


def _listing(query: ListQuery, parameters: Parameters) -> list[str]:
    conditions = [_among("r.status", [status.value for status in query.statuses], parameters)]
    if query.types:
        conditions.append(_among("r.type", [kind.value for kind in query.types], parameters))
    conditions.extend(
        "EXISTS (SELECT 1 FROM record_tags t WHERE t.scope_id = r.scope_id "
        f"AND t.tag = {parameters.add(tag)} AND t.seq = r.seq)"
        for tag in query.tags
    )
    if query.since is not None:
        conditions.append(f"r.created_at >= {parameters.add(to_ms(query.since))}")
    if query.until is not None:
        conditions.append(f"r.created_at < {parameters.add(to_ms(query.until))}")
    return conditions


def _among(column: str, values: Sequence[str], parameters: Parameters) -> str:
    return f"{column} IN ({', '.join(parameters.add(value) for value in values)})"


def _delete_scopes(connection: sqlite3.Connection, scope_ids: list[int]) -> DeleteReceipt:
    receipts = [
        delete_records(connection, "r.scope_id = ? AND r.space <> 'messages'", (i,)) for i in scope_ids
    ]
    return sum(receipts, start=delete_sessions(connection, scope_ids))
