"""Moving house: what is exported arrives elsewhere as it was."""

import io
import json
import os
import re
import stat
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memkit_core import (
    InvalidInputError,
    Message,
    NewMemory,
    Role,
    Scope,
    ScopeError,
    Session,
    ToolCall,
)
from memkit_core.models import MEMORIES, NOTES, RUNS, Status, StoredValue
from memkit_core.ports import MovedMessage, MovedRecord, MovedSession, MovedValue, Selection, VectorSpace
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing.samples import HOSTILE_IDS, INJECTIONS, NOW, SPACE, record
from memkit_core.testing.strategies import ids, json_values, metadata, records
from memkit_core.transfer import lines
from memkit_core.transfer.exporting import write_rows
from memkit_core.transfer.files import Source
from memkit_core.transfer.importing import Import, OnError
from memkit_core.transfer.mapping import Mapped

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
TALK = Scope.session("s1", user=ALICE)


def text_of(memory, **options):
    stream = io.StringIO()
    report = memory.export_jsonl(stream, **({"everything": True} | options))
    return stream.getvalue(), report


def body(text):
    """All but the first line, which names the store and its state."""
    return text.split("\n", 1)[1]


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()] if "\u2028" not in text else [
        json.loads(line) for line in text.split("\n") if line
    ]  # fmt: skip


# ------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_export_import_export_is_the_same(house, tmp_path, kind, open_memory):
    """What an empty store imported it exports byte by byte, but for the store and watermark it names."""
    first = tmp_path / "first.jsonl"
    report = house.export_jsonl(first, everything=True)
    other, embedder = open_memory(tmp_path / "other.db" if kind == "file" else ":memory:")
    with other:
        imported = other.import_jsonl(first)
        assert imported.inserted == report.counts
        assert not imported.skipped
        other.export_jsonl(tmp_path / "second.jsonl", everything=True)
        assert embedder.texts <= 1  # to learn the length of its vectors
        again = other.import_jsonl(first)
        assert not again.changed
        assert again.unchanged == report.counts
        assert other.upkeep.verify().whole
    one, two = (path.read_bytes().split(b"\n") for path in (first, tmp_path / "second.jsonl"))
    assert one[1:] == two[1:]
    header, other_header = json.loads(one[0]), json.loads(two[0])
    for name in ("store", "watermark"):
        assert header.pop(name) != other_header.pop(name)
    assert header == other_header
    assert report.bytes == first.stat().st_size


def test_everything_is_as_it_was(house_on_disk, tmp_path, open_memory):
    """Times, versions, histories, conversations, notes and runs read the same after the move."""
    house_on_disk.export_jsonl(tmp_path / "x.jsonl", everything=True)
    other, _ = open_memory(tmp_path / "other.db")
    with other:
        other.import_jsonl(tmp_path / "x.jsonl")
        other.flush()
        for read in (
            lambda memory: memory.list_records(scope=ALICE, status=list(Status)).records,
            lambda memory: memory.history("parked", scope=ALICE),
            lambda memory: memory.sessions.read(scope=TALK),
            lambda memory: memory.sessions.window(scope=TALK, last=10),
            lambda memory: memory.sessions.list(scope=ALICE),
            lambda memory: memory.summaries.get(scope=TALK),
            lambda memory: memory.working.history(scope=ALICE),
            lambda memory: memory.runs.load("run 1", scope=TALK),
            lambda memory: memory.documents("books", scope=ALICE).list().records,
            lambda memory: (
                memory.documents("theirs", scope=ALICE, embedding_model="their-model")
                .vectors(["v1"])["v1"]
                .tolist()
            ),
            lambda memory: [
                (hit.record, hit.signals.similarity)
                for hit in memory.recall("keys", scope=ALICE, include_messages=True)
            ],
        ):
            assert read(other) == read(house_on_disk)
        assert len(other.history("parked", scope=ALICE)) == 3


