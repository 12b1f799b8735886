"""Embedding a batch in which a text may be more than the model can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memkit_core.errors import MissingDependencyError, ModelError

if TYPE_CHECKING:
    from memkit_core.embedders.checked import CheckedEmbedder
    from memkit_core.ports import Vector

_SURELY_DOWN = 3
"""Texts of one batch that fail in a row before the model is taken to be down."""


def vectors_of(
    embedder: CheckedEmbedder, texts: Sequence[str]
) -> tuple[list[Vector | None], ModelError | MissingDependencyError | None]:
    """A vector for each text, None where embedding failed, and the last error."""
    try:
        return list(embedder.embed_documents(texts)), None
    except (ModelError, MissingDependencyError) as failure:
        if len(texts) == 1 or isinstance(failure, MissingDependencyError):
            return [None] * len(texts), failure
        error = failure
    # One bad text must not keep the others from their vectors; a model that is down must not be
    # asked for each of them.
    vectors: list[Vector | None] = []
    in_a_row = 0
    for text in texts:
        try:
            vectors.append(embedder.embed_documents([text])[0])
            in_a_row = 0
        except ModelError as failure:
            vectors.append(None)
            error, in_a_row = failure, in_a_row + 1
        if in_a_row == _SURELY_DOWN:
            break
    return vectors + [None] * (len(texts) - len(vectors)), error
