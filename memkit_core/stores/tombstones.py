"""How a store remembers what was deleted, without remembering whose it was: digests, no names."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from memkit_core.models import MESSAGES, point_id
from memkit_core.ports import RowKind, Tombstone
from memkit_core.scope import Scope, ScopeKind


class Grave(NamedTuple):
    """A deleted row: `space` is that of a record or the kind of a value, `id` its id or key."""

    kind: RowKind
    space: str = MESSAGES
    id: str = ""

    def name(self, scope: Scope) -> bytes:
        """16 bytes that stand for the row among those of its kind."""
        return grave_name(scope.digest, self.space, self.id)


def grave_name(scope: bytes, space: str, row_id: str) -> bytes:
    """`Grave.name` for the digest of a scope."""
    return point_id(scope, space, row_id).bytes


def tombstone_of(scope: Scope, space: str, record_id: str) -> Tombstone:
    """What says of a record that is there that it is gone."""
    name = grave_name(scope.digest, space, record_id)
    return Tombstone(kind=RowKind.RECORD, owner=scope.digest, name=name, scope=scope)


@lru_cache(maxsize=256)
def buried_space(space: str) -> bytes:
    """8 bytes that stand for a space."""
    return hashlib.blake2b(space.encode(), digest_size=8).digest()


def owner_of(scope: Scope) -> Scope:
    """The user of a session, else the scope itself: whose export takes it along."""
    return scope.parent if scope.kind is ScopeKind.SESSION and scope.parent is not None else scope
