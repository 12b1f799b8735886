"""H2: `MemkitVectorStore`: how it is searched and scored, and as a retriever in a chain."""

import logging
import threading

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

from langchain_memkit import MemkitVectorStore
from memkit_core import DimensionMismatchError, InvalidInputError, SearchMode


def contents(documents):
    return [document.page_content for document in documents]


def scored(pairs):
    return [(document.page_content, score) for document, score in pairs]


# ------------------------------------------------------------------ scores


async def test_scores_are_similarities(angles):
    """B42, C1: identical is 1, 60 degrees .75, 90 degrees .5, opposite 0, best first; no vector, no hit."""
    expected = [("a", 1.0), ("c", 0.75), ("b", 0.5), ("z", 0.0)]
    assert scored(angles.similarity_search_with_score("a", k=9)) == expected
    assert scored(angles.similarity_search_with_relevance_scores("a", k=9)) == expected
    assert scored(await angles.asimilarity_search_with_score("a", k=9)) == expected
    assert scored(await angles.asimilarity_search_with_relevance_scores("a", k=9)) == expected
    assert scored(angles.similarity_search_with_score("a", k=2)) == expected[:2]
    assert angles.similarity_search_with_score("? nothing to embed", k=9) == []


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [(0.0, ["a", "c", "b", "z"]), (0.5, ["a", "c", "b"]), (0.75, ["a", "c"]), (0.99, ["a"]), (1.0, ["a"])],
)
async def test_a_threshold_keeps_the_best(angles, threshold, kept):
    """B42: `score_threshold` is applied once, keeps what is at least so alike, and keeps the order."""
    found = angles.similarity_search_with_relevance_scores("a", k=9, score_threshold=threshold)
    assert [document.page_content for document, _ in found] == kept
    retriever = angles.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"k": 9, "score_threshold": threshold}
    )
    assert contents(retriever.invoke("a")) == contents(await retriever.ainvoke("a")) == kept


async def test_search_by_vector(angles):
    """C10: a vector of the model's own finds what its text would; one of another length is an error."""
    assert contents(angles.similarity_search_by_vector([0, 2], k=2)) == ["b", "c"]
    assert contents(await angles.asimilarity_search_by_vector([1, 0], k=2)) == ["a", "c"]
    for search in (angles.similarity_search_by_vector, angles.max_marginal_relevance_search_by_vector):
        with pytest.raises(DimensionMismatchError):
            search([1, 0, 0])
        with pytest.raises(InvalidInputError):
            search([float("nan"), 0])
        assert search([0, 0]) == []


async def test_maximal_marginal_relevance(memory, alice, axes):
    """H2: the nearest comes first, then what is unlike it; lambda 1 orders by similarity alone."""
    store = MemkitVectorStore(memory=memory, scope=alice, embedding=axes)
    store.add_texts(["a", "a again", "c", "b", "?"])
    nearest = store.max_marginal_relevance_search("a", k=3, lambda_mult=1)
    assert nearest == store.similarity_search("a", k=3)
    diverse = store.max_marginal_relevance_search("a", k=2, lambda_mult=0)
    assert contents(diverse)[0][0] == "a"
    assert contents(diverse)[1] == "b"
    assert await store.amax_marginal_relevance_search("a", k=2, lambda_mult=0) == diverse
    assert store.max_marginal_relevance_search_by_vector([1, 0], k=2, lambda_mult=0) == diverse
    assert await store.amax_marginal_relevance_search_by_vector([1, 0], k=2, lambda_mult=0) == diverse
    assert contents(store.max_marginal_relevance_search("a", k=9, fetch_k=1)) == contents(
        store.max_marginal_relevance_search("a", k=9)
    )
    assert len(store.max_marginal_relevance_search("a", k=2, fetch_k=2, lambda_mult=0)) == 2
    assert store.max_marginal_relevance_search("? nothing", k=2) == []
    for bad in (
        {"k": 0},
        {"fetch_k": 0},
        {"k": "2"},
        {"lambda_mult": 2},
        {"lambda": 1},
        {"score_threshold": 0.5},
    ):
        with pytest.raises(InvalidInputError):
            store.max_marginal_relevance_search("a", **bad)


