"""`MemkitChatStore` behind LlamaIndex's chat buffers; only the model's words are scripted."""

import asyncio
import copy
import inspect
import itertools
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.workflow import Context, JsonSerializer

from llamaindex_memkit import MemkitChatStore
from memkit_core import Config, ConfigError, InvalidInputError, Memory, Scope, ScopeError
from memkit_core.conversation.windows import NO_RESULT
from memkit_core.prompts import without_added
from memkit_core.testing.samples import HOSTILE_IDS

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)
# Making an agent reads every attribute of it, pydantic's deprecated ones too.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning:inspect")


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


def texts(messages):
    return [message.content for message in messages]


@pytest.fixture
def chats(memory):
    """Alice's chat store."""
    return MemkitChatStore(memory=memory, user_id="alice")


@pytest.fixture
def found(memory):
    """The texts of turns that recall finds, best first."""

    def find(query, scope=ALICE):
        hits = memory.recall(query, scope=scope, include_messages=True)
        return [hit.record.content for hit in hits]

    return find


def full():
    """One message with every kind of block, and keyword arguments of every kind."""
    return ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="hm", additional_information={"signature": "s1"}),
            TextBlock(text="naïve café 丹佛 👩‍👧\u2028"),
            ImageBlock(url="https://example.com/a.png"),
            ToolCallBlock(tool_call_id="k1", tool_name="ship", tool_kwargs={"parcel": [12, None, 1.5]}),
        ],
        additional_kwargs={"nested": {"a": [1, {"b": None}]}, "n": 2**70},
    )


# ------------------------------------------------------------------------------- what is kept


def test_every_field_survives(chats, memory, path):
    """Blocks, keyword arguments and roles come back equal and in order, also from the reopened file (B22)."""
    answer = ChatMessage(role="tool", content="sent", additional_kwargs={"tool_call_id": "k1"})
    said = [
        ChatMessage(role="system", content="Be kind."),
        ChatMessage(role="developer", content="Be brief."),
        user("ship parcel 12"),
        full(),
        answer,
        assistant("done"),
    ]
    for message in said:
        chats.add_message("s1", message)
    assert chats.get_messages("s1") == said
    chats.set_messages("s2", said)
    memory.close()
    with Memory.open(path) as again:
        reopened = MemkitChatStore(memory=again, user_id="alice")
        assert reopened.get_messages("s1") == reopened.get_messages("s2") == said
        assert reopened.get_messages("s1") is not reopened.get_messages("s1")


def test_order_is_that_of_adding(chats):
    """Five hundred messages added one by one and in a batch are read in that order; equal ones are separate (B18, B20)."""
    for n in range(100):
        chats.add_message("s1", user(str(n)))
    chats.set_messages("s1", chats.get_messages("s1") + [user(str(n)) for n in range(100, 500)])
    assert texts(chats.get_messages("s1")) == [str(n) for n in range(500)]
    one = user("yes")
    chats.add_message("s2", one)
    chats.add_message("s2", one)
    assert chats.get_messages("s2") == [one, one]


def test_what_is_read_is_a_copy(chats):
    """Changing what was read or added changes nothing that is stored."""
    given = user("hello")
    chats.add_message("s1", given)
    given.blocks[0].text = "changed"
    chats.get_messages("s1")[0].blocks[0].text = "changed"
    chats.get_messages("s1").append(user("more"))
    assert texts(chats.get_messages("s1")) == ["hello"]


def test_dangling_call(chats, memory, parcel, check_valid):
    """A call that never got its result is answered the same way on each read; the log says what happened (B04)."""
    for message in [*parcel[:3], user("continue")]:
        chats.add_message("s1", message)
    check_valid(chats.get_messages("s1"))
    assert chats.get_messages("s1") == chats.get_messages("s1")
    assert texts(chats.get_messages("s1")) == ["ship parcel 12", None, "sent", NO_RESULT, "continue"]
    assert len(memory.sessions.read(scope=TALK)) == 4
    # A result that comes late takes the place of the stand-in, and what was read can be set.
    chats.set_messages("s1", [*chats.get_messages("s1"), user("and?")])
    assert len(memory.sessions.read(scope=TALK)) == 5
    chats.add_message("s1", parcel[3])
    assert texts(chats.get_messages("s1")) == ["ship parcel 12", None, "sent", "printed", "continue", "and?"]


def test_odd_messages(chats):
    """A message without text, or of pictures alone, is kept as it is (B23)."""
    odd = [
        ChatMessage(role="user", blocks=[]),
        user(""),
        user("   "),
        ChatMessage(role="user", blocks=[ImageBlock(url="https://example.com/a.png")]),
        ChatMessage(role="user", blocks=[TextBlock(text="a"), TextBlock(text="b")]),
    ]
    for message in odd:
        chats.add_message("s1", message)
    assert chats.get_messages("s1") == odd


