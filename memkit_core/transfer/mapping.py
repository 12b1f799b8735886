"""Rows under another owner."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from memkit_core.errors import InvalidInputError, ScopeError, shown
from memkit_core.models import MESSAGES, MemoryRecord, Summary
from memkit_core.ports import MovedMessage, MovedRecord, MovedRow, MovedSession, MovedValue, Tombstone
from memkit_core.scope import Scope

ScopeMap = Mapping[Scope, Scope] | Callable[[Scope], Scope]
"""From the scope of a line to the scope it is imported into."""


class Mapped:
    """Gives each row its new scope.

    With a dict, a scope that it does not name stays, but moves along with a parent that it names:
    `{Scope.user("ann"): Scope.user("bea")}` takes ann's sessions to bea. A callable is asked for each
    scope and decides alone.
    """

    def __init__(self, scopes: ScopeMap | None) -> None:
        """Check what can be checked at once."""
        if scopes is not None and not isinstance(scopes, Mapping) and not callable(scopes):
            raise InvalidInputError(
                f"import_jsonl: scopes must be a dict or a function of scopes, got {shown(scopes)}"
            )
        self._scopes = scopes
        self._known: dict[Scope, Scope] = {}
        if isinstance(scopes, Mapping):
            for given in (*scopes, *scopes.values()):
                self._checked(given)
            self._by_digest = {scope.digest: new for scope, new in scopes.items()}
        else:
            self._by_digest = {}

    def scope(self, scope: Scope) -> Scope:
        """Where rows of `scope` go.

        Raises:
            ScopeError: there cannot be such a scope, or the function gave none.
        """
        if self._scopes is None:
            return scope
        found = self._known.get(scope)
        if found is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            found = self._known[scope] = self._of(scope)
        return found

    def _of(self, scope: Scope) -> Scope:
        if not isinstance(self._scopes, Mapping):
            assert self._scopes is not None
            return self._checked(self._scopes(scope))
        if scope in self._scopes:
            return self._scopes[scope]
        if scope.parent is None:
            return scope
        return Scope(scope.kind, scope.id, self._of(scope.parent))

    @staticmethod
    def _checked(scope: object) -> Scope:
        if not isinstance(scope, Scope):
            raise ScopeError(f"import_jsonl: scopes must map scopes to scopes, got {shown(scope)}")
        return scope

    def row(self, row: MovedRow) -> MovedRow | None:
        """The row under its new scope; None for a tombstone whose new scope nobody can tell."""
        if self._scopes is None:
            return row
        if isinstance(row, Tombstone):
            # A function cannot be asked for a digest, and a dict only for those of its keys.
            into = self._by_digest.get(row.owner) if row.scope is None else self.scope(row.scope)
            return None if into is None else dataclasses.replace(row, into=into)
        if isinstance(row, MovedRecord):
            return dataclasses.replace(row, record=self._record(row.record))
        if isinstance(row, MovedValue):
            return dataclasses.replace(row, scope=self.scope(row.scope))
        return self._of_session(row)

    def _of_session(self, row: MovedSession | MovedMessage | Summary) -> MovedRow:
        if isinstance(row, Summary):
            return dataclasses.replace(row, session=self._session(row.session))
        if isinstance(row, MovedSession):
            moved = self._session(row.session.scope)
            return dataclasses.replace(row, session=dataclasses.replace(row.session, scope=moved))
        assert row.message.session is not None
        moved = self._session(row.message.session)
        return dataclasses.replace(row, message=dataclasses.replace(row.message, session=moved))

    def _session(self, session: Scope) -> Scope:
        moved = self.scope(session)
        if moved.kind != "session":
            raise ScopeError(f"a session cannot become {moved}; map it to a session")
        return moved

    def _record(self, record: MemoryRecord) -> MemoryRecord:
        old = record.scope
        if record.space != MESSAGES:
            return dataclasses.replace(record, scope=self.scope(old))
        new = self._session(old)
        if new.id == old.id:
            return dataclasses.replace(record, scope=new)
        # A turn names its session, where recall and filters find it.
        return dataclasses.replace(
            record,
            scope=new,
            metadata={**record.metadata, "session_id": new.id},
            created_in_session_id=new.id if record.created_in_session_id == old.id else record.created_in_session_id,
        )  # fmt: skip


_REMEMBERED = 10_000
