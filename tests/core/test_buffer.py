"""`MessageBuffer`: the parts of a turn become its messages, and what is not saved yet is known."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit_core import InvalidInputError, Memory, Message, Role, Scope, ToolCall
from memkit_core.conversation.buffer import MessageBuffer

TALK = Scope.session("talk", user="alice")


def said(text, role=Role.ASSISTANT, **fields):
    return Message(role=role, text=text, **fields)


def call(call_id, name="look_up", arguments="{}"):
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id, text, **fields):
    return Message(role=Role.TOOL, text=text, tool_call_id=call_id, **fields)


def filled(*parts):
    buffer = MessageBuffer()
    for part in parts:
        buffer.add(part)
    return buffer


def test_consecutive_assistant_parts_become_one_message():
    """Texts are joined, calls united by id, metadata added, and the first part that names a field decides."""
    buffer = filled(
        said("Go", Role.USER, id="u"),
        said("I will ", speaker="Bo", metadata={"a": 1}, tool_calls=(call("c1", arguments='{"q":'),)),
        said("look", speaker="Al", metadata={"b": 2}, tool_calls=(call("", "", ' "x"'), call("c2"))),
        said(" there.", tool_calls=(call("c1", "", "}"), call("c2", "find"))),
    )
    user, answer = buffer.messages
    assert user.text == "Go"
    assert (answer.text, answer.speaker) == ("I will look there.", "Bo")
    assert answer.metadata == {"a": 1, "b": 2}
    assert answer.tool_calls == (call("c1", arguments='{"q": "x"}'), call("c2", "find"))


def test_what_does_not_follow_begins_a_message():
    """A message of another role, or a new id, ends the message before it; a known id goes on with its own."""
    buffer = filled(
        said("a", id="one"),
        said("b", id="two"),
        said("c", id="one"),
        said("d"),
        said("go on", Role.USER),
        said("e"),
        said(""),
    )
    assert [message.text for message in buffer.messages] == ["ac", "bd", "go on", "e"]


def test_a_part_that_says_nothing_is_left_out():
    """A stream that begins with empty parts leaves no empty message behind when it ends there."""
    assert filled(said(""), said("", speaker="Bo")).messages == []


def test_a_result_belongs_to_its_call():
    """A result is found by its call; one that comes twice replaces the first, at its place."""
    buffer = filled(
        said("", tool_calls=(call("c1"), call("c2"))), result("c2", "second"), result("c1", "first")
    )
    assert buffer.result_of("c1").text == "first"
    assert buffer.result_of("c3") is None
    buffer.drain()
    buffer.add(result("c2", "second, again"))
    assert [message.text for message in buffer.messages] == ["", "second, again", "first"]
    assert [message.text for message in buffer.drain()] == ["second, again"]
    buffer.add(result("c2", "second, again"))
    assert buffer.pending == []


def test_a_call_id_that_is_used_again_is_another_call():
    """Models that count their calls from 0 in every message get both results."""
    buffer = filled(
        said("", id="a", tool_calls=(call("0"),)),
        result("0", "first"),
        said("", id="b", tool_calls=(call("0"),)),
        result("0", "second"),
    )
    assert [message.text for message in buffer.messages] == ["", "first", "", "second"]


def test_a_result_without_its_call_is_refused():
    """A result whose call is unknown is a typed error, unless the call is among the stored messages."""
    with pytest.raises(InvalidInputError, match="c9"):
        filled(said("", tool_calls=(call("c1"),))).add(result("c9", "?"))
    with pytest.raises(InvalidInputError, match="None"):
        MessageBuffer().add(result(None, "?"))
    buffer = MessageBuffer([said("", id="a", tool_calls=(call("c9"),))])
    assert buffer.pending == []
    buffer.add(result("c9", "late", id="r"))
    buffer.add(said("Done."))
    assert [message.text for message in buffer.drain()] == ["late", "Done."]
    assert len(buffer) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        said("x", Role.USER, id="a"),
        said("x", id="u"),
        result("c1", "x", id="u"),
        said("x" * 10, id="a"),
        said("x", id="a", payload={"k": 1}),
        said("x", id="framework"),
        "text",
    ],
)
def test_what_cannot_be_joined_is_refused_whole(wrong):
    """Another kind of message under a known id, too long a text, a framework's parts: nothing is changed."""
    buffer = MessageBuffer(max_chars=10)
    for part in (
        said("go", Role.USER, id="u"),
        said("12345", id="a", tool_calls=(call("c1"),)),
        said("y", id="framework", payload={"k": 0}),
    ):
        buffer.add(part)
    before = buffer.checkpoint()
    with pytest.raises(InvalidInputError):
        buffer.add(wrong)
    assert buffer.checkpoint() == before


