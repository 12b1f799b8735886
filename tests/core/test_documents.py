"""`memory.documents`: collections in spaces of their own, with the memory's vectors or with given ones."""

import numpy as np
import pytest

from memkit_core import (
    ConfigError,
    DimensionMismatchError,
    FilterError,
    InvalidInputError,
    Memory,
    Message,
    Role,
    Scope,
)
from memkit_core.documents import NewDocument, SearchMode
from memkit_core.errors import ModelError, ScopeError

ALICE, BOB = Scope.user("alice"), Scope.user("bob")


class Axes:
    """Embeds by the first letter: exact angles between texts."""

    model = "axes"

    def __init__(self):
        self.down = False
        self.calls = 0

    def embed_documents(self, texts):
        self.calls += 1
        if self.down:
            raise RuntimeError("down")
        return np.array([self._of(text) for text in texts], np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]

    def _of(self, text):
        return {"a": [1, 0], "b": [0, 1], "c": [0.5, 3**0.5 / 2], "z": [-1, 0]}.get(text[:1], [0, 0])


@pytest.fixture(params=["memory", "file"])
def memory(request, tmp_path):
    with Memory.open(":memory:" if request.param == "memory" else tmp_path / "m.db") as opened:
        yield opened


def contents(result):
    return [hit.record.content for hit in result]


class TestOwnVectors:
    """A collection that the memory's own embedder embeds."""

    def test_put_and_search(self, memory):
        """Documents are found by meaning and by words, with their own ids and metadata."""
        notes = memory.documents("notes", scope=ALICE)
        notes.put([NewDocument(content="the cat sleeps", id="c", metadata={"n": 1}), "stock prices fell"])
        (best, _) = notes.search("a kitten naps", top_k=2)
        assert (best.record.id, best.record.metadata) == ("c", {"n": 1})
        assert best.score == best.signals.similarity
        for mode in SearchMode:
            assert contents(notes.search("prices", mode=mode, top_k=1)) == ["stock prices fell"]

    def test_a_space_of_its_own(self, memory):
        """A collection, the memories, another collection and another user's never see each other."""
        memory.add("the cat sleeps", scope=ALICE)
        for scope, name in ((ALICE, "notes"), (ALICE, "notes2"), (BOB, "notes")):
            memory.documents(name, scope=scope).put([f"{scope.id} {name} cat"])
        notes = memory.documents("notes", scope=ALICE)
        assert contents(notes.search("cat", top_k=9)) == ["alice notes cat"]
        assert contents(memory.recall("cat", scope=ALICE)) == ["the cat sleeps"]
        assert notes.clear().records == 1
        assert notes.search("cat", top_k=9).hits == ()
        assert contents(memory.recall("cat", scope=ALICE)) == ["the cat sleeps"]
        assert contents(memory.documents("notes2", scope=ALICE).search("cat")) == ["alice notes2 cat"]
        assert contents(memory.documents("notes", scope=BOB).search("cat")) == ["bob notes cat"]

    def test_the_same_id_replaces(self, memory):
        """A given id is one document, its newest text; texts without ids are never merged."""
        notes = memory.documents(scope=ALICE)
        notes.put([NewDocument(content="owl", id="note-7"), "owl", "owl"])
        notes.put([NewDocument(content="fox", id="note-7")])
        assert sorted(record.content for record in notes.list()) == ["fox", "owl", "owl"]
        assert contents(notes.search("fox", top_k=1)) == ["fox"]

    def test_filters_and_deletes(self, memory):
        """Filters hold before the cut; deleting by filter deletes exactly those."""
        notes = memory.documents(scope=ALICE)
        notes.put([NewDocument(content=f"cat {i}", id=str(i), metadata={"n": i}) for i in range(30)])
        assert {r.record.id for r in notes.search("cat", top_k=9, filters={"metadata.n": {"lt": 3}})} == set(
            "012"
        )
        assert notes.delete(filters={"metadata.n": {"gte": 5}}).records == 25
        assert notes.delete(["0", "unknown"]).records == 1
        assert [record.id for record in notes.get(["4", "0", "1"])] == ["4", "1"]
        assert set(notes.vectors(["4", "0"])) == {"4"}

    def test_a_filter_may_name_any_number_of_ids(self, memory):
        """Three hundred thousand ids in one condition are no more than SQLite can take."""
        notes = memory.documents(scope=ALICE)
        notes.put([NewDocument(content="cat", id="7"), NewDocument(content="cat", id="x")])
        many = [str(i) for i in range(300_000)]
        assert [record.id for record in notes.list(filters={"id": {"in": many}})] == ["7"]
        assert [record.id for record in notes.list(filters={"id": {"nin": many}})] == ["x"]

    def test_an_empty_collection_answers_nothing(self, memory):
        """Nothing was put: every read is empty, and blank texts are kept but near nothing."""
        notes = memory.documents(scope=ALICE)
        assert notes.search("cat").hits == ()
        assert notes.search("cat", mode="hybrid").hits == ()
        assert notes.get(["x"]) == []
        assert notes.put([]) == []
        notes.put(["", "  "])
        assert len(notes.list()) == 2
        assert notes.search("cat").hits == ()


