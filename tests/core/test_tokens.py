"""Token counts: honest for every language, tool call and picture, and never from the network."""

import base64
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from llama_index.core import __file__ as llama_index
from llama_index.core.llms import ChatMessage, DocumentBlock

from langchain_memkit.convert import to_memkit
from llamaindex_memkit.convert import to_message
from memkit_core import InvalidInputError, Memory, Message, Role, Scope, ToolCall
from memkit_core.conversation.tokens import (
    IMAGE_TOKENS,
    MEDIA_TOKENS,
    MESSAGE_OVERHEAD,
    SMALL_IMAGE_TOKENS,
    approximate_tokens,
    message_tokens,
    resolve_token_counter,
    tokens_of,
)

CACHE = Path(llama_index).parent / "_static" / "tiktoken_cache"
O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"
WORDS = "word " * 200


@pytest.mark.parametrize("text", ["汉" * 300, "한" * 300, "かな" * 150, "😀" * 100])
def test_wide_scripts_are_not_undercounted(text):
    """Chinese, Japanese, Korean and emoji take at least about one token a character, mixed ones in part."""
    assert approximate_tokens(text) >= len(text)
    mixed = approximate_tokens(text + "a" * len(text))
    assert mixed == approximate_tokens(text) + len(text) / 4


def test_latin_text_takes_a_quarter():
    """Latin text takes one for four characters, and no text but the empty one takes nothing."""
    assert approximate_tokens("a" * 400) == 100
    assert approximate_tokens("é" * 400) == 100
    assert [approximate_tokens(text) for text in ("", "a", "。")] == [0, 1, 1]


def test_tool_arguments_and_results_count():
    """A message without text costs what its calls hold; longer results cost more."""
    call = ToolCall(id="c", name="look_up", arguments=WORDS)
    assert message_tokens(Message(role=Role.ASSISTANT, text="", tool_calls=(call,))) > 200
    asked = to_memkit(AIMessage("", tool_calls=[{"id": "c", "name": "f", "args": {"q": WORDS}}]))
    assert 200 < message_tokens(asked) < 400
    refused = to_memkit(
        AIMessage("", invalid_tool_calls=[{"id": "c", "name": "f", "args": WORDS, "error": "no JSON"}])
    )
    assert message_tokens(refused) > 200
    assert tokens_of([asked, refused]) == message_tokens(asked) + message_tokens(refused)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, 0),
        ([], 0),
        ([{"type": "text"}], 0),
        ([{"type": "text", "text": "see"}], 1),
        (
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}],
            IMAGE_TOKENS,
        ),
        ([{"type": "image_url", "image_url": {"url": "x", "detail": "low"}}], SMALL_IMAGE_TOKENS),
        ([{"type": "input_audio", "input_audio": {"data": "A" * 400_000}}], MEDIA_TOKENS),
        ([{"type": "x-lab", "n": 1, "data": "A" * 400_000}], MEDIA_TOKENS + 1),
        ([{"type": "reasoning", "reasoning": "a" * 400}], 100),
        ([{"type": "tool_result", "tool_use_id": "c1", "content": "see"}], 1),
        ([{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "see"}]}], 1),
        ([{"type": "tool_result", "content": [{"type": "image", "source": {"data": "AA"}}]}], IMAGE_TOKENS),
        ([{"type": "x-lab", "deep": [{"text": "a" * 40}, None, True]}, "not a block"], 10),
    ],
)
def test_blocks_of_a_message(content, expected):
    """Pictures and encoded data have a fixed cost, unknown blocks that of their text, and nothing raises."""
    text = "see" if expected == 1 else ""
    message = Message(
        role=Role.USER, text=text, payload={"type": "human", "data": {"content": content}}, format="langchain"
    )
    assert message_tokens(message) == expected + MESSAGE_OVERHEAD


def _base64(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": WORDS}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": WORDS}]}},
        {"type": "file", "base64": _base64(WORDS), "mime_type": "text/csv"},
        {"type": "file", "file": {"file_data": "data:text/plain;base64," + _base64(WORDS)}},
        DocumentBlock(data=WORDS.encode(), document_mimetype="text/plain"),
    ],
    ids=["text", "content", "base64", "data address", "LlamaIndex"],
)
def test_a_document_that_is_text_counts_by_its_text(block):
    """It is sent as text, so it counts as text, however it is carried; another document has one price."""
    if isinstance(block, dict):
        tokens = message_tokens(to_memkit(HumanMessage([block])))
        pdf = message_tokens(to_memkit(HumanMessage([{"type": "file", "base64": "JVBE" * 100_000}])))
    else:
        tokens = message_tokens(to_message(ChatMessage(role="user", blocks=[block])))
        other = DocumentBlock(data=WORDS.encode() * 100, document_mimetype="application/pdf")
        pdf = message_tokens(to_message(ChatMessage(role="user", blocks=[other])))
    assert 250 < tokens - MEDIA_TOKENS < 265
    assert pdf == MEDIA_TOKENS + MESSAGE_OVERHEAD


