"""Rows as lines of an export file; what each field means stands in `docs/transfer.md`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime

from memkit_core.jsonvalues import JsonValue, canonical_json
from memkit_core.models import Message, Summary
from memkit_core.ports import MovedMessage, MovedRecord, MovedRow, MovedSession, MovedValue, Vector
from memkit_core.transfer.fields import FLOATS


def written(row: MovedRow) -> dict[str, object]:
    """The line of a row, its keys in the order they are written."""
    if isinstance(row, MovedRecord):
        return _record_line(row)
    if isinstance(row, MovedMessage):
        return _message_line(row.message)
    if isinstance(row, MovedSession):
        session = row.session
        return {
            "kind": "session", "scope": session.scope.path, "title": session.title,
            "metadata": _sorted(session.metadata), "created_at": _iso(session.created_at),
            "updated_at": _iso(session.updated_at), "next_position": row.next_position,
        }  # fmt: skip
    if isinstance(row, Summary):
        return {
            "kind": "summary", "scope": row.session.path, "text": row.text, "position": row.position,
            "updated_at": _iso(row.updated_at),
        }  # fmt: skip
    if isinstance(row, MovedValue):
        newest = row.versions[-1]
        versions = [
            {"version": one.version, "label": one.label, "updated_at": _iso(one.updated_at), "value": one.value}
            for one in row.versions
        ]  # fmt: skip
        return {
            "kind": "value", "scope": row.scope.path, "of": row.kind, "key": newest.key,
            "created_at": _iso(newest.created_at), "versions": versions,
        }  # fmt: skip
    return {
        "kind": "deleted", "what": row.kind, "owner": row.owner.hex(), "name": row.name.hex(),
        "scope": None if row.scope is None else row.scope.path, "made_at": _maybe(row.made_at),
    }  # fmt: skip


def _record_line(row: MovedRecord) -> dict[str, object]:
    record = row.record
    return {
        "kind": "record", "scope": record.scope.path, "space": record.space, "id": record.id,
        "content": record.content, "type": record.type, "key": record.key, "importance": record.importance,
        "pinned": record.pinned, "status": record.status, "tags": record.tags, "metadata": _sorted(record.metadata),
        "created_at": _iso(record.created_at), "updated_at": _iso(record.updated_at),
        "occurred_at": _maybe(record.occurred_at), "last_accessed_at": _maybe(record.last_accessed_at),
        "access_count": record.access_count, "expires_at": _maybe(record.expires_at),
        "valid_from": _maybe(record.valid_from), "valid_until": _maybe(record.valid_until),
        "version": record.version, "mentions": record.mentions, "supersedes": record.supersedes,
        "superseded_by": record.superseded_by, "agent_id": record.agent_id, "source": record.source,
        "confidence": record.confidence, "created_in_session_id": record.created_in_session_id,
        "promoted_from_id": record.promoted_from_id, "compacted_from_ids": record.compacted_from_ids,
        "source_message_ids": record.source_message_ids, "origin": record.origin,
        "vector_space": None if row.vector_space is None else row.vector_space.fingerprint,
        "vector": None if row.vector is None else _packed(row.vector),
        "history": [
            {
                "version": one.version,
                "kind": one.kind,
                "at": _iso(one.at),
                "before": _sorted(one.before),
                "dropped": _sorted(one.dropped),
                "others": list(one.others),
                # Most have none, and earlier memkits wrote none.
                **({"reason": one.reason} if one.reason else {}),
            }
            for one in row.history
        ],
    }  # fmt: skip


def _packed(vector: Vector) -> str:
    return base64.b64encode(vector.astype(FLOATS).tobytes()).decode() if vector.any() else ""


def _message_line(message: Message) -> dict[str, object]:
    return {
        "kind": "message", "scope": None if message.session is None else message.session.path,
        "position": message.position, "id": message.id, "role": message.role, "text": message.text,
        "speaker": message.speaker,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ],
        "tool_call_id": message.tool_call_id, "created_at": _maybe(message.created_at),
        "agent_id": message.agent_id, "parent_agent_id": message.parent_agent_id,
        "metadata": _sorted(message.metadata), "payload": message.payload, "format": message.format,
        "indexed": message.indexed,
    }  # fmt: skip


def _sorted(free: Mapping[str, JsonValue]) -> JsonValue:
    """Free metadata as stores keep it, its keys in order."""
    return json.loads(canonical_json(dict(free))) if free else {}


def _iso(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _maybe(moment: datetime | None) -> str | None:
    return None if moment is None else _iso(moment)