def test_half_an_emoji(chats):
    """A lone surrogate is replaced, and nothing else of the batch changes (B27)."""
    chats.set_messages("s1", [user("half \ud83d end"), user("whole 😀 naïve 丹佛")])
    assert texts(chats.get_messages("s1")) == ["half \ufffd end", "whole 😀 naïve 丹佛"]


def test_messages_are_searchable_turns(chats, found):
    """What is added is recalled as what was said, and what is deleted is not."""
    chats.add_message("s1", user("My canoe is blue."))
    chats.add_message("s1", assistant("A blue canoe is easily seen."))
    assert set(found("canoe")) == {"My canoe is blue.", "A blue canoe is easily seen."}
    chats.delete_last_message("s1")
    assert found("canoe") == ["My canoe is blue."]
    chats.set_messages("s1", [user("My tent is green.")])
    assert found("canoe tent") == ["My tent is green."]
    chats.delete_messages("s1")
    assert found("canoe tent") == []


def test_one_log_with_the_other_adapters(chats, chat, memory):
    """`MemkitMemory` of the same session reads what the store wrote, and the other way round."""
    chats.add_message("s1", user("one"))
    adapter = chat()
    adapter.put(assistant("two"))
    assert adapter.get_all() == chats.get_messages("s1") == [user("one"), assistant("two")]
    memory.sessions.append(memory.sessions.read(scope=TALK), scope=Scope.session("copy", user=ALICE))
    assert chats.get_messages("copy") == chats.get_messages("s1")
    assert chats.get_keys() == ["copy", "s1"]


def test_recalled_text_is_not_stored(chats, chat, memory):
    """A history that carries what memory added is stored without it (B60)."""
    memory.add("Alice's owl is called Pip.", scope=ALICE)
    adapter = chat("other")
    adapter.put(user("what is my owl called?"))
    history = adapter.get()
    assert "Pip" in history[0].content
    chats.set_messages("s1", history)
    assert texts(chats.get_messages("s1")) == ["what is my owl called?"]
    chats.add_message("s1", history[0])
    assert len(chats.get_messages("s1")) == 1
    assert without_added(history[0].content) == ""


# ------------------------------------------------------------------------------- setting and deleting


def test_unknown_keys(chats):
    """An unknown key reads as nothing, and deleting there gives None and makes no session."""
    assert chats.get_messages("none") == []
    assert chats.delete_messages("none") is None
    assert chats.delete_message("none", 0) is None
    assert chats.delete_last_message("none") is None
    chats.set_messages("none", [])
    assert chats.get_keys() == []


def test_setting(chats, memory):
    """Setting makes the session say what is given; what it begins with stays the same messages."""
    chats.set_messages("s1", [user("1"), assistant("a")])
    ids = [message.id for message in memory.sessions.read(scope=TALK)]
    chats.set_messages("s1", [*chats.get_messages("s1"), user("2")])
    assert [message.id for message in memory.sessions.read(scope=TALK)][:2] == ids
    chats.set_messages("s1", [user("1"), assistant("b")])
    assert texts(chats.get_messages("s1")) == ["1", "b"]
    assert memory.sessions.read(scope=TALK)[0].id == ids[0]
    chats.set_messages("s1", [])
    assert chats.get_messages("s1") == []
    assert chats.get_keys() == []


def test_setting_what_is_redacted():
    """With `Config.redact` too each message is stored once, when a history that holds what was said grows."""
    with Memory.open(":memory:", config=Config(redact=lambda text: text.replace("1234", "[pin]"))) as memory:
        chats = MemkitChatStore(memory=memory, user_id="alice")
        said = [user("The pin is 1234"), assistant("1234 it is")]
        chats.set_messages("s1", said)
        stored = memory.sessions.read(scope=TALK)
        chats.set_messages("s1", [*said, user("Thanks")])
        assert memory.sessions.read(scope=TALK)[:2] == stored
        assert texts(chats.get_messages("s1")) == ["The pin is [pin]", "[pin] it is", "Thanks"]


def test_setting_what_cannot_be_stored(chats, memory):
    """A list with something that is no message, or one too long, changes nothing."""
    chats.set_messages("s1", [user("1"), user("2")])
    for bad in (
        [user("3"), "4"],
        "text",
        user("3"),
        None,
        [user("x" * (memory.config.max_content_chars + 1))],
    ):
        with pytest.raises(InvalidInputError):
            chats.set_messages("s1", bad)
    with pytest.raises(InvalidInputError):
        chats.add_message("s1", "text")
    assert texts(chats.get_messages("s1")) == ["1", "2"]


