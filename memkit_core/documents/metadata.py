"""A recalled record as the flat metadata of a framework's document or node."""

from __future__ import annotations

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import MESSAGES, ScoredRecord

PREFIX = "memkit_"
"""Leads every metadata key that is ours and not the user's."""


def document_metadata(hit: ScoredRecord, *, missing: frozenset[str]) -> dict[str, JsonValue]:
    """The record's own metadata under its own keys, and ours beside it; all of it JSON.

    Ours are `memkit_id`, `memkit_scope` (readable), `memkit_space` (`"memories"` or `"messages"`),
    `memkit_type`, `memkit_tags`, `memkit_created_at` and `memkit_occurred_at` (ISO 8601, UTC),
    `memkit_score` (orders one result, in [0, 1]), `memkit_similarity` (absolute, in [0, 1], None
    without a vector) and `memkit_missing`: the legs that did not answer in full, [] when nothing is
    degraded. Turns of a conversation also have `memkit_session_id` and `memkit_speaker`. Keys of the
    record that begin with `memkit_` are found under `memkit_metadata`, so that they never pass for ours.
    """
    record = hit.record
    occurred = record.occurred_at
    own: dict[str, JsonValue] = {
        "id": record.id,
        "scope": str(record.scope),
        "space": record.space,
        "type": record.type.value,
        "tags": list(record.tags),
        "created_at": record.created_at.isoformat(),
        "occurred_at": None if occurred is None else occurred.isoformat(),
        "score": hit.score,
        "similarity": hit.signals.similarity,
        "missing": [*sorted(missing)],
    }
    if record.space == MESSAGES:
        own |= {"session_id": record.created_in_session_id, "speaker": record.speaker}
    free: dict[str, JsonValue] = {}
    displaced: dict[str, JsonValue] = {}
    for key, value in record.metadata.items():
        (displaced if key.startswith(PREFIX) else free)[key] = value
    if displaced:
        own["metadata"] = displaced
    return free | {PREFIX + name: value for name, value in own.items()}
