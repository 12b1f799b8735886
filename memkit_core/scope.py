"""Scopes: whose memory a record is. A scope is a value that no verb can be called without."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Self

from memkit_core.errors import ScopeError, shown

MAX_ID_CHARS = 4096
"""The longest scope or record id, in characters (spec A3)."""


class ScopeKind(enum.StrEnum):
    """The five kinds of owner, narrow to broad."""

    SESSION = "session"
    OBJECT = "object"
    USER = "user"
    WORKSPACE = "workspace"
    ORG = "org"

    @property
    def breadth(self) -> int:
        """0 for the narrowest kind, 4 for the broadest; used to order hits narrow first."""
        return list(ScopeKind).index(self)


_PARENTS: dict[ScopeKind, tuple[ScopeKind, ...]] = {
    ScopeKind.SESSION: (ScopeKind.USER,),
    ScopeKind.OBJECT: (ScopeKind.USER, ScopeKind.WORKSPACE, ScopeKind.ORG),
    ScopeKind.USER: (ScopeKind.WORKSPACE, ScopeKind.ORG),
    ScopeKind.WORKSPACE: (ScopeKind.ORG,),
    ScopeKind.ORG: (),
}


def id_problem(value: object) -> str | None:
    """Why `value` cannot be an id, or None when it can.

    An id is any non-empty `str` of at most 4,096 characters without NUL and without lone
    surrogates, taken as it is: `@ . / : _ % '`, spaces and emoji are legal, nothing is normalised.
    """
    if not isinstance(value, str):
        return f"must be a string, got {type(value).__name__} {shown(value)}"
    if not value:
        return "must not be empty"
    if len(value) > MAX_ID_CHARS:
        return f"must have at most {MAX_ID_CHARS} characters, got {len(value)}"
    if "\0" in value:
        return f"must not contain NUL, got {shown(value)}"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"must not contain lone surrogates, got {shown(value)}"
    return None


@dataclass(frozen=True, slots=True, repr=False)
class Scope:
    """Whose memory it is: a session of a user, a user, a workspace, an org or an object.

    Scopes are compared whole: `u1` is never `u10`, and a scope with a parent is another scope than
    the one without. Build them with `Scope.user("alice")`, `Scope.session("s1", user="alice")` and
    so on. Immutable and hashable.

    Attributes:
        kind: which of the five kinds.
        id: the owner's id, exactly as given.
        parent: the broader scope it belongs to; required for sessions (their user), else optional.
    """

    kind: ScopeKind
    id: str
    parent: Scope | None = None

    def __post_init__(self) -> None:
        """Refuse ids and parents that no store could tell apart."""
        try:
            kind = ScopeKind(self.kind)
        except ValueError:
            names = ", ".join(ScopeKind)
            raise ScopeError(f"scope kind must be one of {names}, got {shown(self.kind)}") from None
        object.__setattr__(self, "kind", kind)
        if problem := id_problem(self.id):
            raise ScopeError(f"{kind} id {problem}")
        # The text alone, as every store gives it back, also of a member of a str enum.
        object.__setattr__(self, "id", str.__str__(self.id))
        self._check_parent(kind)

    def _check_parent(self, kind: ScopeKind) -> None:
        if self.parent is None:
            if kind is ScopeKind.SESSION:
                raise ScopeError(
                    f"session {shown(self.id)} needs its user: Scope.session(id, user=...); "
                    "the same session id under two users is two scopes"
                )
            return
        if not isinstance(self.parent, Scope):
            raise ScopeError(f"parent of a {kind} must be a Scope, got {shown(self.parent)}")
        if self.parent.kind not in _PARENTS[kind]:
            allowed = " or ".join(_PARENTS[kind]) or "nothing"
            raise ScopeError(f"a {kind} can stand under {allowed}, not under {self.parent.kind}")

    @classmethod
    def session(cls, session_id: str, *, user: str | Scope) -> Self:
        """The scope of one session of one user; `user` is an id or a user scope with parents."""
        owner = user if isinstance(user, Scope) else Scope.user(user)
        return cls(ScopeKind.SESSION, session_id, owner)

    @classmethod
    def user(cls, user_id: str, *, workspace: str | Scope | None = None, org: str | None = None) -> Self:
        """The scope of one user, optionally inside a workspace and an org."""
        return cls(ScopeKind.USER, user_id, _within(workspace, org))

    @classmethod
    def workspace(cls, workspace_id: str, *, org: str | None = None) -> Self:
        """The scope of one workspace, optionally inside an org."""
        return cls(ScopeKind.WORKSPACE, workspace_id, _within(None, org))

    @classmethod
    def org(cls, org_id: str) -> Self:
        """The scope of one organisation."""
        return cls(ScopeKind.ORG, org_id)

    @classmethod
    def object(cls, object_id: str, *, within: Scope | None = None) -> Self:
        """The scope of a thing that is not a person: a ticket, a document, a repository."""
        return cls(ScopeKind.OBJECT, object_id, within)

    @property
    def path(self) -> tuple[tuple[str, str], ...]:
        """(kind, id) pairs from the broadest ancestor down to this scope."""
        own = ((str(self.kind), self.id),)
        return own if self.parent is None else self.parent.path + own

    @classmethod
    def from_path(cls, path: tuple[tuple[str, str], ...]) -> Scope:
        """The scope that `path` (broadest first) describes; the inverse of `path`."""
        scope: Scope | None = None
        for kind, owner in path:
            scope = Scope(ScopeKind(kind), owner, scope)
        if scope is None:
            raise ScopeError("an empty path describes no scope")
        return scope

    @property
    def digest(self) -> bytes:
        """16 bytes that stand for this scope in every store and index.

        BLAKE2b-128 over a length-prefixed encoding of `path`, so that no two scopes share one:
        ("a:b", "c") and ("a", "b:c") differ by construction, not by escaping.
        """
        return _digest(self.path)

    def __str__(self) -> str:
        """A readable form for people and logs, such as `user:alice/session:s1`. Not an identity."""
        return "/".join(f"{kind}:{owner}" for kind, owner in self.path)

    def __repr__(self) -> str:
        """The readable form inside `Scope(...)`."""
        return f"Scope({shown(str(self))[1:-1]})"


def _within(workspace: str | Scope | None, org: str | None) -> Scope | None:
    if isinstance(workspace, Scope):
        if org is not None:
            raise ScopeError("give the org inside the workspace scope, not beside it")
        return workspace
    parent = None if org is None else Scope.org(org)
    return parent if workspace is None else Scope(ScopeKind.WORKSPACE, workspace, parent)


@functools.lru_cache(maxsize=4096)
def _digest(path: tuple[tuple[str, str], ...]) -> bytes:
    # Here, because it loads OpenSSL, and importing memkit should be quick.
    import hashlib

    encoded = b"".join(
        len(part).to_bytes(4, "big") + part
        for kind, owner in path
        for part in (kind.encode(), owner.encode())
    )
    return hashlib.blake2b(encoded, digest_size=16, person=b"memkit.scope").digest()


def require_scope(value: object, *, verb: str) -> Scope:
    """`value` when it is a `Scope`, else a `ScopeError` that names the verb and shows the way."""
    if isinstance(value, Scope):
        return value
    if value is None:
        raise ScopeError(f"{verb}: scope is required, for example scope=Scope.user('alice')")
    raise ScopeError(
        f"{verb}: scope must be a Scope such as Scope.user('alice'), got "
        f"{type(value).__name__} {shown(value)}"
    )
