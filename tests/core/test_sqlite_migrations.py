"""Files of earlier memkit versions open with all they hold."""

import contextlib
import json
import sqlite3

import pytest

from memkit_core import Memory, Scope
from memkit_core.models import MEMORIES, MESSAGES, Target, point_id
from memkit_core.ports import ListQuery, Selection
from memkit_core.stores.sqlite import SQLiteStore, schema
from memkit_core.testing.samples import ALICE, NOW, TALK, found_by_words, record
from memkit_core.times import to_ms
from memkit_core.transfer.writing import written

TEXTS = {"old": "I like tea.", "twin": "I like TEA", "other": "My bicycle is blue."}


@pytest.fixture(params=range(1, len(schema.MIGRATIONS)))
def path(tmp_path, request):
    """A file as the first steps of the schema made it, with three memories, a note and a turn in it."""
    path = tmp_path / "memory.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        for step in schema.MIGRATIONS[: request.param]:
            file.executescript(step)
        file.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {request.param}")
        file.execute("INSERT INTO meta VALUES ('store_id', 'theirs')")
        for number, scope in enumerate((ALICE, TALK), 1):
            text = json.dumps(scope.path, separators=(",", ":"))
            parent = 1 if scope.parent else None
            file.execute("INSERT INTO scopes VALUES (?, ?, ?, ?)", (number, scope.digest, text, parent))
        for space in (MEMORIES, "store:n", MESSAGES):
            file.execute("INSERT INTO partitions(scope_id, space) VALUES (1, ?)", (space,))
        for name, text in TEXTS.items():
            insert(file, 1, ALICE, MEMORIES, 1, name, text)
        insert(file, 1, ALICE, "store:n", 2, "note", "I like tea.")
        insert(file, 2, TALK, MESSAGES, 3, "turn", "I like tea.", position=0, role="user")
    return path


def insert(file, scope_id, scope, space, partition_id, name, text, **more):
    """A row as version 1 wrote it."""
    values = {
        "scope_id": scope_id, "space": space, "id": name, "partition_id": partition_id,
        "point_id": point_id(scope, space, name).bytes, "content": text, "type": "fact", "importance": 0.5,
        "pinned": 0, "status": "active", "tags": "[]", "metadata": '{"n":1}', "created_at": to_ms(NOW),
        "updated_at": to_ms(NOW), "access_count": 2, "version": 3, "compacted_from_ids": "[]",
        "source_message_ids": "[]", "origin": "user", **more,
    }  # fmt: skip
    marks = ", ".join("?" * len(values))
    file.execute(f"INSERT INTO records({', '.join(values)}) VALUES ({marks})", list(values.values()))


def test_what_is_in_an_older_file_is_still_there(path):
    """Every record comes back as it was, is found by its words, and was said once."""
    store = SQLiteStore(path)
    try:
        assert store.store_id == "theirs"
        expected = [
            record(ALICE, name, text, metadata={"n": 1}, access_count=2, version=3)
            for name, text in TEXTS.items()
        ]
        assert list(store.records.list(ALICE, ListQuery(), now=NOW))[::-1] == expected
        assert {one.mentions for one in expected} == {1}
        assert found_by_words(store, Target(scope=ALICE), "tea") == {"old", "twin"}
        assert found_by_words(store, Target(scope=TALK, space=MESSAGES), "tea") == {"turn"}
        (made,) = store.records.history(ALICE, "old", now=NOW)
        assert (made.version, made.at) == (3, NOW)
    finally:
        store.close()


def test_older_records_are_known_when_they_are_said_again(path):
    """A fact of an older file that is said again becomes one with its oldest record; notes do not."""
    store = SQLiteStore(path)
    try:
        for name, text in {"a": "i like tea", "b": "“My bicycle is blue”"}.items():
            store.records.put(ALICE, [record(ALICE, name, text)], merge={name})
        store.records.put(ALICE, [record(ALICE, "c", space="store:n")], merge={"c"})
        found = store.records.list(ALICE, ListQuery(), now=NOW)
        assert {one.id: (one.mentions, one.version) for one in found} == {
            "old": (2, 4),
            "twin": (1, 3),
            "other": (2, 4),
        }
    finally:
        store.close()


def test_it_is_brought_up_to_date_once(path):
    """The file has the newest version afterwards, and opening it again changes nothing."""
    SQLiteStore(path).close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
        digests = file.execute("SELECT id, digest IS NOT NULL FROM records ORDER BY seq").fetchall()
        dump = list(file.iterdump())
    assert dict(digests) == {"old": 1, "twin": 1, "other": 1, "note": 0, "turn": 0}
    SQLiteStore(path).close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert list(file.iterdump()) == dump


def test_a_memory_opens_it(path):
    """`Memory.open` takes the older file, and its records can be updated, recalled and deleted."""
    with Memory.open(path) as memory:
        new = memory.update("old", scope=Scope.user("alice"), content="I like green tea.", expected_version=3)
        assert new.version == 4
        assert memory.recall("green", scope=Scope.user("alice"))[0].record.id == "old"
        assert memory.delete(scope=Scope.user("alice")).history == 1


def test_what_changes_in_an_older_file_is_known(path):
    """All of an older file is older than its first change, and an increment after that holds the rest."""
    store = SQLiteStore(path)
    try:

        def rows(after):
            with store.snapshot(Selection(now=NOW, changed_after=after)) as snapshot:
                return [written(row).get("id", "deleted") for row in snapshot.rows()], snapshot.change

        assert rows(None)[0][-5:] == ["old", "twin", "other", "note", "turn"]
        assert rows(0) == ([], 0)
        store.records.put(ALICE, [record(ALICE, "twin", "changed")])
        store.records.delete(ALICE, MEMORIES, ["old"])
        assert rows(0)[0] == ["deleted", "twin"]
    finally:
        store.close()
