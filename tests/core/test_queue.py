"""`PersistQueue`: what is put in is written soon, in order, and nothing that was taken is lost."""

import asyncio
import inspect
import threading
import time
from contextlib import suppress

import pytest

from memkit_core import (
    AsyncMemory,
    BackendUnavailableError,
    ClosedError,
    Config,
    InvalidInputError,
    Memory,
    Message,
    Role,
    Scope,
    ScopeError,
    ToolCall,
)
from memkit_core.aio import AsyncPersistQueue
from memkit_core.config import Config as Settings
from memkit_core.connect import connect
from memkit_core.conversation.lane import QueueState
from memkit_core.conversation.queue import PersistQueue
from memkit_core.conversation.windows import NO_RESULT
from memkit_core.models import MESSAGES
from memkit_core.times import utc_now

ALICE = Scope.user("alice")
TALK, OTHER = Scope.session("talk", user="alice"), Scope.session("other", user="alice")
NEVER = Config(queue_debounce=3600, queue_age=3600, disk_reserve=1)
"""Nothing is written by the clock while a test runs."""


def said(text, role=Role.USER, **fields):
    return Message(role=role, text=text, **fields)


def texts(messages):
    return [message.text for message in messages]


def call(call_id):
    return ToolCall(id=call_id, name="look_up")


class ModelFailure(Exception):  # noqa: N818 - what happened, in words
    """What a model raises in the middle of a turn."""


class Desk:
    """A queue without threads, its clock, and what it has written."""

    def __init__(self, **settings):
        self.now, self.written, self.fails, self.during = 0.0, [], 0, lambda: None
        self.queue = PersistQueue(
            self.write, config=Config(**settings), monotonic=lambda: self.now, background=False
        )

    def write(self, scope, messages):
        self.during()
        if self.fails:
            self.fails -= 1
            raise BackendUnavailableError("down", backend="test", operation="append")
        self.written.append((scope.id, texts(messages)))

    def at(self, now):
        self.now = now
        return self.queue.run_due()


class BrokenLog:
    """The log of a store that is down while `down` is set."""

    def __init__(self, log, store):
        self.log, self.store = log, store

    def append(self, session, messages, turns, *, now, keep=None):
        self.store.tried.set()
        if self.store.down:
            raise BackendUnavailableError("down", backend="test", operation="append")
        return self.log.append(session, messages, turns, now=now, keep=keep)

    def __getattr__(self, name):
        return getattr(self.log, name)


class BrokenStore:
    """A store whose log refuses to be written while `down` is set."""

    def __init__(self, store):
        self.store, self.down, self.tried = store, False, threading.Event()

    @property
    def log(self):
        return BrokenLog(self.store.log, self)

    def __getattr__(self, name):
        return getattr(self.store, name)


@pytest.fixture
def broken(tmp_path):
    """A memory in a file, and its store, that can be taken down."""
    config = Config(queue_debounce=0.01, disk_reserve=1)
    parts = connect(tmp_path / "m.db", config, embedder=None, embedding_model=None, clock=utc_now)
    store = parts.store = BrokenStore(parts.store)
    with Memory(parts, config=config) as memory:
        yield memory, store
        store.down = False


# ------------------------------------------------------------------------------- when it writes


def test_it_waits_for_a_pause_and_writes_once():
    """What comes less than 200 ms apart is one batch, 200 ms after the last of it."""
    desk = Desk()
    for now in (0.0, 0.15, 0.3):
        desk.now = now
        desk.queue.append([said(f"at {now}")], scope=TALK)
        assert desk.queue.run_due() == pytest.approx(0.2)
    assert desk.at(0.49) == pytest.approx(0.01)
    assert desk.written == []
    assert desk.at(0.5) is None
    assert desk.written == [("talk", ["at 0.0", "at 0.15", "at 0.3"])]
    assert desk.queue.state == QueueState()