def test_text_is_not_counted_twice():
    """The text of a framework's message counts once, blocks beside it on top."""
    plain = Message(role=Role.USER, text=WORDS)
    blocks = [{"type": "text", "text": WORDS}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert message_tokens(to_memkit(HumanMessage(WORDS))) == message_tokens(plain)
    assert message_tokens(to_memkit(HumanMessage(blocks))) == message_tokens(plain) + IMAGE_TOKENS
    assert message_tokens(to_message(ChatMessage(role="user", content=WORDS))) == message_tokens(plain)


# ------------------------------------------------------------------ which counter


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No data on disk and no network."""

    def refuse(*_, **__):
        raise AssertionError("a token counter went to the network")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tmp_path


def test_a_function_is_used():
    """A given function counts."""
    assert resolve_token_counter(len)("four") == 4


def test_a_models_own_counter_is_used():
    """An object that counts tokens itself, or was given an encoder, is asked."""

    class Own:
        def get_num_tokens(self, text):
            return 7 * len(text)

    assert resolve_token_counter(Own())("ab") == 14
    model = FakeListChatModel(responses=["x"], custom_get_token_ids=lambda text: list(range(len(text))))
    assert resolve_token_counter(model)("four") == 4


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4", "gpt-3.5-turbo", "something-new"])
def test_no_tokenizer_is_ever_fetched(name):
    """Without its data on disk a model's tokenizer is replaced by the estimate."""
    openai = ChatOpenAI(model=name, api_key="sk-none")
    for given in (None, openai, FakeListChatModel(responses=["x"])):
        assert resolve_token_counter(given)("汉" * 10) == 10


@pytest.mark.parametrize("value", ["", "/nowhere"])
def test_no_cache_means_no_tiktoken(monkeypatch, value):
    """Where tiktoken keeps no cache it would fetch its data on each use, so it is not used."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", value)
    assert resolve_token_counter() is approximate_tokens


def test_a_damaged_cache_is_not_used(offline):
    """tiktoken would delete a file that is not what it expects and fetch it again: it stays untouched."""
    (offline / O200K).write_bytes(b"damaged")
    assert resolve_token_counter() is approximate_tokens
    assert (offline / O200K).read_bytes() == b"damaged"


@pytest.mark.skipif(not (CACHE / O200K).exists(), reason="no tiktoken data comes with this llama-index-core")
def test_tiktoken_counts_when_its_data_is_there(offline):
    """With its data on disk tiktoken counts, special tokens as plain text and long runs in pieces."""
    pytest.importorskip("tiktoken")
    shutil.copy(CACHE / O200K, offline)
    for given in (None, ChatOpenAI(model="gpt-4o", api_key="sk-none")):
        count = resolve_token_counter(given)
        assert count is not approximate_tokens
        assert count("") == 0
        assert count("hello world") == 2
        assert count("<|endoftext|>") > 1
        assert 1000 < count("a" * 100_000) < 100_000


@pytest.mark.parametrize("answer", [None, -1, 1.5, "3", True, np.array([1, 2])])
def test_a_counter_answers_with_a_number(answer):
    """What a counter says is looked at wherever one is taken: a wrong number would cut windows at random."""

    class Model:
        def get_num_tokens(self, _text):
            return answer

    talk = Scope.session("s", user="alice")
    with Memory.open(":memory:") as memory:
        memory.sessions.append([Message(role=Role.USER, text="hello")], scope=talk)
        for count in (lambda _: answer, Model()):
            for call in (
                lambda count: resolve_token_counter(count)("x"),
                lambda count: memory.sessions.window(scope=talk, max_tokens=9, count=count),
                lambda count: memory.sessions.relevant_window("x", scope=talk, max_tokens=9, count=count),
                lambda count: memory.summaries.context(scope=talk, count=count),
                lambda count: memory.summaries.update(scope=talk, count=count),
                lambda count: memory.turn_context(talk, "x", max_tokens=9, count=count),
            ):
                with pytest.raises(InvalidInputError, match="number of tokens"):
                    call(count)


@pytest.mark.parametrize("answer", [[5, 6, 7], (1, 2, 3), np.int64(3), 3])
def test_a_tokenizer_is_a_counter(answer):
    """A function that answers with the tokens, as `encode` of a tokenizer does, counts them."""
    count = resolve_token_counter(lambda _: answer)
    assert (count("x"), type(count("x"))) == (3, int)


@pytest.mark.parametrize("wrong", [7, "gpt-4o", [len]])
def test_what_cannot_count_is_refused(wrong):
    """Anything else is an error that says what is taken."""
    with pytest.raises(InvalidInputError, match="get_num_tokens"):
        resolve_token_counter(wrong)
