"""Store and load of messages, field by field: what is JSON comes back equal, the rest in a documented form."""

import dataclasses
import decimal
import enum
import json
import pathlib
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from pydantic import BaseModel

from langchain_memkit import MemkitChatMessageHistory
from langchain_memkit.plain import plain
from memkit_core import Memory


def round_trip(history, *messages):
    history.clear()
    history.add_messages(messages)
    return history.raw_messages


def with_stored_ids(messages, loaded):
    """The originals with the ids the store gave to those that had none."""
    return [
        message if message.id else message.model_copy(update={"id": stored.id})
        for message, stored in zip(messages, loaded, strict=True)
    ]


EVERY_FIELD = AIMessage(
    [
        {"type": "reasoning", "reasoning": "hm", "signature": "s1=="},
        {"type": "text", "text": "shipping", "annotations": []},
        {"type": "x-lab", "n": 1, "deep": {"a": [1, {"b": None}]}},
        "loose text",
    ],
    id="m1",
    name="clerk",
    tool_calls=[{"name": "ship", "args": {"n": 12, "to": ["a"]}, "id": "c1", "type": "tool_call"}],
    invalid_tool_calls=[
        {"name": "ship", "args": "{n:", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
    ],
    usage_metadata={
        "input_tokens": 5,
        "output_tokens": 7,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 3},
        "output_token_details": {"reasoning": 2},
    },
    response_metadata={"model_name": "m", "logprobs": [{"t": -0.25}], "finish_reason": "stop"},
    additional_kwargs={"refusal": None, "audio": {"id": "a"}},
    vendor_extra={"kept": [True]},
)
TOOL_RESULT = ToolMessage(
    "boom",
    tool_call_id="c1",
    id="t1",
    name="ship",
    status="error",
    artifact={"rows": [[1, 2.5], [None, "x"]]},
)


@pytest.mark.parametrize(
    "message",
    [
        EVERY_FIELD,
        TOOL_RESULT,
        ToolMessage(
            [{"type": "text", "text": "a"}, {"type": "x", "v": 1}], tool_call_id="c", artifact=[1, "b"]
        ),
        HumanMessage(
            [{"type": "image_url", "image_url": {"url": "data:,x"}}, {"type": "text", "text": "see"}]
        ),
        HumanMessage("plain", example=True, lc={"lc": 1, "type": "constructor", "id": ["x"]}),
        SystemMessage("rules", additional_kwargs={"__openai_role__": "developer"}),
        ChatMessage("aside", role="critic"),
        ChatMessage("said", role="assistant", name="n"),
        FunctionMessage("42", name="f"),
        AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None, "type": "tool_call"}]),
    ],
    ids=lambda message: message.type,
)
def test_every_field_comes_back(history, message):
    """D1, B22: content blocks, calls, usage, artifacts, status, unknown blocks and fields survive."""
    [loaded] = round_trip(history, message)
    assert type(loaded) is type(message)
    assert [loaded] == with_stored_ids([message], [loaded])
    assert loaded.model_dump() == with_stored_ids([message], [loaded])[0].model_dump()


def test_every_field_comes_back_after_a_restart(path, clock):
    """B22: the same through a closed file, in the view for the model as well."""
    broken = ToolMessage("no JSON", tool_call_id="c2", id="t2", status="error")
    said = [HumanMessage("go", id="h1"), EVERY_FIELD, TOOL_RESULT, broken]
    with Memory.open(path, clock=clock) as memory:
        MemkitChatMessageHistory(memory, session_id="s", user_id="u").add_messages(said)
    with Memory.open(path, clock=clock) as memory:
        history = MemkitChatMessageHistory(memory, session_id="s", user_id="u")
        assert history.messages == said
        assert history.raw_messages == said


