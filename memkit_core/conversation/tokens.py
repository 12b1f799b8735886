"""How much of a model's context texts and messages take, with or without the model's own tokenizer."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import math
import operator
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, SupportsIndex

from memkit_core.errors import InvalidInputError, shown
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import Message
from memkit_core.ports import TokenCounter

# Han, kana, Hangul and the wide forms: about one token a character in the tokenizers of today's
# models, where Latin text takes one for every four characters. A text, which `re` compiles on first
# use and keeps: importing memkit should be quick.
_WIDE = (
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
# Emoji take one to three tokens each.
_EMOJI = r"[\U0001f000-\U0001faff]"
_OTHER = r"[^\x00-\u024f]"

MESSAGE_OVERHEAD = 4
"""Tokens that a chat API adds to each message for its role and separators."""
IMAGE_TOKENS = 765
"""Of one image: 1024 x 1024 in high detail by OpenAI's guide (85 + 4 tiles of 170)."""
SMALL_IMAGE_TOKENS = 85
"""Of one image that asks for `detail: low`, by the same guide."""
MEDIA_TOKENS = 256
"""Of one audio, video or other encoded part, whose length in tokens is not known: LlamaIndex's estimate."""

_ENCODED: Final = re.compile(r"\s*data:|[^\s\u0250-\U0010ffff]{1000}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=_\r\n-]*")
_MIME_KEYS: Final = ("mime_type", "media_type", "document_mimetype")
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})
_CALL_TYPES: Final = frozenset({"tool_call", "tool_use", "function_call"})
_THOUGHT_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_IMAGE_TYPES: Final = frozenset({"image", "image_url", "input_image"})
_MEDIA_TYPES: Final = frozenset({"audio", "input_audio", "video", "document", "file", "input_file"})
# Names and numbers that a block carries for programs: not sent as text.
_NOT_TEXT: Final = frozenset({"type", "block_type", "id", "index", "mime_type", "media_type"})


def approximate_tokens(text: str) -> int:
    """An estimate that is never 0 for a non-empty text.

    1 for a CJK character, 2 for an emoji, 1/4 for a Latin character, 1/2 for any other.
    """
    if text.isascii():
        return math.ceil(len(text) / 4)
    wide = len(re.findall(_WIDE, text))
    emoji = len(re.findall(_EMOJI, text))
    other = len(re.findall(_OTHER, text)) - wide - emoji
    narrow = len(text) - wide - emoji - other
    return math.ceil(wide + 2 * emoji + other / 2 + narrow / 4)


# ------------------------------------------------------------------ which counter


def resolve_token_counter(given: object = None) -> TokenCounter:
    """The counter that `given` stands for; never downloads anything, then or later.

    Args:
        given: a function from text to tokens or their number; a chat model, whose
            `get_num_tokens` is used unless it would need a tokenizer that is not on disk; or None:
            tiktoken's `o200k_base` when the package and its data are there, else
            `approximate_tokens`.

    Raises:
        InvalidInputError: `given` is none of these; later, when what it counts is no number of tokens.
    """
    own = getattr(given, "get_num_tokens", None)
    if own is not None and not isinstance(given, type):
        return _counter_of_model(given, own)
    if given is None:
        return _tiktoken("o200k_base") or approximate_tokens
    if given is approximate_tokens or isinstance(given, _Checked):
        return given
    if callable(given):
        return _Checked(given)
    raise InvalidInputError(
        f"count takes a function from text to tokens or a model with get_num_tokens, got {shown(given)}"
    )