def test_deleting_by_position(chats, found):
    """The message at a position goes and is returned, from the end for negative ones; None where there is none."""
    chats.set_messages("s1", [user(f"canoe {n}") for n in "abcd"])
    assert chats.delete_message("s1", 1) == user("canoe b")
    assert chats.delete_message("s1", -3) == user("canoe a")
    for nowhere in (2, -3, 10**9):
        assert chats.delete_message("s1", nowhere) is None
    assert texts(chats.get_messages("s1")) == ["canoe c", "canoe d"]
    assert set(found("canoe")) == {"canoe c", "canoe d"}
    assert chats.delete_last_message("s1") == user("canoe d")
    assert chats.delete_last_message("s1") == user("canoe c")
    assert chats.delete_last_message("s1") is None
    for odd in ("0", 1.0, None, True):
        with pytest.raises(InvalidInputError, match="idx"):
            chats.delete_message("s1", odd)


def test_positions_are_those_of_what_is_read(chats, parcel):
    """A position counts what is read, stand-ins included, which are not there to be deleted."""
    for message in [parcel[0], parcel[1], parcel[3], parcel[2], user("thanks")]:
        chats.add_message("s1", message)
    assert texts(chats.get_messages("s1")) == ["ship parcel 12", None, "sent", "printed", "thanks"]
    assert chats.delete_message("s1", 2) == parcel[2]
    assert chats.get_messages("s1")[2].content == NO_RESULT
    assert chats.delete_message("s1", 2) is None
    assert chats.delete_message("s1", 4) == user("thanks")


def test_deleting_touches_that_key_alone(chats, memory, found):
    """Deleting a key leaves other keys, other users, memories, notes and the session's name (B36)."""
    bob = MemkitChatStore(memory=memory, user_id="bob")
    for store, key in ((chats, "s1"), (chats, "s10"), (bob, "s1")):
        store.set_messages(key, [user("my canoe"), assistant("which?")])
    memory.add("Alice paddles.", scope=TALK)
    memory.working.update("a note", scope=TALK)
    memory.sessions.update(scope=TALK, title="Boats")
    assert chats.delete_messages("s1") == [user("my canoe"), assistant("which?")]
    assert chats.get_messages("s1") == []
    assert len(chats.get_messages("s10")) == len(bob.get_messages("s1")) == 2
    assert found("paddles", TALK) == ["Alice paddles."]
    assert memory.working.get(scope=TALK).text == "a note"
    assert memory.sessions.get(scope=TALK).title == "Boats"
    assert chats.get_keys() == ["s10"]


def test_more_messages_than_a_page(chats, found):
    """A long session is deleted whole (B52)."""
    chats.set_messages("s1", [user(f"canoe {n}") for n in range(1200)])
    assert len(chats.delete_messages("s1")) == 1200
    assert found("canoe") == []


def test_keys_are_taken_as_they_are(chats):
    """Any id is a key of its own, listed and deletable as it was given (B30, B32, B33)."""
    for key in HOSTILE_IDS:
        chats.add_message(key, user(f"in {key}"))
    assert set(chats.get_keys()) == set(HOSTILE_IDS)
    for n, key in enumerate(HOSTILE_IDS):
        assert texts(chats.get_messages(key)) == [f"in {key}"]
        chats.delete_messages(key)
        assert set(chats.get_keys()) == set(HOSTILE_IDS[n + 1 :])


def test_keys_that_are_none(chats):
    """What is no id is refused by every method, on write and on read."""
    calls = [
        chats.get_messages,
        lambda key: chats.add_message(key, user("a")),
        lambda key: chats.set_messages(key, [user("a")]),
        chats.delete_messages,
        lambda key: chats.delete_message(key, 0),
        chats.delete_last_message,
    ]
    for call, key in itertools.product(calls, ["", None, 7, "x" * 5000, "a\0b", "\ud83d"]):
        with pytest.raises(ScopeError):
            call(key)


# ------------------------------------------------------------------------------- at the same time


