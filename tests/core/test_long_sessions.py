"""Sessions that outgrow a model: what is counted, what is cut, and what one turn costs."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock

from langchain_memkit.convert import from_memkit, to_memkit
from llamaindex_memkit import MemkitMemory
from llamaindex_memkit.convert import to_chat_message, to_message
from memkit_core import Config, Memory, Message, Role, Scope, ToolCall
from memkit_core.conversation.tokens import approximate_tokens, message_tokens, tokens_of
from memkit_core.conversation.windows import NO_MEDIA

TALK = Scope.session("s", user="alice")


def user(text, **fields):
    return Message(role=Role.USER, text=text, **fields)


def assistant(text, **fields):
    return Message(role=Role.ASSISTANT, text=text, **fields)


@pytest.fixture
def memory():
    with Memory.open(":memory:", config=Config(disk_reserve=1)) as memory:
        yield memory


@pytest.mark.parametrize("most", [2000, 90])
def test_a_summary_that_grows_is_cut_each_time(most):
    """A model that always adds 200 words to the summary: the context keeps its limit, one call a turn (B08)."""
    calls = []

    def growing(previous, messages, max_tokens):
        calls.append(max_tokens)
        return f"{previous} " + " ".join(f"fact{len(calls)}x{n}" for n in range(200))

    made = 0
    with Memory.open(":memory:", config=Config(disk_reserve=1, summary_max_tokens=most)) as memory:
        for n in range(200):
            memory.sessions.append([user(f"number {n} " + "word " * 20)], scope=TALK)
            before = len(calls)
            result = memory.summaries.update(
                scope=TALK, summarizer=growing, threshold=300, count=approximate_tokens
            )
            assert len(calls) <= before + 1
            made += result.changed
            context = memory.summaries.context(scope=TALK, max_tokens=300, count=approximate_tokens)
            assert tokens_of(context.messages) <= 300
            if result.summary is not None:
                assert approximate_tokens(result.summary.text) <= min(most, 150)
                assert result.summary.text.endswith("[...]")
            if made == 15:
                break
        assert made == 15
        assert len(calls) < n
        turn = memory.turn_context(TALK, None, recent=None, max_tokens=600, count=approximate_tokens)
        assert tokens_of(turn.messages) <= 600


@pytest.mark.parametrize("where", ["older", "newest", "system"])
def test_one_message_larger_than_the_limit(memory, where):
    """The context comes back with one call a turn at most; the message is cut in it and whole in the store (B09)."""
    calls = []

    def summarizer(previous, messages, max_tokens):
        calls.append(tokens_of(messages))
        return "a summary"

    huge = "word " * 5000
    small = [user(f"number {n}") if n % 2 == 0 else assistant(f"answer {n}") for n in range(20)]
    big = Message(role=Role.SYSTEM, text="rule " * 640) if where == "system" else user(huge, id="big")
    log = [*small, big] if where == "newest" else [big, *small]
    memory.sessions.append(log, scope=TALK)
    for n in range(5):
        memory.summaries.update(scope=TALK, summarizer=summarizer, threshold=500, count=approximate_tokens)
        assert len(calls) <= n + 1
        context = memory.summaries.context(scope=TALK, max_tokens=500, count=approximate_tokens)
        turn = memory.turn_context(TALK, "", recent=None, max_tokens=500, count=approximate_tokens)
        if where == "system":
            # Never cut: the system text, and the least of the newest turn.
            assert context.messages[0].text == big.text
            assert context.messages[-1].text == "answer 19"
            assert turn.recent[-1].text == "answer 19"
        else:
            assert tokens_of(context.messages) <= 500
            assert tokens_of(turn.messages) <= 500
    assert all(tokens <= 500 for tokens in calls)
    assert any(message.text == big.text for message in memory.sessions.read(scope=TALK))
    if where == "newest":
        assert "characters left out" in turn.recent[-1].text


def test_an_attachment_that_does_not_fit_leaves_a_mark(memory):
    """Where a message is cut to fit, what says that it had a picture is sent in its place."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    memory.sessions.append([to_memkit(HumanMessage([{"type": "text", "text": "see"}, picture]))], scope=TALK)
    (small,) = memory.sessions.window(scope=TALK, max_tokens=100)
    assert small.text == "see" + NO_MEDIA
    (whole,) = memory.sessions.window(scope=TALK, max_tokens=1_000)
    assert (whole.text, whole.payload is None) == ("see", False)


@pytest.mark.parametrize("said", ["", "see"])
def test_a_picture_of_another_framework_leaves_a_mark(memory, said):
    """What one framework cannot show of a message that the other wrote, it says."""
    url = "data:image/png;base64,iVBORw0KGgo="
    theirs = HumanMessage([{"type": "text", "text": said}, {"type": "image_url", "image_url": {"url": url}}])
    ours = ChatMessage(
        role="user", blocks=[TextBlock(text=said), ImageBlock(url="https://example.org/a.png")]
    )
    expected = f"{said}{NO_MEDIA}".strip()
    assert to_chat_message(to_memkit(theirs)).content == expected
    assert from_memkit(to_message(ours)).content == expected
    assert from_memkit(to_memkit(theirs)).content == theirs.content
    assert to_chat_message(to_message(ours)).blocks == ours.blocks


