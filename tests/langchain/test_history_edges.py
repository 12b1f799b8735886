"""`MemkitChatMessageHistory` at its edges: repair, identity, errors, copies, other writers."""

import copy
import logging
import pickle

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
)

from langchain_memkit import MemkitChatMessageHistory
from memkit_core import ClosedError, InvalidInputError, Memory, Message, Role, Scope, ScopeError, ToolCall
from memkit_core.conversation.windows import NO_RESULT


def texts(messages):
    return [message.text for message in messages]


def calls(*ids):
    return [{"name": "ship", "args": {"n": 1}, "id": one, "type": "tool_call"} for one in ids]


# ------------------------------------------------------------------ repair


def test_a_dangling_call_is_repaired_the_same_way_on_every_read(path, clock):
    """B04: after a turn that was cut off, `messages` is valid and stable and `raw_messages` is the truth."""
    with Memory.open(path, clock=clock) as memory:
        history = MemkitChatMessageHistory(memory, session_id="s1", user_id="alice")
        history.add_messages(
            [
                HumanMessage("ship both"),
                AIMessage("", tool_calls=calls("z1", "z2")),
                ToolMessage("done", tool_call_id="z1"),
            ]
        )
    with Memory.open(path, clock=clock) as memory:
        history = MemkitChatMessageHistory(memory, session_id="s1", user_id="alice")
        history.add_messages([HumanMessage("continue")])
        view = history.messages
        assert [m.type for m in view] == ["human", "ai", "tool", "tool", "human"]
        assert [m.tool_call_id for m in view if isinstance(m, ToolMessage)] == ["z1", "z2"]
        assert view[3].text == "[No result of this call was recorded.]"
        assert history.messages == view
        assert [m.type for m in history.raw_messages] == ["human", "ai", "tool", "human"]
        history.add_messages([AIMessage("Going on.")])
        assert history.messages[:5] == view


def test_a_late_result_takes_the_place_of_the_stand_in(history):
    """D2: each result stands right behind its call in `messages`, wherever the log has it."""
    history.add_messages([HumanMessage("go"), AIMessage("", tool_calls=calls("k1")), HumanMessage("wait")])
    history.add_messages([ToolMessage("late", tool_call_id="k1")])
    assert [(m.type, m.text) for m in history.messages] == [
        ("human", "go"), ("ai", ""), ("tool", "late"), ("human", "wait"),
    ]  # fmt: skip
    assert texts(history.raw_messages) == ["go", "", "wait", "late"]


def test_a_call_id_that_is_used_again_keeps_both_results(history):
    """D2: models that number their calls anew in each turn get every result back behind its own call."""
    for turn in ("first", "second"):
        history.add_messages(
            [
                HumanMessage(turn),
                AIMessage("", tool_calls=calls("call_0")),
                ToolMessage(f"{turn} result", tool_call_id="call_0"),
            ]
        )
    assert history.messages == history.raw_messages
    assert texts(history.messages) == ["first", "", "first result", "second", "", "second result"]


def test_a_function_message_stays_in_the_view(history):
    """The retired FunctionMessage names no call, so the repair leaves it where it is."""
    history.add_messages([HumanMessage("go"), FunctionMessage("42", name="f")])
    assert [(type(m), m.text) for m in history.messages] == [(HumanMessage, "go"), (FunctionMessage, "42")]


# ------------------------------------------------------------------ identity


PAIRS = [
    ("a:b", "c"),
    ("a", "b:c"),
    ("x/y", "s"),
    ("x_y", "s"),
    ("x:y", "s"),
    ("mia@lund.example", "s"),
    ("🦉", "🐈"),
    ("u" * 4000, "s" * 4096),
    (" lead", "trail "),
    ("lead", "trail"),
    ("caf\u00e9", "s"),
    ("cafe\u0301", "s"),
    ("7", "7"),
    ("%", "_"),
    ("'; DROP TABLE messages; --", '"'),
    ("u1", "s"),
    ("u10", "s"),
]


