"""H2: `MemkitVectorStore`: what it keeps, under which ids, whose it is, and how it is deleted."""

import copy
import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from langchain_memkit import MemkitEmbeddings, MemkitVectorStore
from memkit_core import ConfigError, InvalidInputError, Memory, ModelError, Scope, ScopeError

AWKWARD = [
    "../../etc/x",
    "/abs",
    "C:\\x",
    "a/../b",
    "spaces/AB/threads/9",
    ".",
    "CON",
    "a:b",
    "%00",
    "' --",
    "🦉",
]


def contents(documents):
    return sorted(document.page_content for document in documents)


def everything(store):
    return contents(Document(record.content) for record in store.documents.list(limit=1000))


# ------------------------------------------------------------------ adding


def test_a_document_comes_back_as_it_was_added(store):
    """H2: text, metadata and id are the caller's own, and nothing of ours stands beside them."""
    metadata = {"source": "a.pdf", "page": 3, "score": 1.5, "memkit_id": "x", "deep": {"a": [1, None, True]}}
    document = Document(page_content="Owls hunt\nat night ", metadata=metadata, id="note-7")
    assert store.add_documents([document]) == ["note-7"]
    assert store.similarity_search("owls") == [document]
    assert store.get_by_ids(["note-7", "unknown", "note-7"]) == [document]
    store.similarity_search("owls")[0].metadata["deep"]["a"].append("changed")
    assert store.get_by_ids(["note-7"]) == [document]


@pytest.mark.parametrize("value", [{1}, b"x", float("nan"), object(), {1: 2}, "nul\0"])
def test_metadata_that_is_no_json_is_refused(store, value):
    """H2: what could not come back as it was raises with the key's name, and nothing is written."""
    with pytest.raises(InvalidInputError, match="origin"):
        store.add_texts(["kept", "not kept"], [{}, {"origin": value}])
    assert everything(store) == []


def test_texts_may_come_from_a_generator(store):
    """Trap 10: a generator of texts is added whole, with generated metadatas and ids too."""
    ids = store.add_texts(
        (f"owl {i}" for i in range(3)), ({"n": i} for i in range(3)), ids=(str(i) for i in range(3))
    )
    assert ids == ["0", "1", "2"]
    assert [document.metadata for document in store.get_by_ids(ids)] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len(store.add_texts(text for text in ("x", "y"))) == 2
    assert store.add_texts([]) == store.add_documents([]) == []


def test_missing_ids_are_made(store):
    """Trap 10: None among the ids is filled, those that were given stay."""
    first, second = store.add_texts(["a", "b"], ids=[None, "mine"])
    assert second == "mine"
    assert contents(store.get_by_ids([first])) == ["a"]
    own, made = store.add_documents([Document("c", id="own"), Document("d")])
    assert own == "own"
    assert contents(store.get_by_ids([made])) == ["d"]
    assert store.add_documents([Document("e", id="loses")], ids=["wins"]) == ["wins"]


@pytest.mark.parametrize(
    "given",
    [
        {"texts": ["a", "b"], "ids": ["1"]},
        {"texts": ["a", "b"], "ids": []},
        {"texts": ["a"], "ids": ["1", "2"]},
        {"texts": ["a", "b"], "metadatas": [{}]},
        {"texts": ["a"], "metadatas": [{}, {}]},
        {"texts": "a text alone"},
        {"texts": [1]},
        {"texts": ["a"], "ids": [7]},
        {"texts": ["a"], "ids": "y"},
        {"texts": ["a"], "metadatas": "y"},
        {"texts": ["a"], "ids": [""]},
        {"texts": ["a"], "metadatas": ["x"]},
        {"texts": ["a"], "metadata": [{"x": 1}]},
    ],
)
async def test_bad_input_writes_nothing(store, given):
    """B50, B44: a wrong length, type or keyword is a typed error before any write, async too."""
    with pytest.raises(InvalidInputError):
        store.add_texts(**given)
    with pytest.raises(InvalidInputError):
        await store.aadd_texts(**given)
    with pytest.raises(InvalidInputError):
        store.add_documents([Document("x"), "a text"])
    with pytest.raises(InvalidInputError):
        store.add_documents([Document("x")], ids=["1", "2"])
    with pytest.raises(InvalidInputError):
        store.add_documents([Document("x")], user_id="bob")
    assert everything(store) == []


