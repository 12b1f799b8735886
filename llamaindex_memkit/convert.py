"""Between LlamaIndex's `ChatMessage` and the core's neutral `Message`, without loss."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock, ToolCallBlock
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from memkit_core import Message, Role, ToolCall
from memkit_core.conversation.windows import text_alone
from memkit_core.errors import shown
from memkit_core.jsonvalues import JsonValue
from memkit_core.text.clean import storable

FORMAT = "llamaindex"
"""`Message.format` of a payload that this module wrote and can read."""

SYSTEM_ROLES = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
"""The roles of instructions; both are `Role.SYSTEM` to the core."""

_ROLES = {
    MessageRole.SYSTEM: Role.SYSTEM,
    MessageRole.DEVELOPER: Role.SYSTEM,
    MessageRole.USER: Role.USER,
    MessageRole.ASSISTANT: Role.ASSISTANT,
    MessageRole.CHATBOT: Role.ASSISTANT,
    MessageRole.MODEL: Role.ASSISTANT,
    MessageRole.TOOL: Role.TOOL,
    MessageRole.FUNCTION: Role.TOOL,
}
_MAX_DEPTH = 32


def to_message(message: ChatMessage) -> Message:
    """The message as the core stores it: neutral fields to work with, and itself as the payload.

    The text is what `.content` shows. Tool calls come from `ToolCallBlock`s and from
    `additional_kwargs["tool_calls"]` (OpenAI's or Anthropic's shape) or `["function_call"]`; a call
    without an id gets the id `""`, which is also what an answer without an id answers. Values that
    JSON does not know are stored in the form `plain` gives them. The argument stays as it is.
    """
    # Without its keyword arguments: the serializer that LlamaIndex has for them never ends on a cycle.
    own = message.model_dump(exclude={"additional_kwargs"}, warnings=False)
    payload = {name: plain(value) for name, value in own.items()}
    payload["additional_kwargs"] = plain(message.additional_kwargs)
    # By value, since nothing validates an assignment such as `message.role = "user"`.
    role = _ROLES[MessageRole(message.role)]
    kwargs = message.additional_kwargs
    return Message(
        role=role,
        text=message.content or "",
        tool_calls=_tool_calls(payload) if role is Role.ASSISTANT else (),
        tool_call_id=str(kwargs.get("tool_call_id") or "") if role is Role.TOOL else None,
        payload=payload,
        format=FORMAT,
    )


def to_chat_message(message: Message) -> ChatMessage:
    """A new `ChatMessage`: the one that was stored, or one built from the neutral fields.

    Built are messages that another framework or the core wrote; a mark stands for images that only
    they can show. Of a stored one, a block that can
    no longer be loaded (an image whose file is gone) is replaced by a text block that says so.
    """
    if message.format == FORMAT and isinstance(message.payload, dict):
        return _restored(message.payload)
    text = text_alone(message)
    blocks: list[ContentBlock] = [TextBlock(text=text)] if text else []
    blocks += [
        ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=_kwargs(call.arguments))
        for call in message.tool_calls
    ]
    answers = {"tool_call_id": message.tool_call_id or ""} if message.role is Role.TOOL else {}
    return ChatMessage(role=MessageRole(message.role.value), blocks=blocks, additional_kwargs=answers)


def plain(value: object, depth: int = 0) -> JsonValue:
    """`value` as JSON; JSON itself comes back equal, everything else in this form.

    Enums become their value; tuples and sets lists (sets sorted); pydantic models and dataclasses
    dicts; dates, times, UUIDs, decimals, URLs and paths text; bytes their text when they are
    UTF-8 without NUL, else base64; infinities and NaN text; anything else, and lists and dicts
    nested deeper than 32, its `repr` cut to 80 characters. NUL and lone surrogates become U+FFFD, as everywhere in memkit.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(warnings=False)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return _leaf(value)
    if depth >= _MAX_DEPTH:
        return storable(shown(value))
    if isinstance(value, Mapping):
        return {str(_leaf(key)): plain(item, depth + 1) for key, item in value.items()}
    items = [plain(item, depth + 1) for item in value]
    return items if isinstance(value, list | tuple) else sorted(items, key=repr)


def _leaf(value: object) -> JsonValue:
    if isinstance(value, bytes | bytearray):
        return _text_of(bytes(value))
    # Pydantic would read an iterator to its end, and it is the caller's.
    if type(value) is not str:
        value = shown(value) if isinstance(value, Iterator) else to_jsonable_python(value, fallback=shown)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return storable(value)
    return value if isinstance(value, bool | int | float) else None


def _text_of(value: bytes) -> str:
    # The media of a block are base64 already, and must not be encoded twice.
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    return text if storable(text) == text else base64.b64encode(value).decode()


def _tool_calls(payload: Mapping[str, JsonValue]) -> tuple[ToolCall, ...]:
    blocks, kwargs = payload.get("blocks"), payload.get("additional_kwargs")
    calls = [
        _call(block.get("tool_call_id"), block.get("tool_name"), block.get("tool_kwargs"))
        for block in _dicts(blocks)
        if block.get("block_type") == "tool_call"
    ]
    known = {call.id for call in calls}
    if isinstance(kwargs, dict):
        told = _dicts(kwargs.get("tool_calls")) or [
            {"function": call} for call in _dicts([kwargs.get("function_call")])
        ]
        # Some integrations write the same calls as blocks and as keyword arguments.
        calls += [call for call in map(_told_call, told) if call.id not in known]
    return tuple(calls)


def _told_call(call: dict[str, JsonValue]) -> ToolCall:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    return _call(call.get("id"), named.get("name"), named.get("arguments", named.get("input")))


def _call(call_id: JsonValue, name: JsonValue, arguments: JsonValue) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(id=str(call_id or ""), name=str(name or ""), arguments=text)


def _dicts(values: object) -> list[dict[str, JsonValue]]:
    listed = values if isinstance(values, list) else []
    return [value for value in listed if isinstance(value, dict)]


def _kwargs(arguments: str) -> dict[str, JsonValue] | str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def _restored(payload: dict[str, JsonValue]) -> ChatMessage:
    kwargs = payload.get("additional_kwargs")
    kwargs = dict(kwargs) if isinstance(kwargs, dict) else {}
    # ChatMessage makes image blocks of these once more when it is built, and only from live documents.
    images = {"images": kwargs.pop("images")} if "images" in kwargs else {}
    # LlamaIndex 0.14.10 refuses the URL None of a picture or sound when it is given, not left out.
    blocks = [
        {name: value for name, value in block.items() if value is not None}
        for block in _dicts(payload.get("blocks"))
    ]
    data = {**payload, "additional_kwargs": kwargs, "blocks": blocks}
    try:
        message = ChatMessage.model_validate(data)
    except ValidationError:
        message = ChatMessage.model_validate({**data, "blocks": _restored_blocks(blocks)})
    message.additional_kwargs.update(images)
    return message


def _restored_blocks(blocks: Sequence[Mapping[str, JsonValue]]) -> list[ContentBlock]:
    restored: list[ContentBlock] = []
    for block in blocks:
        try:
            restored += ChatMessage.model_validate({"blocks": [block]}).blocks
        except ValidationError:
            restored.append(
                TextBlock(text=f"[This {block.get('block_type')} block can no longer be loaded.]")
            )
    return restored
