"""`SQLiteStore` and its file: what it refuses, what it leaves behind, and what it never touches."""

import os
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from memkit_core import Memory, Scope
from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ConfigError,
    SchemaError,
)
from memkit_core.locks import ProcessLock
from memkit_core.models import MEMORIES, Target
from memkit_core.ports import ListQuery
from memkit_core.stores.sqlite import SQLiteStore, look, places, schema, translating
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    TALK,
    append,
    embed_all,
    found_by_words,
    message,
    record,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def store(path):
    store = SQLiteStore(path, busy_timeout=0.3)
    yield store
    store.close()


def execute(path, *statements):
    """Run statements on a closed file, as another program would; returns the rows of the last one."""
    with sqlite3.connect(path) as connection:
        rows = [connection.execute(statement).fetchall() for statement in statements][-1]
    connection.close()
    return rows


def ids(store, scope=ALICE):
    return [one.id for one in store.records.list(scope, ListQuery(limit=9999), now=NOW)]


def moved_at_once(file, path):
    """Move a file to `path` in the very step of the clock in which the log there was written last."""
    shutil.move(file, path)
    then = path.stat().st_ctime_ns
    os.utime(path.with_name(f"{path.name}-wal"), ns=(then, then))


class TestOpening:
    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TABLE notes(x)", "INSERT INTO notes VALUES (1)"],
            ["PRAGMA journal_mode = WAL", "CREATE TABLE records(x)"],
            ["PRAGMA application_id = 7", "PRAGMA user_version = 1", "CREATE TABLE scopes(x)"],
        ],
    )
    def test_a_foreign_sqlite_file_is_left_as_it_is(self, path, statements):
        """Another program's SQLite file is refused, stays identical byte by byte, and gets no companions."""
        execute(path, *statements)
        before = path.read_bytes()
        with pytest.raises(SchemaError, match="not a memkit store"):
            SQLiteStore(path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.parametrize("content", [b"just a text\n" * 100, b"SQLite format 3\0" + b"\xff" * 500])
    def test_what_is_no_database_is_left_as_it_is(self, path, content):
        """A file that is no SQLite database is refused and stays as it is."""
        path.write_bytes(content)
        with pytest.raises(SchemaError):
            SQLiteStore(path)
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.parametrize("state", ["open", "closed", "killed"])
    def test_looking_at_a_file_changes_nothing(self, path, state, start_script):
        """`look` tells a memkit file with its model, also one in use or left by a killed process, and leaves no trace."""
        writer = start_script("""
            import sys
            from memkit_core import Memory, Scope
            memory = Memory.open("memory.db")
            memory.add("I like tea.", scope=Scope.user("alice"))
            print("ready", flush=True)
            sys.stdin.readline()
            memory.close()
        """)
        assert writer.stdout.readline() == "ready\n"
        if state == "closed":
            writer.stdin.write("\n")
            writer.stdin.flush()
            assert writer.wait(60) == 0
            path.with_name("memory.db.lock").unlink()
        elif state == "killed":
            writer.kill()
            writer.wait(60)
        before = {
            one.name: one.read_bytes()
            for one in path.parent.iterdir()
            if one.suffix != ".db-shm" and one.is_file()
        }
        found = look(path)
        assert found is not None
        assert found.space is not None
        assert found.space.model == "wordllama/l2_supercat_256"
        assert {name: (path.parent / name).read_bytes() for name in before} == before
        writer.kill()
        writer.wait(60)

    def test_looking_at_nothing(self, path):
        """A path without a file, an empty file and an SQLite file without a table hold nothing."""
        assert look(path) is None
        path.touch()
        assert look(path) is None
        execute(path, "PRAGMA journal_mode = WAL")
        assert look(path) is None
        assert list(path.parent.iterdir()) == [path]

    def test_an_empty_file_becomes_a_store(self, path):
        """An empty file, as a temporary-file function leaves it, is a new store."""
        path.touch()
        store = SQLiteStore(path)
        store.records.put(ALICE, [record(ALICE, "a")])
        store.close()
        assert ids(SQLiteStore(path)) == ["a"]

    def test_a_newer_schema_is_refused(self, path):
        """A file of a newer memkit is refused with both versions and the command, and stays as it is."""
        SQLiteStore(path).close()
        execute(path, "PRAGMA user_version = 999")
        before = path.read_bytes()
        with pytest.raises(SchemaError, match=r"999.*pip install --upgrade memkit-llm"):
            SQLiteStore(path)
        assert path.read_bytes() == before

    def test_a_place_that_cannot_hold_it(self, tmp_path):
        """A missing folder, and a folder in the file's place, are errors that say so; nothing is made."""
        with pytest.raises(ConfigError, match="does not exist"):
            SQLiteStore(tmp_path / "missing" / "memory.db")
        with pytest.raises(ConfigError, match="is a folder"):
            SQLiteStore(tmp_path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("put_back", [shutil.copyfile, shutil.move, moved_at_once])
    def test_a_backup_beside_the_log_of_another_file(self, path, put_back, start_script):
        """A backup in the place of a file that was not closed is left as it is until the old log is gone, then whole."""
        writer = start_script("""
            import sys
            from memkit_core import Config, Memory, Scope
            alice = Scope.user("alice")
            # Without a model nothing is written in the background.
            memory = Memory.open("memory.db", config=Config(wal_checkpoint_bytes=100_000), embedder="none")
            memory.add_many([f"The pet owl number {n}." for n in range(200)], scope=alice)
            memory.transfer.backup("backup.db")
            for batch in range(8):
                memory.add_many([f"{'x' * 900} {batch} {n}" for n in range(25)], scope=alice)
            memory.add("The last.", scope=alice)
            print("ready", flush=True)
            sys.stdin.readline()
        """)
        assert writer.stdout.readline() == "ready\n"
        writer.kill()
        writer.wait(60)
        backup, log = path.with_name("backup.db"), path.with_name("memory.db-wal")
        assert log.stat().st_size
        content = backup.read_bytes()
        put_back(backup, path)
        with pytest.raises(SchemaError, match=r"delete memory\.db-wal"):
            Memory.open(path, embedder="none")
        assert path.read_bytes() == content
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink()
        with Memory.open(path, embedder="none") as memory:
            assert len(list(memory.list_records(scope=ALICE, limit=1000))) == 200
            assert not memory.upkeep.verify()

    def test_a_log_that_was_left_is_taken(self, path, start_script):
        """What a killed process had committed is there, also when the file was touched since."""
        writer = start_script("""
            import sys
            from memkit_core import Memory, Scope
            memory = Memory.open("memory.db")
            memory.add("I like tea.", scope=Scope.user("alice"))
            print("ready", flush=True)
            sys.stdin.readline()
        """)
        assert writer.stdout.readline() == "ready\n"
        writer.kill()
        writer.wait(60)
        path.chmod(0o600)
        with Memory.open(path) as memory:
            assert [one.content for one in memory.list_records(scope=Scope.user("alice"))] == ["I like tea."]

    def test_a_path_that_the_system_refuses(self, tmp_path):
        """A name that is too long, also with what goes beside it, and a loop of links are no place."""
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        long = "n" * 100
        for name in ("n" * 300, "n" * 245, "/".join([long] * 60), "loop", "loop/m.db"):
            with pytest.raises(ConfigError, match="cannot open"):
                Memory.open(tmp_path / name)
        assert [one.name for one in tmp_path.iterdir()] == ["loop"]

    def test_network_file_systems_are_refused(self, path, monkeypatch):
        """The file system of the folder is looked up, and the kinds that break the log are refused."""
        kind = places._file_system(path.parent)
        assert kind
        assert kind not in places._NETWORK_TYPES
        assert places._file_system(Path("/proc/self")) == "proc"
        assert {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"} <= places._NETWORK_TYPES
        monkeypatch.setattr(places, "_NETWORK_TYPES", frozenset({kind}))
        with pytest.raises(ConfigError, match="network file system"):
            SQLiteStore(path)
        assert not path.exists()

    def test_an_old_sqlite_is_refused(self):
        """SQLite 3.40 is the oldest that is taken."""
        with pytest.raises(ConfigError, match=r"3\.40\.0"):
            places.check_sqlite_version((3, 39, 4))
        places.check_sqlite_version((3, 40, 0))

    def test_a_step_that_fails_changes_nothing(self, path, monkeypatch):
        """Schema steps are one transaction: a failing one leaves the file at its version, a good one is kept."""
        store = SQLiteStore(path)
        store.records.put(ALICE, [record(ALICE, "a")])
        store.close()
        bad = "CREATE TABLE extra(x);\nINSERT INTO nowhere VALUES (1);\n"
        monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
        with pytest.raises(BackendError, match="nowhere"):
            SQLiteStore(path)
        assert execute(path, "SELECT name FROM sqlite_schema WHERE name = 'extra'") == []
        monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:-1], "CREATE TABLE extra(x);\n"))
        store = SQLiteStore(path)
        assert ids(store) == ["a"]
        store.close()
        assert execute(path, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]

    def test_two_that_open_at_once_make_one_store(self, path):
        """Eight threads that open a new file at the same time find one and the same store."""
        names, barrier = [], threading.Barrier(8)

        def open_it():
            barrier.wait()
            store = SQLiteStore(path)
            names.append(store.store_id)
            store.close()

        threads = [threading.Thread(target=open_it) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(names) == 8
        assert len(set(names)) == 1

    def test_another_tokenizer_rebuilds_the_words(self, path):
        """Keyword rows of another tokenizer version are made anew at open, with every score the same."""
        store = SQLiteStore(path)
        store.records.put(ALICE, [record(ALICE, "a", "green tea"), record(ALICE, "b", "tea")])
        append(store, TALK, [message("t", "black tea", speaker="Bo")])
        embed_all(store)
        before = store.keywords.search(Target(scope=ALICE), "tea", where=None, now=NOW, limit=9)
        store.close()
        execute(
            path,
            "DELETE FROM postings WHERE seq % 2 = 0",
            "UPDATE partitions SET documents = 99, terms = 1",
            "UPDATE meta SET value = 'memkit-terms-0' WHERE key = 'tokenizer'",
        )
        store = SQLiteStore(path)
        assert store.keywords.search(Target(scope=ALICE), "tea", where=None, now=NOW, limit=9) == before
        assert found_by_words(store, Target(scope=ALICE, space="messages"), "Bo black") == {"t"}
        assert store.vectors.counts() == (3, 3)
        store.close()

    def test_a_scope_row_that_was_changed_is_noticed(self, store, path):
        """The readable scope beside a digest is checked: another one there is damage, not an answer."""
        store.records.put(ALICE, [record(ALICE, "a")])
        store.close()
        execute(path, """UPDATE scopes SET path = '[["user","mallory"]]'""")
        store = SQLiteStore(path)
        with pytest.raises(SchemaError, match="damaged"):
            store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
        store.close()


class TestTheLog:
    def test_every_connection_is_set_up(self, store):
        """Write-ahead log, NORMAL, no automatic checkpoint (SQLite before 3.51.3 can lose a commit by it)."""
        with store._database.connection() as first, store._database.connection() as second:
            assert first is not second
            for connection in (first, second):
                values = [
                    connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("journal_mode", "synchronous", "wal_autocheckpoint", "busy_timeout")
                ]
                assert values == ["wal", 1, 0, 300]

    def test_full_is_an_option(self, path):
        """`synchronous="FULL"` is set on every connection."""
        store = SQLiteStore(path, synchronous="FULL")
        with store._database.connection() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        store.close()

    def test_the_log_is_gone_after_close(self, store, path):
        """After close the one file is whole: no -wal, and a copy of the file alone is the store."""
        store.records.put(ALICE, [record(ALICE, str(i)) for i in range(50)])
        embed_all(store)
        assert Path(f"{path}-wal").stat().st_size > 0
        store.close()
        assert not Path(f"{path}-wal").exists()
        shutil.copy(path, path.with_name("copy.db"))
        copy = SQLiteStore(path.with_name("copy.db"))
        assert len(ids(copy)) == 50
        assert copy.vectors.counts() == (50, 50)
        assert copy.store_id == store.store_id
        copy.close()

    def test_a_long_log_is_emptied_by_its_writers(self, path):
        """The log is copied into the file and emptied when it has grown beyond the limit."""
        store = SQLiteStore(path, checkpoint_bytes=200_000)
        sizes = []
        for i in range(60):
            store.records.put(ALICE, [record(ALICE, str(i), "words " * 2000)])
            sizes.append(Path(f"{path}-wal").stat().st_size)
        assert max(sizes) < 1_000_000
        assert 0 in sizes
        store.close()

    def test_a_reader_holds_up_no_writer(self, store, path):
        """While a read lasts, a checkpoint says it could not finish and writers go on; after it, it can."""
        store.records.put(ALICE, [record(ALICE, "a")])
        with store._database.snapshot() as connection:
            assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)
            store.records.put(ALICE, [record(ALICE, "b")])
            started = time.monotonic()
            assert store.checkpoint() is False
            assert time.monotonic() - started < 2.5  # It does not wait as a writer does, for five seconds.
            store.records.put(ALICE, [record(ALICE, "c")])
            assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)
        assert store.checkpoint() is True
        assert Path(f"{path}-wal").stat().st_size == 0
        assert ids(store) == ["c", "b", "a"]

    def test_writes_and_checkpoints_take_the_same_lock(self, store, path):
        """While another holds the write lock, writes and checkpoints time out as typed errors; reads go on."""
        store.records.put(ALICE, [record(ALICE, "a")])
        other = ProcessLock(path.with_name("memory.db.lock"))
        assert other.acquire(0)
        with pytest.raises(BackendTimeoutError) as refused:
            store.records.put(ALICE, [record(ALICE, "b")])
        assert refused.value.retryable
        with pytest.raises(BackendTimeoutError):
            store.checkpoint()
        assert ids(store) == ["a"]
        other.close()
        store.records.put(ALICE, [record(ALICE, "b")])
        assert ids(store) == ["b", "a"]

    def test_a_lock_file_that_cannot_be_used_is_a_typed_error(self, path):
        """Where the lock file cannot be opened, as in a read-only folder, opening says so and leaves nothing open."""
        path.with_name("memory.db.lock").mkdir()
        with pytest.raises(BackendUnavailableError, match="open failed: the lock file cannot be used"):
            SQLiteStore(path)
        path.with_name("memory.db.lock").rmdir()
        SQLiteStore(path).close()

    def test_nothing_but_sqlite_opens_the_file(self, run_script):
        """The file, its -wal and -shm are never opened by Python: closing such a descriptor drops SQLite's locks."""
        opened = run_script(
            """
            import sys
            opened = []
            def watch(event, arguments):
                if event in ("open", "os.open", "shutil.copyfile", "mmap.__new__"):
                    opened.append(str(arguments[0]))
            sys.addaudithook(watch)
            from memkit_core import Memory, Message, Role, Scope
            with Memory.open("memory.db") as memory:
                alice = Scope.user("alice")
                memory.add("green tea", scope=alice)
                memory.sessions.append([Message(role=Role.USER, text="hi")], scope=Scope.session("s", user="alice"))
                memory.recall("tea", scope=alice, include_messages=True)
                memory.capabilities
                memory.flush()
                memory.delete(scope=alice)
            ours = [name for name in opened if "memory.db" in name]
            assert any(name.endswith("memory.db.lock") for name in ours), "the watcher saw nothing"
            print([name for name in ours if name.endswith(("memory.db", "-wal", "-shm"))])
            """
        )
        assert opened == "[]"


