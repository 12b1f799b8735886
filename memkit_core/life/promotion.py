"""Promotion: a memory of a narrow scope becomes one of a broader scope as well (spec A5)."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from datetime import datetime

from memkit_core.errors import InvalidPromotionError
from memkit_core.models import MemoryRecord
from memkit_core.scope import Scope, ScopeKind

_UPWARDS: Mapping[ScopeKind, tuple[ScopeKind, ...]] = {
    ScopeKind.SESSION: (ScopeKind.USER, ScopeKind.WORKSPACE, ScopeKind.ORG, ScopeKind.OBJECT),
    ScopeKind.OBJECT: (ScopeKind.USER, ScopeKind.WORKSPACE, ScopeKind.ORG),
    ScopeKind.USER: (ScopeKind.WORKSPACE, ScopeKind.ORG),
    ScopeKind.WORKSPACE: (ScopeKind.ORG,),
    ScopeKind.ORG: (),
}


def check_promotion(source: Scope, target: Scope) -> None:
    """Refuse a promotion that does not go upwards.

    The kind of the target must be above that of the source. Where the source stands under a scope of
    that kind only that very scope is above it: a session's memories are never promoted to another
    user, nor those of a user in one workspace to another workspace.
    """
    allowed = _UPWARDS[source.kind]
    if target.kind not in allowed:
        raise InvalidPromotionError(
            f"promote: {source} cannot be promoted to {target}; from a {source.kind} it goes to "
            f"{' or '.join(allowed) or 'nothing'}"
        )
    above = source.parent
    while above is not None:
        if above.kind is target.kind and above != target:
            raise InvalidPromotionError(
                f"promote: {source} stands under {above}, so it cannot be promoted to {target}"
            )
        above = above.parent


def promoted(record: MemoryRecord, to: Scope, *, now: datetime) -> MemoryRecord:
    """The copy of a memory in a broader scope: a new record that tells where it came from."""
    return dataclasses.replace(
        record,
        id=str(uuid.uuid4()),
        scope=to,
        created_at=now,
        updated_at=now,
        version=1,
        access_count=0,
        last_accessed_at=None,
        supersedes=None,
        promoted_from_id=record.id,
    )