STORES = {"file": SQLiteStore, "memory": lambda _: InMemoryStore()}
GIVEN = VectorSpace(model="given | model", revision="ü", dimension=2, given=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
HOSTILE = TEXT | st.sampled_from([*INJECTIONS, "\u2028\u2029\x85\r\n", "\ufeff", '"}', "\x1b[0m"])
# Built once: that costs more than to draw from them.
IDS, METADATA, JSON = ids(), metadata(), json_values()
OWNERS = st.builds(Scope.user, IDS) | st.builds(Scope.org, IDS)
SESSIONS = st.builds(
    Session, scope=st.just(TALK), created_at=st.just(NOW), updated_at=st.just(NOW), messages=st.just(0),
    title=st.none() | HOSTILE, metadata=METADATA,
)  # fmt: skip
MESSAGES = st.builds(
    Message, role=st.sampled_from(Role), text=HOSTILE, speaker=st.none() | HOSTILE, created_at=st.just(NOW),
    tool_calls=st.lists(st.builds(ToolCall, id=HOSTILE, name=HOSTILE, arguments=HOSTILE), max_size=1).map(tuple),
    metadata=METADATA, payload=JSON, indexed=st.sampled_from([None, True, False]),
)  # fmt: skip
VERSIONS = st.lists(
    st.builds(
        StoredValue, key=st.just("k"), value=JSON, label=st.none() | HOSTILE, version=st.just(1),
        created_at=st.just(NOW), updated_at=st.just(NOW),
    ),
    min_size=1, max_size=3,
)  # fmt: skip
RECORDS = {
    space: st.lists(records(ALICE, space=space), max_size=3, unique_by=lambda one: one.id)
    for space in (MEMORIES, "documents:d")
}
NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=8, max_size=8)
NAMES = st.lists(IDS, max_size=2, unique=True)


@st.composite
def houses(draw):
    """Rows of every kind with hostile content, in the order a store gives them."""
    rows, owner, user = [], draw(OWNERS), Scope.user(draw(IDS))
    for name in draw(NAMES):
        session = Scope.session(name, user=user)
        rows.append(MovedSession(session=replace(draw(SESSIONS), scope=session), next_position=3))
        rows += [
            MovedMessage(message=replace(draw(MESSAGES), session=session, id=i, position=place))
            for place, i in enumerate(draw(NAMES))
        ]
    for key in draw(NAMES):
        versions = (replace(one, key=key, version=n) for n, one in enumerate(draw(VERSIONS), 1))
        rows.append(
            MovedValue(scope=owner, kind=draw(st.sampled_from([NOTES, RUNS])), versions=tuple(versions))
        )
    for one in draw(RECORDS[MEMORIES]):
        vector = draw(st.none() | NUMBERS.map(lambda n: np.array(n, np.float32)))
        rows.append(MovedRecord(record=replace(one, scope=owner), vector_space=SPACE, vector=vector))
    for one in draw(RECORDS["documents:d"]):
        vector = np.array(draw(NUMBERS)[:2], np.float32)
        rows.append(MovedRecord(record=replace(one, scope=owner), vector_space=GIVEN, vector=vector))
    return rows


def export_into(store, write):
    selection = Selection(now=NOW)
    with store.snapshot(selection) as snapshot:
        write_rows(snapshot, selection, "s", write, None)


def exported(store):
    out = io.BytesIO()
    export_into(store, out.write)
    return out.getvalue()


def imported(store, file):
    run = Import(
        Source(file, "x"), store, Mapped(None), on_error=OnError.STOP,
        prepare=lambda _: SPACE, held_space=lambda _: (False, None), progress=None, clock=lambda: NOW,
        read_log=lambda session, last, before: store.log.read(session, last=last, before=before),
    )  # fmt: skip
    return run.run()


@pytest.mark.parametrize("kinds", [("file", "memory"), ("memory", "file"), ("file", "file")], ids="-".join)
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=houses())
def test_hostile_content_survives_a_move(kinds, rows, tmp_path_factory):
    """Whatever texts, ids, metadata, payloads, numbers and vectors hold: export, import, export is equal."""
    one, two = (STORES[kind](tmp_path_factory.mktemp("s") / "m.db") for kind in kinds)
    try:
        for store in (one, two):
            store.vectors.use_space(SPACE)
        one.receive(rows)
        text = exported(one)
        report = imported(two, io.BytesIO(text))
        assert not report.skipped
        # The number of the change is that of each store.
        assert exported(two).split(b"\n")[1:] == text.split(b"\n")[1:]
        assert not imported(two, io.BytesIO(text)).changed
        assert two.verify() == []
    finally:
        one.close()
        two.close()