class _Checked:
    """A counter of somebody else's, whose answers are looked at: a wrong one would cut windows at random."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[str], object]) -> None:
        self._count = count

    def __call__(self, text: str) -> int:
        """The number of tokens that the counter says."""
        answer = self._count(text)
        # Tokenizers answer with the tokens themselves, NumPy with its own integers.
        tokens = len(answer) if isinstance(answer, list | tuple) else answer
        number = -1
        if isinstance(tokens, SupportsIndex) and not isinstance(tokens, bool):
            # An array promises an index, and has one only where it holds one number.
            with contextlib.suppress(TypeError):
                number = operator.index(tokens)
        if number < 0:
            raise InvalidInputError(f"count must answer with a number of tokens, got {shown(answer)}")
        return number


def _counter_of_model(model: object, own: TokenCounter) -> TokenCounter:
    kind = type(model)
    counting = _module_of(kind, "get_num_tokens"), _module_of(kind, "get_token_ids")
    custom = getattr(model, "custom_get_token_ids", None) is not None
    if custom or not all(module.startswith(("langchain_core", "langchain_openai")) for module in counting):
        return _Checked(own)
    # LangChain's own ways fetch a tokenizer from the network when it is not there: its base class
    # that of GPT-2, its OpenAI models tiktoken's data.
    if counting[1].startswith("langchain_openai"):
        name = str(getattr(model, "model_name", ""))
        old = name.startswith(("gpt-4-", "gpt-3.5")) or name == "gpt-4"
        return _tiktoken("cl100k_base" if old else "o200k_base") or approximate_tokens
    return approximate_tokens


def _module_of(kind: type, name: str) -> str:
    return str(getattr(getattr(kind, name, None), "__module__", None) or "")


# Where tiktoken fetches an encoding from, which names its file in the cache, and the digest without
# which it would fetch the file again; both as in tiktoken_ext/openai_public.py of tiktoken 0.14.
_ENCODINGS: Final = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_ADDRESS: Final = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
# One long run of letters is merged in more than linear time; pieces of this length are quick.
_PIECE: Final = 20_000


def _tiktoken(encoding: str) -> TokenCounter | None:
    """A counter by tiktoken, None when the package or its data is missing."""
    name = hashlib.sha1(_ADDRESS.format(encoding).encode(), usedforsecurity=False).hexdigest()
    if importlib.util.find_spec("tiktoken") is None:
        return None
    return _tiktoken_at(encoding, str(_cache_folder() / name))


def _cache_folder() -> Path:
    # As tiktoken.load.read_file_cached finds it; "" means that it keeps none, and no file has that name.
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return Path(os.environ[variable] or os.devnull)
    return Path(tempfile.gettempdir(), "data-gym-cache")


@lru_cache(maxsize=8)
def _tiktoken_at(encoding: str, path: str) -> TokenCounter | None:
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != _ENCODINGS[encoding]:
        return None
    import tiktoken

    encode = tiktoken.get_encoding(encoding).encode_ordinary

    def count(text: str) -> int:
        return sum(len(encode(text[start : start + _PIECE])) for start in range(0, len(text), _PIECE))

    return count


# ------------------------------------------------------------------ messages


def message_text(message: Message) -> str:
    """All text of a message that is charged for: what it says, the calls it makes, and its other blocks'."""
    calls = (call.name + call.arguments for call in message.tool_calls)
    return "".join([message.text, *calls, *(part for part in _extras(message) if isinstance(part, str))])


def message_tokens(message: Message, count: TokenCounter = approximate_tokens) -> int:
    """What one message takes of a model's context.

    Counted are its text, the names and arguments of its calls, and the blocks of its payload that
    the text does not show: reasoning, citations, refused calls and blocks of unknown types by their
    text, images by `IMAGE_TOKENS`, other encoded data by `MEDIA_TOKENS` whatever its length, and a
    document that is text by its text too.
    """
    fixed = sum(part for part in _extras(message) if isinstance(part, int))
    return count(message_text(message)) + fixed + MESSAGE_OVERHEAD


def holds_media(message: Message) -> bool:
    """Whether a message has an image, a document or another part that its text does not show.

    What a model thought, and the signature of it, is none.
    """
    return any(_is_media(block, message) for block in _blocks(message))


