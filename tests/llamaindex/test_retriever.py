"""What `MemkitRetriever` promises to LlamaIndex's engines."""

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import MetadataMode

from llamaindex_memkit import MemkitRetriever
from memkit_core import Scope, ScopeError

ALICE, BOB = Scope.user("alice"), Scope.user("bob")


@pytest.fixture
def filled(memory):
    memory.add(
        "The owl is called Pip.", scope=ALICE, id="1", tags=["pet"], metadata={"page": 3, "scope": "x"}
    )
    memory.add("The owl eats mice.", scope=Scope.object("book"), id="1")
    memory.add("Bob's owl is called Hugo.", scope=BOB, id="1")
    memory.flush()
    return memory


def test_nodes(filled):
    """Nodes carry the text, an id of their own, the similarity and the record's metadata."""
    [found] = MemkitRetriever(memory=filled, scope=ALICE).retrieve("what is the owl called?")
    record = filled.get("1", scope=ALICE)
    assert found.node.node_id == str(record.point_id)
    assert found.node.get_content(MetadataMode.LLM) == "The owl is called Pip."
    assert found.node.get_content(MetadataMode.EMBED) == "The owl is called Pip."
    assert found.node.metadata["page"] == 3
    assert found.node.metadata["scope"] == "x"
    assert found.node.metadata["memkit_id"] == "1"
    assert found.node.metadata["memkit_scope"] == "user:alice"
    assert found.node.metadata["memkit_tags"] == ["pet"]
    assert found.node.metadata["memkit_missing"] == []
    [hit] = filled.recall("what is the owl called?", scope=ALICE)
    assert found.score == pytest.approx(hit.signals.similarity)
    assert 0 <= found.score <= 1


def test_same_record_id_in_two_scopes(filled):
    """Two records with one id in two scopes are two nodes; nobody else's is among them."""
    retriever = MemkitRetriever(memory=filled, scope=[ALICE, Scope.object("book")])
    texts = {found.node.text for found in retriever.retrieve("owl")}
    assert texts == {"The owl is called Pip.", "The owl eats mice."}


def test_settings(filled, chat):
    """`top_k`, filters, types and conversation turns work as in `Memory.recall`."""
    chat().put(ChatMessage(role="user", content="my owl is fond of rain"))
    filled.add("The owl sleeps by day.", scope=ALICE, type="profile")

    def texts(**settings):
        return {f.node.text for f in MemkitRetriever(memory=filled, scope=ALICE, **settings).retrieve("owl")}

    assert len(texts(top_k=1)) == 1
    assert texts(types=["profile"]) == {"The owl sleeps by day."}
    assert texts(filters={"metadata.page": 3}) == {"The owl is called Pip."}
    assert texts(include_messages=False) == {"The owl is called Pip.", "The owl sleeps by day."}
    assert "my owl is fond of rain" in texts()


def test_a_record_without_a_keyword_or_dense_hit_still_has_a_score(filled):
    """What only the keywords found is compared as well: a threshold never drops it for want of a number."""
    filled.add_many([f"Mice run over field number {n}." for n in range(150)], scope=ALICE)
    code = filled.add("POL-358 is the policy.", scope=ALICE)
    found = MemkitRetriever(memory=filled, scope=ALICE, top_k=3).retrieve("POL-358")
    assert found[0].node.node_id == str(code.point_id)
    assert all(one.score is not None for one in found)


async def test_async(filled):
    """The async form finds the same."""
    retriever = MemkitRetriever(memory=filled, scope=ALICE)
    found = await retriever.aretrieve("owl")
    assert [one.node.node_id for one in found] == [one.node.node_id for one in retriever.retrieve("owl")]


@pytest.mark.parametrize("scope", [None, "alice", [ALICE, "bob"]])
def test_scope_is_required(memory, scope):
    """A scope that is missing or no scope is refused when the retriever is made."""
    with pytest.raises(ScopeError):
        MemkitRetriever(memory=memory, scope=scope)
