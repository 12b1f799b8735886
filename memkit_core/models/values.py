"""Working memories, run states, and the versioned values both are stored as."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import datetime

from memkit_core.jsonvalues import JsonValue
from memkit_core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValue:
    """One version of a JSON value that a store keeps for a scope.

    Attributes:
        key: its name, unique in its scope and kind.
        value: the JSON, with the key order it was written in.
        label: what values are listed by, such as the status of a run; None for none.
        version: 1 when it was made, one more with each change.
        created_at, updated_at: when it was made, and when this version was.
    """

    key: str
    value: JsonValue
    label: str | None = None
    version: int
    created_at: datetime
    updated_at: datetime


class NoteFormat(enum.StrEnum):
    """What a working memory holds: JSON with a schema, Markdown with a template, else free text."""

    JSON = "json"
    MARKDOWN = "markdown"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One version of a working memory.

    Attributes:
        scope: whose it is: a session, or a user.
        content: a dict for JSON, else text; None while it is empty.
        format: how it was written.
        version: 0 when nothing was ever written, else one more with each change, clearing included.
        fits: whether it is what is asked for now: its kind, and the schema. One that does not fit
            can be read and replaced.
        created_at, updated_at: when the note was begun and when this version was written; None with
            version 0.
    """

    scope: Scope
    content: str | dict[str, JsonValue] | None
    format: NoteFormat
    version: int
    fits: bool = True
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def text(self) -> str:
        """The content as it is shown to a model: JSON indented, text as it is, "" when empty."""
        if isinstance(self.content, dict):
            return json.dumps(self.content, ensure_ascii=False, indent=2)
        return self.content or ""

    def _repr_html_(self) -> str:
        """What a notebook shows: whose it is, its version and its whole text, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        state = f"version {self.version}" if self.version else "empty"
        return html.block(f"Working memory of {self.scope}, {self.format.value}, {state}", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The saved state of a workflow run: `state` is JSON, `status` the word it is listed by."""

    scope: Scope
    run_id: str
    state: JsonValue
    status: str
    version: int
    created_at: datetime
    updated_at: datetime
