"""`memory.upkeep.doctor`: each finding is caused for real, told with its remedy, and gone when it is mended."""

import contextlib
import inspect
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memkit_core import Config, Memory, Schedule, Scope
from memkit_core.chunking import Chunk
from memkit_core.connect import connect
from memkit_core.errors import BackendUnavailableError
from memkit_core.times import utc_now
from memkit_core.upkeep import Level, doctor
from memkit_core.upkeep.jobs import Every, Job

ALICE = Scope.user("alice")


class Model:
    """Vectors of eight numbers from a model of any name; fails while it is told to."""

    def __init__(self, model="theirs", revision="1"):
        self.model, self.revision = model, revision
        self.down = False

    def embed_documents(self, texts):
        if self.down:
            raise ConnectionError("no route to the model")
        return np.ones((len(texts), 8), np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture
def path(tmp_path):
    """A closed file with one memory, embedded and indexed."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add("I like tea", scope=ALICE, tags=["drink"])
        assert memory.flush()
    return tmp_path / "m.db"


def codes(memory):
    return [one.code for one in memory.upkeep.doctor()]


def the(memory, code):
    """The one finding with this code."""
    (found,) = [one for one in memory.upkeep.doctor() if one.code == code]
    assert found.remedy
    return found


def test_a_healthy_store(path):
    """Nothing is found, however often it is looked at."""
    with Memory.open(path) as memory:
        for _ in range(4):
            assert memory.upkeep.doctor() == []
    with Memory.open(":memory:") as memory:
        memory.add("I like tea", scope=ALICE)
        assert memory.upkeep.doctor() == []


def test_production_on_a_store_that_forgets():
    """Opened by hand, past the check of `Memory.open`, it is an ERROR."""
    clock = utc_now
    parts = connect(":memory:", Config(), embedder="none", embedding_model=None, clock=clock)
    with Memory(parts, config=Config(environment="production"), clock=clock) as memory:
        assert the(memory, "not-durable").level is Level.ERROR


def test_the_model_of_the_index_is_another_one(tmp_path):
    """Another process chose another model for the empty file this one had open: queries fit no vector."""
    with Memory.open(tmp_path / "m.db", embedder=Model("ours")) as memory:
        assert memory.upkeep.doctor() == []
        with Memory.open(tmp_path / "m.db", embedder=Model("theirs")) as other:
            other.add("I like tea", scope=ALICE)
            other.flush()
        found = the(memory, "models-differ")
        assert found.level is Level.ERROR
        assert "'ours'" in found.what
        assert "'theirs'" in found.what
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        assert "models-differ" not in codes(memory)


def test_an_outbox_that_grows_over_three_looks(tmp_path):
    """The looks are stored, so that it shows over restarts too; one that shrinks or stays is no finding."""
    model = Model()
    model.down = True
    for number in range(3):
        with Memory.open(tmp_path / "m.db", embedder=model) as memory:
            memory.add(f"I like tea {number}", scope=ALICE)
            found = codes(memory)
            assert ("outbox-growing" in found) is (number == 2)
    with Memory.open(tmp_path / "m.db", embedder=model) as memory:
        assert "outbox-growing" not in codes(memory)
        for number in range(2):
            memory.add(f"I like jam {number}", scope=ALICE)
            found = the(memory, "outbox-growing") if number else codes(memory)
        assert found.level is Level.ERROR
        assert "3, 4, 5" in found.what
        assert "no route to the model" in found.what
        model.down = False
        memory.flush()
        assert codes(memory) == []


def test_changes_that_used_up_their_tries(tmp_path):
    """They are told with the last error, and gone when the model is there again."""
    model = Model()
    model.down = True
    with Memory.open(tmp_path / "m.db", embedder=model, config=Config(outbox_attempts=1)) as memory:
        memory.add("I like tea", scope=ALICE)
        memory.flush()
        found = the(memory, "outbox-failed")
        assert found.level is Level.WARNING
        assert "no route to the model" in found.what
        model.down = False
        memory.flush()
        assert codes(memory) == []


def test_a_record_and_what_is_derived_of_it_are_out_of_step(path):
    """What `verify` finds is an ERROR, and `repair` mends it."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM record_tags")
        file.commit()
    with Memory.open(path) as memory:
        found = the(memory, "out-of-step")
        assert found.level is Level.ERROR
        assert "(tags)" in found.what
        assert "memkit repair" in found.remedy
        memory.upkeep.repair()
        assert memory.upkeep.doctor() == []


def test_a_damaged_file(path):
    """SQLite's own check of its pages is an ERROR that only a backup helps."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        ((page,),) = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'postings'")
        ((size,),) = file.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with Memory.open(path) as memory:
        found = the(memory, "damaged")
        assert found.level is Level.ERROR
        assert "backup" in found.remedy


def test_a_long_log(path):
    """A reader that keeps the write-ahead log above 64 MB is told."""
    with (
        Memory.open(path) as memory,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        writer.execute("INSERT INTO meta VALUES ('large', zeroblob(60000000))")
        assert "log-long" not in codes(memory)
        writer.execute("UPDATE meta SET value = zeroblob(60000001) WHERE key = 'large'")
        assert the(memory, "log-long").level is Level.WARNING
        reader.execute("COMMIT")
        memory.upkeep.run_due()
        assert "log-long" not in codes(memory)


def test_a_disk_that_is_nearly_full(path):
    """Less than twice the reserve is free."""
    with Memory.open(path, config=Config(disk_reserve=2**50)) as memory:
        assert the(memory, "disk-full").level is Level.WARNING


HOLD = """
    import sys
    from memkit_core import Memory
    with Memory.open("m.db") as memory:
        print(memory.capabilities.index, flush=True)
        sys.stdin.readline()
