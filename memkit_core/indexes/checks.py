"""What every index checks itself, because the engines do not: lengths, NaN, zero vectors, scores."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from memkit_core.errors import BackendError, DimensionMismatchError
from memkit_core.ports import IndexHit, IndexPoint, Matrix, Vector

# Cosines of unit vectors exceed 1 by rounding; anything further, or NaN, is damage.
_COSINE_SLACK = 1e-3


def unit(vector: Vector) -> Vector:
    """The vector scaled to length 1; a zero vector stays zero."""
    scaled: Vector = unit_matrix(vector[np.newaxis])[0]
    return scaled


def unit_matrix(rows: Matrix) -> Matrix:
    """Each row scaled to length 1; a zero row stays zero."""
    # In double precision, where no square of a float32 is lost or infinite.
    exact = rows.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    scaled: Matrix = (exact / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled


def dots(rows: Matrix, vector: Vector) -> Vector:
    """Shape `(n,) float32`: the dot product of `vector` and each row.

    Row by row: for one matrix product BLAS wakes threads of its own, which on a busy machine wait for
    one another a hundred times longer than the product takes.
    """
    products: Vector = np.vecdot(rows, vector)
    return products


def unit_rows(points: Sequence[IndexPoint], dimension: int, *, backend: str) -> Matrix:
    """Shape `(n, dimension) float32`: the points' vectors at length 1, in their order.

    Raises:
        DimensionMismatchError: a vector has another length.
        BackendError: a vector is zero or not finite.
    """
    for point in points:
        if point.vector.shape != (dimension,):
            raise DimensionMismatchError(
                f"the index holds vectors of {dimension}, got shape {point.vector.shape}; re-embed with one model",
                backend=backend,
                operation="upsert",
            )
    vectors = np.array([point.vector for point in points], np.float32).reshape(len(points), dimension)
    if not np.isfinite(vectors).all() or not vectors.any(axis=-1).all():
        raise BackendError("a vector is zero or not finite", backend=backend, operation="upsert")
    return unit_matrix(vectors)


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


def checked_hit(point_id: UUID, cosine: float, *, backend: str) -> IndexHit:
    """A hit whose cosine is in [-1, 1].

    Raises:
        BackendError: the score is no cosine; what the index holds is damaged.
    """
    if not abs(cosine) <= 1 + _COSINE_SLACK:
        raise BackendError(
            f"a score of {cosine} is no cosine; the index is damaged", backend=backend, operation="search"
        )
    return IndexHit(point_id=point_id, cosine=min(1.0, max(-1.0, cosine)))
