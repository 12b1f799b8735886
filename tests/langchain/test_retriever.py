"""`MemkitRetriever`: what it returns, copies of it, and a RAG chain over it."""

import copy
import json
import logging
import pickle
from datetime import UTC, datetime

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate, format_document
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

from langchain_memkit import MemkitRetriever
from memkit_core import (
    InvalidInputError,
    Memory,
    Ranking,
    RecordType,
    Scope,
)


def contents(documents):
    return [document.page_content for document in documents]


# ------------------------------------------------------------------ answers


def test_returns_what_is_remembered_best_first(retriever, filled, alice):
    """H2: the documents are the hits of `recall`, in its order, memories and turns."""
    hits = filled.recall("who drinks green tea", scope=alice, top_k=5, include_messages=True)
    documents = retriever.invoke("who drinks green tea")
    assert contents(documents) == [hit.record.content for hit in hits]
    assert [document.id for document in documents] == [hit.record.id for hit in hits]
    assert [document.metadata["memkit_score"] for document in documents] == [hit.score for hit in hits]
    assert documents[0].page_content == "Alice drinks green tea in the morning"
    assert len(documents) == 3


async def test_the_async_form_answers_the_same(retriever):
    """H2: ainvoke, batch and abatch equal invoke."""
    expected = retriever.invoke("tea")
    assert await retriever.ainvoke("tea") == expected
    assert retriever.batch(["tea", "tea"]) == [expected, expected]
    assert await retriever.abatch(["tea"]) == [expected]
    assert await retriever.ainvoke("tea", k=1) == retriever.invoke("tea", k=1) == expected[:1]


def test_k_can_be_given_when_built_and_per_call(retriever, filled, alice):
    """H2: `k` of the call wins over the one of the retriever; both are at least 1."""
    assert len(MemkitRetriever(memory=filled, scope=alice, k=1).invoke("tea")) == 1
    assert len(retriever.invoke("tea", k=2)) == 2
    with pytest.raises(InvalidInputError, match="top_k"):
        retriever.invoke("tea", k=0)
    with pytest.raises(ValidationError):
        MemkitRetriever(memory=filled, scope=alice, k=0)


@pytest.mark.parametrize("query", ["", "   ", "\n"])
def test_a_blank_query_finds_nothing(retriever, query):
    """C1: a blank query recalls nothing."""
    assert retriever.invoke(query) == []


@pytest.mark.parametrize("query", ["half \ud83d", "nul\0", "' OR 1=1 --", '"', "*", "🦉" * 500])
def test_no_character_of_a_query_is_special(retriever, query):
    """C9, B27: a query is text; no character of it raises or widens the answer."""
    assert all("Bob" not in content for content in contents(retriever.invoke(query)))


def test_options_reach_recall(filled, alice):
    """H2: types, filters, include_messages and ranking are honoured."""

    def ask(**options):
        return contents(MemkitRetriever(memory=filled, scope=alice, **options).invoke("tea"))

    assert ask(types=["preference"]) == ["Alice prefers tea over coffee"]
    assert ask(types=[RecordType.PREFERENCE]) == ["Alice prefers tea over coffee"]
    assert "I bought tea in Taipei" not in ask(include_messages=False)
    assert ask(filters={"tags": {"contains": "diet"}}) == ["Alice drinks green tea in the morning"]
    keyword_only = MemkitRetriever(memory=filled, scope=alice, ranking=Ranking(dense=0)).invoke("tea")
    assert {document.metadata["memkit_similarity"] for document in keyword_only} == {None}
    with pytest.raises(InvalidInputError, match="types"):
        ask(types=["facts"])


# ------------------------------------------------------------------ documents


def test_metadata_is_the_records_own_beside_ours(memory, alice):
    """H2: the user's keys stay theirs, ours are prefixed, and the whole is JSON."""
    said = datetime(2026, 5, 1, tzinfo=UTC)
    free = {"source": "mail", "id": "theirs", "score": "high", "deep": {"a": [1, None]}}
    record = memory.add("Owls hunt at night", scope=alice, metadata=free, tags=["Birds"], occurred_at=said)
    [document] = MemkitRetriever(memory=memory, scope=alice).invoke("owls")
    ours = {key: value for key, value in document.metadata.items() if key.startswith("memkit_")}
    assert {key: value for key, value in document.metadata.items() if key not in ours} == free
    score, similarity = ours.pop("memkit_score"), ours.pop("memkit_similarity")
    assert 0 < score <= 1
    assert 0 <= similarity <= 1
    assert ours == {
        "memkit_id": record.id,
        "memkit_scope": "user:alice",
        "memkit_space": "memories",
        "memkit_type": "fact",
        "memkit_tags": ["birds"],
        "memkit_created_at": "2026-05-04T12:00:00+00:00",
        "memkit_occurred_at": "2026-05-01T00:00:00+00:00",
        "memkit_missing": [],
    }
    assert json.loads(json.dumps(document.metadata)) == document.metadata


def test_a_users_key_with_our_prefix_is_moved_not_lost(memory, alice):
    """H2: metadata cannot pose as a field of ours; it stands under `memkit_metadata`."""
    memory.add("Owls hunt", scope=alice, metadata={"memkit_scope": "user:bob", "memkit_x": 1, "memkit": 2})
    [document] = MemkitRetriever(memory=memory, scope=alice).invoke("owls")
    assert document.metadata["memkit_scope"] == "user:alice"
    assert document.metadata["memkit_metadata"] == {"memkit_scope": "user:bob", "memkit_x": 1}
    assert document.metadata["memkit"] == 2


