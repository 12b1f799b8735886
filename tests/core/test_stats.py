"""`memory.upkeep.stats` and `memkit stats`: what a store holds, in numbers."""

import json
import subprocess
import sys

import numpy as np
import pytest

from memkit_core import Memory, Message, NewMemory, Role, Scope

ALICE, BOB = Scope.user("alice"), Scope.user("bob")


def fill(memory):
    news = [NewMemory(content="tea"), NewMemory(content="jam", type="preference"), NewMemory(content="figs")]
    memory.add_many(news, scope=ALICE)
    memory.archive(memory.add("rain", scope=BOB).id, scope=BOB)
    said = [Message(role=Role.USER, text="hello"), Message(role=Role.TOOL, text="42", tool_call_id="c")]
    memory.sessions.append(said, scope=Scope.session("s", user="alice"))
    memory.documents(scope=ALICE, embedding_model="given").put(["leaf"], vectors=np.eye(3)[:1])
    memory.flush()


@pytest.mark.parametrize("place", ["m.db", ":memory:"])
def test_everything_is_counted(tmp_path, place):
    """Memories by status and type, records by space, conversations, vectors by space, what waits, bytes."""
    path = place if place == ":memory:" else tmp_path / place
    with Memory.open(path) as memory:
        empty = memory.upkeep.stats()
        assert (empty.by_status, empty.by_space, empty.sessions, empty.messages) == ({}, {}, 0, 0)
        assert empty.model == ""
        fill(memory)
        stats = memory.upkeep.stats()
        assert stats.by_status == {"active": 3, "archived": 1}
        assert stats.by_type == {"fact": 3, "preference": 1}
        assert stats.by_space == {"memories": 4, "messages": 1, "documents:default": 1}
        assert (stats.sessions, stats.messages) == (1, 2)
        own, given = stats.vector_spaces
        assert (own.vectors, given.vectors) == (5, 1)
        kind = "FlatIndex" if place == ":memory:" else "EdgeIndex"
        assert (own.index, given.index) == (kind, kind)
        assert "given" in given.name
        assert stats.model in own.name
        assert stats.outbox.length == 0
        if place == ":memory:":
            assert stats.file_bytes is stats.log_bytes is None
        else:
            assert stats.file_bytes == path.stat().st_size
            assert stats.log_bytes == path.with_name("m.db-wal").stat().st_size


def test_on_the_command_line(tmp_path):
    """As lines, or as one JSON document."""
    with Memory.open(tmp_path / "m.db") as memory:
        fill(memory)

    def memkit(*arguments):
        command = [sys.executable, "-m", "memkit_core.cli", "stats", "--db", tmp_path / "m.db", *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True).stdout

    assert json.loads(memkit("--json"))["by_status"] == {"active": 3, "archived": 1}
    told = memkit()
    assert "3 active, 1 archived" in told
    assert "1 session, 2 messages" in told
