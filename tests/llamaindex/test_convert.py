"""What is promised of messages on their way to the store and back."""

import base64
import dataclasses
import io
import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.schema import ImageDocument

from llamaindex_memkit.convert import to_chat_message, to_message
from memkit_core import Message, Role, Scope, ToolCall

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
json_dicts = st.dictionaries(text, json_values, max_size=3)
words = st.text(string.ascii_lowercase, min_size=1, max_size=8)
blocks = st.lists(
    st.one_of(
        st.builds(TextBlock, text=text),
        st.builds(ThinkingBlock, content=st.none() | text, additional_information=json_dicts),
        st.builds(
            ToolCallBlock,
            tool_call_id=st.none() | text,
            tool_name=text,
            tool_kwargs=json_dicts | text,
        ),
        st.builds(ImageBlock, image=st.binary(min_size=1, max_size=40), detail=st.none() | text),
        st.builds(ImageBlock, url=words.map(lambda word: f"https://example.test/{word}.png")),
        st.builds(AudioBlock, audio=st.binary(min_size=1, max_size=40).map(base64.b64encode)),
        st.builds(DocumentBlock, data=st.binary(min_size=1, max_size=40), title=text),
        st.builds(CachePoint, cache_control=st.builds(CacheControl, type=text)),
        st.builds(CitableBlock, title=text, source=text, content=text),
        st.builds(
            CitationBlock,
            cited_content=text,
            source=text,
            title=text,
            additional_location_info=st.dictionaries(text, st.integers(), max_size=2),
        ),
    ),
    max_size=5,
)
# "images" is LlamaIndex's own older way to give pictures, tested below.
kwargs = st.dictionaries(text.filter(lambda key: key != "images"), json_values, max_size=3)
messages = st.builds(
    lambda role, made, extra: ChatMessage(role=role, blocks=made, additional_kwargs=extra),
    st.sampled_from(MessageRole),
    blocks,
    kwargs,
)


@settings(deadline=None, max_examples=150)
@given(messages)
def test_fidelity(message):
    """Whatever a message is made of, what comes back equals it, block for block."""
    before = message.model_copy(deep=True)
    stored = json.loads(json.dumps(to_message(message).payload))
    restored = to_chat_message(dataclasses.replace(to_message(message), payload=stored))
    assert restored == message
    assert message == before


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(messages, max_size=4))
def test_fidelity_through_the_store(memory, chat, given_messages):
    """A message read back from the file has every field that was put."""
    adapter = chat("fidelity")
    adapter.reset()
    adapter.put_messages(given_messages)
    log = memory.sessions.read(scope=adapter.scope)
    assert [to_chat_message(message) for message in log] == given_messages


def test_signature_and_order_of_blocks():
    """A thinking block keeps its signature byte for byte, and blocks keep their order (B22)."""
    message = ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="hm", additional_information={"signature": "s1+/=\u00e9"}),
            TextBlock(text="I will look."),
            ImageBlock(image=PNG),
            ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"where": "here"}),
            TextBlock(text="Done."),
        ],
        additional_kwargs={"x-lab": {"n": 1}},
    )
    restored = to_chat_message(to_message(message))
    assert restored == message
    assert restored.blocks[0].additional_information["signature"] == "s1+/=\u00e9"
    assert restored.blocks[2].resolve_image().read() == PNG
    assert to_message(message).text == "I will look.\nDone."


def test_media_from_a_stream():
    """A picture given as an open stream is stored as its bytes."""
    message = ChatMessage(role="user", blocks=[ImageBlock(image=io.BytesIO(PNG))])
    assert to_chat_message(to_message(message)).blocks[0].resolve_image().read() == PNG


def test_older_images_argument():
    """Pictures in `additional_kwargs["images"]` come back once, as blocks."""
    document = ImageDocument(image=base64.b64encode(PNG).decode())
    message = ChatMessage(role="user", content="look", additional_kwargs={"images": [document]})
    restored = to_chat_message(to_message(message))
    assert restored.blocks == message.blocks
    assert restored.additional_kwargs["images"][0]["id_"] == document.id_


def test_file_that_is_gone(tmp_path):
    """A picture whose file was deleted is said to be gone; the rest of its message is still read."""
    picture = tmp_path / "cat.png"
    picture.write_bytes(PNG)
    stored = to_message(ChatMessage(role="user", blocks=[TextBlock(text="my cat"), ImageBlock(path=picture)]))
    assert to_chat_message(stored).blocks[1].path == picture
    picture.unlink()
    restored = to_chat_message(stored)
    assert restored.blocks[0] == TextBlock(text="my cat")
    assert restored.blocks[1] == TextBlock(text="[This image block can no longer be loaded.]")


@pytest.mark.parametrize(
    ("role", "neutral"),
    [
        ("system", Role.SYSTEM),
        ("developer", Role.SYSTEM),
        ("user", Role.USER),
        ("assistant", Role.ASSISTANT),
        ("chatbot", Role.ASSISTANT),
        ("model", Role.ASSISTANT),
        ("tool", Role.TOOL),
        ("function", Role.TOOL),
    ],
)
def test_roles(role, neutral):
    """Every role has a neutral one, and comes back as it was."""
    message = ChatMessage(role=role, content="x")
    assert to_message(message).role is neutral
    assert to_chat_message(to_message(message)).role is MessageRole(role)


def test_every_role_is_known():
    """LlamaIndex has no role that the adapter does not know."""
    for role in MessageRole:
        to_message(ChatMessage(role=role, content="x"))