"""


def test_another_process_holds_the_index(path, start_script):
    """This one goes on with exact scans, and says so."""
    process = start_script(HOLD)
    assert process.stdout.readline() == "True\n"
    with Memory.open(path) as memory:
        assert the(memory, "index-held").level is Level.WARNING
    process.communicate("end\n", timeout=60)
    with Memory.open(path) as memory:
        assert memory.upkeep.doctor() == []


def test_vectors_without_a_model_version(tmp_path):
    """A model that names no revision may change under its name; so may the vectors that come with texts."""
    with Memory.open(tmp_path / "m.db", embedder=Model(revision="")) as memory:
        memory.add("I like tea", scope=ALICE)
        memory.flush()
        assert the(memory, "no-model-version").level is Level.WARNING
    with Memory.open(tmp_path / "given.db", embedder=Model()) as memory:
        memory.documents(scope=ALICE, embedding_model="given").put(["tea"], vectors=np.eye(3)[:1])
        memory.flush()
        assert "'given'" in the(memory, "no-model-version").what


def test_no_cap_on_top_k(path):
    """A setting that lets one call ask for everything is told."""
    with Memory.open(path, config=Config(max_top_k=1_000_000)) as memory:
        assert the(memory, "top-k-uncapped").level is Level.WARNING


def test_nothing_can_be_written(path):
    """Somebody holds the file: that is told, not raised."""
    with (
        Memory.open(path, config=Config(busy_timeout=0.05)) as memory,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        assert the(memory, "not-writable").level is Level.ERROR
        other.execute("ROLLBACK")
        assert memory.upkeep.doctor() == []


def test_a_periodic_job_failed(path):
    """The error of its last run is told until it runs well again."""
    with Memory.open(path, config=Config(upkeep=Schedule(thread=False))) as memory:

        def fail(_renew):
            raise BackendUnavailableError("the moon is full", backend="sqlite", operation="test")

        memory.upkeep._scheduler.add(Job("moon", Every(60), fail))
        memory.upkeep.run_due()
        found = the(memory, "job-failed")
        assert found.level is Level.WARNING
        assert "the moon is full" in found.what


def test_the_worst_comes_first(path):
    """ERROR before WARNING."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM record_tags")
        file.commit()
    with Memory.open(path, config=Config(max_top_k=1_000_000, disk_reserve=2**50)) as memory:
        levels = [one.level for one in memory.upkeep.doctor()]
        assert levels[0] is Level.ERROR
        assert levels == sorted(levels)
        assert len(levels) > 2


def test_on_the_command_line(path):
    """`memkit doctor` exits with 0 on a healthy file and with 1 on an ERROR; `--json` is one document."""

    def memkit(*arguments, code):
        command = [sys.executable, "-m", "memkit_core.cli", "doctor", "--db", path, *arguments]
        ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert ran.returncode == code, ran.stderr
        return ran

    assert json.loads(memkit("--json", code=0).stdout) == []
    assert memkit(code=0).stderr == "all is well\n"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM record_tags")
        file.commit()
    (found,) = json.loads(memkit("--json", code=1).stdout)
    assert (found["level"], found["code"]) == ("ERROR", "out-of-step")
    assert "run memkit repair" in memkit(code=1).stdout


def in_words(size, overlap):
    """Chunks of so many words, each beginning so many before the end of the one before."""

    def cut(text):
        words = [(one.start(), one.end()) for one in re.finditer(r"\S+", text)]
        pieces = [words[n : n + size] for n in range(0, len(words), size - overlap)]
        places = [(piece[0][0], piece[-1][1]) for piece in pieces]
        return [Chunk(content=text[start:end], start=start, end=end) for start, end in places]

    return cut


def test_chunks_are_looked_at(tmp_path):
    """Chunks that never overlap are a warning, chunks at all a reason to measure their size; one chunk is neither."""
    text = " ".join(f"word{n}" for n in range(40))
    with Memory.open(tmp_path / "m.db") as memory:
        library = memory.documents("library", scope=ALICE)
        library.add_document("one short text", id="short", chunker=in_words(10, 0))
        memory.flush()
        assert memory.upkeep.doctor() == []
        library.add_document(text, id="apart", chunker=in_words(10, 0))
        memory.flush()
        assert [one.code for one in memory.upkeep.doctor()] == [
            "chunks-without-overlap",
            "chunk-size-unmeasured",
        ]
        library.add_document(text, id="over", chunker=in_words(10, 2))
        memory.flush()
        assert [one.code for one in memory.upkeep.doctor()] == ["chunk-size-unmeasured"]


DOCS = Path(__file__).parents[2] / "docs" / "upkeep.md"


def test_every_code_is_documented():
    """Each code stands in `docs/upkeep.md` with its level."""
    text = DOCS.read_text()
    found = re.findall(r'level=Level\.(\w+),\s+code="([a-z-]+)"', inspect.getsource(doctor))
    assert len(found) == 14
    for level, code in found:
        assert f"| `{code}` | {level} |" in text
    assert "| `out-of-step` | ERROR |" in text


def test_the_example_of_the_docs(tmp_path, monkeypatch):
    """The code in `docs/upkeep.md` runs as it stands."""
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL))
    exec(code, {})
    with Memory.open("memory.db") as memory:
        assert "sweep" in {job.name for job in memory.upkeep.jobs()}
