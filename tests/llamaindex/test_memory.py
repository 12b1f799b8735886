"""What `MemkitMemory` promises of a session: windows, order, `set`, threads and event loops."""

import asyncio
import contextvars
import threading
from datetime import UTC, datetime, timedelta

import pytest
from llama_index.core.base.llms.types import ChatMessage

from llamaindex_memkit import MemkitMemory
from memkit_core import (
    Config,
    InvalidInputError,
    Memory,
    Scope,
)
from memkit_core.conversation.windows import NO_RESULT

ALICE = Scope.user("alice")


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


def test_nothing_to_recall(chat):
    """With nothing to recall, `get` is the bare history."""
    adapter = chat()
    assert adapter.get() == []
    adapter.put_messages([user("hello"), assistant("hi"), user("how are you?")])
    assert adapter.get() == [user("hello"), assistant("hi"), user("how are you?")]
    assert adapter.get(input="how are you?") == adapter.get()


@pytest.mark.parametrize("recall", [True, False])
def test_window_of_every_size(chat, parcel, check_valid, recall):
    """A window of any token budget is valid for a chat API (B01)."""
    chat().put_messages(parcel)
    lengths = set()
    for limit in range(1, 200):
        adapter = chat(token_limit=limit, recall=recall)
        window = adapter.get()
        check_valid(window)
        assert window[-1].content == "thanks"
        lengths.add(len(window))
    assert {1, 6} <= lengths


def test_dangling_call(chat, parcel, check_valid):
    """A call that never got its result is answered the same way on each read; the log is unchanged (B04)."""
    adapter = chat()
    adapter.put_messages(parcel[:3])
    adapter.put(user("continue"))
    first, again = adapter.get(), adapter.get()
    check_valid(first)
    check_valid(adapter.get_all())
    assert first == again
    assert [m.content for m in first] == ["ship parcel 12", None, "sent", NO_RESULT, "continue"]
    assert len(adapter._memory.sessions.read(scope=adapter.scope)) == 4


def test_callers_tokens_count(chat):
    """`initial_token_count` counts against the limit."""
    adapter = chat(recall=False, token_limit=100)
    adapter.put_messages([user("word " * 20), assistant("word " * 20), user("now")])
    assert len(adapter.get()) == 3
    assert adapter.get(initial_token_count=60) == [user("now")]
    assert adapter.get(initial_token_count=10_000) == [user("now")]


def test_order(chat, said):
    """Messages are read in the order they were appended, one by one or in a batch (B18)."""
    adapter = chat(token_limit=10**6)
    for i in range(50):
        adapter.put(user(f"one {i}"))
    adapter.put_messages([user(f"many {i}") for i in range(50)])
    expected = [("user", f"one {i}") for i in range(50)] + [("user", f"many {i}") for i in range(50)]
    assert said(adapter.get_all()) == expected


def test_order_when_the_clock_steps_back(path, said):
    """A clock that is set back does not move a later message before an earlier one (B18)."""
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    clock = iter([moment - timedelta(hours=n) for n in range(100)])
    with Memory.open(path, clock=lambda: next(clock)) as memory:
        adapter = MemkitMemory.from_defaults(memory=memory, session_id="s", user_id="u", recall=False)
        for i in range(10):
            adapter.put(user(str(i)))
        assert [text for _, text in said(adapter.get())] == [str(i) for i in range(10)]


def test_equal_messages(chat):
    """Two equal messages are two messages, and the caller's objects stay as they are (B20)."""
    adapter, yes = chat(), user("yes")
    adapter.put(yes)
    adapter.put(yes)
    adapter.put_messages([yes, yes])
    assert adapter.get_all() == [yes] * 4
    assert yes == user("yes")


def test_empty_batch(chat, memory):
    """Putting no messages does nothing, and makes no session (B23)."""
    adapter = chat()
    adapter.put_messages([])
    assert memory.sessions.get(scope=adapter.scope) is None


