"""What every store checks before it writes."""

from __future__ import annotations

from collections.abc import Sequence

from memkit_core.errors import ConflictError, DimensionMismatchError, InvalidInputError, ScopeError
from memkit_core.models import MemoryRecord, StoredValue, Target
from memkit_core.ports import Matrix, VectorSpace
from memkit_core.scope import Scope


def check_scopes(scope: Scope, records: Sequence[MemoryRecord]) -> None:
    """Refuse records of another scope than the one the caller named."""
    for record in records:
        if record.scope != scope:
            raise ScopeError(f"put: record {record.id!r} is of {record.scope}, the call is about {scope}")


def check_version(old: StoredValue | None, expected_version: int | None, *, key: str) -> None:
    """Refuse to replace a value that is not of the version the caller has seen; 0 means none."""
    found = 0 if old is None else old.version
    if expected_version is not None and expected_version != found:
        raise ConflictError(
            f"{key!r} has version {found}, expected was {expected_version}; read it again and decide"
        )


def check_vectors(vectors: Matrix, space: VectorSpace | None, *, backend: str) -> None:
    """Refuse vectors of another length than the space in use, or vectors before there is one."""
    if space is None or vectors.shape[1:] != (space.dimension,):
        expected = (
            "no vector space is in use yet"
            if space is None
            else f"the space has {space.dimension} dimensions"
        )
        raise DimensionMismatchError(
            f"{expected}, got vectors of shape {vectors.shape}", backend=backend, operation="save vectors"
        )


def other_model(space: VectorSpace, *, model: str, revision: str, dimension: int | None = None) -> str:
    """Why vectors of `model` cannot join those of `space`, and what to do."""
    length = "" if dimension is None else f"{dimension} dimensions, "
    return (
        f"this store holds vectors of {space.model!r} ({space.dimension} dimensions, revision "
        f"{space.revision!r}), the memory was opened with {model!r} ({length}revision {revision!r}); open it with the "
        "embedder it was made with, or have it embedded anew: memkit reembed --embedder provider:model, or "
        "memory.upkeep.reembed(embedder=...) of a memory opened with embedder='none'"
    )


def not_coming(space: VectorSpace) -> str:
    """Why `space` cannot take the place of the one in use."""
    return (
        f"the re-embedding with {space.model!r} was given up for another model; run it again if it is that "
        "model you want"
    )


def other_space(target: Target, *, held: VectorSpace | None, given: VectorSpace | None) -> str:
    """Why rows of `target` cannot have vectors of `given`, and what to do."""
    return (
        f"{target.space!r} of {target.scope} holds {_named(held)}, this write is about {_named(given)}; write "
        "and search it with the model it was made with, or clear it first"
    )


def _named(space: VectorSpace | None) -> str:
    if space is None:
        return "vectors of the memory's own embedder"
    return f"vectors of {space.model!r} ({space.dimension} dimensions, revision {space.revision!r})"


def checked_given(
    records: Sequence[MemoryRecord], space: VectorSpace | None, vectors: Matrix | None, *, backend: str
) -> None:
    """Refuse vectors that come with records before there is a space, of another length, or not one for each."""
    if vectors is None:
        return
    check_vectors(vectors, space, backend=backend)
    if len(vectors) != len(records):
        raise InvalidInputError(
            f"put: {len(records)} records came with {len(vectors)} vectors; give one each"
        )
