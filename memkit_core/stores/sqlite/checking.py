"""Whether what is derived inside the file agrees with the records, and making it agree.

The rows of `records`, `messages` and `vectors` are the truth. Tags, keyword rows, statistics,
counters and the outbox follow from them and can be made anew; what cannot be mended is only told.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from memkit_core.errors import SchemaError
from memkit_core.models import Target
from memkit_core.ports import Problem
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.keywords import Postings, term_number
from memkit_core.stores.sqlite.removing import delete_records
from memkit_core.stores.sqlite.rows import SELECT_RECORD, read_record
from memkit_core.stores.sqlite.scopes import read_scope
from memkit_core.stores.sqlite.tracking import mark_all
from memkit_core.stores.sqlite.writing import enqueue_rows
from memkit_core.text.tokenizer import keyword_terms

_PAGE = 500
_SAID = 5

_TAGS = """
SELECT r.seq FROM records r WHERE
  EXISTS (SELECT 1 FROM json_each(r.tags) t WHERE NOT EXISTS (
    SELECT 1 FROM record_tags k WHERE k.scope_id = r.scope_id AND k.tag = t.value AND k.seq = r.seq))
  OR EXISTS (SELECT 1 FROM record_tags k WHERE k.seq = r.seq AND (k.scope_id <> r.scope_id
    OR k.tag NOT IN (SELECT value FROM json_each(r.tags))))
UNION SELECT k.seq FROM record_tags k WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.seq = k.seq)
"""
_VECTORS = """
SELECT v.seq FROM vectors v LEFT JOIN records r ON r.seq = v.seq
LEFT JOIN partitions p ON p.id = r.partition_id JOIN vector_spaces s ON s.id = v.vector_space_id
WHERE r.seq IS NULL OR length(v.vector) NOT IN (0, 4 * s.dimension)
  -- Of spaces that come or go, rows have vectors beside those in use.
  OR (CASE WHEN s.in_use < 2 THEN v.vector_space_id
        <> COALESCE(p.vector_space_id, (SELECT id FROM vector_spaces WHERE in_use = 1))
      ELSE p.vector_space_id IS NOT NULL END)
"""
_FORGOTTEN = """
SELECT r.seq FROM records r JOIN partitions p ON p.id = r.partition_id
WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.seq = r.seq)
  AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.seq = r.seq AND v.vector_space_id =
    COALESCE(p.vector_space_id, (SELECT id FROM vector_spaces WHERE in_use = 1)))
"""
_OUTBOX = "SELECT o.number FROM outbox o WHERE o.seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM records r WHERE r.seq = o.seq)"
_COUNTERS = """
SELECT s.scope_id FROM sessions s WHERE s.messages <> (SELECT count(*) FROM messages m WHERE m.scope_id = s.scope_id)
  OR s.next_position <= COALESCE((SELECT max(position) FROM messages m WHERE m.scope_id = s.scope_id), -1)
"""
_TURNS = """
SELECT r.seq FROM records r WHERE r.space = 'messages' AND NOT EXISTS (
  SELECT 1 FROM messages m WHERE m.scope_id = r.scope_id AND m.id = r.id)
