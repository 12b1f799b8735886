"""Between LangChain's values and memkit's: messages in both directions, hits to documents."""

from __future__ import annotations

import functools
import json
import logging
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
    messages_from_dict,
)

from langchain_memkit.plain import plain
from memkit_core import InvalidInputError, MemoryRecord, Message, NewDocument, RecallResult, Role, ToolCall
from memkit_core.conversation.windows import text_alone
from memkit_core.documents import document_metadata
from memkit_core.errors import shown
from memkit_core.inputs import listed

FORMAT = "langchain"
"""What `Message.format` says of a payload written here: `{"type": ..., "data": ...}` of LangChain."""

_LOGGER = logging.getLogger("memkit.langchain")

_ROLES: Mapping[str, Role] = {
    "human": Role.USER,
    "ai": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "tool": Role.TOOL,
    # The retired form of a tool result names no call, so it cannot be paired with one: as a tool
    # message it would be left out of every view that goes to a model.
    "function": Role.ASSISTANT,
}
_CHAT_ROLES: Mapping[str, Role] = {
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "chatbot": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}


# ------------------------------------------------------------------ messages


def merged(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages without chunks: fragments that follow each other become the message they make.

    Fragments belong together when they stand side by side and agree in class, id (no id counts as
    one) and tool call, role or function name, up to the one marked as the last. A lone chunk
    becomes a plain message. The caller's objects stay as they are.
    """
    whole: list[BaseMessage] = []
    fragments: list[BaseMessageChunk] = []
    for message in messages:
        if fragments and not _continues(fragments[-1], message):
            whole.append(_joined(fragments))
            fragments = []
        if isinstance(message, BaseMessageChunk):
            fragments.append(message)
        else:
            whole.append(message)
    return [*whole, _joined(fragments)] if fragments else whole


def _continues(chunk: BaseMessageChunk, message: object) -> bool:
    keys = ("id", "tool_call_id", "role", "name") if chunk.type != "AIMessageChunk" else ("id",)
    return (
        type(message) is type(chunk)
        and getattr(chunk, "chunk_position", None) != "last"
        and all(getattr(chunk, key, None) == getattr(message, key, None) for key in keys)
    )


def _joined(fragments: Sequence[BaseMessageChunk]) -> BaseMessage:
    whole: BaseMessage = message_chunk_to_message(functools.reduce(operator.add, fragments))
    # LangChain's own addition and conversion drop the name and the fields it does not know.
    unknown = {key: value for chunk in fragments for key, value in (chunk.model_extra or {}).items()}
    name = next((chunk.name for chunk in fragments if chunk.name is not None), None)
    return whole.model_copy(update={**unknown, "name": name, "id": fragments[0].id})


def to_memkit(message: BaseMessage) -> Message:
    """The message as memkit stores it: neutral fields to search and share, and itself as payload.

    What JSON cannot carry in `additional_kwargs`, `artifact` and the like is stored in the form
    that `plain` documents. A `HumanMessage` that a harness wrote (`lc_source` in its
    `additional_kwargs`, such as a summary) is kept, but recall does not find it; one with the
    `tool_result` blocks of Anthropic is the result of the calls that they name.

    Raises:
        InvalidInputError: it is no LangChain message, or of a type that LangChain cannot load.
    """
    if not isinstance(message, BaseMessage):
        raise InvalidInputError(f"messages must be LangChain messages, got {shown(message)}")
    # A human message with results of calls, as Anthropic's API has them, answers these calls.
    results = _blocks(message, "tool_result") if isinstance(message, HumanMessage) else []
    harness = isinstance(message, HumanMessage) and "lc_source" in message.additional_kwargs
    return Message(
        role=Role.TOOL if results else _role(message),
        text="\n".join(part for part in (*map(_result_text, results), str(message.text)) if part),
        id=message.id or None,
        speaker=message.name,
        tool_calls=_calls(message),
        tool_call_id=str(results[0].get("tool_use_id") or "")
        if results
        else getattr(message, "tool_call_id", None),
        payload={"type": message.type, "data": plain(dict(message))},
        format=FORMAT,
        indexed=False if harness or message.type == "function" else None,
    )


def _role(message: BaseMessage) -> Role:
    if message.type == "chat":
        return _CHAT_ROLES.get(str(getattr(message, "role", "")).casefold(), Role.USER)
    role = _ROLES.get(message.type)
    if role is None:
        raise InvalidInputError(
            f"a {type(message).__name__} of type {message.type!r} cannot be stored: LangChain could not "
            "load it again; use a ChatMessage with a role of your own"
        )
    return role


def _calls(message: BaseMessage) -> tuple[ToolCall, ...]:
    if not isinstance(message, AIMessage):
        return ()
    calls = [
        ToolCall(
            id=call["id"] or "",
            name=call["name"],
            arguments=json.dumps(plain(call["args"]), ensure_ascii=False),
        )
        for call in message.tool_calls
    ]
    # LangChain sends these to the model too, which wants each of them answered.
    calls += [
        ToolCall(id=call["id"], name=call["name"] or "", arguments=str(call["args"] or ""))
        for call in message.invalid_tool_calls
        if call["id"]
    ]
    # As Anthropic sends them, in the content alone.
    known = {call.id for call in calls}
    calls += [
        ToolCall(
            id=str(block.get("id") or ""),
            name=str(block.get("name") or ""),
            arguments=json.dumps(plain(block.get("input") or {}), ensure_ascii=False),
        )
        for block in _blocks(message, "tool_use")
        if str(block.get("id") or "") not in known
    ]
    return tuple(calls)


def _result_text(block: Mapping[str, object]) -> str:
    content = block.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _blocks(message: BaseMessage, kind: str) -> list[Mapping[str, object]]:
    content = message.content if isinstance(message.content, list) else []
    return [block for block in content if isinstance(block, Mapping) and block.get("type") == kind]


def from_memkit(message: Message) -> BaseMessage:
    """The LangChain message: the one that was stored, field by field, with the id it is stored under.

    What another framework or the core itself wrote, such as the stand-in for a missing tool result,
    is built from the neutral fields; a mark stands for images that only they can show.
    """
    stored = _stored(message) if message.format == FORMAT else None
    return _neutral(message) if stored is None else stored


def _stored(message: Message) -> BaseMessage | None:
    try:
        [stored] = messages_from_dict([message.payload])  # type: ignore[list-item]  # checked by it
    except (KeyError, TypeError, ValueError) as error:
        # A payload of a LangChain that knows more: its text and calls are better than a history
        # that cannot be read at all.
        _LOGGER.warning(
            "a stored message is read without its LangChain fields: %s; install the langchain-core "
            "that wrote it to see them",
            type(error).__name__,
        )
        return None
    stored.id = message.id
    return stored


def _neutral(message: Message) -> BaseMessage:
    text, name = text_alone(message), message.speaker
    match message.role:
        case Role.USER:
            return HumanMessage(content=text, id=message.id, name=name)
        case Role.SYSTEM:
            return SystemMessage(content=text, id=message.id, name=name)
        case Role.TOOL:
            call = message.tool_call_id or ""
            return ToolMessage(content=text, id=message.id, name=name, tool_call_id=call)
        case Role.ASSISTANT:
            return _assistant(message)


def _assistant(message: Message) -> AIMessage:
    calls, invalid = [], []
    for call in message.tool_calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            calls.append({"type": "tool_call", "id": call.id, "name": call.name, "args": arguments})
        else:
            problem = "the arguments are no JSON object"
            invalid.append(
                {"type": "invalid_tool_call", "id": call.id, "name": call.name, "args": call.arguments,
                 "error": problem}
            )  # fmt: skip
    return AIMessage(
        content=text_alone(message),
        id=message.id,
        name=message.speaker,
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )


# ------------------------------------------------------------------ documents


def checked_documents(given: Iterable[Document]) -> list[Document]:
    """What was given, when it is a list of LangChain documents."""
    documents = listed(given, "documents")
    for document in documents:
        if not isinstance(document, Document):
            raise InvalidInputError(f"documents must be LangChain documents, got {shown(document)}")
    return documents


def new_documents(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, object] | None] | None,
    ids: Iterable[str | None] | None,
) -> list[NewDocument]:
    """Texts with their metadata and ids as documents to be put into a collection.

    Raises:
        InvalidInputError: no list, or other than one metadata or one id a text.
    """
    if isinstance(texts, str):
        raise InvalidInputError(f"texts must be a list of texts, got {shown(texts)}")
    contents = listed(texts, "texts")
    own = _one_each(metadatas, "metadatas", len(contents))
    return [
        NewDocument(content=content, metadata=metadata, id=given)
        for content, metadata, given in zip(contents, own, _one_each(ids, "ids", len(contents)), strict=True)
    ]


def _one_each(given: Iterable[object] | None, name: str, count: int) -> list[Any]:
    if given is None:
        return [None] * count
    if isinstance(given, str):
        raise InvalidInputError(f"{name} must be a list, one for each text, got the text {shown(given)}")
    values = listed(given, name)
    if len(values) != count:
        raise InvalidInputError(f"{name}: {count} texts came with {len(values)} {name}")
    return values


def to_document(record: MemoryRecord) -> Document:
    """A document of a collection as it was added: its text, metadata and id, and nothing of ours."""
    return Document(page_content=record.content, id=record.id, metadata=dict(record.metadata))


def to_documents(result: RecallResult) -> list[Document]:
    """The hits as documents, best first.

    `Document.id` is the record's id. Ids are unique inside one scope and space only, so hits of one
    result that share theirs get the id of their index point instead; `memkit_id` is always the
    record's. See `MemkitRetriever` for the metadata.
    """
    shared = Counter(hit.record.id for hit in result)
    return [
        Document(
            page_content=hit.record.content,
            id=hit.record.id if shared[hit.record.id] == 1 else str(hit.record.point_id),
            metadata=document_metadata(hit, missing=result.missing),
        )
        for hit in result
    ]
