"""Windows of arbitrary conversations: valid for a chat API, repaired alike on every read, also after a store."""

import dataclasses
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.llms import ChatMessage, MessageRole

from langchain_memkit import convert as langchain_convert
from llamaindex_memkit import convert as llamaindex_convert
from memkit_core import Memory, Message, Role, Scope, ToolCall
from memkit_core.conversation.tagged import is_summary
from memkit_core.conversation.tokens import approximate_tokens, message_tokens, tokens_of
from memkit_core.conversation.windows import LEFT_OUT, NO_RESULT, fitted, repaired

TALK = Scope.session("s", user="alice")
CALL_IDS = st.sampled_from(["call_0", "call_1", "x", ""])
TEXTS = st.sampled_from(["", " ", "tea", "A longer sentence about the weather.", "丹佛的绿茶", "word " * 400])
CALLS = st.builds(
    ToolCall, id=CALL_IDS, name=st.just("look_up"), arguments=st.sampled_from(["{}", '{"q": 1}'])
)
MESSAGES = st.one_of(
    st.builds(Message, role=st.just(Role.USER), text=TEXTS),
    st.builds(Message, role=st.just(Role.USER), text=TEXTS, tool_calls=st.tuples(CALLS)),
    st.builds(Message, role=st.just(Role.SYSTEM), text=TEXTS),
    st.builds(Message, role=st.just(Role.ASSISTANT), text=TEXTS),
    st.builds(
        Message,
        role=st.just(Role.ASSISTANT),
        text=TEXTS,
        tool_calls=st.lists(CALLS, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Message, role=st.just(Role.TOOL), text=TEXTS, tool_call_id=st.none() | CALL_IDS),
)
LOGS = st.lists(MESSAGES, max_size=14)
LIMITS = st.tuples(st.none() | st.integers(1, 15), st.none() | st.integers(1, 700))
QUIETLY = settings(
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check_valid(window):
    """What OpenAI's chat API demands of a list of messages."""
    spoken = [message for message in window if message.role is not Role.SYSTEM]
    assert not spoken or spoken[0].role is Role.USER
    place = 0
    while place < len(window):
        message = window[place]
        assert message.role is not Role.TOOL, "a tool result stands behind no call"
        place += 1
        if message.role is Role.ASSISTANT:
            assert message.text.strip() or message.tool_calls or message.payload, "it says nothing"
            for call in message.tool_calls:
                assert place < len(window), "a call has no result"
                assert window[place].role is Role.TOOL
                assert window[place].tool_call_id == call.id
                place += 1


def placed(log):
    return [
        dataclasses.replace(message, id=f"m{i}", position=i, session=TALK) for i, message in enumerate(log)
    ]


def content(messages):
    return [(m.role, m.text, m.tool_call_id, [(c.id, c.name) for c in m.tool_calls]) for m in messages]


@QUIETLY
@given(log=LOGS, limits=LIMITS)
@example(log=[Message(role=Role.TOOL, text="x", tool_call_id="x")], limits=(1, 1))
def test_every_window_of_every_log_is_valid(log, limits):
    """A window is valid whatever the log and the limit, and keeps each system text, once."""
    log = placed(log)
    last, max_tokens = limits
    view = repaired(log)
    assert repaired(log) == view
    window = fitted(view, last=last, max_tokens=max_tokens)
    check_valid(window)
    said = [message for message in log if message.role is Role.SYSTEM]
    system = [m for n, m in enumerate(said) if m.text not in [one.text for one in said[:n]]]
    assert window[: len(system)] == system
    assert all(message.role is not Role.SYSTEM for message in window[len(system) :])
    assert not any(message.role is Role.USER for message in log) or len(window) > len(system)
    # What is not a placeholder is a message of the log, once, in order unless it is a moved result.
    kept = Counter(message.id for message in window if message.text != NO_RESULT)
    assert kept <= Counter(message.id for message in log)


def _answered(text, calls):
    results = [Message(role=Role.TOOL, text=f"{text} {c.id}", tool_call_id=c.id) for c in calls]
    return [Message(role=Role.ASSISTANT, text=text, tool_calls=tuple(calls)), *results]


STEPS = st.one_of(
    st.builds(lambda text: [Message(role=Role.ASSISTANT, text=text)], TEXTS.filter(str.strip)),
    st.builds(_answered, TEXTS, st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda call: call.id)),
)
TURNS = st.builds(
    lambda text, steps: [Message(role=Role.USER, text=text), *(m for step in steps for m in step)],
    TEXTS,
    st.lists(STEPS, max_size=3),
)


@QUIETLY
@given(turns=st.lists(TURNS, max_size=5), last=st.integers(1, 15))
def test_a_valid_log_stays_as_it_is(turns, last):
    """What is valid already is not changed, also where ids are used again; windows are its last whole turns."""
    log = placed([message for turn in turns for message in turn])
    check_valid(log)
    assert repaired(log) == log
    window = fitted(repaired(log), last=last)
    assert window == log[len(log) - len(window) :]
    assert len(window) <= last or window == log[-len(turns[-1]) :]


@QUIETLY
@given(log=LOGS, max_tokens=st.integers(1, 700))
def test_a_window_keeps_to_its_budget(log, max_tokens):
    """A budget is kept but for the system messages and the shortest form of the newest turn's last step."""
    window = fitted(repaired(placed(log)), max_tokens=max_tokens)
    system = tokens_of([message for message in window if message.role is Role.SYSTEM])
    spoken = [message for message in window if message.role is not Role.SYSTEM]
    marker = approximate_tokens(LEFT_OUT.format(10**6))
    calls = sum(approximate_tokens(c.name + c.arguments) for m in spoken for c in m.tool_calls)
    least = sum(min(message_tokens(m), 2 * marker + 5) for m in spoken)
    assert tokens_of(window) <= max(max_tokens, system + least + calls)


@QUIETLY
@given(log=LOGS, ending=LOGS)
def test_a_window_is_repaired_as_the_whole_log_is(log, ending):
    """Which result answers a call depends on nothing before the call's own turn."""
    log = placed([*log, Message(role=Role.USER, text="now"), *ending])
    begin = next(i for i in range(len(log)) if log[i].text == "now" and log[i].role is Role.USER)
    whole = repaired(log)
    assert repaired(log[begin:]) == whole[whole.index(log[begin]) :]


@pytest.fixture
def memory():
    with Memory.open(":memory:") as memory:
        memory._worker.stop(0)
        yield memory


@settings(QUIETLY, max_examples=150)
@given(log=LOGS, padding=st.integers(0, 70), limits=LIMITS)
def test_a_stored_window_is_that_of_the_log(memory, log, padding, limits):
    """The window a session reads page by page is the one of its whole log, on every read."""
    memory.delete(everything=True)
    padded = [Message(role=Role.ASSISTANT, text="p", indexed=False) for _ in range(padding)]
    quiet = [dataclasses.replace(message, indexed=False) for message in [*log, *padded, *reversed(log)]]
    stored = memory.sessions.append(quiet, scope=TALK)
    last, max_tokens = limits
    window = memory.sessions.window(scope=TALK, last=last, max_tokens=max_tokens)
    assert window == fitted(repaired(stored), last=last, max_tokens=max_tokens)
    assert window == memory.sessions.window(scope=TALK, last=last, max_tokens=max_tokens)


@settings(QUIETLY, max_examples=80)
@given(
    log=LOGS,
    recent=st.integers(1, 5),
    merge=st.sampled_from(["append", "prepend", "interleave"]),
    neighbours=st.integers(0, 2),
    max_tokens=st.none() | st.integers(1, 2000),
)
def test_a_window_with_what_is_relevant_is_valid(memory, log, recent, merge, neighbours, max_tokens):
    """With recalled turns a window is still valid, has nothing twice and ends with the newest turn."""
    memory.delete(everything=True)
    memory.sessions.append(log, scope=TALK)
    options = {"recent": recent, "merge": merge, "neighbours": neighbours, "max_tokens": max_tokens}
    found = memory.sessions.relevant_window("tea weather", scope=TALK, **options)
    check_valid(found.messages)
    assert found.error is None
    stored = [m.id for m in found.messages if m.position is not None]
    assert len(stored) == len(set(stored))
    window = memory.sessions.window(scope=TALK, last=recent, max_tokens=max_tokens)
    assert not window or found.messages[-1] == window[-1]
    assert {m.id for m in window} | set(found.recalled) == {m.id for m in found.messages}


def calls_up_to(log, position):
    """The ids of the calls that stand in the log up to a position."""
    return {call.id for message in log if message.position <= position for call in message.tool_calls}


@settings(QUIETLY, max_examples=100)
@given(log=LOGS, more=LOGS, threshold=st.integers(1, 900), keep=st.integers(1, 6), budget=st.integers(1, 900))
def test_a_summarised_conversation_is_valid(memory, log, more, threshold, keep, budget):
    """What goes to the model with a summary is valid, has one summary at most and the newest verbatim."""
    memory.delete(everything=True)
    for part in (log, more):
        memory.sessions.append([dataclasses.replace(m, indexed=False) for m in part], scope=TALK)
        memory.summaries.update(
            scope=TALK, summarizer=lambda *_: "said", threshold=threshold, keep=keep, count=approximate_tokens
        )
        context = memory.summaries.context(scope=TALK, max_tokens=budget, count=approximate_tokens)
        check_valid(context.messages)
        assert sum(map(is_summary, context.messages)) == (context.summary is not None)
        whole = memory.summaries.context(scope=TALK, count=approximate_tokens)
        log_now = memory.sessions.read(scope=TALK)
        view = repaired(log_now)
        newest = [message for message in log_now if message.role is not Role.SYSTEM][-keep:]
        if context.summary is not None:
            # A result without a call is in no view, nor one that came when the summary had its call.
            taken = calls_up_to(log_now, context.summary.position)
            shown = [m for m in newest if m in view and m.tool_call_id not in taken]
            assert all(message in whole.messages for message in shown)


@settings(QUIETLY, max_examples=80)
@given(
    log=LOGS,
    recent=st.none() | st.integers(0, 5),
    threshold=st.none() | st.integers(1, 400),
    share=st.floats(0, 1),
    budget=st.integers(1, 900),
)
def test_the_recent_messages_of_a_turn_are_valid(memory, log, recent, threshold, share, budget):
    """Whatever the log, the budget and the summary, what an adapter sends is valid and has the newest turn."""
    memory.delete(everything=True)
    stored = memory.sessions.append(log, scope=TALK)
    if threshold is not None:
        memory.summaries.update(scope=TALK, summarizer=lambda *_: "said", threshold=threshold)
    context = memory.turn_context(TALK, "tea", recent=recent, max_tokens=budget, recent_share=share)
    check_valid(context.messages)
    users = [message.id for message in stored if message.role is Role.USER]
    told = [message.id for message in context.recent if message.role is Role.USER]
    assert told == users[len(users) - len(told) :]
    assert bool(told) == (bool(users) and recent != 0)
    if recent:
        assert len(context.recent) <= recent or len(told) == 1


# ------------------------------------------------------------------ the frameworks' own messages

NAMED = st.lists(st.sampled_from(["call_0", "call_1", "x"]), min_size=1, max_size=2, unique=True)
SAID = st.sampled_from(["", "tea", "绿茶", "word " * 300])


def langchain_calls(ids):
    return [{"type": "tool_call", "id": i, "name": "f", "args": {"a": 1}} for i in ids]


LANGCHAIN = st.lists(
    st.one_of(
        SAID.map(HumanMessage),
        SAID.map(lambda text: HumanMessage([{"type": "text", "text": text}])),
        SAID.map(SystemMessage),
        SAID.map(AIMessage),
        st.builds(lambda text, ids: AIMessage(text, tool_calls=langchain_calls(ids)), SAID, NAMED),
        st.builds(lambda text, i: ToolMessage(text, tool_call_id=i), SAID, st.sampled_from(["call_0", "x"])),
    ),
    max_size=12,
)


def langchain_problems(window):
    """None when every call is answered right behind it, by LangChain's own messages."""
    waiting = []
    for message in window:
        if isinstance(message, ToolMessage):
            assert waiting.pop(0) == message.tool_call_id
            continue
        assert not waiting
        if isinstance(message, AIMessage):
            waiting = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    assert not waiting
    spoken = [message for message in window if not isinstance(message, SystemMessage)]
    assert not spoken or isinstance(spoken[0], HumanMessage)


@settings(QUIETLY, max_examples=100)
@given(log=LANGCHAIN, limits=LIMITS)
def test_windows_in_langchains_messages(memory, log, limits):
    """Stored as LangChain's messages and read as such, a window is valid and the same on every read."""
    memory.delete(everything=True)
    memory.sessions.append(map(langchain_convert.to_memkit, log), scope=TALK)
    windows = [
        [
            langchain_convert.from_memkit(m)
            for m in memory.sessions.window(scope=TALK, last=limits[0], max_tokens=limits[1])
        ]
        for _ in range(2)
    ]
    assert windows[0] == windows[1]
    langchain_problems(windows[0])
    neutral = [langchain_convert.to_memkit(message) for message in windows[0]]
    assert content(neutral) == content(
        memory.sessions.window(scope=TALK, last=limits[0], max_tokens=limits[1])
    )


def llamaindex_asking(text, ids):
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return ChatMessage(role="assistant", content=text, additional_kwargs={"tool_calls": calls})


LLAMAINDEX = st.lists(
    st.one_of(
        SAID.map(lambda text: ChatMessage(role="user", content=text)),
        SAID.map(lambda text: ChatMessage(role="system", content=text)),
        SAID.map(lambda text: ChatMessage(role="assistant", content=text)),
        st.just(ChatMessage(role="assistant", content=None)),
        st.builds(llamaindex_asking, SAID, NAMED),
        st.builds(
            lambda text, i: ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": i}),
            SAID,
            st.sampled_from(["call_0", "x"]),
        ),
    ),
    max_size=12,
)


@settings(QUIETLY, max_examples=100)
@given(log=LLAMAINDEX, limits=LIMITS)
def test_windows_in_llamaindexs_messages(memory, log, limits):
    """Stored as LlamaIndex's messages and read as such, a window is valid and the same on every read."""
    memory.delete(everything=True)
    memory.sessions.append(map(llamaindex_convert.to_message, log), scope=TALK)
    window = memory.sessions.window(scope=TALK, last=limits[0], max_tokens=limits[1])
    read = [llamaindex_convert.to_chat_message(m) for m in window]
    again = memory.sessions.window(scope=TALK, last=limits[0], max_tokens=limits[1])
    assert read == [llamaindex_convert.to_chat_message(m) for m in again]
    neutral = [llamaindex_convert.to_message(message) for message in read]
    check_valid(neutral)
    assert content(neutral) == content(window)
    spoken = [message for message in read if message.role is not MessageRole.SYSTEM]
    assert not spoken or spoken[0].role is MessageRole.USER


# ------------------------------------------------------------------ one that is too large


def test_a_message_larger_than_the_budget_is_shortened_in_the_window_alone(memory):
    """It stands in the window with a marker, begins and ends as it did, fits, and is whole in the store."""
    text = "The question: " + "filler " * 20_000 + "what is the answer?"
    memory.sessions.append([Message(role=Role.USER, text=text, payload={"a": text})], scope=TALK)
    (message,) = window = memory.sessions.window(scope=TALK, max_tokens=500)
    assert 400 < tokens_of(window) <= 500
    assert message.text.startswith("The question: ")
    assert message.text.endswith("what is the answer?")
    assert "characters left out" in message.text
    assert message.payload is None
    (stored,) = memory.sessions.read(scope=TALK)
    assert stored.text == text
    assert stored.payload == {"a": text}


def test_a_long_run_of_an_agent_keeps_its_question_and_its_newest_steps(memory):
    """Of a turn with more steps than fit, the user message and the newest whole steps stay."""
    log = [Message(role=Role.USER, text="Go on until it works.")]
    for i in range(200):
        call = ToolCall(id=f"c{i}", name="try_it", arguments='{"n": 1}')
        log.append(Message(role=Role.ASSISTANT, text="", tool_calls=(call,)))
        log.append(Message(role=Role.TOOL, text=f"attempt {i} failed", tool_call_id=f"c{i}"))
    memory.sessions.append(log, scope=TALK)
    window = memory.sessions.window(scope=TALK, max_tokens=400)
    check_valid(window)
    assert tokens_of(window) <= 400
    assert window[0].text == "Go on until it works."
    assert window[-1].text == "attempt 199 failed"
    assert len(window) > 10


def test_a_budget_below_the_system_prompt_keeps_it_and_the_newest_question(memory):
    """System messages are never cut; of the newest turn the least stays, so a chat can always go on."""
    prompt = Message(role=Role.SYSTEM, text="Be polite. " * 100)
    memory.sessions.append([prompt, Message(role=Role.USER, text="Why? " * 300)], scope=TALK)
    system, question = memory.sessions.window(scope=TALK, max_tokens=10)
    assert system.text == prompt.text
    assert question.role is Role.USER
    assert len(question.text) < 60


def test_a_result_that_comes_when_its_call_was_summarised(memory):
    """The call is the summary's by then: the result stays in the log and out of the view, which is valid."""
    call = ToolCall(id="late", name="look_up", arguments="{}")
    memory.sessions.append(
        [
            Message(role=Role.ASSISTANT, text="", tool_calls=(call,)),
            Message(role=Role.USER, text="never mind"),
        ],
        scope=TALK,
    )
    memory.summaries.update(scope=TALK, summarizer=lambda *_: "said", threshold=1, keep=1)
    memory.sessions.append([Message(role=Role.TOOL, text="found", tool_call_id="late")], scope=TALK)
    shown = memory.summaries.context(scope=TALK).messages
    check_valid(shown)
    assert [m.text for m in shown if not is_summary(m)] == ["never mind"]
    assert memory.sessions.read(scope=TALK)[-1].text == "found"