def test_nothing_waits_longer_than_two_seconds():
    """A stream without a pause is written every two seconds all the same."""
    desk = Desk()
    for tick in range(45):
        desk.now = tick / 10
        desk.queue.append([said(str(tick))], scope=TALK)
        desk.queue.run_due()
    assert [len(batch) for _, batch in desk.written] == [21, 21]


def test_fifty_messages_are_written_at_once():
    """The size is reached by messages and by those of an open turn."""
    desk = Desk()
    desk.queue.append([said(str(n)) for n in range(49)], scope=TALK)
    assert desk.queue.run_due() == pytest.approx(0.2)
    desk.queue.turn([said("49")], scope=TALK)
    desk.queue.run_due()
    assert desk.written == [("talk", [str(n) for n in range(50)])]


def test_a_tool_result_and_the_end_of_a_turn_are_written_at_once():
    """The user's message waits from the start; a result, the end, an error: each is written at once."""
    desk = Desk()
    with suppress(ModelFailure), desk.queue.turn([said("go")], scope=TALK) as turn:
        assert desk.queue.state.waiting == 1
        turn.add(said("", Role.ASSISTANT, tool_calls=(call("c1"),)))
        assert desk.queue.run_due() == pytest.approx(0.2)
        turn.add(said("found", Role.TOOL, tool_call_id="c1"))
        assert desk.queue.run_due() is None
        assert desk.written == [("talk", ["go", "", "found"])]
        turn.add(said("So it", Role.ASSISTANT))
        raise ModelFailure
    desk.queue.run_due()
    assert desk.written[1:] == [("talk", ["So it"])]
    assert texts(turn.messages) == ["go", "", "found", "So it"]


def test_a_message_that_grows_after_it_was_written_is_written_again():
    """A part that comes during the write of its message is not lost with the mark of the first."""
    desk = Desk()
    turn = desk.queue.turn([said("go")], scope=TALK)
    turn.add(said("one", Role.ASSISTANT))

    def more():
        desk.during = lambda: None
        turn.add(said(" two", Role.ASSISTANT))
        desk.queue.append([said("then")], scope=TALK)

    desk.during = more
    desk.at(0.2)
    desk.at(0.5)
    assert desk.written == [("talk", ["go", "one"]), ("talk", ["one two", "then"])]


# ------------------------------------------------------------------------------- when a write fails


def test_a_failed_write_is_tried_again_with_longer_pauses():
    """Five more tries after 0.1, 0.2, 0.4, 0.8 and 1.6 s; what came meanwhile stands behind."""
    desk, tries = Desk(), []
    desk.fails, desk.during = 5, lambda: tries.append(round(desk.now, 3))
    desk.queue.append([said("a"), said("b")], scope=TALK)
    pause = desk.at(0.2)
    desk.queue.append([said("c")], scope=TALK)
    while pause is not None:
        pause = desk.at(desk.now + pause)
    assert tries == [0.2, 0.3, 0.5, 0.9, 1.7, 3.3]
    assert desk.written == [("talk", ["a", "b", "c"])]
    assert desk.queue.state == QueueState()


def test_what_used_up_its_tries_is_kept_and_shown():
    """It is put back in order, counted with its error, and written with what comes next."""
    desk = Desk(queue_retries=1)
    desk.fails = 2
    desk.queue.append([said("a"), said("b")], scope=TALK)
    desk.at(0.2)
    assert (desk.queue.state.waiting, desk.queue.state.failed) == (2, 0)
    assert desk.at(0.35) == pytest.approx(30.0)
    assert desk.queue.state == QueueState(waiting=2, failed=2, last_error="test: append failed: down")
    desk.now = 1.0
    desk.queue.append([said("c")], scope=TALK)
    desk.at(1.2)
    assert desk.written == [("talk", ["a", "b", "c"])]
    assert desk.queue.state == QueueState()


