"""What every store keeps of a logged recall."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from hashlib import sha256

from memkit_core.models import MemoryRecord
from memkit_core.ports import LoggedHit, LoggedRecall


def kept_form(recall: LoggedRecall, *, texts: bool) -> LoggedRecall:
    """The recall with the digest of its query, and without the text unless that is to be kept."""
    recall = dataclasses.replace(recall, seen=0)
    if recall.query is None:
        return recall
    digest = sha256(recall.query.encode("utf-8", "surrogatepass")).hexdigest()
    return dataclasses.replace(recall, digest=digest, query=recall.query if texts else None)


def hit_key(hit: LoggedHit) -> tuple[object, ...]:
    """What names the record of a hit."""
    return hit.scope, hit.space, hit.record_id


def without_hits(
    recalls: Mapping[str, LoggedRecall], records: Sequence[MemoryRecord]
) -> dict[str, LoggedRecall]:
    """The recalls without their hits on these records, and without those that found nothing else."""
    if not records:
        return dict(recalls)
    gone = {(record.scope, record.space, record.id) for record in records}
    kept = {
        name: dataclasses.replace(recall, hits=tuple(hit for hit in recall.hits if hit_key(hit) not in gone))
        for name, recall in recalls.items()
    }
    return {name: recall for name, recall in kept.items() if recall.hits}