class TestGivenVectors:
    """A collection whose vectors come with its texts, or from a model of its own."""

    def test_similarity_is_absolute(self, memory):
        """Identical is 1, 60 degrees .75, 90 degrees .5, opposite 0; the order and the floor agree."""
        notes = memory.documents(scope=ALICE, embedder=Axes())
        notes.put(["a", "b", "c", "z", "?"])
        found = notes.search("a", top_k=9)
        assert contents(found) == ["a", "c", "b", "z"]
        assert [hit.score for hit in found] == pytest.approx([1, 0.75, 0.5, 0], abs=1e-6)
        assert contents(notes.search("a", top_k=9, min_similarity=0.6)) == ["a", "c"]
        assert contents(notes.search("a", top_k=9, min_similarity=0.9999)) == ["a"]
        assert notes.search("?", top_k=9).hits == ()

    def test_a_query_without_direction_is_near_nothing(self, memory):
        """A query that embeds to zero finds nothing by vector, also where a filter makes the search exact."""
        notes = memory.documents(scope=ALICE, embedder=Axes())
        notes.put([NewDocument(content=text, metadata={"n": 1}) for text in "abz"])
        for query in ({"query": "?"}, {"vector": [0, 0]}):
            assert notes.search(**query, filters={"metadata.n": 1}).hits == ()

    def test_identical_vectors_are_exactly_alike(self, memory):
        """What float32 rounds away is no difference: a floor of 1 keeps every identical vector."""
        rows = np.random.default_rng(0).normal(size=(100, 384)).astype(np.float32)
        notes = memory.documents(scope=ALICE, embedding_model="theirs")
        notes.put([NewDocument(content="x", id=str(i)) for i in range(len(rows))], vectors=rows)
        for i, row in enumerate(rows):
            [hit] = notes.search(vector=row, top_k=1, min_similarity=1.0)
            assert (hit.record.id, hit.score) == (str(i), 1.0)

    def test_an_empty_collection_beside_memories(self, memory):
        """A collection with a model of its own is empty at first: it answers nothing, in any mode."""
        memory.add("a memory", scope=ALICE)
        notes = memory.documents(scope=ALICE, embedder=Axes())
        for mode in SearchMode:
            assert notes.search("a", mode=mode).hits == ()
        notes.put(["a"])
        notes.clear()
        assert notes.search(vector=[1, 0]).hits == ()

    def test_its_embedder(self, memory):
        """`embedder` is what embeds the collection's texts: the memory's, its own, or none."""
        assert memory.documents(scope=ALICE).embedder.model == memory.capabilities.embedding_model
        assert memory.documents("own", scope=ALICE, embedder=Axes()).embedder.embed_query("b").tolist() == [
            0,
            1,
        ]
        assert memory.documents("given", scope=ALICE, embedding_model="theirs").embedder is None

    def test_vectors_that_come_with_texts(self, memory):
        """Given vectors are stored as they are, and queried with the vector given, never embedded."""
        notes = memory.documents(scope=ALICE, embedding_model="theirs")
        notes.put(["one", "two"], vectors=[[1, 0, 0], [0, 2, 0]])
        found = notes.search(vector=[0, 1, 0], top_k=9)
        assert [(hit.record.content, round(hit.score, 4)) for hit in found] == [("two", 1.0), ("one", 0.5)]
        hybrid = notes.search("one", vector=[0, 1, 0], mode="hybrid", top_k=9)
        assert set(contents(hybrid)) == {"one", "two"}
        by_words = notes.search("one", top_k=9)
        assert (contents(by_words), by_words.missing) == (["one"], {"dense"})
        notes.put([NewDocument(content="two", id=found[0].record.id)], vectors=[[1, 0, 0]])
        assert notes.search(vector=[0, 1, 0], top_k=1)[0].score == pytest.approx(0.5, abs=1e-6)

    def test_an_empty_collection_has_no_length(self, memory):
        """Before anything is put, a vector of any length finds nothing, whatever the memory's own have."""
        memory.add("the cat sleeps", scope=ALICE)
        notes = memory.documents(scope=ALICE, embedding_model="theirs")
        for mode in SearchMode:
            assert notes.search("cat", vector=[1, 0, 0], mode=mode).hits == ()

    @pytest.mark.parametrize("settings", [{"mode": "keyword"}, {"mode": "hybrid", "alpha": 0}])
    def test_a_similarity_of_words(self, memory, settings):
        """A floor of similarity where no vectors are compared is a typed error, not an empty answer."""
        notes = memory.documents(scope=ALICE)
        notes.put(["owl"])
        with pytest.raises(InvalidInputError, match="min_similarity"):
            notes.search("owl", min_similarity=0.5, **settings)
        assert contents(notes.search("owl", min_similarity=0, **settings)) == ["owl"]

    def test_alpha_weighs_the_legs(self, memory):
        """`alpha` is the share of the vectors in a hybrid search; 0 and 1 leave one leg alone."""
        notes = memory.documents(scope=ALICE, embedding_model="theirs")
        notes.put(["the code ZX-9941", "far", "near"], vectors=[[0, 1], [-1, 0], [1, 0]])

        def best(**settings):
            return contents(notes.search("ZX-9941", vector=[1, 0], top_k=9, **settings))

        assert best(mode="hybrid", alpha=0) == ["the code ZX-9941"]
        assert best(mode="hybrid", alpha=0.1)[0] == "the code ZX-9941"
        assert best(mode="hybrid", alpha=0.9)[0] == "near"
        assert best(mode="hybrid", alpha=1) == best() == ["near", "the code ZX-9941", "far"]
        for settings in ({"alpha": 0.5}, {"mode": "hybrid", "alpha": 2}, {"mode": "keyword", "alpha": 0}):
            with pytest.raises(InvalidInputError, match="alpha"):
                best(**settings)

    def test_wrong_vectors_are_typed_errors(self, memory):
        """Another length, count or model, no vectors, or NaN: a typed error, and nothing changes."""
        notes = memory.documents(scope=ALICE, embedding_model="theirs")
        notes.put(["one"], vectors=[[1, 0, 0]])
        with pytest.raises(DimensionMismatchError):
            notes.put(["two"], vectors=[[1, 0]])
        with pytest.raises(DimensionMismatchError):
            notes.search(vector=[1, 0])
        for vectors in ([[1, 0, 0], [1, 0, 0]], [[1, 0, float("nan")]], [1, 0, 0], [["x", 0, 0]], [[]], None):
            with pytest.raises(InvalidInputError):
                notes.put(["two"], vectors=vectors)
        for other in ({}, {"embedding_model": "others"}, {"embedder": Axes()}):
            with pytest.raises(ConfigError, match="'theirs'"):
                memory.documents(scope=ALICE, **other)
        with pytest.raises(InvalidInputError, match="embedding_model"):
            memory.documents("plain", scope=ALICE).put(["x"], vectors=[[1, 0, 0]])
        assert [record.content for record in notes.list()] == ["one"]

    def test_a_model_that_is_down(self, memory):
        """Once its length is known, a model that fails loses no text: words find it, a flush embeds it later."""
        axes = Axes()
        notes = memory.documents(scope=ALICE, embedder=axes)
        axes.down = True
        with pytest.raises(ModelError):
            notes.put(["a first"])
        axes.down = False
        notes.put(["a first"])
        axes.down = True
        notes.put(["b second"])
        found = notes.search("b second", top_k=1)
        assert (contents(found), found.missing) == (["b second"], {"dense"})
        assert memory.capabilities.outbox.length >= 1
        axes.down = False
        assert memory.flush()
        assert contents(notes.search("b", top_k=1)) == ["b second"]

    def test_a_model_that_works_again(self, memory):
        """Another object of the same model embeds what the broken one left, once it is given."""
        broken = Axes()
        memory.documents(scope=ALICE, embedder=broken).put(["a first"])
        broken.down = True
        memory.documents(scope=ALICE, embedder=broken).put(["b second"])
        notes = memory.documents(scope=ALICE, embedder=Axes())
        notes.put(["c third"])
        assert memory.flush()
        assert contents(notes.search("b", top_k=1)) == ["b second"]