def test_any_error_of_a_store_keeps_what_waits():
    """An error that is not memkit's own is shown like any other, and costs nothing."""
    desk = Desk()

    def bug():
        raise ZeroDivisionError("a bug")

    desk.during = bug
    desk.queue.append([said("a")], scope=TALK)
    assert desk.queue.flush() is False
    assert "ZeroDivisionError: a bug" in desk.queue.state.last_error
    desk.during = lambda: None
    assert desk.queue.flush() is True
    assert desk.written == [("talk", ["a"])]


def test_a_store_that_is_down_for_a_while_loses_nothing(broken):
    """With real threads: nothing lost, order kept, reads show what waits all the time."""
    memory, store = broken
    queue = memory.sessions.queue
    memory.sessions.append([said("stored", id="0")], scope=TALK)
    store.tried.clear()
    store.down = True
    for number in range(1, 61):
        queue.append([said(f"{number}", id=f"{number}")], scope=TALK)
    assert store.tried.wait(60)
    read = memory.sessions.read(scope=TALK)
    assert [message.id for message in read] == [f"{n}" for n in range(61)]
    assert [message.position for message in read] == list(range(61))
    queue.append([said("stored, and changed", id="0")], scope=TALK)
    assert texts(memory.sessions.read(scope=TALK))[::60] == ["stored, and changed", "60"]
    assert [message.position for message in memory.sessions.read(scope=TALK)] == list(range(61))
    assert texts(memory.sessions.read(scope=TALK, last=2, before=60)) == ["58", "59"]
    assert texts(memory.sessions.window(scope=TALK, last=1)) == ["60"]
    with pytest.raises(BackendUnavailableError):
        memory.sessions.append([said("out of turn")], scope=TALK)
    store.down = False
    assert queue.flush(60) is True
    assert [(m.id, m.position) for m in memory.sessions.read(scope=TALK)] == [(f"{n}", n) for n in range(61)]
    assert queue.state == QueueState()


def test_flush_keeps_its_deadline(broken):
    """Returns in time and says that not all is stored; close says so too and does not hang."""
    memory, store = broken
    store.down = True
    memory.sessions.queue.append([said("a")], scope=TALK)
    started = time.monotonic()
    assert memory.sessions.queue.flush(0.05) is False
    assert memory.flush(0.05) is False
    assert time.monotonic() - started < 10
    assert memory.sessions.queue.state.waiting == 1


# ------------------------------------------------------------------------------- order and threads


def test_sessions_are_written_side_by_side_and_each_by_itself():
    """At most as many writes as allowed at the same time, never two of one session, each in order."""
    lock, running, most, wrong, written = threading.Lock(), [], [0], [], {}
    both = threading.Barrier(3)

    def write(scope, messages):
        with lock:
            wrong.extend([scope] * running.count(scope))
            running.append(scope)
            most[0] = max(most[0], len(running))
        if scope.id in ("0", "1", "2") and scope not in written:
            both.wait(60)
        with lock:
            running.remove(scope)
            written.setdefault(scope, []).extend(texts(messages))

    config = Config(queue_debounce=0.001, queue_concurrency=3)
    queue = PersistQueue(write, config=config)
    scopes = [Scope.session(str(n), user="alice") for n in range(12)]
    for number in range(100):
        for scope in scopes:
            queue.append([said(str(number))], scope=scope)
    assert queue.flush(60) is True
    assert wrong == []
    assert most == [3]
    assert written == {scope: [str(n) for n in range(100)] for scope in scopes}
    assert queue.close(5) is True