def test_threads(chats):
    """Messages of eight threads are all stored, each thread's in its order; each last one is taken once (B70)."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda t: [chats.add_message("s1", user(f"{t} {n}")) for n in range(10)], range(8)))
        stored = texts(chats.get_messages("s1"))
        assert len(stored) == 80
        for thread in range(8):
            assert [text for text in stored if text.startswith(f"{thread} ")] == [
                f"{thread} {n}" for n in range(10)
            ]
        taken = list(pool.map(lambda _: chats.delete_last_message("s1"), range(100)))
    assert sorted(one.content for one in taken if one is not None) == sorted(stored)


def test_setting_is_one_step(chats):
    """Nobody reads a session with half of what was set."""
    lists = [[user(f"{name}{n}") for n in range(5)] for name in "ab"]
    chats.set_messages("s1", lists[0])
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.append(texts(chats.get_messages("s1")))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for n in range(40):
            chats.set_messages("s1", lists[n % 2])
        stop.set()
        for reader in readers:
            reader.result()
    assert {tuple(one) for one in seen} <= {tuple(texts(one)) for one in lists}


def test_two_set_at_once(chats):
    """Of two lists that are set in one moment the session holds one or the other, an empty session too."""
    lists = [[user(f"{name}{n}") for n in range(3)] for name in "ab"]
    together = threading.Barrier(2)

    def set_one(messages):
        together.wait(10)
        chats.set_messages("s1", messages)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(40):
            chats.delete_messages("s1")
            list(pool.map(set_one, lists))
            assert chats.get_messages("s1") in lists


async def test_awaited_forms(chats):
    """Every method has its awaited form under upstream's name, and they do the same."""
    for name, member in inspect.getmembers(BaseChatStore, inspect.iscoroutinefunction):
        assert inspect.signature(member).parameters.keys() == (
            inspect.signature(getattr(chats, name)).parameters.keys() | {"self"}
        )
    await chats.aset_messages("s1", [user("1"), user("2"), user("3")])
    await chats.async_add_message("s1", user("4"))
    assert texts(await chats.aget_messages("s1")) == list("1234")
    assert await chats.adelete_message("s1", 0) == user("1")
    assert await chats.adelete_last_message("s1") == user("4")
    assert await chats.aget_keys() == ["s1"]
    assert texts(await chats.adelete_messages("s1")) == ["2", "3"]
    chats.add_message("s1", user("inside a running loop"))
    assert len(chats.get_messages("s1")) == 1


async def test_the_loop_is_not_blocked(chats, memory, monkeypatch):
    """While a store waits, other tasks run."""
    waiting, go = threading.Event(), threading.Event()
    append = memory.sessions.append

    def slow(*args, **kwargs):
        waiting.set()
        assert go.wait(10)
        return append(*args, **kwargs)

    monkeypatch.setattr(memory.sessions, "append", slow)
    adding = asyncio.create_task(chats.async_add_message("s1", user("1")))
    assert await asyncio.to_thread(waiting.wait, 10)
    go.set()
    await adding
    assert texts(chats.get_messages("s1")) == ["1"]


# ------------------------------------------------------------------------------- buffers, engines, agents


@pytest.fixture
def buffer(chats):
    """Makes a chat buffer over alice's session s1."""

    def make(kind=ChatMemoryBuffer, **settings):
        return kind.from_defaults(chat_store=chats, chat_store_key="s1", **settings)

    return make


def test_chat_engine(buffer, scripted, path):
    """A chat engine over the store goes on where it stopped, after the process too (B21)."""
    engine = SimpleChatEngine.from_defaults(llm=scripted("Hello Alice."), memory=buffer())
    assert str(engine.chat("I am Alice.")) == "Hello Alice."
    for _ in engine.stream_chat("And you?").response_gen:
        pass
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(f"""
            from llama_index.core.memory import ChatMemoryBuffer
            from llamaindex_memkit import MemkitChatStore
            from memkit_core import Memory
            with Memory.open({str(path)!r}) as memory:
                store = MemkitChatStore(memory=memory, user_id="alice")
                buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="s1")
                print([message.content for message in buffer.get()])
                buffer.reset()
        """)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said.strip() == str(["I am Alice.", "Hello Alice.", "And you?", "ok"])
    assert engine.chat_history == []


async def test_agent(buffer, scripted, check_valid):
    """An agent's turns, tools included, are stored whole and sent validly in the next (B04)."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    call = ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs={"a": 2, "b": 3})
    llm = scripted(ChatMessage(role="assistant", blocks=[call]), "It is 5.", "Sure.")
    agent = FunctionAgent(name="adder", description="adds", tools=[add], llm=llm)
    context = Context(agent)
    assert str(await agent.run("what is 2 + 3?", memory=buffer(), ctx=context)) == "It is 5."
    assert [one.role.value for one in buffer().get()] == ["user", "assistant", "tool", "assistant"]
    saved = context.to_dict(serializer=JsonSerializer())
    again = Context.from_dict(agent, saved, serializer=JsonSerializer())
    assert isinstance((await again.store.get("memory")).chat_store, MemkitChatStore)
    await agent.run("sure?", ctx=again)
    check_valid(llm.prompts[-1])
    assert texts(buffer().get_all())[-2:] == ["sure?", "Sure."]


def test_given_history(buffer, chats):
    """A history that a buffer is made with becomes the session's."""
    chats.add_message("s1", user("old"))
    buffer(chat_history=[user("1"), assistant("a")])
    assert texts(chats.get_messages("s1")) == ["1", "a"]