# ------------------------------------------------------------------ as a property

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_dicts = st.dictionaries(texts, json_values, max_size=3)
blocks = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(["text", "reasoning", "image", "x-lab"]),
    st.dictionaries(st.sampled_from(["text", "signature", "n", "v"]), json_values, max_size=3),
)
contents = texts | st.lists(texts | blocks, max_size=3)
ids = st.none() | st.uuids().map(str)
common = {
    "content": contents,
    "additional_kwargs": json_dicts,
    "response_metadata": json_dicts,
    "name": st.none() | texts,
    "id": ids,
}
tool_calls = st.lists(
    st.fixed_dictionaries(
        {"name": texts, "args": json_dicts, "id": st.none() | texts, "type": st.just("tool_call")}
    ),
    max_size=2,
)
counts = st.integers(0, 10**6)
usage = st.none() | st.fixed_dictionaries(
    {"input_tokens": counts, "output_tokens": counts, "total_tokens": counts}
)
messages = st.one_of(
    st.builds(HumanMessage, **common),
    st.builds(SystemMessage, **common),
    st.builds(AIMessage, **common, tool_calls=tool_calls, usage_metadata=usage, vendor=json_values),
    st.builds(
        ToolMessage,
        **common,
        tool_call_id=texts,
        artifact=json_values,
        status=st.sampled_from(["success", "error"]),
    ),
    st.builds(ChatMessage, **common, role=texts),
)
_sessions = count()


@given(said=st.lists(messages, max_size=4, unique_by=lambda message: message.id or object()))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_messages_come_back_equal(memory, said):
    """D1: whatever JSON a message holds, it loads equal and in order, and the given objects stay."""
    history = MemkitChatMessageHistory(memory, session_id=f"p{next(_sessions)}", user_id="u")
    before = [message.model_copy(deep=True) for message in said]
    history.add_messages(said)
    loaded = history.raw_messages
    assert loaded == with_stored_ids(said, loaded)
    assert [type(message) for message in loaded] == [type(message) for message in said]
    assert said == before


# ------------------------------------------------------------------ text


@pytest.mark.parametrize(
    "text",
    [
        "naïve café",
        "丹佛的绿茶",
        "👩\u200d🔬 at work",
        "שלום עולם",
        "\u202eright to left",
        "tab\tline\r\n",
        "\ufeffBOM",
        "a\u0301",
    ],
)
def test_valid_text_is_byte_identical(history, text):
    """B27: accents, Chinese, joined emoji and right-to-left text come back as they were, everywhere."""
    said = [
        HumanMessage(text, id="1", additional_kwargs={"k": [text]}),
        AIMessage([{"type": "text", "text": text}], id="2"),
    ]
    assert round_trip(history, *said) == said


def test_only_the_lone_surrogate_is_replaced(history):
    """B27: half an emoji becomes U+FFFD wherever it stands; nothing else changes and nothing is lost."""
    half, pair = "half \ud83d énd", "\ud83d\ude00"
    first, second, third = round_trip(
        history,
        HumanMessage(half),
        ToolMessage(f"ok {pair}", tool_call_id="c", artifact={"deep": [half]}),
        AIMessage([{"type": "text", "text": half}], additional_kwargs={half: half}),
    )
    assert first.content == "half \ufffd énd"
    assert second.content == "ok 😀"
    assert second.artifact == {"deep": ["half \ufffd énd"]}
    assert third.content == [{"type": "text", "text": "half \ufffd énd"}]
    assert third.additional_kwargs == {"half \ufffd énd": "half \ufffd énd"}


# ------------------------------------------------------------------ what JSON cannot carry


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Parcel:
    weight: decimal.Decimal


class Order(BaseModel):
    number: int
    colour: Colour


class Opaque:
    def __repr__(self):
        return "<opaque>"


class Broken:
    def __repr__(self):
        raise RuntimeError("no repr")


