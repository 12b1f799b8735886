"""The chat model of `memkit chat`; keys and servers come from the environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from memkit_core import ConfigError, Message, MissingDependencyError, ModelError
from memkit_core.chat_models import answered
from memkit_core.errors import shown

_HIDDEN = "***"


def chat_model(name: str) -> Callable[[Sequence[Message]], str]:
    """What answers messages as the model `"openai:gpt-4o-mini"` does; nothing is sent yet.

    It asks OpenAI, or the server at `OPENAI_BASE_URL` that speaks as OpenAI does, with `OPENAI_API_KEY`,
    and raises `ModelError` when that fails or answers with no text.

    Raises:
        ConfigError: an unknown provider, no model, or no key.
        MissingDependencyError: the extra `openai` is not installed.
    """
    provider, model = [*re.split("[:/]", name, maxsplit=1), ""][:2]
    if provider != "openai" or not model:
        raise ConfigError(
            f"unknown chat model {shown(name)}; give openai: and its name, such as openai:gpt-4o-mini, and "
            "OPENAI_BASE_URL for another server that speaks as OpenAI does"
        )
    try:
        from openai import OpenAI, OpenAIError
    except ImportError as error:
        raise MissingDependencyError("langchain-openai", extra="openai") from error
    try:
        client = OpenAI()
    except OpenAIError as error:  # at this point only for want of a key
        raise ConfigError(
            "the openai chat model needs a key: set OPENAI_API_KEY; for a server that needs none any text will do"
        ) from error

    def answer(messages: Sequence[Message]) -> str:
        return answered(lambda: _asked(client, model, messages), model=model)

    return answer


def _asked(client: Any, model: str, messages: Sequence[Message]) -> object:
    """The message that the server answers with."""
    try:
        completion = client.chat.completions.create(model=model, messages=list(map(_sent, messages)))
    except Exception as error:  # noqa: BLE001 - raised again below, where the key can be hidden first
        cause = "" if error.__cause__ is None else f" ({error.__cause__})"
        said = f"{type(error).__name__}: {error}{cause}"
    else:
        if choices := getattr(completion, "choices", None):
            return choices[0].message
        said = f"answered with {shown(completion)}, which is no chat completion"
    # No cause: a traceback would print the key where the server repeats it.
    raise ModelError(said.replace(client.api_key, _HIDDEN), model=model)


def _sent(message: Message) -> dict[str, object]:
    """The message as OpenAI's API takes it."""
    sent: dict[str, object] = {"role": str(message.role), "content": message.text}
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    return sent
