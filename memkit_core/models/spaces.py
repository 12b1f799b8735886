"""The spaces that rows are in, and what names a row or a part of a space."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import lru_cache

from memkit_core.scope import Scope

_POINTS = uuid.UUID("6d656d6b-6974-5f70-8f69-6e740a000001")

MEMORIES = "memories"
"""The space of memory records."""
MESSAGES = "messages"
"""The space of conversation turns."""
SEARCHABLE = "memkit_searchable"
"""The key in a session's metadata that, with False, keeps what is appended from then on out of recall."""

DOCUMENTS = "documents:"
"""What the space of every collection of documents begins with."""
STORE = "store:"
"""What the space of every collection of items begins with."""
CHUNK = "memkit_chunk"
"""The key in the metadata of a chunk of a document that tells where it stands."""

NOTES = "notes"
"""The kind of the stored values that are working memories."""
RUNS = "runs"
"""The kind of the stored values that are run states."""


def point_id(scope: Scope | bytes, space: str, record_id: str) -> uuid.UUID:
    """The id of a record in every vector index: uuid5 of (scope digest, space, id).

    `scope` may be its digest alone.
    """
    return uuid.UUID(int=_point_number(scope if isinstance(scope, bytes) else scope.digest, space, record_id))


# A write asks for the point of a row several times, and one costs as much as a statement. Numbers are kept, not
# UUIDs: the garbage collector would look at each of them every time.
@lru_cache(maxsize=16_384)
def _point_number(digest: bytes, space: str, record_id: str) -> int:
    # The space cannot hold NUL, so this encoding is unambiguous.
    return uuid.uuid5(_POINTS, f"{digest.hex()}{space}\0{record_id}").int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The rows one leg of a recall may see: one space of one scope.

    In the space `messages` a session scope stands for its own turns and a user scope for the turns
    of all of that user's sessions: a turn is owned by the pair (user, session). In every other
    space a scope stands for itself alone.
    """

    scope: Scope
    space: str = MEMORIES

    @property
    def owner(self) -> Scope:
        """The scope whose rows share one keyword statistic and one index partition."""
        if self.space == MESSAGES and self.scope.parent is not None and self.scope.kind == "session":
            return self.scope.parent
        return self.scope

    @property
    def narrowed(self) -> bool:
        """Whether only a part of the owner's partition is meant (one session of a user)."""
        return self.owner is not self.scope

    def covers(self, scope: Scope) -> bool:
        """Whether a row of `scope` in this space belongs to this target."""
        return scope == self.scope or (
            self.space == MESSAGES and scope.kind == "session" and scope.parent == self.scope
        )
