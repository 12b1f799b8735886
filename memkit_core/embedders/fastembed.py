"""fastembed's ONNX and static models (https://github.com/qdrant/fastembed)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memkit_core.embedders.loading import PerProcess
from memkit_core.embedders.options import checked_count, checked_text, revision_of
from memkit_core.embedders.texts import prefixes_of
from memkit_core.errors import ConfigError, MissingDependencyError, shown
from memkit_core.ports import Matrix, Vector

if TYPE_CHECKING:
    from fastembed import TextEmbedding

MAX_CHARS = 65_536
"""Longer texts are cut here: no model of fastembed reads more than 8,192 tokens."""

# Attention takes batch x heads x tokens² floats: 256 texts, fastembed's own size, are gigabytes.
_BATCH = 16


class FastEmbedEmbedder:
    """A text model of fastembed. Thread-safe; downloaded, unless `path` is given, on first use.

    Texts longer than the model reads are cut by its own tokenizer.
    """

    def __init__(
        self,
        model: str,
        *,
        path: str | None = None,
        cache_dir: str | None = None,
        threads: int | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        revision: str = "",
    ) -> None:
        """Nothing is loaded yet.

        Args:
            model: a name of `TextEmbedding.list_supported_models()`, any case.
            path: a folder with the model's files; nothing is downloaded then.
            cache_dir: where downloads are kept, fastembed's own place when None.
            threads: of one ONNX session, all cores when None.
            query_prefix: written before a query; None for what is known of the model (`PREFIXES`).
            document_prefix: the same for documents.
            revision: names other weights under the same model name, such as those of `path`.

        Raises:
            ConfigError: fastembed has no such model, or an option is of the wrong type.
            MissingDependencyError: `fastembed` is not installed.
        """
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise MissingDependencyError("fastembed", extra="fastembed") from error
        known = {found["model"].lower(): found for found in TextEmbedding.list_supported_models()}
        found = known.get(checked_text("model", model).lower())
        if found is None:
            raise ConfigError(
                f"fastembed has no model {shown(model)}; TextEmbedding.list_supported_models() names them, "
                "and TextEmbedding.add_custom_model adds one"
            )
        name: str = found["model"]
        self._prefixes = prefixes_of(name, query=query_prefix, document=document_prefix)
        self.model = f"fastembed/{name}"
        self.revision = revision_of(
            revision=checked_text("revision", revision),
            file=found["model_file"],
            query=self._prefixes.query,
            document=self._prefixes.document,
        )
        folder = None if path is None else checked_text("path", path)
        cache = None if cache_dir is None else checked_text("cache_dir", cache_dir)
        count = None if threads is None else checked_count("threads", threads, least=1)
        self._loaded: PerProcess[TextEmbedding] = PerProcess(
            lambda: TextEmbedding(
                model_name=name, cache_dir=cache, threads=count, specific_model_path=folder
            ),
            model=self.model,
            survives_fork=True,
        )

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`; length 1 for almost every model."""
        if not texts:
            return np.zeros((0, 0), np.float32)
        marked = [self._prefixes.document + text[:MAX_CHARS] for text in texts]
        return np.stack(list(self._loaded.get().passage_embed(marked, batch_size=_BATCH))).astype(np.float32)

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`."""
        marked = self._prefixes.query + text[:MAX_CHARS]
        return np.asarray(next(iter(self._loaded.get().query_embed(marked))), np.float32)
