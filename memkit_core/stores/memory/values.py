"""`ValueTable` in plain Python."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import datetime

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import NOTES, RUNS, DeleteReceipt, StoredValue
from memkit_core.ports import RowKind
from memkit_core.scope import Scope
from memkit_core.stores.checks import check_version
from memkit_core.stores.memory.state import State


class InMemoryValues:
    """JSON values in lists of versions."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def get(self, scope: Scope, kind: str, key: str) -> StoredValue | None:
        """See `ValueTable.get`."""
        with self._state.open():
            versions = self._state.values.get((scope, kind, key))
            return None if versions is None else copy.deepcopy(versions[-1])

    def put(
        self,
        scope: Scope,
        kind: str,
        key: str,
        value: JsonValue,
        *,
        label: str | None = None,
        expected_version: int | None = None,
        keep: int = 0,
        now: datetime,
    ) -> StoredValue:
        """See `ValueTable.put`."""
        own = json.loads(json.dumps(value, allow_nan=False))
        with self._state.open():
            versions = self._state.values.get((scope, kind, key), [])
            old = versions[-1] if versions else None
            check_version(old, expected_version, key=key)
            new = StoredValue(
                key=key,
                value=own,
                label=label,
                version=1 if old is None else old.version + 1,
                created_at=now if old is None else old.created_at,
                updated_at=now if old is None else max(old.updated_at, now),
            )
            self._state.values[scope, kind, key] = [*versions[max(len(versions) - keep, 0) :], new]
            self._state.mark(RowKind.VALUE, scope, kind, key)
            return copy.deepcopy(new)

    def history(self, scope: Scope, kind: str, key: str) -> list[StoredValue]:
        """See `ValueTable.history`."""
        with self._state.open():
            return copy.deepcopy(self._state.values.get((scope, kind, key), []))

    def delete(self, scope: Scope, kind: str, key: str) -> DeleteReceipt:
        """See `ValueTable.delete`."""
        with self._state.open():
            return forget_values(self._state, lambda *one: one == (scope, kind, key))

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, kind: str, *, label: str | None = None) -> list[StoredValue]:
        """See `ValueTable.list`."""
        with self._state.open():
            found = [
                versions[-1]
                for (owner, one, _), versions in reversed(self._state.values.items())
                if (owner, one) == (scope, kind) and (label is None or versions[-1].label == label)
            ]
            return copy.deepcopy(sorted(found, key=lambda value: value.updated_at, reverse=True))


def forget_values(state: State, chosen: Callable[[Scope, str, str], bool]) -> DeleteReceipt:
    """Delete the chosen values with their versions; counts them by kind."""
    gone = [place for place in state.values if chosen(*place)]
    for place in gone:
        del state.values[place]
        state.bury(RowKind.VALUE, *place)
    kinds = [kind for _, kind, _ in gone]
    return DeleteReceipt(notes=kinds.count(NOTES), runs=kinds.count(RUNS))
