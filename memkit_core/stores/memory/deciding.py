"""What a rule sees of the memories of a `State`, and the writing of what it decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memkit_core.models import MEMORIES, MemoryRecord, RecordChange
from memkit_core.ports import Add, Remove, Rewrite, Step
from memkit_core.scope import Scope
from memkit_core.stores.changes import whole_history
from memkit_core.stores.memory.state import Row, State, copied, prepared


class InMemoryView:
    """`MemoryView` while the lock of a `State` is held."""

    def __init__(self, state: State) -> None:
        """Look at `state`."""
        self._state = state

    def get(self, scope: Scope, record_id: str) -> MemoryRecord | None:
        """See `MemoryView.get`."""
        row = self._state.rows.get((scope, MEMORIES, record_id))
        return None if row is None else copied(row.record)

    def current(self, record: MemoryRecord, *, now: datetime) -> MemoryRecord | None:
        """See `MemoryView.current`."""
        row = self._state.current(record, now=now)
        return None if row is None else copied(row.record)

    def last_change(self, record: MemoryRecord) -> RecordChange:
        """See `MemoryView.last_change`."""
        return whole_history(record, self._state.points[record.point_id].history)[-1]


def apply_steps(state: State, steps: Sequence[Step]) -> list[MemoryRecord]:
    """Write what a rule decided; returns what its `Add` and `Rewrite` steps became."""
    # All that can fail happens before the first row changes.
    ready = [(step, prepared(step.new if isinstance(step, Rewrite) else step.record)) for step in steps]
    written: list[Row] = []
    for step, new in ready:
        match step:
            case Add(_, merge):
                written.append(state.merge(new) if merge else state.write(new))
            case Rewrite(old, _, kind, others, reason):
                row = state.points[old.point_id]
                state.rewrite(row, new, kind=kind, others=others, reason=reason)
                written.append(row)
            case Remove(record):
                state.remove([state.points[record.point_id]])
    return [copied(row.record) for row in written]
