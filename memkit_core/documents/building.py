"""The records that documents to be added become."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, shown
from memkit_core.inputs import checked_id, checked_text
from memkit_core.jsonvalues import checked_metadata
from memkit_core.models import MemoryRecord, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A text to be put into a collection; a UUID is made when `id` is None. `content` may be empty."""

    content: str
    id: str | None = None
    metadata: Mapping[str, object] | None = None


def build_document(document: object, *, target: Target, config: Config, now: datetime) -> MemoryRecord:
    """The record that a text or `NewDocument` becomes in the collection of `target`.

    Raises:
        InvalidInputError: names the field and the value that cannot be stored.
    """
    new = NewDocument(content=document) if isinstance(document, str) else document
    if not isinstance(new, NewDocument):
        raise InvalidInputError(f"put takes texts or NewDocument, got {shown(new)}")
    return MemoryRecord(
        id=str(uuid.uuid4()) if new.id is None else checked_id(new.id),
        scope=target.scope,
        space=target.space,
        content=checked_text(new.content, "content", max_chars=config.max_content_chars),
        metadata=checked_metadata(new.metadata),
        agent_id=config.agent_id,
        created_at=now,
        updated_at=now,
    )
