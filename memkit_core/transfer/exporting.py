"""Rows to lines: one consistent state of a store as JSONL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping

from memkit_core.models import Summary
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    Selection,
    StoreSnapshot,
    Tombstone,
    VectorSpace,
)
from memkit_core.transfer.lines import FORMAT, VERSION
from memkit_core.transfer.reports import ExportReport, Progress
from memkit_core.transfer.watermarks import write_watermark
from memkit_core.transfer.writing import written

_TOLD_EVERY = 200


def write_rows(
    snapshot: StoreSnapshot,
    selection: Selection,
    store_id: str,
    write: Callable[[bytes], object],
    progress: Progress | None,
) -> ExportReport:
    """Write header, rows and end."""
    after = selection.changed_after
    watermark = write_watermark(store_id, snapshot.change)
    size = 0

    def put(line: Mapping[str, object]) -> None:
        nonlocal size
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        write(text)
        size += len(text)

    header = {
            "kind": "header",
            "format": FORMAT,
            "version": VERSION,
            "store": store_id,
            "watermark": watermark,
            "after": None if after is None else write_watermark(store_id, after),
            "vector_spaces": [_space_entry(space) for space in snapshot.vector_spaces()],
    }  # fmt: skip
    put(header)
    counts: Counter[str] = Counter()
    total = snapshot.count() if progress is not None else 0
    rows = 0
    for rows, row in enumerate(snapshot.rows(), 1):
        put(written(row))
        counts[name_of(row)] += 1
        if progress is not None and rows % _TOLD_EVERY == 0:
            progress(rows, max(total, rows))
    put({"kind": "end", "lines": rows})
    if progress is not None:
        progress(rows, rows)
    return ExportReport(watermark=watermark, counts=dict(counts), bytes=size)


def name_of(row: MovedRow) -> str:
    """What a row counts as in a report."""
    if isinstance(row, MovedRecord):
        return "turns" if row.record.space == "messages" else "records"
    if isinstance(row, MovedMessage):
        return "messages"
    if isinstance(row, MovedSession):
        return "sessions"
    if isinstance(row, Summary):
        return "summaries"
    return "deleted" if isinstance(row, Tombstone) else "values"


def _space_entry(space: VectorSpace) -> dict[str, object]:
    return {
        "fingerprint": space.fingerprint, "model": space.model, "revision": space.revision,
        "dimension": space.dimension, "given": space.given,
    }  # fmt: skip