class Placed(Embeddings):
    """Puts each text at a given place, and every other near none of them."""

    model = "placed"

    def __init__(self, places):
        self._places = places
        self._random = np.random.default_rng(1)

    def embed_documents(self, texts):
        return [self._places.get(text, [0.0, 0.0, *self._random.normal(size=30)]) for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_hybrid_finds_identifiers_and_paraphrases(memory, alice):
    """B54: a code far away in vector space and a paraphrase without a shared word are both in the top 3."""
    code, paraphrase, query = "part ZX-9941 is in the shed", "the blue valve", "ZX-9941"
    forward = [1.0, 0.1, *[0.0] * 30]
    placed = Placed({query: forward, paraphrase: [1.0, 0.0, *[0.0] * 30], code: [-1.0, 0.0, *[0.0] * 30]})
    store = MemkitVectorStore(memory=memory, scope=alice, embedding=placed)
    store.add_texts([code, paraphrase, *(f"note number {i} about nothing" for i in range(198))])

    def found(mode):
        return contents(store.similarity_search(query, k=3, mode=mode))

    assert {code, paraphrase} <= set(found("hybrid"))
    assert found(SearchMode.KEYWORD) == [code]
    assert found("dense")[0] == paraphrase
    assert code not in found("dense")
    for mode in SearchMode:
        assert len(set(found(mode))) == len(found(mode)) <= 3
    assert len(found("hybrid")) == len(found("dense")) == 3
    with pytest.raises(InvalidInputError, match="mode"):
        found("best")


def test_words_answer_when_the_model_is_down(angles, axes, caplog):
    """C5: every search by text still answers, without a score, and the log says what was missing."""
    axes.down = True
    for search in (angles.similarity_search, angles.max_marginal_relevance_search):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="memkit.langchain"):
            assert contents(search("c")) == ["c"]
        ours = [record.getMessage() for record in caplog.records if record.name == "memkit.langchain"]
        assert ours == ["vector store: the answer is degraded, missing: dense"]
    assert scored(angles.similarity_search_with_score("c")) == [("c", 0.0)]
    assert contents(angles.similarity_search("c", mode="hybrid")) == ["c"]


@pytest.mark.parametrize(
    "query", ["", "   ", "half \ud83d", "nul\0", "' OR 1=1 --", '"', "*", "\N{OWL}" * 500]
)
def test_no_character_of_a_query_is_special(store, query):
    """C9: a query is any text; no character of it raises. What is no text does."""
    store.add_texts(["owl", "fox"])
    for mode in SearchMode:
        assert len(store.similarity_search(query, k=1, mode=mode)) <= 1
    assert len(store.max_marginal_relevance_search(query, k=1)) <= 1
    for search in (
        store.similarity_search,
        store.similarity_search_with_score,
        store.max_marginal_relevance_search,
    ):
        with pytest.raises(InvalidInputError):
            search(None)


# ------------------------------------------------------------------ unknown keywords


@pytest.mark.parametrize(
    "options",
    [
        {"filtr": {"n": 1}},
        {"filters": {"n": 1}},
        {"user_id": "bob"},
        {"scope": None},
        {"where": {}},
        {"k": 0},
    ],
)
async def test_no_keyword_is_swallowed(store, options):
    """B44: what a method does not know is a typed error, directly and through a retriever, async too."""
    store.add_texts(["owl"], [{"n": 2}])
    for search in (
        store.similarity_search,
        store.similarity_search_with_score,
        store.similarity_search_with_relevance_scores,
        store.max_marginal_relevance_search,
    ):
        with pytest.raises(InvalidInputError):
            search("owl", **options)
    with pytest.raises(InvalidInputError):
        store.similarity_search_by_vector([0.0] * 256, **options)
    with pytest.raises(InvalidInputError):
        await store.asimilarity_search("owl", **options)
    for kind in ("similarity", "mmr"):
        with pytest.raises(InvalidInputError):
            store.as_retriever(search_type=kind, search_kwargs=options).invoke("owl")
        with pytest.raises(InvalidInputError):
            store.as_retriever(search_type=kind).invoke("owl", **options)
        with pytest.raises(InvalidInputError):
            await store.as_retriever(search_type=kind).ainvoke("owl", **options)