# ------------------------------------------------------------------------------- what is exported


def test_header_and_end(house):
    """The first line names format, store, state and vector spaces, the last how many lines there are."""
    text, report = text_of(house)
    header, *rows, end = lines_of(text)
    assert header | {"vector_spaces": 0} == {
        "kind": "header", "format": "memkit-export", "version": 1, "store": house._store.store_id,
        "watermark": report.watermark, "after": None, "vector_spaces": 0,
    }  # fmt: skip
    assert [(space["fingerprint"], space["given"]) for space in header["vector_spaces"]] == [
        ("counting|1|4", False),
        ("their-model||3|given", True),
    ]
    assert end == {"kind": "end", "lines": len(rows)}
    assert report.rows == len(rows)
    assert report.counts == {
        "sessions": 1, "messages": 5, "summaries": 1, "values": 2, "records": 6, "turns": 2,
    }  # fmt: skip


def test_filters(house):
    """Scope, space, type and time each leave out the rest; a scope brings nothing of anybody else."""
    text, report = text_of(house, everything=False, scope=BOB)
    assert report.counts == {"records": 1}
    for theirs in ("alice", "acme", "their-model", "keys"):
        assert theirs not in text
    _, report = text_of(house, everything=False, scope=[ALICE, Scope.org("acme")])
    assert report.counts["records"] == 5
    for options, counts in (
        ({"spaces": [NOTES]}, {"values": 1}),
        ({"spaces": ["documents:books", RUNS]}, {"values": 1, "records": 1}),
        ({"types": ["preference"]}, {}),
        ({"until": "2026-01-01"}, {}),
        ({"since": "2026-01-01", "spaces": [MEMORIES]}, {"records": 4}),
    ):
        _, report = house.transfer.export_jsonl(io.StringIO(), everything=True, **options), None
        assert _.counts == counts


def test_a_scope_or_everything_is_named(house):
    """An export without a scope is refused unless it says that it means everybody."""
    for wrong in ({}, {"scope": None}, {"scope": []}, {"scope": "alice"}):
        with pytest.raises(ScopeError):
            house.export_jsonl(io.StringIO(), **wrong)
    with pytest.raises(InvalidInputError, match="alone"):
        house.export_jsonl(io.StringIO(), scope=ALICE, everything=True)


def test_bad_filters_are_refused(house):
    """A space, a type or a time that cannot be one writes nothing."""
    out = io.StringIO()
    for wrong in ({"spaces": ["nothing"]}, {"types": ["x"]}, {"since": "x"}, {"spaces": 1}):
        with pytest.raises(InvalidInputError):
            house.transfer.export_jsonl(out, everything=True, **wrong)
    assert out.getvalue() == ""


def test_expired_records_stay_behind(tmp_path, clock, open_memory):
    """What has expired by the clock is in no export, whether it was swept or not."""
    memory, _ = open_memory(tmp_path / "m.db")
    with memory:
        memory.add("short lived", scope=ALICE, expires_at="2026-01-02")
        assert "short lived" in text_of(memory)[0]
        clock.now = clock.now.replace(day=3)
        assert text_of(memory)[1].counts == {}


def test_queued_messages_are_exported(house):
    """What waits to be written behind the caller is in the export and in the backup."""
    house.sessions.queue.append([Message(role=Role.USER, text="still on its way")], scope=TALK)
    assert "still on its way" in text_of(house)[0]


