"""Pairs of memories that a judge should look at: neighbours by vector, and sharers of rare terms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import numpy as np

from memkit_core.models import MemoryRecord, RecordType, Target
from memkit_core.ports import ListQuery, Matrix, RecordStore
from memkit_core.scope import Scope
from memkit_core.stores.succession import held_since
from memkit_core.text.tokenizer import keyword_terms

THRESHOLDS: Mapping[str, float] = {"wordllama": 0.6, "e5": 0.9}
"""The cosine from which on two texts are neighbours, by what the model's name begins with.

Measured 2026-11-30 on the pairs of `tests/core/test_judges.py` and a list of unrelated sentences,
English and Chinese: WordLlama gives 16 of 17 contradictions and paraphrases 0.68 or more, and 99 of 100
unrelated pairs less than 0.60; multilingual-e5-small 0.92 and 0.91. What is missed, "I live in Denver" and
"I live in Boston now" among it, is found by its rare terms.
"""
_OTHER_THRESHOLD = 0.6
"""For models that were not measured."""
MOST_OLDS = 8
"""The most older memories a judge sees with a new one: the nearest."""
_RARE = 5
"""A term is rare if at most so many memories of the scope have it."""
_BLOCK = 512
_PAGE = 1000

Scores = dict[int, dict[int, float]]
"""By the place of a newer memory in the list: how near which older places are to it."""


def threshold_of(model: str) -> float:
    """The cosine from which on texts of this model are neighbours."""
    name = model.rpartition("/")[2].lower()
    for key, cosine in THRESHOLDS.items():
        if model.lower().startswith(key) or f"-{key}" in f"-{name}":
            return cosine
    return _OTHER_THRESHOLD


def judged_memories(store: RecordStore, scope: Scope, *, now: datetime) -> list[MemoryRecord]:
    """The active memories of a scope that a judge may decide on, the oldest first.

    What has a key is decided by its key, and a summary tells of what others tell.
    """
    found: list[MemoryRecord] = []
    cursor = None
    kinds = tuple(kind for kind in RecordType if kind is not RecordType.SUMMARY)
    while True:
        page = store.records.list(scope, ListQuery(types=kinds, limit=_PAGE, cursor=cursor), now=now)
        found += [record for record in page if record.key is None]
        if page.cursor is None:
            break
        cursor = page.cursor
    # The list is newest first; of what was written in one moment it knows the order.
    found.reverse()
    found.sort(key=lambda record: (held_since(record), record.created_at))
    return found


def propose(
    store: RecordStore, records: Sequence[MemoryRecord], *, now: datetime, only: Collection[str] | None = None
) -> dict[str, list[MemoryRecord]]:
    """For each memory that has any, by id: the older ones it may repeat or contradict, the nearest first.

    `records` are those of one scope, the oldest first; `only` looks for the newer ones among these
    ids. Events are compared with events only.
    """
    scores: Scores = defaultdict(lambda: defaultdict(float))
    wanted = [place for place, record in enumerate(records) if only is None or record.id in only]
    _by_terms(records, set(wanted), scores)
    _by_vectors(store, records, wanted, scores, now=now)
    return {records[place].id: [records[old] for old in _nearest(near)] for place, near in scores.items()}


def _nearest(near: dict[int, float]) -> list[int]:
    return sorted(near, key=lambda place: (-near[place], place))[:MOST_OLDS]


def _is_event(record: MemoryRecord) -> bool:
    return record.type is RecordType.EVENT


def _by_terms(records: Sequence[MemoryRecord], wanted: set[int], scores: Scores) -> None:
    """Share of rare terms, below any cosine: neighbours by vector come first."""
    having: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        for term in set(keyword_terms(record.content)):
            having[term].append(place)
    for places in having.values():
        if not 1 < len(places) <= _RARE:
            continue
        for at, place in enumerate(places):
            for older in places[:at]:
                if place in wanted and _is_event(records[place]) == _is_event(records[older]):
                    scores[place][older] += 1 / 1_000_000


def _by_vectors(
    store: RecordStore,
    records: Sequence[MemoryRecord],
    wanted: Sequence[int],
    scores: Scores,
    *,
    now: datetime,
) -> None:
    space = store.vectors.space()
    if not wanted or space is None:
        return
    points, matrix = store.vectors.scan(Target(scope=records[0].scope), where=None, now=now)
    rows = {point: row for row, point in enumerate(points)}
    # Without a vector a memory has the last row, which is zero and near to nothing.
    matrix = np.vstack([_unit(matrix), np.zeros((1, space.dimension), np.float32)])
    vectors = matrix[[rows.get(record.point_id, -1) for record in records]]
    events = np.array([_is_event(record) for record in records])
    least = threshold_of(space.model)
    for start in range(0, len(wanted), _BLOCK):
        some = wanted[start : start + _BLOCK]
        for place, cosines in zip(some, vectors[some] @ vectors[: some[-1]].T, strict=True):
            near = np.flatnonzero((cosines[:place] >= least) & (events[:place] == events[place]))
            for old in near[np.argsort(-cosines[near], kind="stable")[:MOST_OLDS]]:
                scores[place][int(old)] += float(cosines[old])


def _unit(matrix: Matrix) -> Matrix:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    # What held nothing to embed has no neighbours.
    unit: Matrix = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
    return unit
