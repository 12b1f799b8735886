"""The history under `RunnableWithMessageHistory`: sync, async, streaming, restart, two users."""

import asyncio
import logging
import threading

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.runnables import ConfigurableFieldSpec, RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_memkit import MemkitChatMessageHistory
from memkit_core import ClosedError, Memory


def said(history):
    return [(type(message), message.text) for message in history.messages]


def turns(*texts):
    kinds = (HumanMessage, AIMessage)
    return [(kinds[i % 2], text) for i, text in enumerate(texts)]


def test_invoke_remembers(history, talk, in_session):
    """H1: the second turn is given the first one, and both are stored once."""
    seen = []
    chain = talk("Hi Bob.", "You are Bob.", seen=seen)
    assert chain.invoke({"question": "I am Bob"}, in_session("s1")).text == "Hi Bob."
    chain.invoke({"question": "Who am I?"}, in_session("s1"))
    assert seen[1] == ["Be brief.", "I am Bob", "Hi Bob.", "Who am I?"]
    assert said(history) == turns("I am Bob", "Hi Bob.", "Who am I?", "You are Bob.")


async def test_ainvoke_remembers(history, talk, in_session):
    """H1: the same in asynchronous form."""
    seen = []
    chain = talk("Hi Bob.", "You are Bob.", seen=seen)
    await chain.ainvoke({"question": "I am Bob"}, in_session("s1"))
    await chain.ainvoke({"question": "Who am I?"}, in_session("s1"))
    assert seen[1] == ["Be brief.", "I am Bob", "Hi Bob.", "Who am I?"]
    assert said(history) == turns("I am Bob", "Hi Bob.", "Who am I?", "You are Bob.")


async def test_streaming_stores_whole_plain_messages(history, talk, in_session):
    """B21: stream and astream store one plain message an answer, with its full text, and double nothing."""
    chain = talk("one two three", "four five", "six seven")
    parts = [part.text for part in chain.stream({"question": "a"}, in_session("s1"))]
    assert len(parts) > 1
    parts = [part.text async for part in chain.astream({"question": "b"}, in_session("s1"))]
    assert "".join(parts) == "four five"
    list(chain.stream({"question": "c"}, in_session("s1")))
    assert said(history) == turns("a", "one two three", "b", "four five", "c", "six seven")
    assert len({message.id for message in history.messages}) == 6


def test_a_list_of_messages_as_input_is_not_doubled(memory, history, scripted, in_session):
    """B21: a model with list input, streamed twice, leaves human, ai, human, ai; a restart loads them."""
    chain = RunnableWithMessageHistory(
        scripted("one two", "three four"),
        lambda session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id="alice"),
    )
    list(chain.stream([HumanMessage("a")], in_session("s1")))
    list(chain.stream([HumanMessage("b")], in_session("s1")))
    assert said(history) == turns("a", "one two", "b", "three four")


async def test_invoke_and_ainvoke_alternate_on_one_history(history, scripted, in_session):
    """B67: eight turns, sync and async in turn on one history object in a running loop, are all kept."""
    answers = [f"answer {i}" for i in range(8)]
    chain = RunnableWithMessageHistory(scripted(*answers), lambda _: history)
    for i in range(8):
        if i % 2:
            await chain.ainvoke([HumanMessage(f"question {i}")], in_session("s1"))
        else:
            chain.invoke([HumanMessage(f"question {i}")], in_session("s1"))
    expected = [text for i in range(8) for text in (f"question {i}", f"answer {i}")]
    assert said(history) == turns(*expected)
    assert history.last_error is None


def test_a_history_works_from_threads_with_and_without_a_loop(history, scripted, in_session):
    """B67: the same history object serves a thread with a loop of its own and one without."""
    chain = RunnableWithMessageHistory(scripted("b", "d", "f"), lambda _: history)

    def run(call):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    run(lambda: asyncio.run(chain.ainvoke([HumanMessage("a")], in_session("s1"))))
    run(lambda: chain.invoke([HumanMessage("c")], in_session("s1")))
    asyncio.run(chain.ainvoke([HumanMessage("e")], in_session("s1")))
    assert said(history) == turns("a", "b", "c", "d", "e", "f")


async def test_concurrent_sessions_do_not_mix(memory, talk, in_session):
    """H1: sessions that run at once each keep their own turns."""
    chain = talk(*["fine"] * 10)
    await asyncio.gather(*[chain.ainvoke({"question": f"from {i}"}, in_session(f"s{i}")) for i in range(10)])
    for i in range(10):
        own = MemkitChatMessageHistory(memory, session_id=f"s{i}", user_id="alice")
        assert said(own) == turns(f"from {i}", "fine")