def test_summary_buffer(buffer, chats, memory, scripted):
    """A buffer that summarises what it reads keeps the summary and the newest messages in the store."""
    memory.working.update("a note", scope=TALK)
    summarising = buffer(ChatSummaryMemoryBuffer, llm=scripted("They greeted."), token_limit=8)
    for message in (user("hello my dear friend"), assistant("hi there"), user("how are you?")):
        summarising.put(message)
    read = summarising.get()
    assert (read[0].role.value, read[0].content) == ("system", "They greeted.")
    assert read[-1] == user("how are you?")
    assert chats.get_messages("s1") == read
    assert memory.working.get(scope=TALK).text == "a note"


def test_a_buffers_dict(buffer, memory, path):
    """A buffer's dict and text hold file, user and key; from them it goes on, and says so when it cannot."""
    buffer().put(user("hello"))
    dumped, told = buffer().to_dict(), buffer().to_string()
    assert dumped["chat_store"] == {
        "user_path": (("user", "alice"),), "path": str(path), "class_name": "MemkitChatStore",
    }  # fmt: skip
    assert texts(ChatMemoryBuffer.from_dict(copy.deepcopy(dumped)).get()) == ["hello"]
    assert texts(ChatMemoryBuffer.from_string(told).get()) == ["hello"]
    memory.close()
    again = ChatMemoryBuffer.from_dict(dumped)
    assert texts(again.get()) == ["hello"]
    again.chat_store._memory.close()
    with pytest.raises(ConfigError, match="no file"):
        MemkitChatStore.from_dict({"user_path": [["user", "a"]], "path": str(path) + ".none"})


def test_without_a_file(scripted):
    """A store whose memory keeps no file works and is copied; taken elsewhere it says what to do (B71)."""
    with Memory.open(":memory:") as memory:
        store = MemkitChatStore(memory=memory, user_id="alice")
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="s1")
        buffer.put(user("hello"))
        with pytest.raises(ConfigError, match=r"Memory\.open"):
            store.to_dict()
        with pytest.raises(ConfigError, match=r"Memory\.open"):
            ChatMemoryBuffer.from_dict(buffer.to_dict())
        for one in (store, buffer):
            data = pickle.dumps(one)
            with pytest.raises(ConfigError, match=r"Memory\.open"):
                pickle.loads(data)
        assert texts(copy.deepcopy(buffer).get()) == texts(buffer.get()) == ["hello"]


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "model_copy": lambda one: one.model_copy(deep=True),
    "dict": lambda one: type(one).from_dict(one.to_dict()),
}


def test_copies(chats, buffer):
    """Copies of a store, and of the buffer that holds it, work on the same sessions (B71)."""
    for name, copied in COPIES.items():
        chats.set_messages("s1", [user(name)])
        again, held = copied(chats), copied(buffer())
        again.add_message("s1", user("copied"))
        held.put(user("held"))
        assert texts(chats.get_messages("s1")) == [name, "copied", "held"]
        assert again.user_scope == ALICE


def test_what_it_is_made_with(memory):
    """A memory, or the path of one, and a user are needed; an unknown keyword is an error."""
    for bad in ({}, {"user_id": "alice"}, {"memory": "memory.db", "user_id": "alice"}):
        with pytest.raises(ConfigError, match="memory"):
            MemkitChatStore(**bad)
    for bad in ({}, {"user_id": ""}, {"user_id": 7}, {"user_id": TALK}, {"user_path": [["session", "s"]]},
                {"user_path": 5}, {"user_path": [["user"]]}, {"user_id": "a", "user_path": [["user", "a"]]}):  # fmt: skip
        with pytest.raises(ScopeError):
            MemkitChatStore(memory=memory, **bad)
    with pytest.raises(TypeError, match="userid"):
        MemkitChatStore(memory=memory, userid="alice")
    inside = Scope.user("alice", workspace="w")
    MemkitChatStore(memory=memory, user_id=inside).add_message("s1", user("hi"))
    assert MemkitChatStore(memory=memory, user_id="alice").get_keys() == []
    assert MemkitChatStore(memory=memory, user_path=inside.path).get_keys() == ["s1"]