@pytest.mark.parametrize(
    "shape",
    [
        {"blocks": [ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs={"a": 1})]},
        {"blocks": [ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs='{"a": 1}')]},
        {
            "additional_kwargs": {
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                ]
            }
        },
        {"additional_kwargs": {"tool_calls": [{"id": "c1", "name": "add", "input": {"a": 1}}]}},
        {
            "blocks": [ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs={"a": 1})],
            "additional_kwargs": {
                "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}]
            },
        },
    ],
    ids=["block", "block-text", "openai", "anthropic", "both"],
)
def test_tool_calls(shape):
    """A call is understood in each form that integrations write, and counted once."""
    message = to_message(ChatMessage(role="assistant", **shape))
    assert message.tool_calls == (ToolCall(id="c1", name="add", arguments='{"a": 1}'),)


def test_calls_without_ids(chat):
    """A call without an id and the older `function_call` are answered by what follows them."""
    adapter = chat()
    adapter.put_messages(
        [
            ChatMessage(role="user", content="add"),
            ChatMessage(
                role="assistant", additional_kwargs={"function_call": {"name": "add", "arguments": "{}"}}
            ),
            ChatMessage(role="function", content="3", additional_kwargs={"name": "add"}),
            ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="add")]),
            ChatMessage(role="tool", content="4"),
        ]
    )
    assert [message.content for message in adapter.get_all()] == ["add", None, "3", None, "4"]


@pytest.mark.parametrize(
    "words",
    [
        "naïve café",
        "中文 丹佛",
        "👩‍👩‍👧 zwj",
        "שלום عالم",
        "  spaces\n\ttabs  ",
        "e\u0301 vs \u00e9",
        "{braces} {{x}}",
    ],
)
def test_text_is_verbatim(chat, words):
    """Valid text of any language comes back byte for byte (B27)."""
    adapter = chat()
    adapter.put(ChatMessage(role="user", content=words))
    assert adapter.get_all()[0].content == words
    assert adapter.get()[0].content == words


def test_lone_surrogates(chat):
    """A half emoji becomes U+FFFD and nothing else changes, nor do other messages (B27)."""
    adapter = chat()
    half = ChatMessage.model_construct(
        role=MessageRole.TOOL,
        blocks=[TextBlock.model_construct(block_type="text", text="half \ud83d end é")],
        additional_kwargs={"raw": "\ud83d\ude00 \ud83d", "tool_call_id": "c"},
    )
    call = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_call_id="c", tool_name="t")])
    adapter.put_messages([ChatMessage(role="user", content="hi"), call, half])
    stored = adapter.get_all()
    assert stored[2].content == "half \ufffd end é"
    assert stored[2].additional_kwargs["raw"] == "\U0001f600 \ufffd"
    assert stored[0].content == "hi"


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage(role="user"),
        ChatMessage(role="user", content=""),
        ChatMessage(role="user", content="  \n"),
        ChatMessage(role="user", blocks=[ImageBlock(image=PNG)]),
        ChatMessage(role="user", blocks=[TextBlock(text="a"), TextBlock(text="b")]),
        ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": None}),
    ],
    ids=["none", "empty", "blank", "image", "blocks", "no calls"],
)
def test_unusual_content(chat, memory, message):
    """Legal but unusual content is stored, read back and recalled for without a crash (B23)."""
    adapter = chat()
    adapter.put(message)
    assert list(map(to_chat_message, memory.sessions.read(scope=adapter.scope))) == [message]
    # A model would refuse an answer that holds nothing.
    assert adapter.get_all() == ([] if message.role is MessageRole.ASSISTANT else [message])
    adapter.get()
    adapter.get(input=message)


def test_neutral_messages():
    """A message of another framework is built from its neutral fields."""
    asked = Message(
        role=Role.ASSISTANT,
        text="looking",
        tool_calls=(
            ToolCall(id="c1", name="look", arguments='{"at": 1}'),
            ToolCall(id="c2", name="x", arguments="oops"),
        ),
        payload={"type": "ai", "data": {"content": "looking"}},
        format="langchain",
    )
    built = to_chat_message(asked)
    assert built.content == "looking"
    assert [block.tool_kwargs for block in built.blocks[1:]] == [{"at": 1}, "oops"]
    answer = to_chat_message(Message(role=Role.TOOL, text="seen", tool_call_id="c1", format="langchain"))
    assert answer == ChatMessage(role="tool", content="seen", additional_kwargs={"tool_call_id": "c1"})


def test_assigned_role():
    """A role that was assigned as text is understood, since LlamaIndex does not check it."""
    message = ChatMessage(content="x")
    message.role = "assistant"  # type: ignore[assignment]
    assert to_message(message).role is Role.ASSISTANT


def test_shared_session(memory, chat, check_valid, said):
    """Two frameworks can take turns in one session; each reads what the other wrote."""
    scope = Scope.session("s1", user="alice")
    memory.sessions.append(
        [
            Message(role=Role.USER, text="from LangChain", payload={"type": "human"}, format="langchain"),
            Message(
                role=Role.ASSISTANT,
                text="",
                tool_calls=(ToolCall(id="c1", name="look"),),
                payload={"type": "ai"},
                format="langchain",
            ),
            Message(role=Role.TOOL, text="seen", tool_call_id="c1", format="langchain"),
        ],
        scope=scope,
    )
    adapter = chat()
    adapter.put(ChatMessage(role="user", content="from LlamaIndex"))
    check_valid(adapter.get_all())
    check_valid(adapter.get())
    assert said(adapter.get()) == [
        ("user", "from LangChain"),
        ("assistant", ""),
        ("tool", "seen"),
        ("user", "from LlamaIndex"),
    ]
    assert memory.sessions.read(scope=scope)[-1].text == "from LlamaIndex"
