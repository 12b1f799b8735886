"""LlamaIndex's chat engines remember through `MemkitMemory`; only the model's words are scripted."""

import subprocess
import sys
import textwrap

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)

from llamaindex_memkit import MemkitMemory, MemkitRetriever
from memkit_core import Memory, Scope

ALICE = Scope.user("alice")
HANDBOOK = Scope.object("handbook")


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


@pytest.fixture
def engine(memory, chat, scripted):
    """Makes an engine of the given kind on alice's session, and its model."""

    def make(kind, *replies, **settings):
        llm = scripted(*replies)
        if kind is SimpleChatEngine:
            return kind.from_defaults(llm=llm, memory=chat(**settings)), llm
        memory.add("Owls may be kept in the office.", scope=HANDBOOK)
        retriever = MemkitRetriever(memory=memory, scope=HANDBOOK)
        return kind.from_defaults(retriever=retriever, llm=llm, memory=chat(**settings)), llm

    return make


ENGINES = [SimpleChatEngine, ContextChatEngine, CondensePlusContextChatEngine]


def test_exact_prompts(engine):
    """A first conversation puts exactly its own turns before the model."""
    talk, llm = engine(SimpleChatEngine, "Hi Alice.", "Fine.")
    assert talk.chat("I am Alice").response == "Hi Alice."
    assert talk.chat("how are you?").response == "Fine."
    assert llm.prompts == [
        [user("I am Alice")],
        [user("I am Alice"), assistant("Hi Alice."), user("how are you?")],
    ]
    assert talk.chat_history == [*llm.prompts[1], assistant("Fine.")]


@pytest.mark.parametrize("kind", ENGINES)
def test_a_new_session_remembers_an_earlier_one(engine, kind):
    """What was said in one session reaches the model in another session of the same user."""
    talk, _ = engine(kind, "Noted.", session_id="monday")
    talk.chat("my owl is called Pip")
    later, llm = engine(kind, session_id="friday")
    later.chat("what is my owl called?")
    prompt = "\n".join(message.content or "" for message in llm.prompts[-1])
    assert "my owl is called Pip</turn>" in prompt
    assert prompt.count("what is my owl called?") == 1
    assert later.chat_history[0] == user("what is my owl called?")
    stranger, llm = engine(kind, session_id="monday", user_id="bob")
    stranger.chat("what is my owl called?")
    assert "Pip" not in "\n".join(message.content or "" for message in llm.prompts[-1])


@pytest.mark.parametrize("kind", ENGINES)
def test_a_session_goes_on(engine, kind):
    """An engine made anew on the same session goes on with its history, and each turn is stored once."""
    talk, _ = engine(kind, "Noted.")
    talk.chat("my owl is called Pip")
    again, llm = engine(kind, "an owl question", "Pip." if kind is not SimpleChatEngine else "unused")
    again.chat("what is it called?")
    assert "my owl is called Pip" in "\n".join(m.content or "" for m in llm.prompts[-1])
    texts = [message.content for message in again.chat_history]
    assert texts[:3] == ["my owl is called Pip", "Noted.", "what is it called?"]
    assert len(texts) == 4


def test_context_and_memory_together(engine, memory):
    """The context engine's own retrieved text and what was recalled both reach the model."""
    memory.add("Alice's owl is called Pip.", scope=ALICE)
    talk, llm = engine(ContextChatEngine)
    talk.chat("may my owl {come} along?")
    prompt = "\n".join(message.content or "" for message in llm.prompts[-1])
    assert "Owls may be kept in the office." in prompt
    assert "Alice's owl is called Pip." in prompt
    assert talk.chat_history[0] == user("may my owl {come} along?")


def test_streaming(engine):
    """A streamed answer is stored by the engine's writer thread, once and whole."""
    talk, _ = engine(SimpleChatEngine, "Pip is a fine name", "Indeed it is")
    for question in ("my owl is called Pip", "is it?"):
        answer = talk.stream_chat(question)
        assert "".join(answer.response_gen) == answer.response
    assert [m.content for m in talk.chat_history] == [
        "my owl is called Pip", "Pip is a fine name", "is it?", "Indeed it is",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [SimpleChatEngine, ContextChatEngine])
