"""Scopes and partitions as rows: from a `Target` to the numbers the other tables key on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from memkit_core.errors import ConfigError, SchemaError
from memkit_core.models import Target
from memkit_core.ports import VectorSpace
from memkit_core.scope import Scope, ScopeKind
from memkit_core.stores.checks import other_space


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target's rows are: its partition, and the one scope inside it when narrowed."""

    partition_id: int
    scope_id: int | None

    @property
    def sql(self) -> str:
        """The condition on `records r` that holds for exactly the target's rows."""
        condition = "r.partition_id = :partition"
        return condition if self.scope_id is None else f"{condition} AND r.scope_id = :scope"

    @property
    def parameters(self) -> dict[str, object]:
        """The values of `sql`."""
        return {"partition": self.partition_id, "scope": self.scope_id}


@lru_cache(maxsize=4096)
def scope_text(scope: Scope) -> str:
    """The readable form that stands beside a digest."""
    return json.dumps(scope.path, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=4096)
def read_scope(text: str) -> Scope:
    """The inverse of `scope_text`."""
    return Scope.from_path(tuple((kind, owner) for kind, owner in json.loads(text)))


def find_scope(connection: sqlite3.Connection, scope: Scope) -> int | None:
    """The number of a scope, None when it owns nothing here."""
    row = connection.execute("SELECT id, path FROM scopes WHERE digest = ?", (scope.digest,)).fetchone()
    if row is None:
        return None
    _check_path(row[1], scope)
    return int(row[0])


def scope_of(connection: sqlite3.Connection, scope_id: int) -> Scope:
    """The scope with this number, which must be there."""
    (path,) = connection.execute("SELECT path FROM scopes WHERE id = ?", (scope_id,)).fetchone()
    return read_scope(path)


def with_sessions(connection: sqlite3.Connection, scope: Scope, scope_id: int) -> list[int]:
    """The number of a scope, and of a user's sessions too."""
    if scope.kind is not ScopeKind.USER:
        return [scope_id]
    children = connection.execute("SELECT id, path FROM scopes WHERE parent_id = ?", (scope_id,))
    sessions = [i for i, path in children if read_scope(path).kind is ScopeKind.SESSION]
    return [scope_id, *sessions]


def _check_path(path: str, scope: Scope) -> None:
    if path != scope_text(scope):
        raise SchemaError(
            f"the digest of {scope} belongs to {path}; the file is damaged",
            backend="sqlite",
            operation="scope look-up",
        )


def ensure_scope(connection: sqlite3.Connection, scope: Scope) -> int:
    """The number of a scope, made together with its ancestors when new."""
    found = find_scope(connection, scope)
    if found is not None:
        return found
    parent = None if scope.parent is None else ensure_scope(connection, scope.parent)
    cursor = connection.execute(
        "INSERT INTO scopes(digest, path, parent_id) VALUES (?, ?, ?)",
        (scope.digest, scope_text(scope), parent),
    )
    return _inserted(cursor)


def ensure_place(
    connection: sqlite3.Connection, target: Target, vector_space_id: int | None
) -> tuple[int, int]:
    """The numbers of the target's scope and partition, made when new.

    The partition has vectors of the given space with that number; None for the memory's own.

    Raises:
        ConfigError: it has vectors of another space.
    """
    scope_id = ensure_scope(connection, target.scope)
    owner_id = ensure_scope(connection, target.owner) if target.narrowed else scope_id
    row = connection.execute(
        "SELECT id, vector_space_id FROM partitions WHERE scope_id = ? AND space = ?",
        (owner_id, target.space),
    ).fetchone()
    if row is None:
        cursor = connection.execute(
            "INSERT INTO partitions(scope_id, space, vector_space_id) VALUES (?, ?, ?)",
            (owner_id, target.space, vector_space_id),
        )
        return scope_id, _inserted(cursor)
    if row[1] != vector_space_id:
        raise ConfigError(
            other_space(
                target,
                held=_vector_space(connection, row[1]),
                given=_vector_space(connection, vector_space_id),
            )
        )
    return scope_id, int(row[0])


def ensure_vector_space(connection: sqlite3.Connection, space: VectorSpace | None) -> int | None:
    """The number of a given vector space, made when new; None for the memory's own."""
    if space is None:
        return None
    connection.execute(
        "INSERT OR IGNORE INTO vector_spaces(fingerprint, model, revision, dimension, in_use) "
        "VALUES (?, ?, ?, ?, 0)",
        (space.fingerprint, space.model, space.revision, space.dimension),
    )
    return find_vector_space(connection, space)


def find_vector_space(connection: sqlite3.Connection, space: VectorSpace) -> int | None:
    """The number of a vector space, None when nothing was ever written to it."""
    row = connection.execute(
        "SELECT id FROM vector_spaces WHERE fingerprint = ?", (space.fingerprint,)
    ).fetchone()
    return None if row is None else int(row[0])


def _vector_space(connection: sqlite3.Connection, vector_space_id: int | None) -> VectorSpace | None:
    row = connection.execute(
        "SELECT model, revision, dimension FROM vector_spaces WHERE id = ?", (vector_space_id,)
    ).fetchone()
    return None if row is None else VectorSpace(model=row[0], revision=row[1], dimension=row[2], given=True)


def find_place(connection: sqlite3.Connection, target: Target) -> Place | None:
    """Where the target's rows are, None when there are none."""
    row = connection.execute(_PLACE, (target.space, target.owner.digest)).fetchone()
    if row is None:
        return None
    _check_path(row[0], target.owner)
    scope = find_scope(connection, target.scope) if target.narrowed else None
    if row[1] is None or (target.narrowed and scope is None):
        return None
    return Place(int(row[1]), scope)


_PLACE = """
SELECT s.path, p.id FROM scopes s LEFT JOIN partitions p ON p.scope_id = s.id AND p.space = ?
WHERE s.digest = ?
"""


def drop_unused(connection: sqlite3.Connection, scope_ids: Iterable[int]) -> None:
    """Forget those of the scopes, and of their ancestors, that own nothing any more.

    Called after every delete, so that a deleted user's id is gone from the file as well.
    """
    for scope_id in scope_ids:
        current: int | None = scope_id
        while current is not None:
            connection.execute(
                "DELETE FROM partitions WHERE scope_id = ? AND NOT EXISTS "
                "(SELECT 1 FROM records r WHERE r.partition_id = partitions.id)",
                (current,),
            )
            row = connection.execute("SELECT parent_id FROM scopes WHERE id = ?", (current,)).fetchone()
            if row is None or not connection.execute(_DROP_SCOPE, (current,)).rowcount:
                break
            current = row[0]


_DROP_SCOPE = """
DELETE FROM scopes WHERE id = ?
  AND NOT EXISTS (SELECT 1 FROM records r WHERE r.scope_id = scopes.id)
  AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.scope_id = scopes.id)
  AND NOT EXISTS (SELECT 1 FROM stored_values v WHERE v.scope_id = scopes.id)
  AND NOT EXISTS (SELECT 1 FROM partitions p WHERE p.scope_id = scopes.id)
  AND NOT EXISTS (SELECT 1 FROM scopes c WHERE c.parent_id = scopes.id)
"""


def _inserted(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid
