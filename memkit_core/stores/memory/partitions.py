"""`PartitionTable` in plain Python."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from memkit_core.models import Target
from memkit_core.ports import PartitionChanges, PartitionMark, PartitionRow, Postings
from memkit_core.stores.memory.state import Partition, Row, State
from memkit_core.times import to_ms


class InMemoryPartitions:
    """The partitions of one state."""

    def __init__(self, state: State) -> None:
        """Read in `state`."""
        self._state = state

    def changes(
        self,
        target: Target,
        *,
        after: PartitionMark | None,
        most: int,
        terms: Sequence[str],
        held: Collection[str] = (),
    ) -> PartitionChanges | None:
        """See `PartitionTable.changes`."""
        with self._state.open():
            partition = self._state.partitions.get((target.owner, target.space))
            if partition is None:
                return None
            mark = PartitionMark(
                partition.number, partition.changed, partition.given or self._state.vector_space
            )
            known = after is not None and (after.partition, after.space) == (mark.partition, mark.space)
            seen = after.change if after is not None and known else 0
            changed = [row for _, row in sorted(partition.rows.items()) if row.changed > seen]
            return PartitionChanges(
                mark=mark,
                documents=len(partition.rows),
                terms=partition.terms,
                rows=[self._row(row) for row in changed] if len(changed) <= most else None,
                present=sorted(partition.rows) if partition.removed > seen else None,
                postings={
                    term: _postings(partition, term) for term in terms if mark != after or term not in held
                },
            )

    def _row(self, row: Row) -> PartitionRow:
        record = row.record
        expires = None if record.pinned or record.expires_at is None else to_ms(record.expires_at)
        return PartitionRow(
            self._state.candidate(row),
            record.scope.digest,
            record.status.value,
            record.type.value,
            expires,
            to_ms(record.valid_from or record.created_at),
            None if record.valid_until is None else to_ms(record.valid_until),
            None if row.vector is None else row.vector.astype("<f4").tobytes(),
        )


def _postings(partition: Partition, term: str) -> Postings:
    rows = sorted(seq for seq, row in partition.rows.items() if row.terms[term])
    counts = [partition.rows[seq].terms[term] for seq in rows]
    return Postings(np.array(rows, np.int64), np.array(counts, np.int64))