def test_draining_clears_only_the_mark():
    """What was drained stays for the prompt; when it changes it is pending again, at its place."""
    buffer = filled(said("go", Role.USER, id="u"), said("Hel", id="a"))
    assert [message.id for message in buffer.drain()] == ["u", "a"]
    assert buffer.drain() == []
    assert [message.text for message in buffer.messages] == ["go", "Hel"]
    buffer.add(said("lo"))
    buffer.add(said("next", Role.USER, id="v"))
    buffer.replace(said("went", Role.USER, id="u"))
    assert buffer.pending == ["u", "a", "v"]
    assert [message.text for message in buffer.drain()] == ["went", "Hello", "next"]
    with pytest.raises(InvalidInputError, match="nobody"):
        buffer.replace(said("x", id="nobody"))


def test_a_checkpoint_goes_on_where_it_was_taken():
    """Restored from its JSON, a buffer has the messages, what is pending, and takes the same parts."""
    first = filled(
        said("go", Role.USER, id="u", created_at="2026-05-01T10:00:00Z", metadata={"k": [1, None]}),
        said("", id="a", tool_calls=(call("c1"), call("c2"))),
        result("c1", "one"),
    )
    first.drain()
    first.add(result("c2", "two"))
    second = MessageBuffer.restore(first.checkpoint())
    assert second.checkpoint() == first.checkpoint()
    assert (second.messages, second.pending) == (first.messages, first.pending)
    for buffer in (first, second):
        buffer.add(result("c1", "one, again"))
        buffer.add(said("Done", id="b"))
    assert second.checkpoint() == first.checkpoint()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "messages": [{"role": "king"}]}']
)
def test_what_is_no_checkpoint_is_refused(text):
    """Anything but the JSON of a checkpoint is a typed error."""
    with pytest.raises(InvalidInputError, match="restore"):
        MessageBuffer.restore(text)


def test_threads_may_share_a_buffer():
    """Parts from several threads are all there, each drained once."""
    buffer, drained = MessageBuffer(), []

    def feed(name):
        for number in range(200):
            buffer.add(said(f"{number},", id=name))
            drained.append(len(buffer.drain()))

    threads = [threading.Thread(target=feed, args=(f"m{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {message.text for message in buffer.messages} == {"".join(f"{n}," for n in range(200))}
    assert buffer.pending == []


# ------------------------------------------------------------------------------- the property

IDS = st.sampled_from([None, "m1", "m2"])
CALLS = st.lists(
    st.builds(
        ToolCall,
        id=st.sampled_from(["c1", "c2", ""]),
        name=st.sampled_from(["f", ""]),
        arguments=st.text("{}ab", max_size=3),
    ),
    max_size=2,
    unique_by=lambda one: one.id,
).map(tuple)
PARTS = st.one_of(
    st.builds(said, st.text(max_size=5), id=IDS, tool_calls=CALLS),
    st.builds(said, st.text(max_size=5), st.just(Role.USER), id=st.sampled_from([None, "u1"])),
    st.builds(result, st.sampled_from(["c1", "c2"]), st.text(max_size=5)),
)


def shape(messages):
    """Messages without what the store adds, ids that were made here counted in order."""
    return [(m.role, m.text, m.tool_calls, m.tool_call_id, dict(m.metadata)) for m in messages]


@settings(deadline=None, max_examples=200)
@given(steps=st.lists(st.tuples(PARTS, st.booleans(), st.booleans()), max_size=25))
def test_draining_at_any_moment_changes_nothing(steps):
    """Any parts, drained and restored at any moments and written, read back as the turn never drained."""
    with Memory.open(":memory:") as memory:
        memory._worker.stop(0)
        whole, drained = MessageBuffer(), MessageBuffer()
        for part, drain, restore in steps:
            try:
                whole.add(part)
            except InvalidInputError:
                continue
            drained.add(part)
            if drain:
                memory.sessions.append(drained.drain(), scope=TALK)
            if restore:
                drained = MessageBuffer.restore(drained.checkpoint())
        memory.sessions.append(drained.drain(), scope=TALK)
        read = memory.sessions.read(scope=TALK)
        assert shape(read) == shape(whole.messages)
        assert [message.id for message in read] == [message.id for message in drained.messages]