LOOP = []
LOOP.append(LOOP)
MOMENT = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
NAMED = uuid.UUID(int=7)
FORMS = [
    ({"a": {"b": {"c": {"d": {"e": 1}}}}}, {"a": {"b": {"c": {"d": {"e": 1}}}}}),
    (2**70, 2**70),
    ((1, (2,)), [1, [2]]),
    ({"b", "a"}, ["a", "b"]),
    (frozenset([1]), [1]),
    (MOMENT, "2026-05-04T12:30:00+00:00"),
    (MOMENT.replace(tzinfo=None), "2026-05-04T12:30:00"),
    (MOMENT.astimezone(timezone(timedelta(hours=2))), "2026-05-04T14:30:00+02:00"),
    (date(2026, 5, 4), "2026-05-04"),
    (time(12, 30), "12:30:00"),
    (timedelta(days=1), "1 day, 0:00:00"),
    (NAMED, str(NAMED)),
    (decimal.Decimal("1.10"), "1.10"),
    (Colour.RED, "red"),
    (Level.HIGH, 3),
    ({Colour.RED: 1, 7: 2, None: 3}, {"red": 1, "7": 2, "None": 3}),
    (b"text", "dGV4dA=="),
    (b"\xff\x00", "/wA="),
    (bytearray(b"\xff"), "/w=="),
    (pathlib.PurePosixPath("/a/b"), "/a/b"),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (np.float32(1.5), 1.5),
    (np.float64(1.5), 1.5),
    (np.arange(3), [0, 1, 2]),
    (Parcel(decimal.Decimal("2.5")), {"weight": "2.5"}),
    (Order(number=1, colour=Colour.RED), {"number": 1, "colour": "red"}),
    (Document("d", id="x"), {"id": "x", "metadata": {}, "page_content": "d", "type": "Document"}),
    (Opaque(), "<opaque>"),
    (Broken(), "<Broken whose repr failed: RuntimeError>"),
    (LOOP, ["[[...]]"]),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=lambda value: type(value).__name__)
def test_what_json_cannot_carry_has_a_plain_form(history, value, form):
    """B24: in additional_kwargs, metadata and artifacts each value is equal or in its form, never None."""
    message = ToolMessage(
        "x",
        tool_call_id="c",
        artifact=value,
        additional_kwargs={"v": value},
        response_metadata={"v": [value]},
    )
    [loaded] = round_trip(history, message)
    assert loaded.artifact == form
    assert type(loaded.artifact) is type(form)
    assert loaded.additional_kwargs == {"v": form}
    assert loaded.response_metadata == {"v": [form]}


def test_a_generator_is_not_used_up():
    """B24: what can be read only once is described, and still there for its owner."""
    numbers = iter([1, 2])
    assert "iterator" in plain(numbers)
    assert list(numbers) == [1, 2]


def test_nesting_without_end_is_cut():
    """B24: what is nested beyond all reason is cut to its repr, not an error."""
    deep = inner = {}
    for _ in range(500):
        inner["a"] = {}
        inner = inner["a"]
    text = json.dumps(plain(deep))
    assert text.count("{") > 50
    assert "characters)" in text


# ------------------------------------------------------------------ chunks


@pytest.mark.parametrize(
    ("chunks", "whole"),
    [
        ([HumanMessageChunk("a"), HumanMessageChunk("b")], [HumanMessage("ab")]),
        ([SystemMessageChunk("a", id="1")], [SystemMessage("a", id="1")]),
        ([AIMessageChunk("a"), AIMessageChunk("b")], [AIMessage("ab")]),
        ([AIMessageChunk("a", id="1"), AIMessageChunk("b", id="2")], [AIMessage("a", id="1"), AIMessage("b", id="2")]),
        ([AIMessageChunk("a", chunk_position="last"), AIMessageChunk("b")], [AIMessage("a"), AIMessage("b")]),
        ([AIMessageChunk("a"), HumanMessage("x"), AIMessageChunk("b")], [AIMessage("a"), HumanMessage("x"), AIMessage("b")]),
        (
            [ToolMessageChunk("a", tool_call_id="1"), ToolMessageChunk("b", tool_call_id="1", status="error"),
             ToolMessageChunk("c", tool_call_id="2")],
            [ToolMessage("ab", tool_call_id="1", status="error"), ToolMessage("c", tool_call_id="2")],
        ),
        ([ChatMessageChunk("a", role="x"), ChatMessageChunk("b", role="y")], [ChatMessage("a", role="x"), ChatMessage("b", role="y")]),
        ([FunctionMessageChunk("a", name="f"), FunctionMessageChunk("b", name="f")], [FunctionMessage("ab", name="f")]),
        ([HumanMessageChunk("a", name="Mia", extra=1), HumanMessageChunk("b", name="Mia")], [HumanMessage("ab", name="Mia", extra=1)]),
    ],
)  # fmt: skip
def test_chunks_become_plain_messages(history, chunks, whole):
    """D1, B21: fragments that belong together are one plain message; others stay apart."""
    loaded = round_trip(history, *chunks)
    assert loaded == with_stored_ids(whole, loaded)
    assert [type(message) for message in loaded] == [type(message) for message in whole]