def tokens_of(messages: Sequence[Message], count: TokenCounter = approximate_tokens) -> int:
    """What these messages take of a model's context, see `message_tokens`."""
    return sum(message_tokens(message, count) for message in messages)


def _extras(message: Message) -> Iterator[str | int]:
    """Texts and fixed costs of the blocks of a payload that `text` and `tool_calls` do not hold."""
    for block in _blocks(message):
        yield from _block(block, message)
    yield from _leaves(_fields(message).get("invalid_tool_calls"))


def _fields(message: Message) -> dict[str, JsonValue]:
    payload = message.payload
    if not isinstance(payload, Mapping):
        return {}
    # LangChain keeps the fields of a message under "data", LlamaIndex beside the role.
    data = payload.get("data")
    return data if isinstance(data, Mapping) else payload


def _blocks(message: Message) -> Iterator[dict[str, JsonValue]]:
    fields = _fields(message)
    for name in ("content", "blocks"):
        yield from _mappings(fields.get(name))


def _mappings(blocks: JsonValue) -> Iterator[dict[str, JsonValue]]:
    if isinstance(blocks, Sequence) and not isinstance(blocks, str):
        yield from (block for block in blocks if isinstance(block, Mapping))


def _kind(block: dict[str, JsonValue]) -> str:
    return str(block.get("type") or block.get("block_type") or "")


def _is_media(block: dict[str, JsonValue], message: Message) -> bool:
    kind = _kind(block)
    if kind in _TEXT_TYPES | _CALL_TYPES | _THOUGHT_TYPES:
        return False
    if kind == "tool_result":
        return any(_is_media(inner, message) for inner in _mappings(block.get("content")))
    return any(isinstance(part, int) for part in _block(block, message))


def _block(block: dict[str, JsonValue], message: Message) -> Iterator[str | int]:
    kind = _kind(block)
    if kind in _TEXT_TYPES:
        text = block.get("text")
        # Some frameworks show only a part of the blocks as the text.
        if isinstance(text, str) and text not in message.text:
            yield text
        yield from _leaves({key: part for key, part in block.items() if key not in ("text", "extras")})
    elif kind == "tool_result":
        content = block.get("content")
        if isinstance(content, str) and content not in message.text:
            yield content
        for one in _mappings(content):
            yield from _block(one, message)
    elif kind in _CALL_TYPES:
        if not message.tool_calls:
            yield from _leaves(block)
    elif kind in _IMAGE_TYPES:
        inner = block.get("image_url")
        detail = inner.get("detail") if isinstance(inner, Mapping) else block.get("detail")
        yield SMALL_IMAGE_TOKENS if detail == "low" else IMAGE_TOKENS
    elif kind in _MEDIA_TYPES:
        yield MEDIA_TOKENS
        yield from _carried_text(block)
    else:
        yield from _leaves(block)


def _carried_text(block: dict[str, JsonValue]) -> Iterator[str | int]:
    """The text of a document that is text, which is sent as text, whatever carries it."""
    inner = [one for one in (block, block.get("source"), block.get("file")) if isinstance(one, Mapping)]
    kinds = [str(one.get(name) or "") for one in inner for name in _MIME_KEYS]
    textual = any(kind.startswith("text/") for kind in kinds)
    for text in _strings(block):
        if text.startswith("data:") or _BASE64.fullmatch(text):
            if textual or text.startswith("data:text/"):
                # Three bytes in four characters, and a token for every four bytes.
                yield len(text) * 3 // 16
        else:
            yield text


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key not in _NOT_TEXT and key not in _MIME_KEYS:
                yield from _strings(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _strings(part)


def _leaves(value: JsonValue) -> Iterator[str | int]:
    if isinstance(value, str):
        yield MEDIA_TOKENS if _ENCODED.match(value) else value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key not in _NOT_TEXT:
                yield from _leaves(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)
