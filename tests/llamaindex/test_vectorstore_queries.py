"""What queries of a `MemkitVectorStore` find, in which order, with which similarity."""

import math

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from llamaindex_memkit import MemkitVectorStore
from memkit_core import ConfigError, DimensionMismatchError, InvalidInputError, Memory, Scope

ALICE = Scope.user("alice")


def angled(degrees):
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def node(text, node_id=None, degrees=0, **metadata):
    named = {} if node_id is None else {"id_": node_id}
    return TextNode(text=text, embedding=angled(degrees), metadata=metadata, **named)


def part_of(document, one):
    one.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    return one


def where(key, value, operator="=="):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def ids(found):
    return [one for one, _ in found]


class TestQuery:
    """What queries find, in which order, with which similarity."""

    def test_similarity_is_absolute(self, store, ask):
        """Identical is 1, 60 degrees .75, 90 degrees .5, opposite 0, best first; a zero vector gives no NaN (B42)."""
        store.add([node("x", str(angle), angle) for angle in (180, 60, 0, 90)])
        store.add([TextNode(id_="zero", text="owl", embedding=[0, 0])])
        found = ask()
        assert ids(found)[:4] == ["0", "60", "90", "180"]
        assert [alike for _, alike in found][:4] == pytest.approx([1, 0.75, 0.5, 0], abs=1e-6)
        assert ids(ask(top_k=2)) == ["0", "60"]
        assert dict(ask(mode="hybrid"))["zero"] == 0

    def test_hybrid_finds_what_either_leg_finds(self, store, ask):
        """A far node with the code and a near node without a word in common are both in the top three (B54)."""
        store.add([node(f"fact number {i}", f"f{i}", 40 + i / 10) for i in range(200)])
        store.add([node("the code is ZX-9941", "code", 150), node("a paraphrase", "near", 0)])
        assert {"code", "near"} <= set(ids(ask("ZX-9941", mode="hybrid", top_k=3)))
        assert len(ask("ZX-9941", mode="hybrid", top_k=20)) == 20
        assert ids(ask("ZX-9941", mode="text_search")) == ids(ask("ZX-9941", mode="sparse")) == ["code"]
        assert ids(ask("ZX-9941", mode="default", top_k=1)) == ["near"]

    def test_alpha(self, store, ask):
        """`alpha` is the vector's share: it changes the order, and 0 and 1 leave one leg alone (B54)."""
        store.add(
            [node("the code is ZX-9941", "code", 90), node("a paraphrase", "near", 0), node("x", "x", 120)]
        )
        assert ids(ask("ZX-9941", mode="hybrid", alpha=0)) == ["code"]
        assert ids(ask("ZX-9941", mode="hybrid", alpha=0.1))[0] == "code"
        assert ids(ask("ZX-9941", mode="hybrid", alpha=0.9))[0] == "near"
        assert ask("ZX-9941", mode="hybrid", alpha=1) == ask("ZX-9941")
        for bad in (-0.1, 2):
            with pytest.raises(InvalidInputError, match="alpha"):
                ask(mode="hybrid", alpha=bad)

    def test_how_many_of_a_fusion(self, store, ask):
        """`sparse_top_k` and `similarity_top_k` bound the legs of a fusion, `hybrid_top_k` the nodes."""
        store.add([node("owl " * (9 - i), f"w{i}", 170 + i) for i in range(3)])
        store.add([node("fox", f"v{i}", i) for i in range(5)])
        assert set(ids(ask(mode="hybrid", top_k=2, hybrid_top_k=9, sparse_top_k=1))) == {"v0", "v1", "w0"}
        assert len(ask(mode="hybrid", top_k=9, hybrid_top_k=4)) == 4
        assert len(ask(mode="hybrid", top_k=3, sparse_top_k=9)) == 3
        assert ids(ask(mode="sparse", top_k=1, sparse_top_k=3)) == ["w0", "w1", "w2"]

    def test_mmr(self, store, ask):
        """`mmr` prefers nodes that differ from those before; the threshold decides how much."""
        store.add([node("x", "a", 0), node("x", "b", 1), node("x", "c", 50)])
        assert ids(ask(mode="mmr", top_k=2, mmr_threshold=1.0)) == ["a", "b"]
        assert ids(ask(mode="mmr", top_k=2, mmr_threshold=0.1)) == ["a", "c"]
        query = VectorStoreQuery(query_embedding=angled(0), similarity_top_k=2, mode=VectorStoreQueryMode.MMR)
        assert store.query(query, mmr_threshold=0.1).ids == ["a", "c"]
        assert store.query(query, mmr_threshold=0.1).similarities == pytest.approx([1, 0.8214], abs=1e-3)
        assert ids(ask(mode="mmr", filters=where("none", 1))) == []
        with pytest.raises(InvalidInputError, match="mmr_threshold"):
            ask(mode="mmr", mmr_threshold=2)

    def test_mmr_forgets_nothing_that_was_chosen(self, store, ask):
        """`mmr` compares with every node chosen before, not the last alone: a near copy of the first stays away."""
        vectors = {
            "a": [0.90, 0.44, 0, 0],
            "copy of a": [0.88, 0.47, 0, 0],
            "b": [0.70, 0, 0.71, 0],
            "c": [0.65, 0, 0, 0.76],
        }
        store.add([TextNode(id_=one, text=one, embedding=vector) for one, vector in vectors.items()])
        asked = VectorStoreQuery(
            query_embedding=[1, 0, 0, 0], similarity_top_k=4, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.5
        )
        assert store.query(asked).ids == ["a", "b", "c", "copy of a"]
        assert store.query(asked, mmr_threshold=0).ids[0] == "a", "the nearest is the first"

    def test_conditions_hold_before_the_cut(self, store, ask):
        """Filters, `node_ids` and `doc_ids` narrow what is searched, not what was found."""
        store.add([part_of("d1", node("owl", f"n{i}", i)) for i in range(50)])
        store.add([part_of("d2", node("owl", "far", 179, kind="Rare"))])
        for mode in ("default", "hybrid", "text_search", "mmr"):
            for narrowed in (
                {"filters": where("kind", "Rare")},
                {"filters": where("kind", "rare", "text_match_insensitive")},
                {"node_ids": ["far"]},
                {"doc_ids": ["d2"]},
            ):
                assert ids(ask(top_k=1, mode=mode, **narrowed)) == ["far"]
        assert ask(node_ids=["n1"], doc_ids=["d2"]) == []
        assert ask(doc_ids=[]) == []
        assert len(ask(node_ids=[])) == 10, "an index over a store that keeps text passes an empty list"
        assert store.get_nodes([]) == []

    @pytest.mark.parametrize(
        "settings",
        [
            {"alpha": 0.5},
            {"mode": "mmr", "alpha": 0.5},
            {"hybrid_top_k": 3},
            {"sparse_top_k": 3},
            {"mmr_threshold": 0.5},
            {"mode": "hybrid", "mmr_threshold": 0.5},
            {"output_fields": ["text"]},
            {"embedding_field": "other"},
            {"mode": "svm"},
            {"mode": "semantic_hybrid"},
            {"mode": "best"},
            {"top_k": 0},
            {"top_k": 10**6},
            {"mode": "hybrid", "text": None},
            {"mode": "text_search", "text": None},
            {"node_ids": [7]},
            {"doc_ids": 7},
            {"text": 7, "mode": "hybrid"},
            {"top_k": "many", "mode": "mmr"},
            {"sparse_top_k": np.array([1, 2]), "mode": "hybrid"},
            {"mode": ["default"]},
        ],
        ids=str,
    )
    def test_nothing_is_ignored(self, ask, settings):
        """A mode or setting that does not apply is a typed error, never passed over (B44)."""
        with pytest.raises(InvalidInputError):
            ask(**settings)

    @pytest.mark.parametrize("given", [None, "owl", [1.0, 0.0]])
    def test_what_is_no_query(self, store, given):
        """Anything but LlamaIndex's query is a typed error."""
        with pytest.raises(InvalidInputError, match="VectorStoreQuery"):
            store.query(given)

    def test_unknown_keywords(self, store):
        """A misspelt keyword is an error in every method (B44)."""
        query = VectorStoreQuery(query_embedding=[1, 0])
        for call in (
            lambda: store.query(query, filter={"a": 1}),
            lambda: store.add([node("x")], user_id="bob"),
            lambda: store.delete("d1", userid="bob"),
            lambda: store.delete_nodes(["x"], filtr=1),
            lambda: store.get_nodes(["x"], filter=1),
        ):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(TypeError, match="userid"):
            MemkitVectorStore(memory=store.client, scope=ALICE, userid="bob")

    def test_vectors_of_another_model(self, memory, store, ask):
        """Another length, NaN, no vector, or another model's name is a typed error, and nothing is written."""
        store.add([node("owl", "1")])
        with pytest.raises(DimensionMismatchError):
            store.add([TextNode(text="x", embedding=[1, 0, 0])])
        with pytest.raises(DimensionMismatchError):
            store.query(VectorStoreQuery(query_embedding=[1, 0, 0]))
        with pytest.raises(InvalidInputError):
            store.add([TextNode(text="x", embedding=[1, float("nan")])])
        with pytest.raises(InvalidInputError, match="query_embedding"):
            store.query(VectorStoreQuery(query_str="owl"))
        for other in ("others", None):
            with pytest.raises(ConfigError, match="'llama-index'"):
                MemkitVectorStore(memory=memory, scope=ALICE, embedding_model=other)
        assert ids(ask()) == ["1"]

    def test_blank_and_empty(self, store, ask):
        """An empty collection answers nothing in every mode; a blank text leaves the vector alone to decide."""
        for mode in ("default", "hybrid", "text_search", "sparse", "mmr"):
            assert ask(mode=mode) == []
        store.add([node("owl", "1")])
        assert ids(ask(" ", mode="hybrid")) == ["1"]
        assert ask(" ", mode="text_search") == []


