"""What stands for the model of a memory that is opened without it."""

from __future__ import annotations

from collections.abc import Sequence

from memkit_core.errors import ModelError
from memkit_core.ports import Matrix, Vector

NAME = "none"


class AbsentEmbedder:
    """Embeds nothing: recall answers by words, and new texts wait for a memory with the model."""

    def __init__(self, model: str = NAME, *, revision: str = "") -> None:
        """In the place of the model of this name and revision."""
        self.model, self.revision = model, revision

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """Raise `ModelError`."""
        raise self._error(f"{len(texts)} text(s)")

    def embed_query(self, text: str) -> Vector:  # noqa: ARG002 - the port's method
        """Raise `ModelError`."""
        raise self._error("a query")

    def _error(self, what: str) -> ModelError:
        return ModelError(
            f"{what} cannot be embedded: this memory was opened with embedder='none'", model=self.model
        )
