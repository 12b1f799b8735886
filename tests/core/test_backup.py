"""Copying the file of a store: online by `backup`, and as it stands after `close`."""

import shutil
import sqlite3

import pytest

from memkit_core import BackendError, ClosedError, Config, ConfigError, InvalidInputError, Memory, Scope
from memkit_core.models import MESSAGES
from memkit_core.stores.sqlite import copying

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)


def contents(memory):
    """What it holds."""
    return (
        memory.list_records(scope=ALICE).records,
        memory.list_records(scope=TALK, space=MESSAGES).records,
        memory.sessions.read(scope=TALK),
        memory.summaries.get(scope=TALK),
        memory.working.history(scope=ALICE),
        memory.history("parked", scope=ALICE),
    )


def test_a_backup_is_a_memory_of_its_own(house_on_disk, open_memory, tmp_path):
    """The copied file opens alone, elsewhere, with everything, and builds its index without embedding."""
    report = house_on_disk.transfer.backup(tmp_path / "copy.db")
    assert report.path == str(tmp_path / "copy.db")
    assert report.bytes == (tmp_path / "copy.db").stat().st_size
    assert not list(tmp_path.glob("copy.db?*"))
    assert not list(tmp_path.glob(".*.part*"))
    away = tmp_path / "away"
    away.mkdir()
    shutil.move(tmp_path / "copy.db", away / "moved.db")
    copy, embedder = open_memory(away / "moved.db")
    assert copy.upkeep.reindex() == 8
    assert embedder.texts == 0
    assert copy.upkeep.verify().whole
    assert contents(copy) == contents(house_on_disk)
    assert copy.recall("I parked on level 5.", scope=ALICE)[0].signals.similarity == pytest.approx(1)
    copy.add("only here", scope=ALICE)
    assert len(house_on_disk.list_records(scope=ALICE)) + 1 == len(copy.list_records(scope=ALICE))


def test_a_backup_while_others_write(tmp_path, monkeypatch):
    """It ends although writers never pause, and holds one state: of each pair both or neither."""
    monkeypatch.setattr(copying, "PAGES", 8)
    with Memory.open(tmp_path / "m.db", config=Config(disk_reserve=1)) as memory:
        memory.add_many([f"seed {n} " + "and much more of it " * 20 for n in range(400)], scope=ALICE)
        steps = []

        def write(done, total):
            # Between any two pieces; a copy that begins anew at each change would begin a hundred times.
            if len(steps) < 100:
                pair = [f"left {len(steps)}", f"right {len(steps)}"]
                memory.add_many(pair, scope=Scope.user("pairs"))
            steps.append((done, total))

        memory.transfer.backup(tmp_path / "copy.db", progress=write)
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
        assert len({total for _, total in steps}) == 1
        assert len(steps) > 20
    with Memory.open(tmp_path / "copy.db", config=Config(disk_reserve=1)) as copy:
        pairs = [
            record.content for record in copy.list_records(scope=Scope.user("pairs"), limit=10_000).records
        ]
        assert {text.split()[1] for text in pairs if "left" in text} == {
            text.split()[1] for text in pairs if "right" in text
        }
        assert copy.upkeep.verify().problems == ()


def test_a_file_that_is_there_is_kept(house_on_disk, tmp_path):
    """It is replaced only when told so, and not while its write-ahead log lies beside it."""
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    with pytest.raises(InvalidInputError, match="overwrite=True"):
        house_on_disk.transfer.backup(copy)
    assert copy.read_text() == "precious"
    log = tmp_path / "copy.db-wal"
    log.write_bytes(b"left by a killed process")
    for overwrite in (True, False):
        copy.unlink(missing_ok=True)
        with pytest.raises(InvalidInputError, match="was not closed"):
            house_on_disk.transfer.backup(copy, overwrite=overwrite)
    log.unlink()
    copy.write_text("old")
    house_on_disk.transfer.backup(copy, overwrite=True)
    with sqlite3.connect(copy) as file:
        assert file.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    file.close()


def test_a_backup_that_fails_leaves_nothing(house_on_disk, tmp_path):
    """What is at its path stays, and no part of a copy lies about."""
    copy = tmp_path / "b" / "copy.db"
    copy.parent.mkdir()
    copy.write_text("precious")

    def fail(done, total):
        raise RuntimeError("pulled the plug")

    with pytest.raises((RuntimeError, BackendError)):
        house_on_disk.transfer.backup(copy, overwrite=True, progress=fail)
    assert copy.read_text() == "precious"
    assert list(copy.parent.iterdir()) == [copy]
    house_on_disk.add("goes on", scope=ALICE)


def test_a_memory_without_a_file_has_no_backup(house, tmp_path):
    """It says what to do instead; a stream is no place for a copy, and a closed memory makes none."""
    with pytest.raises(ConfigError, match="export_jsonl"):
        house.transfer.backup(tmp_path / "copy.db")
    memory = Memory.open(tmp_path / "m.db", config=Config(disk_reserve=1))
    with memory, (tmp_path / "stream").open("wb") as stream, pytest.raises(InvalidInputError, match="path"):
        memory.transfer.backup(stream)
    with pytest.raises(ClosedError):
        memory.transfer.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_the_closed_file_alone_is_a_complete_move(house_on_disk, open_memory, tmp_path):
    """After `close` no log lies beside the file, and a copy of it alone is the memory."""
    before = contents(house_on_disk)
    house_on_disk.add("the last word", scope=ALICE, id="last")
    house_on_disk.close()
    assert not (tmp_path / "house.db-wal").exists()
    away = tmp_path / "away"
    away.mkdir()
    shutil.copy(tmp_path / "house.db", away / "m.db")
    copy, embedder = open_memory(away / "m.db")
    assert copy.get("last", scope=ALICE).content == "the last word"
    copy.delete("last", scope=ALICE)
    embedded = embedder.texts
    copy.upkeep.reindex()
    assert embedder.texts == embedded
    assert contents(copy) == before
