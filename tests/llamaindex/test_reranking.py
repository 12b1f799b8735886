"""I1, C4: rerankers between LlamaIndex and memkit."""

import pytest
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import ValidationError

from llamaindex_memkit import MemkitPostprocessor, postprocessor_reranker
from memkit_core import InvalidInputError, Memory, Scope

ALICE = Scope.user("alice")


def by_length(_query, texts):
    return [float(len(text)) for text in texts]


class Longest(BaseNodePostprocessor):
    """Keeps the two longest nodes, the longest first."""

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return sorted(nodes, key=lambda node: -len(node.text))[:2]


class Rewriting(BaseNodePostprocessor):
    """Gives back nodes of its own."""

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [NodeWithScore(node=TextNode(text="something else"))]


def nodes_of(*texts):
    return [NodeWithScore(node=TextNode(text=text), score=0.5) for text in texts]


def test_a_postprocessor_orders_nodes():
    """The best come first with the reranker's scores; what was given stays as it was."""
    given = nodes_of("a", "ccc", "bb")
    found = MemkitPostprocessor(reranker=by_length, top_n=2).postprocess_nodes(given, query_str="q")
    assert [(node.text, node.score) for node in found] == [("ccc", 3.0), ("bb", 2.0)]
    assert [node.score for node in given] == [0.5] * 3
    assert MemkitPostprocessor(reranker=by_length).postprocess_nodes([], query_str="q") == []


@pytest.mark.parametrize("wrong", [{"top_n": 0}, {"top_n": -1}, {"topn": 2}], ids=str)
def test_a_number_of_nodes_that_means_nothing(wrong):
    """A `top_n` below 1 and a misspelt one are refused: neither cuts from the end nor returns all."""
    with pytest.raises(ValidationError):
        MemkitPostprocessor(reranker=by_length, **wrong)


async def test_the_async_form():
    """`apostprocess_nodes` gives the same."""
    post = MemkitPostprocessor(reranker=by_length)
    found = await post.apostprocess_nodes(nodes_of("a", "bb"), query_str="q")
    assert [node.text for node in found] == ["bb", "a"]


def test_a_postprocessor_reranks_a_recall(tmp_path):
    """Its order decides; what it drops comes last."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add_many(["tea", "tea with milk", "tea with milk and sugar"], scope=ALICE)
        found = memory.recall("tea", scope=ALICE, reranker=postprocessor_reranker(Longest()))
        assert [hit.record.content for hit in found] == ["tea with milk and sugar", "tea with milk", "tea"]
        changed = memory.recall("tea", scope=ALICE, reranker=postprocessor_reranker(Rewriting()))
        assert changed.missing == {"reranker"}


def test_what_is_none():
    """Anything else is refused where it is given, and a postprocessor needs the query."""
    with pytest.raises(InvalidInputError, match="BaseNodePostprocessor"):
        postprocessor_reranker(by_length)
    with pytest.raises(ValueError, match="reranker"):
        MemkitPostprocessor(reranker=5)
    with pytest.raises(InvalidInputError, match="query"):
        MemkitPostprocessor(reranker=by_length).postprocess_nodes(nodes_of("a"))