"""


def verify_file(database: Database) -> list[Problem]:
    """Everything in the file that is out of step; nothing is changed."""
    return _damage(database) or [
        problem for check, _ in _CHECKS for problem in _found(database.snapshot, check)
    ]


def repair_file(database: Database) -> list[Problem]:
    """Make everything in the file agree with the records again; returns what was wrong, and what is mended.

    Each kind is mended in one transaction, after it was looked for in that same transaction.
    """
    return _damage(database) or [
        problem for check, mend in _CHECKS for problem in _mended(database, check, mend)
    ]


def _damage(database: Database) -> list[Problem]:
    """What SQLite says of its own pages: nothing of such a file can be trusted."""
    try:
        with database.connection() as connection:
            damage = [row[0] for row in connection.execute("PRAGMA integrity_check(100)") if row[0] != "ok"]
    except SchemaError as error:
        # Some pages are so damaged that looking at them ends the check.
        damage = [str(error)]
    detail = f"SQLite says: {'; '.join(damage[:_SAID])}; go back to a backup"
    return [Problem(kind="file", count=len(damage), detail=detail)] if damage else []


def _mended(database: Database, check: _Check, mend: _Mend | None) -> list[Problem]:
    problems = _found(database.snapshot, check)
    if not problems or mend is None:
        return problems
    with database.write("repair") as connection:
        for rows, _ in check(connection):
            mend(connection, rows)
        mark_all(connection)
    return [dataclasses.replace(problem, mended=True) for problem in problems]


_Check = Callable[[sqlite3.Connection], "Iterator[tuple[list[int], Problem]]"]
_Mend = Callable[[sqlite3.Connection, "list[int]"], None]


def _found(open_: Callable[[], AbstractContextManager[sqlite3.Connection]], check: _Check) -> list[Problem]:
    with open_() as connection:
        return [problem for _, problem in check(connection)]


def _listed(sql: str, kind: str, detail: str) -> _Check:
    def check(connection: sqlite3.Connection) -> Iterator[tuple[list[int], Problem]]:
        rows = [row[0] for row in connection.execute(sql)]
        if rows:
            yield rows, Problem(kind=kind, count=len(rows), detail=detail)

    return check


def _keywords(connection: sqlite3.Connection) -> Iterator[tuple[list[int], Problem]]:
    """The partitions whose keyword rows or statistics are not those of their texts."""
    wrong = [
        partition_id
        for (partition_id,) in connection.execute("SELECT id FROM partitions").fetchall()
        if _held(connection, partition_id) != _expected(connection, partition_id)
    ]
    if wrong:
        yield (
            wrong,
            Problem(
                kind="keywords", count=len(wrong), detail="keyword rows that are not those of their texts"
            ),
        )


_Sum = tuple[int, int, int, int]


def _held(connection: sqlite3.Connection, partition_id: int) -> _Sum:
    documents, terms = connection.execute(
        "SELECT documents, terms FROM partitions WHERE id = ?", (partition_id,)
    ).fetchone()
    rows = connection.execute(
        "SELECT term, seq, count, length FROM postings WHERE partition_id = ?", (partition_id,)
    )
    return _summed(rows, documents, terms)


def _expected(connection: sqlite3.Connection, partition_id: int) -> _Sum:
    documents = terms = 0

    def rows() -> Iterator[tuple[int, int, int, int]]:
        nonlocal documents, terms
        for seq, text_terms in _texts(connection, partition_id):
            documents, terms = documents + 1, terms + len(text_terms)
            for number, count in Counter(map(term_number, text_terms)).items():
                yield number, seq, count, len(text_terms)

    # Counted while the rows are summed.
    count, digest, _, _ = _summed(rows(), 0, 0)
    return count, digest, documents, terms


def _summed(rows: Iterator[tuple[int, int, int, int]] | sqlite3.Cursor, documents: int, terms: int) -> _Sum:
    """A digest that no order of the rows changes, in memory that no number of rows changes."""
    count = digest = 0
    for row in rows:
        count, digest = count + 1, digest + hash(tuple(row))
    return count, digest, documents, terms


def _texts(connection: sqlite3.Connection, partition_id: int) -> Iterator[tuple[int, list[str]]]:
    after = 0
    while page := connection.execute(
        f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.partition_id = ? AND r.seq > ? ORDER BY r.seq LIMIT ?",
        (partition_id, after, _PAGE),
    ).fetchall():
        after = page[-1][0]
        for seq, *rest in page:
            yield seq, keyword_terms(read_record(rest).index_text)


def _write_keywords(connection: sqlite3.Connection, partitions: list[int]) -> None:
    for partition_id in partitions:
        connection.execute("DELETE FROM postings WHERE partition_id = ?", (partition_id,))
        connection.execute("UPDATE partitions SET documents = 0, terms = 0 WHERE id = ?", (partition_id,))
        postings = Postings()
        for seq, terms in _texts(connection, partition_id):
            postings.add(partition_id, seq, terms)
            connection.execute("UPDATE records SET terms = ? WHERE seq = ?", (len(terms), seq))
        postings.write(connection)


def _identities(connection: sqlite3.Connection) -> Iterator[tuple[list[int], Problem]]:
    """Scopes whose digest is not that of their readable form, and rows that are not where they belong."""
    scopes = connection.execute("SELECT id, digest, path FROM scopes").fetchall()
    wrong = [i for i, digest, path in scopes if read_scope(path).digest != digest]
    if wrong:
        yield (
            [],
            Problem(
                kind="scopes",
                count=len(wrong),
                detail="digests that are not those of their scopes; export, then import into a new file",
            ),
        )
    after, points = 0, 0
    while page := connection.execute(
        f"SELECT r.seq, r.point_id, p.space, o.path, {SELECT_RECORD} FROM records r JOIN partitions p "
        "ON p.id = r.partition_id JOIN scopes o ON o.id = p.scope_id WHERE r.seq > ? ORDER BY r.seq LIMIT ?",
        (after, _PAGE),
    ).fetchall():
        after = page[-1][0]
        for _, point, space, owner, *rest in page:
            record = read_record(rest)
            target = Target(scope=record.scope, space=record.space)
            points += (
                record.point_id.bytes != point or target.space != space or target.owner != read_scope(owner)
            )
    if points:
        yield (
            [],
            Problem(
                kind="records",
                count=points,
                detail="records that are not in the partition of their scope; export, then import into a new file",
            ),
        )


def _write_tags(connection: sqlite3.Connection, rows: list[int]) -> None:
    for seq in rows:
        connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
        connection.execute(
            "INSERT OR IGNORE INTO record_tags(scope_id, tag, seq) "
            "SELECT r.scope_id, t.value, r.seq FROM records r, json_each(r.tags) t WHERE r.seq = ?",
            (seq,),
        )


def _drop_vectors(connection: sqlite3.Connection, rows: list[int]) -> None:
    connection.executemany("DELETE FROM vectors WHERE seq = ?", [(seq,) for seq in rows])
    enqueue_rows(connection, rows)


def _drop_changes(connection: sqlite3.Connection, numbers: list[int]) -> None:
    # As a delete, so that an index that still holds the point drops it.
    connection.executemany("UPDATE outbox SET seq = NULL WHERE number = ?", [(number,) for number in numbers])


def _count_messages(connection: sqlite3.Connection, scope_ids: list[int]) -> None:
    connection.executemany(
        "UPDATE sessions SET messages = (SELECT count(*) FROM messages m WHERE m.scope_id = sessions.scope_id), "
        "next_position = max(next_position, COALESCE((SELECT max(position) + 1 FROM messages m "
        "WHERE m.scope_id = sessions.scope_id), 0)) WHERE scope_id = ?",
        [(scope_id,) for scope_id in scope_ids],
    )


def _drop_turns(connection: sqlite3.Connection, rows: list[int]) -> None:
    for seq in rows:
        delete_records(connection, "r.seq = ?", (seq,))


# In this order: what a step mends may be what a later one looks at. None for what is only told.
_CHECKS: tuple[tuple[_Check, _Mend | None], ...] = (
    (_identities, None),
    (_listed(_TURNS, "turns", "turns whose message is gone"), _drop_turns),
    (_listed(_TAGS, "tags", "records whose tags are indexed wrongly"), _write_tags),
    (_keywords, _write_keywords),
    (
        _listed(_VECTORS, "vectors", "vectors of no record, of another length or of another model"),
        _drop_vectors,
    ),
    (_listed(_OUTBOX, "outbox", "changes of records that are gone"), _drop_changes),
    (_listed(_FORGOTTEN, "unembedded", "records that have no vector and do not wait for one"), enqueue_rows),
    (_listed(_COUNTERS, "sessions", "sessions whose counters are wrong"), _count_messages),
)
