"""Chat models of other libraries as a `ChatModel`, recognised by their methods, not by an import."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.errors import InvalidInputError, ModelError, shown
from memkit_core.observing import ChatCall
from memkit_core.ports import ChatModel
from memkit_core.text.clean import storable

_OPENED = re.compile(r"\s*(?:<(think|thinking|thought|reasoning)>|\[THINK\])", re.IGNORECASE)
_USAGE = (
    ("usage_metadata", "input_tokens", "output_tokens"),
    ("additional_kwargs", "prompt_tokens", "completion_tokens"),
)
"""Where LangChain's messages and LlamaIndex's completions hold the tokens that were used."""
_CLOSED = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE | re.IGNORECASE)


def resolve_chat_model(given: object) -> ChatModel:
    """The `ChatModel` for a LangChain chat model, a LlamaIndex LLM, or a function from text to text.

    An object with `invoke` is called by that, else by `complete`, else as a function. What a model
    thinks in front of its answer (`<think>...</think>`) is left out. The model that comes back raises
    `ModelError` when the given one fails, or answers with something that is no text or a blank one.

    Raises:
        InvalidInputError: it is a class, or can be called in none of these ways.
    """
    if isinstance(given, type):
        raise InvalidInputError(
            f"a chat model is an object; got the class {given.__name__}, give {given.__name__}(...)"
        )
    for name in ("invoke", "complete"):
        method = getattr(given, name, None)
        if callable(method):
            return _Model(method, given)
    if callable(given):
        return _Model(given, given)
    raise InvalidInputError(
        "a chat model is a function from text to text, or an object with invoke (LangChain) or complete "
        f"(LlamaIndex); got {type(given).__name__} {shown(given)}"
    )


class _Model:
    """A foreign model behind the port."""

    def __init__(self, call: Callable[[str], Any], given: object) -> None:
        self._call = call
        self._given = given
        self._name = _name(given)

    @property
    def name(self) -> str:
        """The model's name, or that of its class."""
        return self._name

    def __call__(self, prompt: str) -> str:
        with ChatCall(self._name, of=self._given) as call:
            tell = partial(_tell_tokens, call, prompt) if call.seen else None
            return answered(partial(self._call, prompt), model=self._name, tell=tell)


def answered(
    ask: Callable[[], object], *, model: str, tell: Callable[[object, str], None] | None = None
) -> str:
    """The text that a model says when `ask` asks it, without what it thinks in front of it.

    `tell` is told the answer and its whole text before that is looked at.

    Raises:
        ModelError: it fails, or answers with something that is no text or a blank one.
    """
    try:
        answer = ask()
    except ModelError:
        raise
    except Exception as error:  # a vendor's client raises what it likes
        raise ModelError(f"{type(error).__name__}: {error}", model=model) from error
    if inspect.iscoroutine(answer):
        answer.close()
        raise ModelError("is asynchronous; give a model that answers at once", model=model)
    text = _text(answer)
    if tell is not None:
        tell(answer, text or "")
    said = None if text is None else _said(text)
    if said is None or not said.strip():
        raise ModelError(f"answered with {shown(answer)}, not with a text", model=model)
    return storable(said)


def _tell_tokens(call: ChatCall, prompt: str, answer: object, text: str) -> None:
    for attribute, read, written in _USAGE:
        usage = getattr(answer, attribute, None)
        if isinstance(usage, Mapping):
            given, answered = usage.get(read), usage.get(written)
            if isinstance(given, int) and isinstance(answered, int):
                call.reported(given, answered)
                return
    call.estimated(approximate_tokens(prompt), approximate_tokens(text))


def _said(text: str) -> str:
    """The text behind what a model thinks in front of it; "" when it never stopped thinking."""
    if opened := _OPENED.match(text):
        close = f"</{opened[1]}>" if opened[1] else "[/THINK]"
        closed = re.compile(re.escape(close), re.IGNORECASE).search(text, opened.end())
        return "" if closed is None else text[closed.end() :]
    # Some templates open the thoughts in the prompt, so that the answer begins inside of them.
    closed = _CLOSED.search(text)
    return text if closed is None or "<think>" in text[: closed.start()] else text[closed.end() :]


def _text(answer: object) -> str | None:
    """The text of a string, of a message with `content` (text or blocks), or of what has a `text`."""
    if isinstance(answer, str):
        return answer
    content = getattr(answer, "content", None)
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_block_text(block) for block in content)
    text = getattr(answer, "text", None)
    return text if isinstance(text, str) else None


def _block_text(block: object) -> str:
    # Reasoning and tool calls are blocks too, and not what the model says.
    if isinstance(block, Mapping):
        text = block.get("text") if block.get("type") == "text" else None
        return text if isinstance(text, str) else ""
    return block if isinstance(block, str) else ""


def _name(given: object) -> str:
    for attribute in ("model_name", "model", "__name__"):
        name = getattr(given, attribute, None)
        if isinstance(name, str) and name:
            return str.__str__(name)
    return type(given).__name__