def test_many_threads_may_put_in(tmp_path):
    """Messages of eight threads into two sessions are all stored, those of each thread in its order."""
    with Memory.open(tmp_path / "m.db", config=Config(queue_debounce=0.002, disk_reserve=1)) as memory:

        def feed(name):
            for number in range(50):
                scope = (TALK, OTHER)[number % 2]
                memory.sessions.queue.append([said(f"{name} {number}", id=f"{name} {number}")], scope=scope)
                if number % 10 == 0:
                    memory.sessions.read(scope=scope)

        threads = [threading.Thread(target=feed, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for rest, scope in enumerate((TALK, OTHER)):
            log = texts(memory.sessions.read(scope=scope))
            for name in range(8):
                own = [text for text in log if text.startswith(f"{name} ")]
                assert own == [f"{name} {number}" for number in range(rest, 50, 2)]
        assert memory.sessions.queue.state == QueueState()


# ------------------------------------------------------------------------------- what others see


def test_every_verb_sees_what_waits(tmp_path):
    """Reads return it, direct writes stand behind it, deletes delete it."""
    with Memory.open(tmp_path / "m.db", config=NEVER) as memory:
        sessions, queue = memory.sessions, memory.sessions.queue

        def put(text):
            return queue.append([said(text)], scope=TALK)[0].id

        first = put("my canoe is blue")
        assert memory.recall("canoe", scope=ALICE, include_messages=True)[0].record.id == first
        second = put("b")
        assert memory.get(second, scope=TALK, space=MESSAGES).content == "b"
        put("c")
        assert len(memory.list_records(scope=TALK, space=MESSAGES)) == 3
        put("d")
        assert sessions.get(scope=TALK).messages == 4
        put("e")
        assert sessions.list(scope=ALICE)[0].messages == 5
        put("f")
        assert texts(sessions.window(scope=TALK, last=2)) == ["e", "f"]
        put("g")
        sessions.append([said("h")], scope=TALK)
        assert texts(sessions.for_model(scope=TALK))[-3:] == ["f", "g", "h"]
        assert sessions.delete([put("i")], scope=TALK).messages == 1
        put("j")
        assert sessions.clear(scope=TALK).messages == 9
        put("k")
        assert memory.delete(scope=ALICE).messages == 1
        put("l")
        assert memory.delete(everything=True).messages == 1
        assert memory.flush() is True
        assert sessions.read(scope=TALK) == []


def test_a_turn_is_seen_while_it_is_said(tmp_path):
    """What is read during a turn is valid for a model, and equal to what is stored when it has ended."""
    with Memory.open(tmp_path / "m.db", config=NEVER) as memory:
        with memory.sessions.queue.turn([said("go")], scope=TALK) as turn:
            turn.add(said("Let me ", Role.ASSISTANT, tool_calls=(call("z1"), call("z2"))))
            assert texts(memory.sessions.read(scope=TALK)) == ["go", "Let me "]
            turn.add(said("look.", Role.ASSISTANT))
            turn.add(said("one", Role.TOOL, tool_call_id="z1"))
            assert texts(memory.sessions.for_model(scope=TALK)) == ["go", "Let me look.", "one", NO_RESULT]
        assert memory.sessions.queue.flush(60) is True
        assert [m.id for m in memory.sessions.read(scope=TALK)] == [m.id for m in turn.messages]
        assert [m.position for m in memory.sessions.read(scope=TALK)] == [0, 1, 2]


async def test_a_cancelled_turn_keeps_what_was_said(tmp_path):
    """Cancelled in the middle of an answer, a turn has the question and the answer as far as it came."""
    async with await AsyncMemory.open(tmp_path / "m.db", config=NEVER) as memory:
        began = asyncio.Event()

        async def answer():
            with memory.sessions.queue.turn([said("go")], scope=TALK) as turn:
                turn.add(said("I will", Role.ASSISTANT))
                began.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(answer())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await memory.sessions.queue.flush(60) is True
        await memory.sessions.queue.append([said("and now?")], scope=TALK)
        assert texts(await memory.sessions.read(scope=TALK)) == ["go", "I will", "and now?"]
        assert memory.sessions.queue.state == QueueState()


async def test_inside_a_running_loop_nothing_hangs(tmp_path):
    """The blocking verbs work in a coroutine on a new file, without any set-up."""
    async with asyncio.timeout(20):
        with Memory.open(tmp_path / "m.db") as memory:
            memory.sessions.queue.append([said("a")], scope=TALK)
            assert texts(memory.sessions.read(scope=TALK)) == ["a"]
            await asyncio.sleep(0)
            memory.sessions.queue.append([said("b")], scope=TALK)
            assert memory.sessions.queue.flush() is True


def test_the_awaited_verbs_are_the_same():
    """`AsyncPersistQueue` has the verbs of `PersistQueue` with the same parameters."""
    for name in ("append", "turn", "flush"):
        blocking, awaited = getattr(PersistQueue, name), getattr(AsyncPersistQueue, name)
        assert str(inspect.signature(awaited)) == str(inspect.signature(blocking))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("text", "Message"),
        (said("x", payload={"k": object()}), "payload"),
        (said("x", payload=[1e999]), "payload"),
    ],
)
def test_what_cannot_be_stored_is_refused_at_once(message, problem):
    """An error that only the writing thread could raise would come too late for who caused it."""
    desk = Desk()
    with pytest.raises(InvalidInputError, match=problem):
        desk.queue.append([said("fine"), message], scope=TALK)
    with pytest.raises(InvalidInputError, match="list"):
        desk.queue.append("text", scope=TALK)
    with pytest.raises(ScopeError, match="session"):
        desk.queue.append([said("x")], scope=ALICE)
    with pytest.raises(ScopeError, match="session"):
        desk.queue.turn(scope=ALICE)
    assert desk.queue.state == QueueState()