def test_a_given_id_replaces_and_equal_texts_stay_apart(store):
    """B50: the same id is one document with its newest text; without ids equal texts are never merged."""
    owls = store.add_texts(["owl"], [{"who": "ann"}]) + store.add_texts(["owl"], [{"who": "bob"}])
    assert [document.metadata["who"] for document in store.get_by_ids(owls)] == ["ann", "bob"]
    store.add_texts(["fox"], ids=["note-7"])
    assert store.add_texts(["hen", "bat"], ids=["note-7", "note-7"]) == ["note-7", "note-7"]
    assert everything(store) == ["bat", "owl", "owl"]
    assert contents(store.similarity_search("bat", k=1)) == ["bat"]
    store.add_documents(store.get_by_ids(owls))
    assert everything(store) == ["bat", "owl", "owl"]


@pytest.mark.parametrize("name", AWKWARD)
def test_ids_and_names_are_no_paths(tmp_path, memory, name):
    """B33: any text works as id, name, user and model, and no file is made outside the memory's own."""
    before = {path.name for path in tmp_path.parent.iterdir()}
    store = MemkitVectorStore(
        memory=memory,
        scope=Scope.user(name),
        name=name,
        embedding=DeterministicFakeEmbedding(size=4),
        embedding_model=name,
    )
    assert store.add_texts(["text"], ids=[name]) == [name]
    assert store.similarity_search("text") == store.get_by_ids([name]) == [Document("text", id=name)]
    assert memory.flush()
    assert {path.name for path in tmp_path.parent.iterdir()} == before
    assert all(path.name.startswith("memory.db") for path in tmp_path.iterdir())


@pytest.mark.parametrize("failing", ["once", "always", "batches", "short", "nan"])
def test_a_text_that_fails_to_embed_is_kept(memory, alice, axes, failing):
    """B49: all five are stored and found by words, none has another's vector, and a flush embeds the rest."""
    texts = ["a one", "b two", "c three", "z four", "a five"]
    real, calls = axes.embed_documents, []

    def embed(given):
        calls.append(given)
        rows = real(given)
        bad = (
            "c three" in given
            and (failing != "once" or len(calls) == 2)
            and (failing != "batches" or len(given) > 1)
        )
        if not bad:
            return rows
        if failing == "short":
            return rows[:-1]
        if failing == "nan":
            return [
                [float("nan")] * 2 if text == "c three" else row
                for text, row in zip(given, rows, strict=True)
            ]
        raise RuntimeError("too long")

    axes.embed_documents = embed
    store = MemkitVectorStore(memory=memory, scope=alice, embedding=axes)
    ids = store.add_texts(texts, ids=texts)
    assert everything(store) == sorted(texts)
    for text in texts:
        assert contents(store.similarity_search(text.split()[1], mode="keyword", k=1)) == [text]
    embedded = store.documents.vectors(ids)
    assert set(embedded) == set(texts) - ({"c three"} if failing in ("always", "short", "nan") else set())
    for text, vector in embedded.items():
        assert vector.tolist() == pytest.approx(real([text])[0])
    axes.embed_documents = real
    assert memory.flush()
    assert set(store.documents.vectors(ids)) == set(texts)
    assert contents(store.similarity_search("c", k=1)) == ["c three"]


def test_a_model_that_never_worked_is_an_error(memory, alice, axes):
    """H2: a model of the store's own that fails at its very first use raises, and nothing is half there."""
    axes.down = True
    store = MemkitVectorStore(memory=memory, scope=alice, embedding=axes)
    with pytest.raises(ModelError):
        store.add_texts(["a"])
    assert everything(store) == []


# ------------------------------------------------------------------ whose it is


def test_stores_never_see_each_other(memory, alice, bob):
    """A0: two users and two names are four stores; none reads, deletes or clears what another holds."""
    stores = {
        (scope.id, name): MemkitVectorStore(memory=memory, scope=scope, name=name)
        for scope in (alice, bob)
        for name in ("one", "two")
    }
    for (who, name), store in stores.items():
        store.add_texts([f"owl of {who} in {name}"], ids=["same"])
    for (who, name), store in stores.items():
        own = [f"owl of {who} in {name}"]
        assert contents(store.similarity_search("owl", k=9)) == contents(store.get_by_ids(["same"])) == own
        assert contents(store.similarity_search("owl", k=9, mode="hybrid")) == own
        assert contents(store.max_marginal_relevance_search("owl", k=9)) == own
    stores["alice", "one"].delete(["same"])
    stores["alice", "two"].clear()
    assert [len(everything(store)) for store in stores.values()] == [0, 0, 1, 1]