class TestDeletes:
    """What goes along with a session, a scope and a user."""

    def test_documents_of_a_session(self, memory):
        """Clearing a session leaves the documents of its scope; deleting the scope, or its user, takes them all."""
        session = Scope.session("s", user="alice")
        said = Message(role=Role.USER, text="hello")

        def fill():
            memory.sessions.append([said], scope=session)
            memory.documents("own", scope=session).put(["a", "b"])
            memory.documents("given", scope=session, embedder=Axes()).put(["c"])

        def left():
            return [
                len(memory.documents(name, scope=session, embedding_model=model).list())
                for name, model in (("own", None), ("given", "axes"))
            ]

        fill()
        receipt = memory.sessions.clear(scope=session)
        assert (receipt.messages, receipt.records, left()) == (1, 0, [2, 1])
        assert memory.delete(scope=session).records == 3
        assert left() == [0, 0]
        fill()
        assert memory.delete(scope=ALICE).records == 3
        assert left() == [0, 0]
        assert memory.upkeep.verify().problems == ()


class TestAfterAnotherProcess:
    """What a file holds for the next one who opens it."""

    def test_given_vectors_are_indexed_without_their_model(self, tmp_path):
        """A process that has no model still searches by vector, deletes, and keeps every index in step."""
        with Memory.open(tmp_path / "m.db") as memory:
            memory.documents(scope=ALICE, embedder=Axes()).put(["a", "b", "c"])
        with Memory.open(tmp_path / "m.db") as memory:
            notes = memory.documents(scope=ALICE, embedding_model="axes")
            found = notes.search(vector=[1, 0], top_k=2)
            assert (contents(found), found.missing) == (["a", "c"], set())
            memory.delete(scope=ALICE)
            assert memory.flush()
            assert memory.documents(scope=ALICE, embedding_model="axes").search(vector=[1, 0]).hits == ()
        with Memory.open(tmp_path / "m.db") as memory:
            memory.documents(scope=ALICE, embedding_model="new").put(["x"], vectors=[[1, 2, 3, 4]])
            assert memory.flush()

    def test_each_index_is_rebuilt_from_the_file(self, tmp_path):
        """Without its folders every index is built again from the file, with no embedding call."""
        axes = Axes()
        with Memory.open(tmp_path / "m.db") as memory:
            memory.add("the cat sleeps", scope=ALICE)
            memory.documents(scope=ALICE, embedder=axes).put(["a", "b", "c"])
            assert memory.flush()
        for path in (tmp_path / "m.db.index").iterdir():
            if path.is_file():
                path.unlink()
        calls = axes.calls
        with Memory.open(tmp_path / "m.db") as memory:
            notes = memory.documents(scope=ALICE, embedding_model="axes")
            assert contents(notes.search(vector=[1, 0], top_k=2)) == ["a", "c"]
            assert memory.recall("cat", scope=ALICE).missing == set()
        assert axes.calls == calls


def test_bad_input(memory):
    """A missing scope, a bad name, id, limit, mode or filter is a typed error."""
    with pytest.raises(ScopeError):
        memory.documents(scope=None)
    for name in ("", "a\0b", None, 7):
        with pytest.raises(InvalidInputError):
            memory.documents(name, scope=ALICE)
    for model in ("", 5, ["m"], "\ud800"):
        with pytest.raises(InvalidInputError):
            memory.documents(scope=ALICE, embedding_model=model)
    notes = memory.documents(scope=ALICE)
    with pytest.raises(FilterError):
        notes.search("x", filters={"user_id": "bob"})
    for call in (
        lambda: notes.put("text"),
        lambda: notes.put([7]),
        lambda: notes.put([NewDocument(content="x", id="")]),
        lambda: notes.put([NewDocument(content=None)]),
        lambda: notes.search("x", top_k=0),
        lambda: notes.search("x", mode="best"),
        lambda: notes.search("x", min_similarity=2),
        lambda: notes.search(None),
        lambda: notes.search(vector="x"),
        notes.delete,
        lambda: notes.delete(["x"], filters={"metadata.n": 1}),
        lambda: notes.delete(filters={}),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert len(notes.list()) == 0