@pytest.mark.parametrize(
    "messages",
    [
        None,
        "text",
        7,
        said("one"),
        [said("fine"), "text"],
        [said("fine"), said("x", payload={"k": object()})],
        [said("fine"), said("x", Role.TOOL, tool_call_id="never asked")],
        [said("fine", id="1"), said("x", Role.ASSISTANT, id="1")],
    ],
    ids=range(8),
)
def test_a_turn_is_begun_whole_or_not_at_all(messages):
    """When one of the messages that a turn begins with is refused, none of them is queued."""
    desk = Desk()
    with pytest.raises(InvalidInputError):
        desk.queue.turn(messages, scope=TALK)
    assert desk.queue.state == QueueState()
    if messages is None or isinstance(messages, str | int):
        with pytest.raises(InvalidInputError, match="saved"):
            desk.queue.turn([said("fine")], scope=TALK, saved=messages)
    with desk.queue.turn([said("good")], scope=TALK) as turn:
        turn.add(said("day", Role.ASSISTANT))
        with pytest.raises(InvalidInputError):
            turn.add(said("x", payload={"k": object()}))
    desk.at(0)
    assert desk.written == [("talk", ["good", "day"])]


@pytest.mark.parametrize("timeout", ["1", float("nan"), float("inf"), -1, True, [1]])
def test_a_deadline_is_a_number_of_seconds(timeout):
    """Anything else is refused before anything is written; a very long one is as good as none."""
    desk = Desk()
    desk.queue.append([said("x")], scope=TALK)
    with pytest.raises(InvalidInputError, match="timeout"):
        desk.queue.flush(timeout)
    for scope in ("x", 7, [TALK], Scope.workspace("w")):
        with pytest.raises(ScopeError, match="flush"):
            desk.queue.flush(scope=scope)
    assert desk.written == []
    with Memory.open(":memory:") as memory:
        with pytest.raises(InvalidInputError, match="timeout"):
            memory.flush(timeout)
        assert memory.flush(1e300)
    assert desk.queue.flush(1e300)
    assert desk.written == [("talk", ["x"])]


def test_settings_that_cannot_work_are_refused():
    """A negative pause or no writer at all is a typed error."""
    for name, value in (("queue_debounce", -1), ("queue_retries", -1), ("queue_size", 0)):
        with pytest.raises(ValueError, match=name):
            Settings(**{name: value})


# ------------------------------------------------------------------------------- how it ends


