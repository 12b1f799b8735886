"""sentence-transformers models (https://www.sbert.net), which run on PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memkit_core.embedders.loading import PerProcess
from memkit_core.embedders.options import checked_count, checked_flag, checked_text, revision_of
from memkit_core.embedders.texts import prefixes_of
from memkit_core.errors import MissingDependencyError
from memkit_core.locks import ThreadLock
from memkit_core.ports import Matrix, Vector

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MAX_CHARS = 65_536
"""Longer texts are cut here, before the model's own tokenizer cuts them to what the model reads."""


class SentenceTransformerEmbedder:
    """A model of sentence-transformers 5 or newer, from a folder or downloaded on first use.

    Queries and documents go through `encode_query` and `encode_document`, so that the prompts and
    routes saved with a model are used where memkit knows no prefix. Thread-safe: one call at a time,
    because the tokenizers inside are not.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str = "",
        device: str | None = None,
        cache_folder: str | None = None,
        local_files_only: bool = False,
        batch_size: int = 16,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            model: a name on the Hugging Face hub, or a folder.
            revision: commit, tag or branch on the hub; also part of the vectors' fingerprint.
            device: `"cpu"`, `"cuda"`, ...; PyTorch's choice when None.
            cache_folder: where downloads are kept, the hub's own place when None.
            local_files_only: never download.
            batch_size: texts of one forward pass.
            query_prefix: written before a query; None for what is known of the model (`PREFIXES`).
            document_prefix: the same for documents.

        Raises:
            ConfigError: an option is of the wrong type.
            MissingDependencyError: `sentence-transformers` is not installed.
        """
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingDependencyError("sentence-transformers", extra="torch") from error
        prefixes = prefixes_of(model, query=query_prefix, document=document_prefix)
        given = checked_text("revision", revision)
        self.model = f"sentence-transformers/{model}"
        self.revision = revision_of(revision=given, query=prefixes.query, document=prefixes.document)
        # None leaves the choice to the prompts that are saved with the model.
        known = bool(prefixes.query or prefixes.document)
        self._query_prompt = prefixes.query if known else None
        self._document_prompt = prefixes.document if known else None
        self._batch = checked_count("batch_size", batch_size, least=1)
        place = None if device is None else checked_text("device", device)
        cache = None if cache_folder is None else checked_text("cache_folder", cache_folder)
        offline = checked_flag("local_files_only", local_files_only)
        self._encoding = ThreadLock()
        self._loaded: PerProcess[SentenceTransformer] = PerProcess(
            lambda: SentenceTransformer(
                model,
                device=place,
                cache_folder=cache,
                revision=given or None,
                local_files_only=offline,
            ),
            model=self.model,
            survives_fork=False,
        )

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`."""
        if not texts:
            return np.zeros((0, 0), np.float32)
        model = self._loaded.get()
        with self._encoding:
            rows = model.encode_document(
                [text[:MAX_CHARS] for text in texts],
                prompt=self._document_prompt,
                batch_size=self._batch,
                show_progress_bar=False,
            )
        return np.asarray(rows, np.float32)

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`."""
        model = self._loaded.get()
        with self._encoding:
            row = model.encode_query(
                text[:MAX_CHARS], prompt=self._query_prompt, batch_size=1, show_progress_bar=False
            )
        return np.asarray(row, np.float32)