LONG = "A" * 3_000
JSON = "[" + ",".join('{"n":1}' for _ in range(300)) + "]"


@pytest.mark.parametrize(
    "theirs",
    [
        AIMessage(
            [{"type": "thinking", "thinking": "hm", "signature": LONG}, {"type": "text", "text": "hi"}]
        ),
        AIMessage([{"type": "reasoning", "encrypted_content": LONG}, {"type": "text", "text": "hi"}]),
        AIMessage("hi", invalid_tool_calls=[{"name": "ship", "args": JSON + ",", "id": "c1", "error": "no"}]),
        HumanMessage([{"type": "tool_result", "tool_use_id": "c1", "content": JSON}]),
        HumanMessage(
            [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": JSON}]}]
        ),
    ],
    ids=["signature", "encrypted", "refused call", "result", "result in blocks"],
)
def test_what_is_no_attachment_leaves_no_mark(theirs):
    """A signed thought, a refused call and a result that is text were sent with nothing that could be missed."""
    assert NO_MEDIA.strip() not in to_chat_message(to_memkit(theirs)).content


def test_a_picture_in_a_result_leaves_a_mark():
    """A result of Anthropic's that is a picture says so to the other framework."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": LONG}}
    theirs = HumanMessage([{"type": "tool_result", "tool_use_id": "c1", "content": [picture]}])
    assert to_chat_message(to_memkit(theirs)).content == NO_MEDIA.strip()


def _as_core(text, call):
    return [user("go"), assistant(text, tool_calls=call)]


def _as_langchain(text, call):
    calls = [{"type": "tool_call", "id": c.id, "name": c.name, "args": {"q": c.arguments}} for c in call]
    return [to_memkit(HumanMessage("go")), to_memkit(AIMessage(text, tool_calls=calls))]


def _as_llamaindex(text, call):
    blocks = [
        ToolCallBlock(tool_call_id=c.id, tool_name=c.name, tool_kwargs={"q": c.arguments}) for c in call
    ]
    said = ChatMessage(role="assistant", content=text)
    said.blocks += blocks
    return [to_message(ChatMessage(role="user", content="go")), to_message(said)]


@pytest.mark.parametrize("form", [_as_core, _as_langchain, _as_llamaindex])
@pytest.mark.parametrize(
    ("text", "arguments", "least"),
    [
        ("", " ".join(f"word{n}" for n in range(200)), 200),
        ("汉" * 300, "", 180),
        ("한" * 300, "", 180),
        ("🦉" * 100, "", 100),
        ("汉a" * 150, "", 110),
    ],
    ids=["arguments", "Han", "Hangul", "emoji", "mixed"],
)
def test_what_is_counted_leaves_the_window(memory, form, text, arguments, least):
    """Arguments of calls, wide scripts and emoji count, so that trimming fires (B12, B14)."""
    for n in range(5):
        call = (ToolCall(id=f"c{n}", name="look_up", arguments=arguments),) if arguments else ()
        memory.sessions.append(form(text, call), scope=TALK)
    log = memory.sessions.read(scope=TALK)
    assert message_tokens(log[1]) >= least
    # Room for one turn of five, and not for two.
    window = memory.sessions.window(scope=TALK, max_tokens=message_tokens(log[1]) + 60)
    assert sum(message.role is Role.USER for message in window) == 1
    adapter = MemkitMemory.from_defaults(
        memory=memory, session_id="s", user_id="alice", recall=False, token_limit=message_tokens(log[1]) + 60
    )
    assert [message.role.value for message in adapter.get()].count("user") == 1


def test_reading_a_window_counts_the_window(tmp_path):
    """What is read and counted for a window depends on the window, not on what lies before it (B16)."""
    counted = {}
    with Memory.open(tmp_path / "m.db", config=Config(disk_reserve=1)) as memory:
        for name, length in (("short", 300), ("long", 6000)):
            session = Scope.session(name, user="alice")
            for start in range(0, length, 1000):
                end = min(start + 1000, length)
                memory.sessions.append(
                    [user(f"number {n} of many words", indexed=False) for n in range(start, end)],
                    scope=session,
                )
            asked = []

            def count(text, asked=asked):
                asked.append(text)
                return approximate_tokens(text)

            window = memory.sessions.window(scope=session, max_tokens=1000, count=count)
            memory.turn_context(session, "", recent=None, max_tokens=1000, count=count)
            assert window[-1].text == f"number {length - 1} of many words"
            counted[name] = len(asked)
    assert counted["long"] <= counted["short"] + 10
