"""H2, C4: rerankers between LangChain and memkit."""

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ValidationError

from langchain_memkit import MemkitDocumentCompressor, compressor_reranker
from memkit_core import InvalidInputError, Memory, ModelError, Scope

ALICE = Scope.user("alice")


def by_length(_query, texts):
    return [float(len(text)) for text in texts]


class Longest(BaseDocumentCompressor):
    """Keeps the two longest documents, the longest first."""

    def compress_documents(self, documents, query, callbacks=None):
        return sorted(documents, key=lambda document: -len(document.page_content))[:2]


class Rewriting(BaseDocumentCompressor):
    """Gives back documents of its own."""

    def compress_documents(self, documents, query, callbacks=None):
        return [Document(page_content="something else")]


def test_a_compressor_orders_documents():
    """The best come first, as copies that carry the score; what was given stays as it was."""
    given = [Document(page_content=text, metadata={"n": text}) for text in ("a", "ccc", "bb")]
    found = MemkitDocumentCompressor(reranker=by_length, top_n=2).compress_documents(given, "q")
    assert [(document.page_content, document.metadata) for document in found] == [
        ("ccc", {"n": "ccc", "memkit_rerank": 3.0}),
        ("bb", {"n": "bb", "memkit_rerank": 2.0}),
    ]
    assert given[1].metadata == {"n": "ccc"}
    assert MemkitDocumentCompressor(reranker=by_length).compress_documents([], "q") == []


def test_any_iterable_of_documents():
    """A generator of documents is ordered like a list."""
    given = (Document(page_content=text) for text in ("a", "bb"))
    found = MemkitDocumentCompressor(reranker=by_length).compress_documents(given, "q")
    assert [document.page_content for document in found] == ["bb", "a"]


@pytest.mark.parametrize("wrong", [{"top_n": 0}, {"top_n": -1}, {"topn": 2}], ids=str)
def test_a_number_of_documents_that_means_nothing(wrong):
    """A `top_n` below 1 and a misspelt one are refused: neither cuts from the end nor returns all."""
    with pytest.raises(ValidationError):
        MemkitDocumentCompressor(reranker=by_length, **wrong)


async def test_the_async_form():
    """`acompress_documents` gives the same."""
    given = [Document(page_content=text) for text in ("a", "bb")]
    compressor = MemkitDocumentCompressor(reranker=by_length)
    assert await compressor.acompress_documents(given, "q") == compressor.compress_documents(given, "q")


def test_a_langchain_compressor_reranks_a_recall(tmp_path):
    """Its order decides; what it drops comes last."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add_many(["tea", "tea with milk", "tea with milk and sugar"], scope=ALICE)
        found = memory.recall("tea", scope=ALICE, reranker=compressor_reranker(Longest()))
        assert [hit.record.content for hit in found] == ["tea with milk and sugar", "tea with milk", "tea"]
        assert found[-1].signals.rerank == 0
        changed = memory.recall("tea", scope=ALICE, reranker=compressor_reranker(Rewriting()))
        assert changed.missing == {"reranker"}


def test_what_is_none():
    """Anything else is refused where it is given."""
    with pytest.raises(InvalidInputError, match="BaseDocumentCompressor"):
        compressor_reranker(by_length)
    with pytest.raises(ValueError, match="reranker"):
        MemkitDocumentCompressor(reranker=5)
    with pytest.raises(ModelError):
        MemkitDocumentCompressor(reranker=lambda _q, _t: []).compress_documents(
            [Document(page_content="x")], "q"
        )