def test_every_pair_of_ids_is_a_history_of_its_own(memory):
    """B32: no two (user, session) pairs share a history; each can be listed and cleared by its ids."""
    histories = [MemkitChatMessageHistory(memory, session_id=s, user_id=u) for u, s in PAIRS]
    for i, one in enumerate(histories):
        one.add_messages([HumanMessage(f"said {i}")])
    assert [texts(one.messages) for one in histories] == [[f"said {i}"] for i in range(len(PAIRS))]
    assert [s.scope.id for s in memory.sessions.list(scope=Scope.user("x_y"))] == ["s"]
    histories[0].clear()
    assert [len(one.messages) for one in histories] == [0] + [1] * (len(PAIRS) - 1)


def test_a_user_inside_a_workspace_is_another_user(memory):
    """A3: a scope with a parent and one without are two; the whole scope can be given."""
    inside = Scope.user("alice", workspace="lab", org="acme")
    first = MemkitChatMessageHistory(memory, session_id="s1", user=inside)
    second = MemkitChatMessageHistory(memory, session_id="s1", user_id="alice")
    first.add_user_message("inside")
    assert second.messages == []
    assert first.scope == Scope.session("s1", user=inside)
    assert "org:acme/workspace:lab/user:alice/session:s1" in repr(first)


@pytest.mark.parametrize(
    "given",
    [
        {"session_id": "s1"},
        {"session_id": "s1", "user_id": "alice", "user": Scope.user("alice")},
        {"session_id": "s1", "user": "alice"},
        {"session_id": "s1", "user": Scope.org("acme")},
        {"session_id": "", "user_id": "alice"},
        {"session_id": "s1", "user_id": ""},
        {"session_id": 7, "user_id": "alice"},
        {"session_id": "s1", "user_id": 7},
        {"session_id": None, "user_id": "alice"},
        {"session_id": "nul\0", "user_id": "alice"},
        {"session_id": "half \ud83d", "user_id": "alice"},
        {"session_id": "s" * 4097, "user_id": "alice"},
    ],
)
def test_a_bad_identity_is_refused_at_construction(memory, given):
    """B32, J5: ids that cannot be one, and a missing or doubled user, raise ScopeError at once."""
    with pytest.raises(ScopeError):
        MemkitChatMessageHistory(memory, **given)


def test_what_is_no_memory_is_refused():
    """J5: a path instead of a memory is a typed error that shows it."""
    with pytest.raises(InvalidInputError, match=r"memory\.db"):
        MemkitChatMessageHistory("memory.db", session_id="s1", user_id="alice")


# ------------------------------------------------------------------ errors


class Oddity(BaseMessage):
    type: str = "oddity"


@pytest.mark.parametrize(
    "bad", ["text", {"role": "user"}, None, Oddity(content="x"), HumanMessage("x", id="n\0")]
)
def test_a_message_that_cannot_be_stored_stores_nothing(history, bad):
    """B24: what could not be read again is refused at write, and nothing of its batch is stored."""
    with pytest.raises(InvalidInputError):
        history.add_messages([HumanMessage("before"), bad])
    assert history.messages == []


def test_a_failed_write_is_logged_kept_and_raised(history, memory, caplog):
    """RunnableWithMessageHistory swallows write errors, so they are logged without any text, and kept."""
    with (
        caplog.at_level(logging.WARNING, logger="memkit.langchain"),
        pytest.raises(InvalidInputError) as caught,
    ):
        history.add_messages([HumanMessage("my secret"), Oddity(content="my secret")])
    assert history.last_error is caught.value
    assert [record.getMessage() for record in caplog.records] == [
        "chat history: add_messages failed with InvalidInputError"
    ]
    history.add_messages([HumanMessage("fine")])
    assert history.last_error is None
    memory.close()
    with pytest.raises(ClosedError):
        history.add_messages([HumanMessage("too late")])
    assert isinstance(history.last_error, ClosedError)


