"""`memory.working`: the note that a model keeps about a conversation or a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from memkit_core.config import Config
from memkit_core.conversation.note_shapes import Content, NoteShape, checked_shape, instructions_for
from memkit_core.conversation.note_tools import note_tools
from memkit_core.errors import ConflictError, InvalidInputError, RecordNotFoundError, ScopeError, shown
from memkit_core.inputs import checked_version
from memkit_core.jsonvalues import JsonValue, canonical_json
from memkit_core.live import Live
from memkit_core.models import NOTES, Note, NoteFormat, StoredValue
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_WORKING
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.times import Clock

if TYPE_CHECKING:
    from pydantic import BaseModel

_KEY = "working memory"
_NO_VERSION = 0


@observed(OF_WORKING)
class WorkingMemory(Live):
    """Reads and writes one note per session or user. Reached as `memory.working`; thread-safe.

    The note is free text. `using` gives the verbs for a JSON note with a schema, for a Markdown note
    with a template, and for one note per user. Updates from several threads and processes are put one
    after the other, none is lost.
    """

    def __init__(
        self,
        store: RecordStore,
        config: Config,
        clock: Clock,
        *,
        shape: NoteShape | None = None,
        per: ScopeKind = ScopeKind.SESSION,
    ) -> None:
        """Work on `store`; notes have the given shape, free text when None."""
        self._store = store
        self._config = config
        self._clock = clock
        self._shape = NoteShape(max_chars=config.max_note_chars) if shape is None else shape
        self._per = per

    def using(
        self,
        *,
        schema: type[BaseModel] | None = None,
        template: str | None = None,
        per: Literal["session", "user"] = "session",
    ) -> WorkingMemory:
        """The same verbs for notes of another shape; what is stored stays as it is.

        Args:
            schema: a pydantic model; the note is a JSON object that fits it.
            template: the note is Markdown and begins as this text says; not together with a schema.
            per: `"user"` makes all sessions of a user share the user's note.

        Raises:
            InvalidInputError: the schema is no pydantic model, or another value cannot be used.
        """
        if not isinstance(per, str) or per not in (ScopeKind.SESSION, ScopeKind.USER):
            raise InvalidInputError(f"per must be 'session' or 'user', got {shown(per)}")
        shape = checked_shape(schema, template, max_chars=self._config.max_note_chars)
        return WorkingMemory(self._store, self._config, self._clock, shape=shape, per=ScopeKind(per))

    def get(self, *, scope: Scope) -> Note:
        """The note of a session or a user, with version 0 and no content when none was written.

        One that was written in another shape, or that the schema no longer fits, comes as it is with
        `fits` False.
        """
        owner = self._owner(scope, "get")
        return self._note(owner, self._store.values.get(owner, NOTES, _KEY))

    def update(
        self,
        content: object,
        *,
        scope: Scope,
        mode: Literal["append", "replace"] = "append",
        expected_version: int | None = None,
    ) -> Note:
        """Add to the note, or replace it, and return it as stored.

        With `"append"` JSON is merged: objects key by key, lists united without repeats, other values
        replaced, and None says nothing about a key that has a value; text is put on a new line behind
        what is there, unless these very lines stand there already. What comes out is checked before it is
        saved. When nothing changes nothing is written. Earlier versions are kept (`Config.note_versions`), see `history` and `undo`.

        Args:
            content: a text; with a schema a dict, an instance of it, or JSON text, in a fence or not.
            scope: the session or user whose note it is.
            mode: `"append"`, or `"replace"`, which drops what the note says.
            expected_version: change it only if it still has this version, 0 for none.

        Raises:
            ScopeError: no scope, or neither a session nor a user.
            InvalidInputError: content that cannot be stored, does not fit the schema or is too long;
                nothing is changed.
            ConflictError: the note has another version than `expected_version`.
        """
        owner = self._owner(scope, "update")
        if expected_version is not None:
            checked_version(expected_version)
        if not isinstance(mode, str) or mode not in ("append", "replace"):
            raise InvalidInputError(f"mode must be 'append' or 'replace', got {shown(mode)}")
        given = self._shape.given(content)

        def changed(old: Note, _: int) -> tuple[Content | None, int]:
            new = given if mode == "replace" else self._shape.appended(old.content, given)
            self._shape.check(new)
            return new, old.version + 1

        return self._write(owner, changed, expected_version)

    def clear(self, *, scope: Scope) -> Note:
        """Empty the note and return it. Its earlier versions stay, so that `undo` brings it back.

        They go with the session (`memory.sessions.clear`) or with the scope (`memory.delete`).
        """
        return self._write(self._owner(scope, "clear"), lambda old, _: (None, old.version + 1), None)

    def history(self, *, scope: Scope) -> list[Note]:
        """The versions of the note that are kept, oldest first, the current one last."""
        owner = self._owner(scope, "history")
        return [self._note(owner, value) for value in self._store.values.history(owner, NOTES, _KEY)]

    def undo(self, *, scope: Scope) -> Note:
        """Bring back what the note said before its last change, as a new version, and return it.

        Called again it goes back one change further, down to the empty note. What comes back is not
        checked against the schema.

        Raises:
            RecordNotFoundError: there is nothing earlier, or it is no longer kept.
        """
        owner = self._owner(scope, "undo")

        def earlier(_now: Note, origin: int) -> tuple[Content | None, int]:
            kept = {value.version: value for value in self._store.values.history(owner, NOTES, _KEY)}
            if origin == 1:
                return None, _NO_VERSION
            before = kept.get(origin - 1)
            if origin == _NO_VERSION or before is None:
                raise RecordNotFoundError(f"undo: nothing earlier is kept of the note of {owner}")
            content, _format, back = _opened(before)
            return content, back

        return self._write(owner, earlier, None)

    def instructions(self, *, scope: Scope) -> str:
        """What to put into the system prompt of every turn: how to keep the note, and the whole note.

        The note stands in a fence that no text inside it can close.
        """
        return instructions_for(self.get(scope=scope), self._shape)

    def tools(self, *, scope: Scope | Callable[[], Scope]) -> list[Callable[..., str]]:
        """`get_working_memory`, `update_working_memory` and `clear_working_memory` for a model to call.

        Plain functions with annotations and docstrings, which every framework makes tools of. Each
        answers with text; a content that cannot be stored is told to the model, a failing store raises.

        Args:
            scope: the session or user whose note it is, or a function that names it at each call.
        """
        if not callable(scope):
            self._owner(scope, "tools")

        def owner() -> Scope:
            return scope() if callable(scope) else scope

        return note_tools(
            get=lambda: self.get(scope=owner()),
            update=lambda content, mode: self.update(content, scope=owner(), mode=mode),
            clear=lambda: self.clear(scope=owner()),
            as_json=self._shape.format is NoteFormat.JSON,
        )

    def _owner(self, scope: object, verb: str) -> Scope:
        owner = require_scope(scope, verb=f"working.{verb}")
        if owner.kind is ScopeKind.SESSION and self._per is ScopeKind.USER and owner.parent is not None:
            return owner.parent
        if owner.kind not in (ScopeKind.SESSION, ScopeKind.USER):
            raise ScopeError(f"working.{verb}: a note belongs to a session or a user, got {shown(owner)}")
        return owner

    def _note(self, owner: Scope, value: StoredValue | None) -> Note:
        if value is None:
            return Note(scope=owner, content=None, format=self._shape.format, version=_NO_VERSION)
        content, format_, _ = _opened(value)
        return Note(
            scope=owner,
            content=content,
            format=format_,
            version=value.version,
            fits=self._shape.accepts(content),
            created_at=value.created_at,
            updated_at=value.updated_at,
        )

    def _write(
        self,
        owner: Scope,
        changed: Callable[[Note, int], tuple[Content | None, int]],
        expected_version: int | None,
    ) -> Note:
        """Write what `changed` makes of the note and of the version its content was first written in.

        Tried until it succeeds: each try that fails means that another writer's change was stored.
        The caller's schema runs outside of any transaction, so it can hold up nobody.
        """
        while True:
            value = self._store.values.get(owner, NOTES, _KEY)
            old = self._note(owner, value)
            if expected_version is not None and old.version != expected_version:
                raise ConflictError(
                    f"the note of {owner} has version {old.version}, expected was {expected_version}; "
                    "read it again and decide"
                )
            content, origin = changed(old, _NO_VERSION if value is None else _opened(value)[2])
            # Not by ==, for which 1 and True are the same.
            if canonical_json(content) == canonical_json(old.content):
                return old
            envelope: dict[str, JsonValue] = {
                "content": content,
                "format": _format_of(content, self._shape).value,
                "origin": origin,
            }
            try:
                stored = self._store.values.put(
                    owner, NOTES, _KEY, envelope,
                    expected_version=old.version, keep=self._config.note_versions, now=self._clock(),
                )  # fmt: skip
            except ConflictError:
                continue
            return self._note(owner, stored)


def _format_of(content: Content | None, shape: NoteShape) -> NoteFormat:
    # What `undo` brings back may be of another shape than is asked for now.
    if isinstance(content, dict):
        return NoteFormat.JSON
    if shape.format is NoteFormat.JSON and content is not None:
        return NoteFormat.TEXT
    return shape.format


def _opened(value: StoredValue) -> tuple[Content | None, NoteFormat, int]:
    """Content, format, and the version in which this content was first written, of a stored note."""
    envelope = value.value
    assert isinstance(envelope, dict)
    content, origin = envelope["content"], envelope["origin"]
    assert isinstance(content, str | dict | None)
    assert isinstance(origin, int)
    return content, NoteFormat(str(envelope["format"])), origin
