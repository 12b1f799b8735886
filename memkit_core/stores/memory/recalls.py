"""`RecallTable` in plain Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import takewhile

from memkit_core.ports import LoggedRecall, RowKind
from memkit_core.scope import Scope, ScopeKind
from memkit_core.stores.memory.state import State
from memkit_core.stores.recalls import hit_key, kept_form
from memkit_core.stores.tombstones import owner_of


class InMemoryRecalls:
    """The recall log of a `State`."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def append(self, recalls: Sequence[LoggedRecall], *, keep: int, texts: bool) -> None:
        """See `RecallTable.append`."""
        with self._state.open():
            for recall in recalls:
                hits = tuple(hit for hit in recall.hits if hit_key(hit) in self._state.rows)
                deleted = any(_deleted(self._state, scope, recall.seen) for scope in recall.scopes)
                if hits and recall.id not in self._state.recalls and not deleted:
                    whole = dataclasses.replace(kept_form(recall, texts=texts), hits=hits)
                    self._state.recalls[recall.id] = whole
            for old in list(self._state.recalls)[: max(len(self._state.recalls) - keep, 0)]:
                del self._state.recalls[old]

    def last_change(self) -> int:
        """See `RecallTable.last_change`."""
        with self._state.open():
            return self._state.change

    def mark(self, scope: Scope, recall_id: str, record_id: str, *, useful: bool) -> bool:
        """See `RecallTable.mark`."""
        with self._state.open():
            recall = self._state.recalls.get(recall_id)
            hits = () if recall is None else recall.hits
            named = [hit for hit in hits if hit.record_id == record_id]
            # One id may stand in several of the scopes that were named.
            meant = [hit for hit in named if hit.scope == scope]
            if recall is not None and not meant and scope in recall.scopes:
                meant = named
            if recall is None or not meant:
                return False
            self._state.recalls[recall_id] = dataclasses.replace(
                recall,
                hits=tuple(dataclasses.replace(hit, useful=useful) if hit in meant else hit for hit in hits),
            )
            return True

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, *, judged: bool, limit: int) -> list[LoggedRecall]:
        """See `RecallTable.list`."""
        with self._state.open():
            newest = reversed(self._state.recalls.values())
            found = [one for one in newest if not judged or any(hit.useful is not None for hit in one.hits)]
            return found[:limit]


def forget_scopes(state: State, chosen: Callable[[Scope], bool]) -> None:
    """Forget every recall that named one of these scopes."""
    state.recalls = {
        name: recall for name, recall in state.recalls.items() if not any(map(chosen, recall.scopes))
    }


def _deleted(state: State, scope: Scope, seen: int) -> bool:
    """Whether a scope was deleted after the change `seen`; one that never owned anything was not."""
    graves = takewhile(lambda one: one[1].number > seen, reversed(state.tombstones.items()))
    kinds = [key[1] for key, grave in graves if scope.digest in (key[0], grave.owner)]
    if not kinds:
        return False
    if scope.kind is ScopeKind.SESSION and RowKind.SESSION in kinds:
        return True
    # A row from before then was not deleted with the scope.
    return not any(
        number <= seen and scope in (owner, owner_of(owner))
        for (_, owner, _, _), number in state.changed.items()
    )