@pytest.mark.parametrize("wrong", [None, "hi", {"role": "user", "content": "hi"}, 5, [user("hi")]], ids=repr)
def test_what_is_no_message(chat, memory, wrong):
    """What is no `ChatMessage`, or a single one where a list is expected, is refused; nothing is written."""
    adapter = chat()
    for write in (
        lambda: adapter.put(wrong),
        lambda: adapter.put_messages([user("hi"), wrong]),
        lambda: adapter.put_messages(user("hi")),
        lambda: adapter.set([user("hi"), wrong]),
    ):
        with pytest.raises(InvalidInputError, match=r"message"):
            write()
    assert adapter.get_all() == []


def test_copies_are_returned(chat):
    """Changing what was returned, as agents do, changes nothing that is stored."""
    adapter = chat()
    adapter.put(ChatMessage(role="user", content="hello", additional_kwargs={"a": {"b": 1}}))
    for read in (adapter.get, adapter.get_all):
        message = read()[-1]
        message.blocks[0].text = "Current state: x"
        message.additional_kwargs["a"]["b"] = 2
    assert adapter.get_all() == [ChatMessage(role="user", content="hello", additional_kwargs={"a": {"b": 1}})]


def test_never_falsy(chat):
    """An empty memory is not false, or engines would replace it by a default one."""
    assert bool(chat())
    assert not hasattr(MemkitMemory, "__len__")
    assert not hasattr(MemkitMemory, "__bool__")


def test_set_appends_only_the_new_tail(memory, chat):
    """Setting a history that begins with what is stored appends the rest; nothing is doubled."""
    adapter = chat()
    history = [user("yes"), assistant("yes?"), user("yes")]
    adapter.set(history[:1])
    before = memory.sessions.read(scope=adapter.scope)
    adapter.set(history[:2])
    adapter.set(history)
    adapter.set(adapter.get_all())
    assert adapter.get_all() == history
    assert memory.sessions.read(scope=adapter.scope)[0] == before[0]


def test_set_of_a_history_with_answers_that_hold_nothing(memory, chat):
    """An answer that holds nothing is stored once, whether the history that is set has it, as a caller's, or not."""
    adapter = chat()
    history = [user("one"), assistant(""), user("two")]
    for known in (1, 2, 3):
        adapter.set(history[:known])
    adapter.set(adapter.get_all())
    assert [message.text for message in memory.sessions.read(scope=adapter.scope)] == ["one", "", "two"]
    adapter.set([*adapter.get_all(), assistant("three")])
    assert [message.text for message in memory.sessions.read(scope=adapter.scope)] == [
        "one",
        "",
        "two",
        "three",
    ]


def test_set_replaces_what_differs(memory, chat):
    """Setting another history keeps the common beginning and replaces the rest, with its turns."""
    adapter = chat()
    adapter.put_messages([user("one"), assistant("two owls"), user("three")])
    first = memory.sessions.read(scope=adapter.scope)[0]
    adapter.set([user("one"), assistant("two cats")])
    assert adapter.get_all() == [user("one"), assistant("two cats")]
    assert memory.sessions.read(scope=adapter.scope)[0] == first
    found = memory.recall("owls", scope=ALICE, include_messages=True)
    assert all("owls" not in hit.record.content for hit in found)
    adapter.set([user("one")])
    assert adapter.get_all() == [user("one")]
    adapter.set([])
    assert adapter.get_all() == []


def test_set_of_a_repaired_history(memory, chat, parcel):
    """A history read with a placeholder in it can be set again without storing the placeholder."""
    adapter = chat()
    adapter.put_messages(parcel[:3])
    history = [*adapter.get_all(), user("continue")]
    assert len(history) == 5
    adapter.set(history)
    texts = [message.text for message in memory.sessions.read(scope=adapter.scope)]
    assert texts == ["ship parcel 12", "", "sent", "continue"]
    assert adapter.get_all() == history


