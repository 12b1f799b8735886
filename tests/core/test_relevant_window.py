"""`sessions.relevant_window`: the recent messages and the older ones that answer a query."""

import pytest

from memkit_core import BackendError, Config, InvalidInputError, Memory, Message, Role, Scope, ToolCall
from memkit_core.conversation.history import EARLIER, RECALLED_TAG
from memkit_core.conversation.tokens import tokens_of

TALK = Scope.session("s", user="alice")


def user(text, **fields):
    return Message(role=Role.USER, text=text, **fields)


def assistant(text, **fields):
    return Message(role=Role.ASSISTANT, text=text, **fields)


@pytest.fixture
def memory():
    """A long session: turn 3 tells of a tent, turn 6 looks a canoe up, all else is of other things."""
    with Memory.open(":memory:", config=Config(disk_reserve=1)) as memory:
        log = [Message(role=Role.SYSTEM, text="Be kind.")]
        for n in range(40):
            if n == 3:
                log += [user("My tent is green.", id="tent"), assistant("A green tent, noted.", id="noted")]
            elif n == 6:
                call = ToolCall(id="c", name="look_up", arguments='{"q": "boat"}')
                log += [user("Where is my boat?", id="where"), assistant("", tool_calls=(call,), id="call")]
                log.append(Message(role=Role.TOOL, text="It lies in Oslo.", tool_call_id="c", id="oslo"))
                log.append(assistant("Your canoe lies in Oslo.", id="canoe"))
            else:
                log += [user(f"Say number {n}.", id=f"u{n}"), assistant(f"Number {n}.", id=f"a{n}")]
        memory.sessions.append(log, scope=TALK)
        other = Scope.session("t", user="alice")
        memory.sessions.append([user("My other tent is secret."), assistant("A secret tent.")], scope=other)
        memory.flush()
        yield memory


def ids(messages):
    return [message.id for message in messages]


def window(memory, query="What colour has the tent?", **options):
    return memory.sessions.relevant_window(query, scope=TALK, **{"recent": 4, "relevant": 1} | options)


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        ("append", ["u38", "a38", "tent", "noted", "u39", "a39"]),
        ("prepend", ["tent", "noted", "u38", "a38", "u39", "a39"]),
        ("interleave", ["tent", "noted", "u38", "a38", "u39", "a39"]),
    ],
)
def test_the_relevant_turn_joins_the_recent_ones(memory, merge, expected):
    """A recalled turn stands where the strategy says, whole and marked as earlier; the newest turn is last."""
    found = window(memory, merge=merge)
    assert found.messages[0].role is Role.SYSTEM
    assert ids(found.messages[1:]) == expected
    assert found.recalled == ("tent", "noted")
    assert (found.missing, found.error) == (frozenset(), None)
    marked = {message.id: message for message in found.messages}
    assert marked["tent"].text == EARLIER + "My tent is green."
    assert {i for i, message in marked.items() if RECALLED_TAG in message.metadata} == {"tent", "noted"}
    assert not any("secret" in message.text for message in found.messages)


def test_the_current_input_is_last(memory):
    """The input that is already stored stays last and is not recalled."""
    memory.sessions.append([user("What colour has the tent?", id="now")], scope=TALK)
    found = window(memory)
    assert found.messages[-1].id == "now"
    assert ids(found.messages).count("now") == 1
    assert "tent" in ids(found.messages)


def test_a_tool_group_comes_whole(memory):
    """A recalled answer brings its question, the calls and their results, valid for a chat API."""
    found = window(memory, "canoe")
    assert found.recalled == ("where", "call", "oslo", "canoe")


def test_nothing_stands_there_twice(memory):
    """What is recent is not recalled again, and neighbours that overlap come once."""
    found = window(memory, "number", recent=60, relevant=20, neighbours=2)
    assert len(set(ids(found.messages))) == len(found.messages)
    tent = window(memory, neighbours=1)
    assert tent.recalled == ("u2", "a2", "tent", "noted", "u4", "a4")


def test_a_budget_takes_whole_turns_or_none(memory):
    """Recalled turns take at most half of what the recent messages leave, whole ones only."""
    recent = tokens_of(memory.sessions.window(scope=TALK, last=4))
    assert window(memory, max_tokens=recent + 10).recalled == ()
    found = window(memory, max_tokens=recent + 80)
    assert found.recalled == ("tent", "noted")
    assert tokens_of(found.messages) <= recent + 80


@pytest.mark.parametrize(
    "error", [BackendError("down", backend="index", operation="search"), RuntimeError("x")]
)
def test_any_failure_gives_the_recent_ones(memory, monkeypatch, error):
    """When recall fails, the recent messages come alone and the result says why."""

    def fail(_):
        raise error

    monkeypatch.setattr(memory._recall, "run", fail)
    found = window(memory)
    assert list(found.messages) == memory.sessions.window(scope=TALK, last=4)
    assert found.missing == {"relevant"}
    assert type(error).__name__ in found.error
    assert found.recalled == ()


def test_a_blank_query_or_an_empty_session_recalls_nothing(memory):
    """Nothing to look for is no failure."""
    assert window(memory, " ").recalled == ()
    empty = memory.sessions.relevant_window("tent", scope=Scope.session("new", user="alice"))
    assert (empty.messages, empty.recalled, empty.missing) == ((), (), frozenset())


def test_values_out_of_range_are_refused(memory):
    """A wrong value is an error of the caller, not a failure to recall."""
    for wrong in ({"merge": "mix"}, {"recent": 0}, {"relevant": 0}, {"neighbours": -1}, {"query": None}):
        with pytest.raises(InvalidInputError):
            window(memory, **wrong)


def test_the_store_is_not_changed(memory):
    """The log stays what happened: marks stand in the window alone."""
    before = memory.sessions.read(scope=TALK)
    window(memory)
    assert memory.sessions.read(scope=TALK) == before
