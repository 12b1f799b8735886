"""What every index checks itself, because the engines do not: lengths, NaN, zero vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memkit_core.errors import BackendError, DimensionMismatchError
from memkit_core.ports import IndexPoint, Vector


def unit(vector: Vector) -> Vector:
    """The vector scaled to length 1; a zero vector stays zero."""
    length = float(np.linalg.norm(vector))
    return vector if length == 0.0 else (vector / np.float32(length)).astype(np.float32)


def checked_points(points: Sequence[IndexPoint], dimension: int, *, backend: str) -> Sequence[IndexPoint]:
    """`points` when every vector has the right length, is finite and not zero."""
    for point in points:
        if point.vector.shape != (dimension,):
            raise DimensionMismatchError(
                f"the index holds vectors of {dimension}, got shape {point.vector.shape}; re-embed with one model",
                backend=backend,
                operation="upsert",
            )
    vectors = np.array([point.vector for point in points]).reshape(len(points), dimension)
    if not np.isfinite(vectors).all() or not vectors.any(axis=-1).all():
        raise BackendError("a vector is zero or not finite", backend=backend, operation="upsert")
    return points


def checked_query(vector: Vector, dimension: int, *, backend: str) -> Vector | None:
    """The query vector at length 1, or None for a zero vector, which is near nothing."""
    if vector.shape != (dimension,):
        raise DimensionMismatchError(
            f"the index holds vectors of {dimension}, the query has shape {vector.shape}; "
            "query with the embedder the store was made with",
            backend=backend,
            operation="search",
        )
    if not np.isfinite(vector).all():
        raise BackendError("the query vector is not finite", backend=backend, operation="search")
    return unit(vector) if vector.any() else None