def test_set_that_cannot_be_stored(path):
    """A history that is refused leaves the old one whole."""
    with Memory.open(path, config=Config(max_content_chars=10)) as memory:
        adapter = MemkitMemory.from_defaults(memory=memory, session_id="s", user_id="u")
        adapter.put(user("old"))
        with pytest.raises(InvalidInputError):
            adapter.set([user("new"), user("much too long to be stored")])
        assert adapter.get_all() == [user("old")]


async def test_async_forms(memory, chat):
    """Every async form does what its sync form does."""
    memory.add("The owl is called Pip.", scope=ALICE)
    adapter = chat()
    await adapter.aput(user("owl name?"))
    await adapter.aput_messages([assistant("Pip"), user("sure?")])
    await adapter.aput_messages([])
    assert (
        await adapter.aget_all() == adapter.get_all() == [user("owl name?"), assistant("Pip"), user("sure?")]
    )
    assert await adapter.aget(input="owl name?") == adapter.get(input="owl name?")
    assert await adapter.aget() == adapter.get()
    assert await adapter.aget(initial_token_count=10**6) == [user("sure?")]
    await adapter.aset([user("fresh")])
    assert adapter.get_all() == [user("fresh")]
    await adapter.areset()
    assert await adapter.aget_all() == []


async def test_sync_and_async_alternate_in_a_loop(chat):
    """Sync forms inside a running loop and async forms alternate without loss or a hang (B67, B68)."""
    adapter = chat()

    async def talk():
        for i in range(4):
            adapter.put(user(f"sync {i}"))
            await adapter.aput(user(f"async {i}"))
            assert adapter.get()[-1] == (await adapter.aget())[-1]

    await asyncio.wait_for(talk(), timeout=60)
    expected = [f"{kind} {i}" for i in range(4) for kind in ("sync", "async")]
    assert [message.content for message in await adapter.aget_all()] == expected


async def test_context_variables_are_kept(chat):
    """The worker thread of an async form sees the caller's context variables."""
    request = contextvars.ContextVar("request", default=None)
    seen = []

    class Spy(ChatMessage):
        def model_dump(self, **kwargs):
            seen.append((request.get(), threading.current_thread()))
            return super().model_dump(**kwargs)

    request.set("r1")
    await chat().aput(Spy(role="user", content="x"))
    [(value, thread)] = seen
    assert value == "r1"
    assert thread is not threading.main_thread()


def test_writers_in_threads(chat):
    """Messages put from many threads are all stored, each thread's in its order."""
    adapter = chat()

    def write(name):
        for i in range(20):
            adapter.put(user(f"{name} {i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [message.content for message in adapter.get_all()]
    assert len(texts) == 80
    for name in "abcd":
        assert [t for t in texts if t.startswith(name)] == [f"{name} {i}" for i in range(20)]


def test_it_can_write_through_the_queue(tmp_path):
    """With `queue=True` `put` waits for no disk: `get` and `set` see what waits, `close` stores it."""
    slow = Config(queue_debounce=3600, queue_age=3600, disk_reserve=1)
    with Memory.open(tmp_path / "m.db", config=slow) as memory:
        chat = MemkitMemory.from_defaults(memory=memory, session_id="s", user_id="alice", queue=True)
        chat.put_messages([user("one"), assistant("two")])
        assert memory.sessions.queue.state.waiting == 2
        assert chat.get(input="one") == [user("one"), assistant("two")]
        chat.put(user("three"))
        chat.set([user("one"), assistant("two"), user("three"), assistant("four")])
        assert MemkitMemory.from_dict(chat.to_dict(), memory=memory).queue is True
        chat.put(user("five"))
        assert memory.sessions.queue.state.waiting == 1
    with Memory.open(tmp_path / "m.db") as memory:
        chat = MemkitMemory.from_defaults(memory=memory, session_id="s", user_id="alice")
        assert [message.content for message in chat.get_all()] == ["one", "two", "three", "four", "five"]
