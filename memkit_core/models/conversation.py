"""Messages, sessions and their summaries."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from memkit_core.jsonvalues import JsonValue
from memkit_core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call that an assistant message asks for; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str = "{}"


class Role(enum.StrEnum):
    """The four roles every chat API knows; a framework's own role stays in the payload."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a session, kept verbatim.

    Attributes:
        role: one of the four neutral roles.
        text: its readable text, "" when there is none.
        id: unique in its session; made by the store when None. The same id again replaces.
        speaker: who said it, by name, when the conversation knows names.
        tool_calls: the calls an assistant message asks for.
        tool_call_id: the call that a tool message answers.
        created_at: when it was said; the store's clock when None. Never decides the order.
        agent_id, parent_agent_id: the agent that produced it, and that agent's parent.
        metadata: free JSON of the caller; part of what recall can filter on.
        payload: the framework's own message as JSON, returned exactly; None for neutral messages.
        format: who wrote and can read `payload`, such as `"langchain"`.
        indexed: whether the turn is made searchable; None decides by role (user and assistant).
        session, position: where it stands; set by the store, positions ascend in append order.
    """

    role: Role
    text: str
    id: str | None = None
    speaker: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    created_at: datetime | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    payload: JsonValue = None
    format: str = "memkit"
    indexed: bool | None = None
    session: Scope | None = None
    position: int | None = None

    @property
    def is_turn(self) -> bool:
        """Whether recall can find it: something was said, by a person or the assistant."""
        said = bool(self.text.strip())
        if self.indexed is not None:
            return self.indexed and said
        return said and self.role in (Role.USER, Role.ASSISTANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation: its scope (user and session), when it began and last grew, how long it is."""

    scope: Scope
    created_at: datetime
    updated_at: datetime
    messages: int
    title: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The rolling summary of a session: `text` stands for all messages up to `position`, that one included."""

    session: Scope
    text: str
    position: int
    updated_at: datetime