def test_clearing_touches_no_memory(filled, alice):
    """A0: nothing of a store is recalled as a memory, and clearing it leaves memories and turns alone."""
    store = MemkitVectorStore(memory=filled, scope=alice)
    store.add_texts(["Oolong tea from a shop"])
    before = [hit.record.content for hit in filled.recall("tea", scope=alice, include_messages=True)]
    assert len(before) == 3
    store.clear()
    store.clear()
    assert everything(store) == []
    after = [hit.record.content for hit in filled.recall("tea", scope=alice, include_messages=True)]
    assert after == before


def test_scope_is_required_and_never_read_from_metadata(memory, alice, bob):
    """A3, J5: no scope is an error; metadata that names another user changes nothing."""
    with pytest.raises(TypeError):
        MemkitVectorStore(memory=memory)
    for scope in (None, "alice", {"user_id": "alice"}, [alice]):
        with pytest.raises(ScopeError):
            MemkitVectorStore(memory=memory, scope=scope)
    store = MemkitVectorStore(memory=memory, scope=alice)
    store.add_texts(["secret"], [{"user_id": "bob", "scope": "user:bob", "space": "memories"}])
    assert MemkitVectorStore(memory=memory, scope=bob).similarity_search("secret") == []
    assert memory.recall("secret", scope=[alice, bob]).hits == ()


def test_a_store_that_cannot_be_opened_says_why(memory, alice, axes):
    """C10: no memory, a nameless model, a name without a model, or another model is a typed error."""
    with pytest.raises(InvalidInputError, match="memory"):
        MemkitVectorStore(memory="memory.db", scope=alice)
    with pytest.raises(InvalidInputError):
        MemkitVectorStore(memory=memory, scope=alice, name="")
    with pytest.raises(ConfigError, match="embedding_model"):
        MemkitVectorStore(memory=memory, scope=alice, embedding=DeterministicFakeEmbedding(size=4))
    with pytest.raises(ConfigError, match="embedding"):
        MemkitVectorStore(memory=memory, scope=alice, embedding_model="axes")
    MemkitVectorStore(memory=memory, scope=alice, embedding=axes).add_texts(["a"])
    for other in ({}, {"embedding": DeterministicFakeEmbedding(size=2), "embedding_model": "fake"}):
        with pytest.raises(ConfigError, match="'axes'"):
            MemkitVectorStore(memory=memory, scope=alice, **other)


# ------------------------------------------------------------------ deleting


async def test_delete_takes_ids_or_a_filter(store):
    """B36: what is named is deleted; nothing named is an error that names `clear`, never everything."""
    store.add_texts([f"owl {i}" for i in range(6)], [{"n": i} for i in range(6)], ids=list("012345"))
    assert store.delete(["0", "unknown"]) is True
    assert store.delete([]) is True
    assert store.delete(filter={"n": {"gte": 4}}) is True
    assert await store.adelete(["1"]) is True
    assert everything(store) == ["owl 2", "owl 3"]
    for refused in (
        {},
        {"ids": None},
        {"filter": {}},
        {"ids": "2"},
        {"ids": ["2"], "filter": {"n": 2}},
        {"ids": ["2"], "all": True},
    ):
        with pytest.raises(InvalidInputError):
            store.delete(**refused)
        with pytest.raises(InvalidInputError):
            await store.adelete(**refused)
    with pytest.raises(InvalidInputError, match="clear"):
        store.delete()
    assert everything(store) == ["owl 2", "owl 3"]
    await store.aclear()
    assert everything(store) == []


# ------------------------------------------------------------------ from texts, embeddings, copies