# ------------------------------------------------------------------ copies and other writers


def test_copies_share_the_store_and_pickles_reopen_it(history):
    """B71: copy, deepcopy and pickle of a history work, and the original still does."""
    history.add_user_message("hello")
    with pytest.raises(InvalidInputError):
        history.add_messages([Oddity(content="x")])
    for twin in (copy.copy(history), copy.deepcopy(history)):
        assert twin.messages == history.messages
        twin.add_user_message("from a copy")
    reopened = pickle.loads(pickle.dumps(history))
    try:
        assert reopened.messages == history.messages
        assert reopened.scope == history.scope
        # Errors need not be picklable, so none travels along.
        assert history.last_error is not None
        assert reopened.last_error is None
        reopened.add_user_message("from a pickle")
    finally:
        reopened._memory.close()
    assert texts(history.messages) == ["hello", "from a copy", "from a copy", "from a pickle"]


def test_what_others_wrote_is_read_from_the_neutral_fields(history, memory):
    """D1: messages of the core or of another framework become LangChain messages of the right class."""
    call = ToolCall(id="c1", name="ship", arguments='{"n": 1}')
    memory.sessions.append(
        [
            Message(role=Role.SYSTEM, text="Be brief."),
            Message(
                role=Role.USER, text="Ship it", speaker="Mia", format="llamaindex", payload={"blocks": []}
            ),
            Message(
                role=Role.ASSISTANT, text="", tool_calls=(call, ToolCall(id="c2", name="f", arguments="{{"))
            ),
            Message(role=Role.TOOL, text="done", tool_call_id="c1"),
            Message(role=Role.TOOL, text="what?", tool_call_id="c2"),
        ],
        scope=history.scope,
    )
    system, user, asked, done, _ = history.messages
    assert (type(system), system.text) == (SystemMessage, "Be brief.")
    assert (type(user), user.text, user.name) == (HumanMessage, "Ship it", "Mia")
    assert asked.tool_calls == [{"type": "tool_call", "id": "c1", "name": "ship", "args": {"n": 1}}]
    assert [(one["id"], one["args"]) for one in asked.invalid_tool_calls] == [("c2", "{{")]
    assert (type(done), done.text, done.tool_call_id) == (ToolMessage, "done", "c1")
    assert [m.id for m in history.messages] == [m.id for m in memory.sessions.read(scope=history.scope)]


@pytest.mark.parametrize("answered", [True, False])
def test_a_call_that_could_not_be_parsed_is_answered(history, answered):
    """A call with broken arguments goes to the model like any other, so its result stays behind it, or a stand-in."""
    broken = {"type": "invalid_tool_call", "id": "b1", "name": "ship", "args": "{bad", "error": "no JSON"}
    nameless = {**broken, "id": None, "args": None}
    asked = AIMessage("", invalid_tool_calls=[broken, nameless], tool_calls=calls("c1"))
    results = [ToolMessage("no JSON", tool_call_id="b1", status="error")] if answered else []
    done = ToolMessage("done", tool_call_id="c1")
    history.add_messages([HumanMessage("hi"), asked, done, *results, AIMessage("ok")])
    _, stored, *found, last = history.messages
    assert stored.invalid_tool_calls == asked.invalid_tool_calls
    assert [(one.tool_call_id, one.text) for one in found] == [
        ("c1", "done"), ("b1", "no JSON" if answered else NO_RESULT)
    ]  # fmt: skip
    assert last.text == "ok"