def test_a_filter_in_the_wrong_place_raises(store):
    """B44: `as_retriever` refuses what LangChain's retriever would ignore, and says where it goes."""
    for misplaced in ({"filter": {"n": 1}}, {"k": 3}, {"scope": "alice"}, {"vectorstore": store}):
        with pytest.raises(InvalidInputError, match="search_kwargs"):
            store.as_retriever(**misplaced)
    with pytest.raises(ValidationError):
        store.as_retriever(search_type="best")
    with pytest.raises(InvalidInputError, match="score_threshold"):
        store.as_retriever(search_kwargs={"score_threshold": 0.5}).invoke("owl")
    assert store.as_retriever(tags=["mine"], name="notes", metadata={"x": 1}).tags == ["mine"]


# ------------------------------------------------------------------ async, retrievers, chains, tools


async def test_async_runs_in_a_worker_thread(angles, axes):
    """H2: the asynchronous forms embed and search off the loop's thread; the blocking ones run inside a loop."""
    axes.threads.clear()
    await angles.aadd_texts(["a new"], ids=["new"])
    await angles.aadd_documents([Document("b new", id="b new")])
    assert contents(await angles.aget_by_ids(["new"])) == ["a new"]
    assert len(await angles.asimilarity_search("a", k=2)) == 2
    assert len(await angles.asearch("b n", "mmr", k=2)) == 2
    assert axes.threads
    assert threading.get_ident() not in axes.threads
    assert angles.similarity_search("a", k=9) == await angles.asimilarity_search("a", k=9)


async def test_a_retriever_finds_what_the_store_finds(store):
    """H2: as a retriever, with each search type, mode and filter; sync, async and in a batch."""
    store.add_texts(["owls hunt at night", "foxes sleep", "owls sleep"], [{"n": 1}, {"n": 2}, {"n": 3}])
    for options in (
        {"k": 2},
        {"k": 2, "filter": {"n": {"gt": 1}}},
        {"k": 1, "mode": "keyword"},
        {"mode": "hybrid"},
    ):
        retriever = store.as_retriever(search_kwargs=options)
        expected = store.similarity_search("owls", **options)
        assert expected
        assert retriever.invoke("owls") == await retriever.ainvoke("owls") == expected
        assert retriever.batch(["owls"]) == await retriever.abatch(["owls"]) == [expected]
    diverse = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "filter": {"n": {"lt": 3}}})
    assert sorted(contents(diverse.invoke("owls"))) == ["foxes sleep", "owls hunt at night"]
    assert len(store.as_retriever().invoke("owls", k=1)) == 1
    ids = store.as_retriever().add_documents([Document("bats", id="bat")])
    assert contents(store.get_by_ids(ids)) == ["bats"]


async def test_a_rag_chain_answers_from_the_store(store, scripted):
    """H2: prompt, model and parser over the store's retriever, sync, async and streamed."""
    store.add_texts(["Alice drinks green tea", "Owls hunt at night"])
    seen = []

    def joined(documents):
        seen.append(contents(documents))
        return "\n".join(contents(documents))

    prompt = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")
    chain = (
        {"context": store.as_retriever(search_kwargs={"k": 1}) | joined, "question": RunnablePassthrough()}
        | prompt
        | scripted("Green tea.", "Green tea.", "Green tea.")
        | StrOutputParser()
    )
    question = "Which tea does Alice drink?"
    assert chain.invoke(question) == await chain.ainvoke(question) == "Green tea."
    assert "".join([part async for part in chain.astream(question)]) == "Green tea."
    assert seen == [["Alice drinks green tea"]] * 3


async def test_a_retriever_tool_can_be_made_of_it(store):
    """H2: LangChain's own `create_retriever_tool` works on it unchanged."""
    store.add_texts(["Alice drinks green tea"])
    tool = create_retriever_tool(store.as_retriever(), "manuals", "What the manuals say")
    assert tool.invoke({"query": "tea"}) == await tool.ainvoke({"query": "tea"}) == "Alice drinks green tea"
