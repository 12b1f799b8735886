"""The built-in embedder: WordLlama's 256-dimensional weights, offline, no model server.

The weights come in the `wordllama` wheel; the package itself is never imported, because importing it
sets up logging and its padding needs gigabytes for one long text in a batch. Mean pooling here is
per text and gives the same numbers (Miller, https://github.com/dleemiller/WordLlama).
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memkit_core.errors import ConfigError, MissingDependencyError, ModelError, shown
from memkit_core.locks import ThreadLock
from memkit_core.ports import Matrix, Vector
from memkit_core.sequences import chunked

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "l2_supercat_256"
MODEL = f"wordllama/{NAME}"
_WEIGHTS = Path("weights") / "l2_supercat_256.safetensors"
_TOKENIZER = Path("tokenizers") / "l2_supercat_tokenizer_config.json"

_WORD_DIMENSIONS = 128
_WORDS_TOGETHER = 1000
_SPACE = "\u2581"
"""What stands for the space before a word."""

# Longer texts are tokenized in slices: an encoding costs some hundred bytes a character.
_SLICE_CHARS = 32_768


class WordLlamaEmbedder:
    """256 dimensions, about 0.06 ms a text, English first. Thread-safe; loads on first use (33 MB)."""

    model = MODEL
    revision = "mean-1"
    fast = True

    def __init__(self, model: str = NAME) -> None:
        """Nothing is loaded yet.

        Raises:
            ConfigError: `model` is not the one in the wheel.
        """
        if model != NAME:
            raise ConfigError(f"wordllama has no model {shown(model)}; it has {NAME}")
        self._mutex = ThreadLock()
        self._loaded: tuple[NDArray[np.float32], Tokenizer] | None = None
        self._begins: NDArray[np.bool_] | None = None

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`: shape `(n, 256) float32`, not scaled to length 1."""
        weights, _ = self._load()
        rows = [self._embed(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, weights.shape[1]), np.float32)

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`: shape `(256,) float32`."""
        return self._embed(text)

    def knows(self, text: str) -> float:
        """See `CheckedEmbedder.knows`: the share of the letters that stand in pieces of two letters or more.

        Of Chinese and other scripts that its tokenizer hardly has, it sees single characters or bytes.
        """
        if text.isascii():
            return 1.0
        _, tokenizer = self._load()
        letters = sum(map(str.isalpha, text))
        known = 0
        for start in range(0, len(text), _SLICE_CHARS):
            encoding = tokenizer.encode(text[start : start + _SLICE_CHARS], add_special_tokens=False)
            # A byte of a character stands as <0x..>, which is no letter.
            counts = (
                sum(map(str.isalpha, piece)) for piece in encoding.tokens if not piece.startswith("<0x")
            )
            known += sum(count for count in counts if count > 1)
        return min(known / letters, 1.0) if letters else 1.0

    def embed_words(self, words: Sequence[str]) -> Matrix:
        """See `WordEmbedder.embed_words`: shape `(n, 128) float32`.

        The first half of a vector is one too (trained so: Kusupati et al., "Matryoshka Representation Learning",
        NeurIPS 2022); it tells words as well apart in half the time.
        """
        weights, tokenizer = self._load()
        rows = np.zeros((len(words), _WORD_DIMENSIONS), np.float32)
        plain = [number for number, word in enumerate(words) if word.isascii() and word.isalpha()]
        for chunk in chunked(plain, _WORDS_TOGETHER):
            # One text of many words is tokenized as each of them alone, in a fraction of the time.
            encoding = tokenizer.encode(
                " ".join([words[number] for number in chunk]), add_special_tokens=False
            )
            ids = np.array(encoding.ids)
            starts = np.flatnonzero(self._begins_word()[ids])
            pieces = np.diff(starts, append=len(ids))[:, np.newaxis]
            sums = np.add.reduceat(weights.take(ids, axis=0)[:, :_WORD_DIMENSIONS], starts, axis=0)
            rows[chunk] = sums / pieces
        for number in set(range(len(words))).difference(plain):
            if self.knows(words[number]) == 1:
                rows[number] = self._embed(words[number])[:_WORD_DIMENSIONS]
        return rows

    def _embed(self, text: str) -> Vector:
        weights, tokenizer = self._load()
        total = np.zeros(weights.shape[1], np.float32)
        tokens = 0
        for start in range(0, len(text), _SLICE_CHARS):
            ids = tokenizer.encode(text[start : start + _SLICE_CHARS], add_special_tokens=False).ids
            if ids:
                total += np.add.reduce(weights.take(ids, axis=0, mode="clip"), axis=0)
                tokens += len(ids)
        return total / np.float32(max(tokens, 1))

    def _begins_word(self) -> NDArray[np.bool_]:
        """By token, whether a word begins with it."""
        if self._begins is None:
            _, tokenizer = self._load()
            tokens = map(tokenizer.id_to_token, range(tokenizer.get_vocab_size()))
            self._begins = np.array([token is not None and token.startswith(_SPACE) for token in tokens])
        return self._begins

    def _load(self) -> tuple[NDArray[np.float32], Tokenizer]:
        if self._loaded is None:
            with self._mutex:
                if self._loaded is None:
                    self._loaded = _read(_folder())
        return self._loaded


def _folder() -> Path:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError("wordllama (the weights of the default embedder)", extra=None)
    return Path(spec.submodule_search_locations[0])


@functools.lru_cache(maxsize=1)
def _read(folder: Path) -> tuple[NDArray[np.float32], Tokenizer]:
    try:
        from safetensors import safe_open
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingDependencyError("safetensors or tokenizers", extra=None) from error
    for needed in (folder / _WEIGHTS, folder / _TOKENIZER):
        if not needed.is_file():
            raise ModelError(
                f"{needed.name} is not in the installed wordllama package; run: "
                "pip install --force-reinstall 'wordllama==0.2.2.post0'",
                model=MODEL,
            )
    with safe_open(str(folder / _WEIGHTS), framework="np") as tensors:
        # Twice the memory of the file's float16, and half the time of converting them for each text.
        weights: NDArray[np.float32] = tensors.get_tensor("embedding.weight").astype(np.float32)
    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return weights, tokenizer