def test_while_others_write(tmp_path, open_memory):
    """An export shows one state: of pairs that are written together there are both or neither."""
    memory, _ = open_memory(tmp_path / "m.db")
    with memory:
        memory.add_many([NewMemory(content=f"seed {n}", id=f"seed{n}") for n in range(300)], scope=ALICE)
        stop = threading.Event()

        def write():
            number = 0
            while not stop.is_set():
                pair = [NewMemory(content=f"{side} {number}", id=f"{side}{number}") for side in "ab"]
                memory.add_many(pair, scope=ALICE)
                memory.delete(f"seed{number % 300}", scope=ALICE)
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(10):
                names = {line["id"] for line in lines_of(text_of(memory)[0]) if line["kind"] == "record"}
                assert {f"b{name[1:]}" for name in names if name.startswith("a")} == {
                    name for name in names if name.startswith("b")
                }
        finally:
            stop.set()
            writer.join()


# ------------------------------------------------------------------------------- files and streams


def test_a_file_appears_when_it_is_whole(house, tmp_path):
    """An export that fails leaves what was there, and nothing beside it; one that ends is the owner's alone."""
    path = tmp_path / "out" / "x.jsonl"
    path.parent.mkdir()
    path.write_text("before")

    def fail(done, total):
        raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError):
        house.transfer.export_jsonl(path, everything=True, progress=fail)
    assert path.read_text() == "before"
    assert list(path.parent.iterdir()) == [path]
    house.export_jsonl(path, everything=True)
    assert path.read_text(encoding="utf-8").startswith('{"kind":"header"')
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_killed_export_leaves_no_half_file(house_on_disk, tmp_path, start_script):
    """A process that dies while it exports leaves the file that was there before."""
    path = tmp_path / "x.jsonl"
    path.write_text("before")
    house_on_disk.close()
    process = start_script(
        """
        import os
        from memkit_core.stores.sqlite import SQLiteStore
        from memkit_core.transfer.files import writing
        store = SQLiteStore("house.db")
        with writing("x.jsonl", store=str(store.path)) as write:
            write(b"half of it")
            os.kill(os.getpid(), 9)
        """
    )
    assert process.wait(timeout=60) == -9
    assert path.read_text() == "before"


def test_memory_use_does_not_grow_with_the_store(tmp_path):
    """Neither way holds more of a file than a part of it, however large each row is."""
    one, two = SQLiteStore(tmp_path / "one.db"), SQLiteStore(tmp_path / "two.db")
    try:
        for n in range(150):
            one.receive([MovedRecord(record=record(ALICE, str(n), f"{n}" + "x" * 100_000))])
        peaks = []
        with (tmp_path / "x.jsonl").open("w+b") as file:
            for act in (lambda: export_into(one, file.write), lambda: imported(two, file)):
                file.seek(0)
                tracemalloc.start()
                act()
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
            size = file.seek(0, io.SEEK_END)
        assert size > 15_000_000
        assert max(peaks) < size / 2
    finally:
        one.close()
        two.close()


class Pipe(io.RawIOBase):
    """Bytes that can be read once, a few at a time."""

    def __init__(self, data):
        self.left = data

    def readable(self):
        return True

    def read(self, size=-1):
        size = min(size, 7777) if size >= 0 else len(self.left)
        piece, self.left = self.left[:size], self.left[size:]
        return piece


def test_streams(house, open_memory):
    """Open text and binary streams serve as well, also ones that cannot be set back, and stay open."""
    text, binary = io.StringIO(), io.BytesIO()
    house.export_jsonl(text, everything=True)
    house.export_jsonl(binary, everything=True)
    assert text.getvalue().encode() == binary.getvalue()
    for stream in (io.StringIO(text.getvalue()), io.BytesIO(binary.getvalue()), Pipe(binary.getvalue())):
        other, _ = open_memory()
        with other:
            assert other.import_jsonl(stream).inserted["messages"] == 5
        assert not stream.closed


def test_a_stream_is_read_from_where_it_stands(house, open_memory):
    """What stands before the place of a stream is not read, neither time."""
    stream = io.BytesIO(b"a preface\n" + text_of(house)[0].encode())
    stream.readline()
    other, _ = open_memory()
    with other:
        assert other.import_jsonl(stream).inserted["records"] == 6