async def test_stores_made_from_texts_and_documents(memory, alice, axes):
    """H2: the class methods open the store and add to it, with the ids of the documents, async too."""
    where = {"memory": memory, "scope": alice, "name": "made", "embedding_model": "axes"}
    store = MemkitVectorStore.from_texts(["a"], axes, [{"n": 1}], ids=["1"], **where)
    assert store.get_by_ids(["1"]) == [Document("a", id="1", metadata={"n": 1})]
    MemkitVectorStore.from_documents([Document("b", id="2"), Document("c")], axes, **where)
    await MemkitVectorStore.afrom_texts(["z"], axes, ids=["4"], **where)
    await MemkitVectorStore.afrom_documents([Document("a", id="5")], axes, **where)
    assert everything(store) == ["a", "a", "b", "c", "z"]
    assert contents(store.get_by_ids(["2", "4", "5"])) == ["a", "b", "z"]
    default = MemkitVectorStore.from_texts(["x"], memory=memory, scope=alice)
    assert default.embeddings.model == memory.capabilities.embedding_model
    for missing, error in (("memory", InvalidInputError), ("scope", ScopeError)):
        with pytest.raises(error, match=missing):
            MemkitVectorStore.from_documents([Document("x")], axes, **{**where, missing: None})
    with pytest.raises(InvalidInputError, match="collection_name"):
        MemkitVectorStore.from_texts(["x"], axes, collection_name="x", **where)


async def test_embeddings(store, angles, axes):
    """G3: `embeddings` is the model that was given, else the memory's embedder in LangChain's form."""
    assert angles.embeddings is axes
    assert store.embeddings.model == MemkitEmbeddings().model == MemkitEmbeddings("wordllama").model
    text = "owls hunt at night"
    assert store.embeddings.embed_query(text) == await MemkitEmbeddings().aembed_query(text)
    assert store.embeddings.embed_documents([text, "", text])[1] == [0.0] * 256
    assert MemkitEmbeddings(axes).embed_documents(["b", "z"]) == [[0, 1], [-1, 0]]
    axes.down = True
    with pytest.raises(ModelError):
        MemkitEmbeddings(axes).embed_query("a")


def test_copies_share_the_memory_and_pickles_reopen_it(memory, alice):
    """B71: copy, deepcopy and pickle give a store that answers the same; the original still works."""
    embedding = MemkitEmbeddings()
    for options in ({}, {"name": "own", "embedding": embedding}):
        store = MemkitVectorStore(memory=memory, scope=alice, **options)
        store.add_texts(["owls hunt", "foxes sleep"])
        expected = store.similarity_search("owls")
        for twin in (copy.copy(store), copy.deepcopy(store), copy.deepcopy(store.as_retriever()).vectorstore):
            assert twin.memory is memory
            assert twin.similarity_search("owls") == expected
        reopened = pickle.loads(pickle.dumps(store))
        try:
            assert (reopened.scope, reopened.name) == (store.scope, store.name)
            assert reopened.similarity_search("owls") == expected
        finally:
            reopened.memory.close()
        assert store.similarity_search("owls") == expected
        assert "alice" in repr(store)


def test_what_cannot_be_pickled_says_what_to_do(store, alice):
    """B71: embeddings of an open memory and a store without a file are typed errors, never a lock's."""
    assert copy.deepcopy(store.embeddings).embed_query("x") == store.embeddings.embed_query("x")
    with pytest.raises(ConfigError, match="pickle"):
        pickle.dumps(store.embeddings)
    with Memory.open(":memory:") as memory, pytest.raises(ConfigError, match="pickle"):
        pickle.dumps(MemkitVectorStore(memory=memory, scope=alice))


# ------------------------------------------------------------------ LangChain's indexing


@pytest.mark.parametrize("cleanup", ["incremental", "full"])
async def test_indexing_keeps_the_store_in_step_with_its_source(store, cleanup):
    """H2: `index` and `aindex` add what is new, skip what is there, and delete what is gone."""
    records = InMemoryRecordManager(namespace="notes")
    records.create_schema()
    options = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}

    def loaded(*texts):
        return [Document(text, metadata={"source": "notes.txt"}) for text in texts]

    first = index(loaded("owl", "fox"), records, store, **options)
    assert (first["num_added"], first["num_deleted"]) == (2, 0)
    again = index(loaded("owl", "fox"), records, store, **options)
    assert (again["num_added"], again["num_skipped"]) == (0, 2)
    changed = await aindex(loaded("owl", "hen"), records, store, **options)
    assert (changed["num_added"], changed["num_skipped"], changed["num_deleted"]) == (1, 1, 1)
    assert everything(store) == ["hen", "owl"]
    assert contents(store.similarity_search("fox", k=9)) == ["hen", "owl"]