def test_results_in_a_human_message_answer_their_calls(history, memory):
    """Calls and results that are blocks of the content, as Anthropic has them, are paired as all others are."""
    uses = [{"type": "tool_use", "id": one, "name": "ship", "input": {"n": 1}} for one in ("a1", "b1", "c1")]
    results = [{"type": "tool_result", "tool_use_id": one, "content": f"done {one}"} for one in ("a1", "b1")]
    given = [
        HumanMessage("ship all"),
        AIMessage([{"type": "text", "text": "on it"}, *uses]),
        HumanMessage([*results, {"type": "text", "text": "and hurry"}]),
        AIMessage("ok"),
        HumanMessage("thanks"),
    ]
    history.add_messages(given)
    assert [message.content for message in history.raw_messages] == [message.content for message in given]
    asked, answered = history.messages[1:3], history.messages[3]
    assert [(type(one), one.content) for one in asked] == [
        (AIMessage, given[1].content), (HumanMessage, given[2].content),
    ]  # fmt: skip
    assert (answered.tool_call_id, answered.content) == ("c1", NO_RESULT)
    # No window begins with the results.
    for last in range(1, 6):
        view = memory.sessions.window(scope=history.scope, last=last)
        assert view[0].text in ("ship all", "thanks")
    assert "done b1" in memory.sessions.read(scope=history.scope)[2].text


@pytest.mark.parametrize("given", [None, 7, "hello", HumanMessage("hello"), [("human", "hello")]])
def test_what_is_no_list_of_messages_is_a_typed_error(history, given):
    """Whatever else is given, nothing is written, and the error says what is taken."""
    with pytest.raises(InvalidInputError, match="messages"):
        history.add_messages(given)
    assert history.messages == []


def test_results_that_come_in_one_message_are_sent_all_or_none(history):
    """Where one of them is there already, the message is left out, and the other calls have stand-ins."""
    results = [{"type": "tool_result", "tool_use_id": one, "content": "late"} for one in ("a1", "b1")]
    history.add_messages(
        [
            HumanMessage("ship both"),
            AIMessage("", tool_calls=calls("a1", "b1")),
            ToolMessage("done", tool_call_id="a1"),
            HumanMessage(results),
        ]
    )
    assert [message.content for message in history.messages[2:]] == ["done", NO_RESULT]


def test_a_result_that_two_calls_share_is_never_cut_in_two(history, memory):
    """A message with the results of several calls stays whole in a window that is too small."""
    uses = [{"type": "tool_use", "id": one, "name": "ship", "input": {}} for one in ("a1", "b1")]
    results = [{"type": "tool_result", "tool_use_id": one, "content": "x " * 500} for one in ("a1", "b1")]
    history.add_messages([HumanMessage("ship both"), AIMessage(uses), HumanMessage(results)])
    *_, last = memory.sessions.window(scope=history.scope, max_tokens=100)
    assert last.payload["data"]["content"] == results


def test_others_read_the_neutral_fields(history, memory):
    """D1: the core sees role, text, speaker, calls and the answered call of a LangChain message."""
    history.add_messages(
        [
            HumanMessage("hi", name="Mia"),
            AIMessage([{"type": "text", "text": "on it"}, {"type": "x-lab", "n": 1}], tool_calls=calls("c1")),
            ToolMessage("done", tool_call_id="c1", name="ship"),
        ]
    )
    human, asked, done = memory.sessions.read(scope=history.scope)
    assert (human.role, human.text, human.speaker, human.format) == (Role.USER, "hi", "Mia", "langchain")
    assert (asked.role, asked.text) == (Role.ASSISTANT, "on it")
    assert asked.tool_calls == (ToolCall(id="c1", name="ship", arguments='{"n": 1}'),)
    assert (done.role, done.text, done.tool_call_id) == (Role.TOOL, "done", "c1")


def test_a_payload_that_cannot_be_read_falls_back_to_the_text(history, memory, caplog):
    """C5: a message of a newer LangChain is read by its text and calls, and a warning says so."""
    payload = {"type": "hologram", "data": message_to_dict(HumanMessage("hi"))["data"]}
    memory.sessions.append(
        [Message(role=Role.USER, text="hi", format="langchain", payload=payload)], scope=history.scope
    )
    with caplog.at_level(logging.WARNING, logger="memkit.langchain"):
        assert [(type(m), m.text) for m in history.messages] == [(HumanMessage, "hi")]
    assert "langchain-core" in caplog.text