class TestOwnEmbedder:
    """With `embedding_model=None` the memory's embedder does the work."""

    def test_texts_alone(self, memory, ask):
        """Nodes need no embedding, queries are text, and vectors that come along are not used."""
        own = MemkitVectorStore(memory=memory, scope=ALICE, embedding_model=None)
        own.add([TextNode(id_="1", text="the cat sleeps"), TextNode(id_="2", text="stock prices fell")])
        for mode in ("default", "hybrid"):
            assert ids(ask("a kitten naps", of=own, mode=mode))[0] == "1"
        assert dict(ask("the cat sleeps", of=own))["1"] == pytest.approx(1, abs=1e-6)
        for settings in ({"text": None}, {"mode": "mmr"}):
            with pytest.raises(InvalidInputError):
                ask(of=own, **settings)

    def test_an_index_does_not_embed_queries(self, memory, letters):
        """An index over such a store asks with the text alone."""
        own = MemkitVectorStore(memory=memory, scope=ALICE, embedding_model=None)
        index = VectorStoreIndex.from_vector_store(own, embed_model=letters)
        index.insert(Document(text="the cat sleeps"))
        asked = letters.asked
        [found] = index.as_retriever().retrieve("the cat sleeps")
        assert found.score == pytest.approx(1, abs=1e-6)
        assert letters.asked == asked

    def test_an_embedder_that_is_down(self, tmp_path, caplog):
        """Words still answer, and the log says what was missing."""

        class Flaky:
            model = "flaky"
            down = False

            def embed_documents(self, texts):
                if self.down:
                    raise RuntimeError("down")
                return [[1.0, 0.0] for _ in texts]

            def embed_query(self, text):
                return self.embed_documents([text])[0]

        flaky = Flaky()
        with Memory.open(tmp_path / "flaky.db", embedder=flaky) as memory:
            own = MemkitVectorStore(memory=memory, scope=ALICE, embedding_model=None)
            own.add([TextNode(id_="1", text="owl")])
            flaky.down = True
            found = own.query(VectorStoreQuery(query_str="an owl", mode=VectorStoreQueryMode.HYBRID))
            assert found.ids == ["1"]
            assert "missing: dense" in caplog.text
