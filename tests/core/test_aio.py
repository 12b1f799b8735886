"""`AsyncMemory` is `Memory`, awaited."""

import asyncio
import contextvars
import inspect
import time

import pytest

from memkit_core import AsyncMemory, ClosedError, Memory, Message, Role, Scope
from memkit_core.aio import (
    AsyncDocuments,
    AsyncEpisodes,
    AsyncFormation,
    AsyncItems,
    AsyncProfiles,
    AsyncRuns,
    AsyncSessions,
    AsyncSkills,
    AsyncSummaries,
    AsyncTransfer,
    AsyncUpkeep,
    AsyncWorkingMemory,
)
from memkit_core.conversation.runs import Runs
from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summary import Summaries
from memkit_core.conversation.working import WorkingMemory
from memkit_core.documents import Documents
from memkit_core.formation import Formation
from memkit_core.items import Items
from memkit_core.transfer import Transfer
from memkit_core.typed import Episodes, Profiles, Skills
from memkit_core.upkeep import Upkeep

ALICE = Scope.user("alice")


def verbs(kind):
    return {
        # What `documents` and `using` give has an awaited form of its own.
        name: str(inspect.signature(member)).replace("Async", "")
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and name != "memory"
    }


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [
        (Memory, AsyncMemory),
        (Sessions, AsyncSessions),
        (Summaries, AsyncSummaries),
        (Documents, AsyncDocuments),
        (Items, AsyncItems),
        (WorkingMemory, AsyncWorkingMemory),
        (Runs, AsyncRuns),
        (Upkeep, AsyncUpkeep),
        (Profiles, AsyncProfiles),
        (Episodes, AsyncEpisodes),
        (Skills, AsyncSkills),
        (Transfer, AsyncTransfer),
        (Formation, AsyncFormation),
    ],
)
def test_the_signatures_are_the_same(blocking, awaited):
    """Every verb exists in both forms with the same parameters, defaults and result."""
    others = {name: made for name, made in verbs(awaited).items() if name != "capabilities"}
    assert others == verbs(blocking)


async def test_it_remembers_and_recalls(tmp_path):
    """Adding, recalling, conversations, deleting and closing work as in `Memory`."""
    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        record = await memory.add("The tent is green.", scope=ALICE)
        session = Scope.session("s", user="alice")
        await memory.sessions.append([Message(role=Role.USER, text="My canoe is blue.")], scope=session)
        hits = await memory.recall("tent canoe", scope=ALICE, include_messages=True)
        assert {hit.record.content for hit in hits} == {"The tent is green.", "My canoe is blue."}
        assert (await memory.turn_context(session, "tent")).recent[0].text == "My canoe is blue."
        assert (await memory.summaries.update(scope=session, threshold=1, keep=1)).summary is None
        assert await memory.get(record.id, scope=ALICE) == record
        assert (await memory.delete(scope=ALICE)).messages == 1
        assert (await memory.capabilities()).keyword
    with pytest.raises(ClosedError):
        memory.memory.add("late", scope=ALICE)


async def test_notes_and_runs(tmp_path):
    """Sessions, notes and run states are kept and read back, in every shape."""
    session = Scope.session("s", user="alice")
    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        await memory.sessions.create(scope=session, title="Tea")
        await memory.sessions.update(scope=session, metadata={"n": 1})
        assert (await memory.sessions.list(scope=ALICE, limit=1))[0].title == "Tea"
        await memory.sessions.append([Message(role=Role.USER, text="Hi", agent_id="a")], scope=session)
        assert len(await memory.sessions.read(scope=session, agent_id="a")) == 1
        named = await memory.sessions.generate_title(scope=session, model=lambda _: "Greeting")
        assert named.title == "Greeting"
        working = memory.working.using(template="# Note")
        await asyncio.gather(*(working.update(f"{n}", scope=session) for n in range(20)))
        assert sorted((await working.get(scope=session)).text.split(), key=int) == [*map(str, range(20))]
        assert "# Note" in await working.instructions(scope=session)
        await working.clear(scope=session)
        assert (await working.undo(scope=session)).version == 22
        assert len(await working.history(scope=session)) == 22
        assert working.tools(scope=session)[0]().split()
        await memory.runs.save("r", [1], scope=session)
        assert (await memory.runs.load("r", scope=session)).state == [1]
        assert len(await memory.runs.list(scope=session, status="paused")) == 1
        assert (await memory.runs.delete("r", scope=session)).runs == 1


async def test_the_loop_goes_on_while_a_call_waits():
    """A slow embedder holds up its own call only, and many calls wait side by side."""

    class Slow:
        model = "slow"

        def embed_documents(self, texts):
            return [[1.0, 2.0] for _ in texts]

        def embed_query(self, text):
            time.sleep(0.2)
            return [1.0, float(len(text))]

    async with AsyncMemory(Memory.open(":memory:", embedder=Slow())) as memory:
        await memory.add("kept", scope=ALICE)
        asked = [asyncio.create_task(memory.recall(f"{n}" * n, scope=ALICE)) for n in range(1, 21)]
        ticks = 0
        while not all(task.done() for task in asked):
            await asyncio.sleep(0.01)
            ticks += 1
        assert ticks >= 5
        assert all(len(task.result()) == 1 for task in asked)


async def test_after_closing(tmp_path):
    """Closing again does nothing, and every other call says that the memory was closed."""
    memory = await AsyncMemory.open(tmp_path / "m.db")
    async with memory:
        await memory.add("tea", scope=ALICE)
        await memory.close()
    await memory.close()
    with pytest.raises(ClosedError):
        await memory.recall("tea", scope=ALICE)
    with pytest.raises(ClosedError):
        await memory.sessions.read(scope=Scope.session("s1", user=ALICE))


def test_a_forked_child_has_threads_of_its_own(tmp_path, in_child):
    """A memory that was awaited before a fork can be awaited in the child."""
    memory = AsyncMemory(Memory.open(tmp_path / "m.db"))
    asyncio.run(memory.add("tea", scope=ALICE))
    assert in_child(lambda: len(asyncio.run(memory.recall("tea", scope=ALICE)))) == 1
    asyncio.run(memory.close())


async def test_context_variables_are_kept():
    """What the caller set for its task is seen by the embedder in the worker thread."""
    who = contextvars.ContextVar("who", default="nobody")
    seen = []

    class Asking:
        model = "asking"

        def embed_documents(self, texts):
            return [[1.0, 2.0] for _ in texts]

        def embed_query(self, text):
            seen.append(who.get())
            return [1.0, float(len(text))]

    async with AsyncMemory(Memory.open(":memory:", embedder=Asking())) as memory:
        await memory.add("kept", scope=ALICE)
        who.set("alice")
        await memory.recall("kept", scope=ALICE)
    assert seen[-1] == "alice"


async def test_moving_house(tmp_path):
    """Export, import and backup are awaited like the rest."""
    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        await memory.add("The tent is green.", scope=ALICE)
        path = tmp_path / "x.jsonl"
        assert (await memory.export_jsonl(path, scope=ALICE)).counts == {"records": 1}
        assert (await memory.transfer.export_jsonl(path, everything=True)).rows == 1
        assert not (await memory.import_jsonl(path)).changed
        assert not (await memory.transfer.import_jsonl(path)).changed
        assert (await memory.transfer.backup(tmp_path / "copy.db")).bytes > 0