def test_a_turn_says_who_said_it_in_which_session(retriever):
    """D2: documents of conversation turns carry session and speaker."""
    [turn] = [d for d in retriever.invoke("Taipei") if d.metadata["memkit_space"] == "messages"]
    assert turn.page_content == "I bought tea in Taipei"
    assert turn.metadata["memkit_session_id"] == "s1"
    assert turn.metadata["memkit_speaker"] == "Alice"
    assert turn.metadata["memkit_scope"] == "user:alice/session:s1"


def test_changing_a_document_changes_nothing_that_is_stored(retriever):
    """H2: documents are copies."""
    first = retriever.invoke("green tea")[0]
    first.metadata["pet"]["kind"] = "cat"
    first.metadata["memkit_tags"].append("x")
    again = retriever.invoke("green tea")[0]
    assert again.metadata["pet"] == {"kind": "owl"}
    assert again.metadata["memkit_tags"] == ["diet"]


def test_documents_of_one_answer_never_share_an_id(memory, alice):
    """A0: an id is unique in one scope and space only; hits that share it get the ids of their points."""
    lab = Scope.workspace("lab")
    for scope, text in ((alice, "owls of alice"), (lab, "owls of the lab")):
        memory.add(text, scope=scope, id="same")
    memory.add("owls alone", scope=alice, id="other")
    documents = MemkitRetriever(memory=memory, scope=[alice, lab]).invoke("owls")
    assert len({document.id for document in documents}) == 3
    assert {document.metadata["memkit_id"] for document in documents} == {"same", "other"}
    points = {str(memory.get("same", scope=scope).point_id) for scope in (alice, lab)}
    assert {document.id for document in documents} == points | {"other"}
    assert {document.metadata["memkit_scope"] for document in documents} == {"user:alice", "workspace:lab"}


def test_metadata_can_be_used_in_a_document_prompt(retriever):
    """H2: the keys are names that a LangChain template can refer to."""
    prompt = PromptTemplate.from_template("{page_content} ({memkit_scope})")
    document = retriever.invoke("green tea")[0]
    assert format_document(document, prompt) == "Alice drinks green tea in the morning (user:alice)"


class Failing(DeterministicFakeEmbedding):
    """An embedding model that works until a test breaks it."""

    broken: bool = False

    def embed_query(self, text):
        if self.broken:
            raise ConnectionError("model is down")
        return super().embed_query(text)


def test_a_degraded_answer_says_so(tmp_path, alice, caplog):
    """C5: when the model is down the keyword leg answers; each document and the log say what was missing."""
    embedder = Failing(size=8)
    with Memory.open(tmp_path / "m.db", embedder=embedder, embedding_model="fake") as memory:
        memory.add("Owls hunt at night", scope=alice)
        retriever = MemkitRetriever(memory=memory, scope=alice)
        assert retriever.invoke("owls")[0].metadata["memkit_missing"] == []
        embedder.broken = True
        with caplog.at_level(logging.WARNING, logger="memkit.langchain"):
            [document] = retriever.invoke("owls at night")
            assert document.metadata["memkit_missing"] == ["dense"]
            assert document.metadata["memkit_similarity"] is None
            assert retriever.invoke("zebra") == []
    ours = [record.getMessage() for record in caplog.records if record.name == "memkit.langchain"]
    assert ours == ["retriever: the answer is degraded, missing: dense"] * 2


# ------------------------------------------------------------------ copies, chains, tools


def test_copies_share_the_memory_and_pickles_reopen_it(retriever):
    """B71: copy, deepcopy, model_copy and pickle give a retriever that answers the same."""
    expected = contents(retriever.invoke("tea"))
    for twin in (copy.copy(retriever), copy.deepcopy(retriever), retriever.model_copy(deep=True)):
        assert twin.memory is retriever.memory
        assert contents(twin.invoke("tea")) == expected
    reopened = pickle.loads(pickle.dumps(retriever))
    try:
        assert contents(reopened.invoke("tea")) == expected
    finally:
        reopened.memory.close()
    assert contents(retriever.invoke("tea")) == expected


def test_the_memory_is_in_no_dump(retriever):
    """H2: dumps and reprs hold no live handle."""
    assert "memory" not in retriever.model_dump()
    assert "memory=" not in repr(retriever)


async def test_a_rag_chain_answers_from_memory(retriever, scripted):
    """H2: prompt, model and parser over the retriever, sync, async and streamed."""
    seen = []

    def joined(documents):
        seen.append(contents(documents))
        return "\n".join(contents(documents))

    prompt = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | prompt
        | scripted("Green tea.", "Green tea.", "Green tea.")
        | StrOutputParser()
    )
    assert chain.invoke("What does Alice drink?") == "Green tea."
    assert await chain.ainvoke("What does Alice drink?") == "Green tea."
    assert "".join([part async for part in chain.astream("What does Alice drink?")]) == "Green tea."
    assert len(seen) == 3
    assert all("Alice drinks green tea in the morning" in context for context in seen)


def test_a_retriever_tool_can_be_made_of_it(retriever):
    """H2: LangChain's own `create_retriever_tool` works on it unchanged."""
    tool = create_retriever_tool(retriever, "recall", "What is known of the user")
    assert "Alice drinks green tea in the morning" in tool.invoke({"query": "green tea"})