class TestTrouble:
    def test_a_full_disk_changes_nothing(self, store):
        """A write that finds no room raises a retryable error and leaves the store as it was."""
        store.records.put(ALICE, [record(ALICE, "a")])
        with store._database.connection() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 5}")
        with pytest.raises(BackendUnavailableError) as refused:
            store.records.put(ALICE, [record(ALICE, "big", "words " * 50_000)])
        assert refused.value.retryable
        assert ids(store) == ["a"]
        assert found_by_words(store, Target(scope=ALICE)) == {"a"}
        with store._database.connection() as connection:
            connection.execute("PRAGMA max_page_count = 1000000")
        store.records.put(ALICE, [record(ALICE, "b")])
        assert ids(store) == ["b", "a"]

    def test_every_error_of_the_driver_is_translated(self):
        """Whatever the driver raises leaves as a `BackendError` with its cause."""
        kinds = [
            kind
            for kind in vars(sqlite3).values()
            if isinstance(kind, type) and issubclass(kind, sqlite3.Error)
        ]
        assert len(kinds) > 5
        for kind in kinds:
            with pytest.raises(BackendError) as raised, translating.translated("test"):
                raise kind("broken")
            assert isinstance(raised.value.__cause__, kind)
            assert (raised.value.backend, raised.value.operation) == ("sqlite", "test")

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            (sqlite3.SQLITE_BUSY, BackendTimeoutError),
            (sqlite3.SQLITE_LOCKED, BackendTimeoutError),
            (sqlite3.SQLITE_FULL, BackendUnavailableError),
            (sqlite3.SQLITE_IOERR_FSYNC, BackendUnavailableError),
            (sqlite3.SQLITE_READONLY_DIRECTORY, BackendUnavailableError),
            (sqlite3.SQLITE_CORRUPT, SchemaError),
            (sqlite3.SQLITE_NOTADB, SchemaError),
        ],
    )
    def test_codes_tell_what_can_be_done(self, code, error):
        """Busy, full and unreadable are told apart by SQLite's code, extended codes included."""
        raised = sqlite3.OperationalError("broken")
        raised.sqlite_errorcode = code
        with pytest.raises(error), translating.translated("test"):
            raise raised

    def test_a_deleted_user_leaves_no_row(self, store, path):
        """After deleting a scope nothing in any table names it or hangs on it; other owners stay whole."""
        for scope in (ALICE, BOB, TALK):
            store.records.put(scope, [record(scope, "a", tags=("t",))])
        append(store, TALK, [message("m")])
        embed_all(store)
        store.records.delete_scope(ALICE)
        store.close()
        assert "alice" not in str(execute(path, "SELECT path FROM scopes"))
        tables = ("records", "record_tags", "vectors", "partitions", "scopes", "sessions", "messages")
        rows = {name: execute(path, f"SELECT count(*) FROM {name}")[0][0] for name in tables}
        assert rows == {
            "records": 1, "record_tags": 1, "vectors": 1, "partitions": 1, "scopes": 1, "sessions": 0, "messages": 0,
        }  # fmt: skip
        assert execute(path, "SELECT count(DISTINCT seq) FROM postings") == [(1,)]
        assert execute(path, "PRAGMA integrity_check") == [("ok",)]
        assert execute(path, "PRAGMA foreign_key_check") == []