def test_paths_of_the_store_are_refused(house_on_disk, tmp_path):
    """No export, import or backup opens or replaces the files of the open store, by whatever name."""
    home = tmp_path / "house.db"
    link, hard = tmp_path / "link", tmp_path / "hard"
    link.symlink_to(home)
    hard.hardlink_to(home)
    inner = tmp_path / "house.db.index" / "x"
    for path in (
        home,
        str(home),
        link,
        hard,
        tmp_path / "house.db-wal",
        inner,
        tmp_path / "x" / ".." / "house.db",
    ):
        for act in (
            lambda path=path: house_on_disk.export_jsonl(path, everything=True),
            lambda path=path: house_on_disk.import_jsonl(path),
            lambda path=path: house_on_disk.transfer.backup(path, overwrite=True),
        ):
            with pytest.raises(InvalidInputError, match="belongs to the store"):
                act()
    assert house_on_disk.get("parked", scope=ALICE) is not None


def test_what_is_no_place_is_refused(house, tmp_path):
    """A number is no file, a folder is none either, and a folder that is missing is the system's error."""
    for wrong in (1, None, b"x"):
        with pytest.raises(InvalidInputError):
            house.export_jsonl(wrong, everything=True)
        with pytest.raises(InvalidInputError):
            house.import_jsonl(wrong)
    with pytest.raises(InvalidInputError, match="folder"):
        house.export_jsonl(tmp_path, everything=True)
    with pytest.raises(FileNotFoundError):
        house.export_jsonl(tmp_path / "missing" / "x.jsonl", everything=True)
    with pytest.raises(FileNotFoundError):
        house.import_jsonl(tmp_path / "missing.jsonl")


def test_a_device_is_not_replaced(house, tmp_path):
    """A pipe or a device such as /dev/null stays what it is: only a file is put in the place of another."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInputError, match="give the stream"):
        house.export_jsonl(pipe, scope=ALICE)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.glob(".pipe*")) == []


def test_progress(house_on_disk, tmp_path, open_memory):
    """Progress ends at the whole, in rows of an export, bytes of an import and pages of a backup."""
    house_on_disk.add_many([f"fact number {n}" for n in range(700)], scope=BOB)
    path, told = tmp_path / "x.jsonl", []

    def tell(*step):
        told.append(step)

    report = house_on_disk.transfer.export_jsonl(path, everything=True, progress=tell)
    assert told[-1] == (report.rows, report.rows)
    assert len(told) > 2
    other, _ = open_memory()
    with other:
        told.clear()
        other.transfer.import_jsonl(path, progress=tell)
        assert told[-1] == (report.bytes, report.bytes)
        assert told == sorted(told)
    told.clear()
    house_on_disk.transfer.backup(tmp_path / "copy.db", progress=tell)
    assert told[-1][0] == told[-1][1] > 0


def test_hostile_ids_are_no_paths(house, open_memory):
    """Ids that look like paths are data: nothing but the named file is written."""
    for name in HOSTILE_IDS[:20]:
        house.add(f"of {name[:20]}", scope=Scope.user(name), id=name)
    other, _ = open_memory()
    with other:
        other.import_jsonl(io.StringIO(text_of(house)[0]))
        for name in HOSTILE_IDS[:20]:
            assert other.get(name, scope=Scope.user(name)).id == name


# ------------------------------------------------------------------------------- the page on it

PAGE = Path(__file__).parents[2] / "docs" / "transfer.md"


def test_the_code_of_the_page_runs():
    """The example in `docs/transfer.md` does what it says."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})


def test_the_page_tells_every_field():
    """Each kind of line and each of its fields stands in `docs/transfer.md`."""
    page = PAGE.read_text(encoding="utf-8")
    kinds = {kind.model_fields["kind"].annotation.__args__[0]: kind for kind in get_args(lines.Line)}
    assert len(kinds) == 8
    for kind, line in kinds.items():
        section = page.split(f"\n`{kind}`", 1)[1].split("\n\n", 1)[0]
        missing = [name for name in line.model_fields if name != "kind" and f"`{name}`" not in section]
        assert not missing, kind