async def test_async_chat(engine, kind):
    """Async and sync turns of one engine alternate; every turn is stored once, in order (B67)."""
    talk, _ = engine(kind, "a", "b", "c", "d")
    await talk.achat("1")
    talk.chat("2")
    answer = await talk.astream_chat("3")
    assert "".join([token async for token in answer.async_response_gen()]) == "c"
    talk.chat("4")
    assert [m.content for m in talk.chat_history] == ["1", "a", "2", "b", "3", "c", "4", "d"]


def test_given_history(engine):
    """A caller that sends the whole history with each turn does not double it."""
    talk, llm = engine(SimpleChatEngine, "a", "b", "c")
    talk.chat("1", chat_history=[])
    talk.chat("2", chat_history=talk.chat_history)
    assert [m.content for m in talk.chat_history] == ["1", "a", "2", "b"]
    talk.chat("3", chat_history=[user("x"), assistant("y")])
    assert [m.content for m in talk.chat_history] == ["x", "y", "3", "c"]
    assert [m.content for m in llm.prompts[-1] if m.role.value != "system"] == ["x", "y", "3"]


def test_engine_reset(engine, memory):
    """`engine.reset()` clears the chat, not what is known of the user."""
    memory.add("Alice is vegetarian.", scope=ALICE)
    talk, llm = engine(SimpleChatEngine)
    talk.chat("hello there")
    talk.reset()
    assert talk.chat_history == []
    talk.chat("am I vegetarian?")
    assert "Alice is vegetarian." in llm.prompts[-1][0].content


def test_system_prompt_counts(chat, scripted):
    """The engine's own system prompt counts against the limit."""
    adapter = chat(token_limit=200, recall=False)
    adapter.put_messages([user("word " * 40), assistant("word " * 40)])
    llm = scripted()
    SimpleChatEngine.from_defaults(llm=llm, memory=adapter).chat("now")
    assert len(llm.prompts[0]) == 3
    adapter.set([user("word " * 40), assistant("word " * 40)])
    SimpleChatEngine.from_defaults(llm=llm, memory=adapter, system_prompt="rule " * 120).chat("now")
    assert [message.content for message in llm.prompts[1][1:]] == ["now"]


def test_engines_keep_an_empty_memory(chat, scripted):
    """An engine uses an empty memory that it is given, not a default one."""
    adapter = chat()
    SimpleChatEngine.from_defaults(llm=scripted("hi"), memory=adapter).chat("hello")
    assert adapter.get_all() == [user("hello"), assistant("hi")]


def test_across_processes(path, scripted):
    """A conversation of another process, which has ended, is remembered here."""
    code = textwrap.dedent(
        f"""
        from llama_index.core.chat_engine import SimpleChatEngine
        from llama_index.core.llms import MockLLM
        from llamaindex_memkit import MemkitMemory
        from memkit_core import Memory
        memory = Memory.open({str(path)!r})
        SimpleChatEngine.from_defaults(
            llm=MockLLM(), memory=MemkitMemory.from_defaults(memory=memory, session_id="s1", user_id="alice")
        ).chat("my owl is called Pip")
        import os
        os._exit(0)
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with Memory.open(path) as memory:
        llm = scripted("Pip.")
        adapter = MemkitMemory.from_defaults(memory=memory, session_id="s2", user_id="alice")
        SimpleChatEngine.from_defaults(llm=llm, memory=adapter).chat("what is my owl called?")
        assert "my owl is called Pip</turn>" in llm.prompts[0][0].content
        same = MemkitMemory.from_defaults(memory=memory, session_id="s1", user_id="alice")
        assert [m.role.value for m in same.get_all()] == ["user", "assistant"]