def test_close_writes_what_waits(tmp_path):
    """After `close` all of it is in the file, and nothing more is taken."""
    memory = Memory.open(tmp_path / "m.db", config=NEVER)
    memory.sessions.queue.append([said("a"), said("b")], scope=TALK)
    turn = memory.sessions.queue.turn([said("c")], scope=TALK)
    memory.close()
    for late in (lambda: memory.sessions.queue.append([said("d")], scope=TALK), lambda: turn.add(said("d"))):
        with pytest.raises(ClosedError):
            late()
    with Memory.open(tmp_path / "other.db", config=NEVER) as other:
        ended = other.sessions.queue.turn([said("e")], scope=TALK)
    with ended:
        pass
    with Memory.open(tmp_path / "m.db") as again:
        assert texts(again.sessions.read(scope=TALK)) == ["a", "b", "c"]


LEAVE = """
import sys
from memkit_core import Config, Memory, Message, Role, Scope
memory = Memory.open(sys.argv[1], config=Config(queue_debounce=3600, queue_age=3600, disk_reserve=1))
scope = Scope.session("talk", user="alice")
memory.sessions.queue.append([Message(role=Role.USER, text="a")], scope=scope)
turn = memory.sessions.queue.turn([Message(role=Role.USER, text="b")], scope=scope)
if sys.argv[2] == "dropped":
    del memory, turn
elif sys.argv[2] == "slow":
    import time
    write = memory.sessions.queue._write
    memory.sessions.queue._write = lambda *batch: (time.sleep(1.5), write(*batch))
elif sys.argv[2] == "hangs":
    import time
    memory.sessions.queue._write = lambda *batch: time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["held", "dropped", "slow"])
def test_an_interpreter_that_ends_writes_what_waits(tmp_path, run_script, how):
    """Without `close`, at the end of the process or when the memory is dropped, nothing is lost."""
    run_script(LEAVE, tmp_path / "m.db", how)
    with Memory.open(tmp_path / "m.db") as memory:
        assert texts(memory.sessions.read(scope=TALK)) == ["a", "b"]


def test_a_store_that_hangs_does_not_hold_up_the_end(tmp_path, run_script):
    """A process whose store never answers ends all the same, within some seconds."""
    run_script(LEAVE, tmp_path / "m.db", "hangs", seconds=60)


def test_a_forked_child_starts_clean(tmp_path, in_child):
    """The child has nothing of what its parent writes, can use the queue itself, and leaves no doubles."""
    with Memory.open(tmp_path / "m.db", config=NEVER) as memory:
        queue = memory.sessions.queue
        queue.append([said("parent")], scope=TALK)
        turn = queue.turn([said("open turn")], scope=TALK)

        def child():
            empty = queue.state.waiting
            queue.append([said("child")], scope=OTHER)
            return [empty, queue.flush(60), texts(memory.sessions.read(scope=TALK))]

        assert in_child(child) == [0, True, []]
        turn.add(said("more", Role.ASSISTANT))
        assert texts(memory.sessions.read(scope=TALK)) == ["parent", "open turn", "more"]
        assert texts(memory.sessions.read(scope=OTHER)) == ["child"]


TALKER = """
import sys
from memkit_core import Config, Memory, Message, Role, Scope
scope = Scope.session("talk", user="alice")
with Memory.open(sys.argv[1], config=Config(queue_debounce=0.002, disk_reserve=1)) as memory:
    for n in range(100):
        memory.sessions.queue.append([Message(role=Role.USER, text=f"{sys.argv[2]} {n}")], scope=scope)
        if n % 7 == 0:
            memory.sessions.queue.flush()
"""


def test_two_processes_share_a_session(tmp_path, start_script):
    """No message of two processes is lost or doubled, and those of each stand in its order."""
    path = tmp_path / "m.db"
    Memory.open(path).close()
    talkers = [start_script(TALKER, path, name) for name in "pq"]
    for talker in talkers:
        assert talker.wait(60) == 0
    with Memory.open(path) as memory:
        log = memory.sessions.read(scope=TALK)
        assert [message.position for message in log] == list(range(200))
        for name in "pq":
            own = [text for text in texts(log) if text.startswith(name)]
            assert own == [f"{name} {number}" for number in range(100)]
