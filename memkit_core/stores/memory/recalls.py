"""`RecallTable` in plain Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from memkit_core.ports import LoggedRecall
from memkit_core.scope import Scope
from memkit_core.stores.memory.state import State
from memkit_core.stores.recalls import hit_key, kept_form


class InMemoryRecalls:
    """The recall log of a `State`."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def append(self, recalls: Sequence[LoggedRecall], *, keep: int, texts: bool) -> None:
        """See `RecallTable.append`."""
        with self._state.open():
            scopes = dict.fromkeys(scope for recall in recalls for scope in recall.scopes)
            deleted = {scope for scope in scopes if _deleted(self._state, scope)}
            for recall in recalls:
                hits = tuple(hit for hit in recall.hits if hit_key(hit) in self._state.rows)
                if hits and recall.id not in self._state.recalls and not deleted.intersection(recall.scopes):
                    whole = dataclasses.replace(kept_form(recall, texts=texts), hits=hits)
                    self._state.recalls[recall.id] = whole
            for old in list(self._state.recalls)[: max(len(self._state.recalls) - keep, 0)]:
                del self._state.recalls[old]

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


def _deleted(state: State, scope: Scope) -> bool:
    """Whether a scope owns nothing any more; one that never owned anything was not deleted."""
    owners = [owner for owner, _, _ in (*state.rows, *state.values)]
    sessions = [session for sessions in state.conversations.values() for session in sessions]
    if any(scope in (owner, owner.parent) for owner in (*owners, *sessions)):
        return False
    return any(scope.digest in (buried[0], grave.owner) for buried, grave in state.tombstones.items())