def test_two_users_with_the_same_session_id_do_not_mix(memory, talk, in_session):
    """A3: the same session id under two users is two histories."""
    seen = []
    talk("Hi Alice.", user_id="alice").invoke({"question": "I am Alice"}, in_session("main"))
    talk("Hello.", user_id="bob", seen=seen).invoke({"question": "Who am I?"}, in_session("main"))
    assert seen == [["Be brief.", "Who am I?"]]
    bob = MemkitChatMessageHistory(memory, session_id="main", user_id="bob")
    assert said(bob) == turns("Who am I?", "Hello.")


def test_user_and_session_can_both_come_from_the_config(memory, scripted):
    """H1: a factory of two keys works, the identity comes from the config of the call."""
    chain = RunnableWithMessageHistory(
        scripted("yes", "no"),
        lambda user_id, session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id=user_id),
        history_factory_config=[
            ConfigurableFieldSpec(id=name, annotation=str, is_shared=True)
            for name in ("user_id", "session_id")
        ],
    )
    for user in ("ann", "bob"):
        config = {"configurable": {"user_id": user, "session_id": "s"}}
        chain.invoke([HumanMessage(f"I am {user}")], config)
    ann = MemkitChatMessageHistory(memory, session_id="s", user_id="ann")
    assert said(ann) == turns("I am ann", "yes")


_WRITER = """
import sys
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_memkit import MemkitChatMessageHistory
from memkit_core import ClosedError, Memory
memory = Memory.open(sys.argv[1])
chain = RunnableWithMessageHistory(
    GenericFakeChatModel(messages=iter([AIMessage("Hi Bob.")])),
    lambda session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id="alice"),
)
list(chain.stream([HumanMessage("I am Bob")], {"configurable": {"session_id": "s1"}}))
import os; os._exit(0)
"""


def test_a_new_process_remembers(path, python, scripted, in_session):
    """B21: what a process streamed before it died without closing is the history of the next one."""
    done = python(_WRITER, path)
    assert done.returncode == 0, done.stderr
    seen = []
    with Memory.open(path) as memory:
        history = MemkitChatMessageHistory(memory, session_id="s1", user_id="alice")
        note = RunnableLambda(lambda messages: seen.append(said(history)) or messages)
        RunnableWithMessageHistory(note | scripted("You are Bob."), lambda _: history).invoke(
            [HumanMessage("Who am I?")], in_session("s1")
        )
        assert seen == [turns("I am Bob", "Hi Bob.")]
        assert said(history) == turns("I am Bob", "Hi Bob.", "Who am I?", "You are Bob.")


@pytest.mark.parametrize("keys", [True, False], ids=["dict input", "list input"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
async def test_a_failure_after_the_answer_is_seen(
    asynchronous, keys, memory, history, scripted, in_session, caplog
):
    """H1: when the store is gone the runnable still answers; our log and `last_error` tell."""

    def close(value):
        memory.close()
        return value["question"] if keys else value

    names = {"input_messages_key": "question", "history_messages_key": "history"} if keys else {}
    chain = RunnableWithMessageHistory(RunnableLambda(close) | scripted("lost"), lambda _: history, **names)
    question = {"question": "a"} if keys else [HumanMessage("a")]
    with caplog.at_level(logging.WARNING, logger="memkit.langchain"):
        if asynchronous:
            answer = await chain.ainvoke(question, in_session("s1"))
        else:
            answer = chain.invoke(question, in_session("s1"))
    assert answer.text == "lost"
    assert isinstance(history.last_error, ClosedError)
    [ours] = [record.getMessage() for record in caplog.records if record.name == "memkit.langchain"]
    assert ours == f"chat history: {'add_messages' if keys else 'reading messages'} failed with ClosedError"


def test_chunks_with_tool_calls_are_merged(history):
    """B21: fragments of one answer become one message with text, calls and usage put together."""
    usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    history.add_messages(
        [
            HumanMessage("ship it"),
            AIMessageChunk("Ship", id="r1", name="bot"),
            AIMessageChunk(
                "ping",
                id="r1",
                tool_call_chunks=[
                    {"name": "ship", "args": '{"n"', "id": "c1", "index": 0, "type": "tool_call_chunk"}
                ],
            ),
            AIMessageChunk(
                "",
                id="r1",
                tool_call_chunks=[
                    {"name": None, "args": ": 12}", "id": None, "index": 0, "type": "tool_call_chunk"}
                ],
                usage_metadata=usage,
                response_metadata={"finish_reason": "tool_calls"},
            ),
            AIMessageChunk("Next", id="r2", vendor_field=7),
        ]
    )
    _, first, second = history.raw_messages
    assert first == AIMessage(
        "Shipping",
        id="r1",
        name="bot",
        tool_calls=[{"name": "ship", "args": {"n": 12}, "id": "c1", "type": "tool_call"}],
        usage_metadata=usage,
        response_metadata={"finish_reason": "tool_calls"},
    )
    assert second == AIMessage("Next", id="r2", vendor_field=7)
