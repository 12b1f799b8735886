"""What `MemkitVectorStore` promises to LlamaIndex's indexes, retrievers and pipelines."""

import copy
import json
import math
import pickle
import subprocess
import sys
import threading

import pytest
from llama_index.core import StorageContext
from llama_index.core.schema import (
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from pydantic import BaseModel

from llamaindex_memkit import MemkitVectorStore
from memkit_core import (
    ConfigError,
    InvalidInputError,
    Memory,
    Scope,
    ScopeError,
)
from memkit_core.times import utc_now

ALICE, BOB = Scope.user("alice"), Scope.user("bob")


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


class TestNodes:
    """Nodes go in and come out."""

    @pytest.mark.parametrize(
        "original",
        [
            TextNode(
                id_="a/b:'ü",
                text="  Ein Käuzchen\n",
                metadata={"z": 1, "a": {"y": [1, 2.5, None], "b": True}, "ü": "ß"},
                excluded_embed_metadata_keys=["z"],
                excluded_llm_metadata_keys=["a"],
                relationships={
                    NodeRelationship.SOURCE: RelatedNodeInfo(
                        node_id="d", node_type="4", metadata={"p": 1}, hash="h"
                    ),
                    NodeRelationship.NEXT: RelatedNodeInfo(node_id="n"),
                    NodeRelationship.CHILD: [RelatedNodeInfo(node_id="c1"), RelatedNodeInfo(node_id="c2")],
                },
                metadata_template="{key}={value}",
                text_template="{metadata_str}|{content}",
                mimetype="text/markdown",
                start_char_idx=3,
                end_char_idx=17,
            ),
            ImageNode(text="an owl", image="aGk=", image_url="http://x/y.png", text_embedding=[1.0, 2.0]),
            IndexNode(text="see", index_id="i", obj=TextNode(text="inner", id_="inner")),
            Node(
                text_resource=MediaResource(text="said", mimetype="text/plain"),
                image_resource=MediaResource(data=b"\x89PNG\0\xff", mimetype="image/png"),
            ),
            Document(text="a document", metadata={"doc_id": "mine"}, doc_id="d9"),
            ImageDocument(text="a picture", image="aGk="),
            TextNode(text="", metadata={}),
        ],
        ids=lambda original: type(original).__name__,
    )
    def test_round_trip(self, store, original):
        """A node of any class comes back equal, hash included, but for its embedding; the given one stays as it is."""
        given = original.model_copy(update={"embedding": [1.0, 0.0]})
        before = given.model_copy(deep=True)
        assert store.add([given]) == [given.node_id]
        assert given == before
        [back] = store.get_nodes([given.node_id])
        assert type(back) is type(original)
        assert back == original
        assert back.hash == original.hash
        assert list(back.metadata) == list(original.metadata)

    def test_reserved_names_are_the_users_too(self, store, ask):
        """Metadata under names that LlamaIndex or this store uses comes back, and filters find it."""
        names = [
            "_node_content",
            "_node_type",
            "doc_id",
            "document_id",
            "ref_doc_id",
            "_llama_index",
            "id",
            "text",
        ]
        store.add(
            [
                part_of("d1", node("owl", "1").model_copy(update={"metadata": dict.fromkeys(names, "mine")})),
                part_of("d1", node("owl", "2")),
            ]
        )
        assert store.get_nodes(["1"])[0].metadata == dict.fromkeys(names, "mine")
        assert store.get_nodes(["1"])[0].ref_doc_id == "d1"
        for name in names:
            assert ids(ask(filters=where(name, "mine"))) == ["1"]
        store.delete("mine")
        store.delete("d1")
        assert store.get_nodes() == []

    def test_metadata_is_the_collections_own(self, memory, store):
        """In `Memory.documents` a node is its text with its metadata under `metadata.<key>`, and the reverse."""
        store.add([node("owl", "1", page=3)])
        documents = memory.documents(scope=ALICE, embedding_model="llama-index")
        [found] = documents.list(filters={"metadata.page": 3})
        assert (found.id, found.content, found.metadata["page"]) == ("1", "owl", 3)
        documents.put(["plain"], vectors=[[1, 0]])
        plain = next(one for one in store.get_nodes() if one.node_id != "1")
        assert (type(plain), plain.text, plain.metadata) == (TextNode, "plain", {})

    def test_values_that_json_does_not_know(self, store):
        """Dates, sets and models in metadata are stored as JSON; an integer beyond 64 bits is refused whole."""

        class Page(BaseModel):
            number: int

        store.add([node("owl", "1", page=Page(number=3), tags={"b", "a"})])
        assert store.get_nodes()[0].metadata == {"page": {"number": 3}, "tags": ["a", "b"]}
        with pytest.raises(InvalidInputError, match="64 bits"):
            store.add([node("fine", "2"), node("owl", "3", n=2**70)])
        with pytest.raises(InvalidInputError, match="node 'i'"):
            store.add([IndexNode(id_="i", text="x", index_id="x", obj=object(), embedding=[1, 0])])
        assert [one.node_id for one in store.get_nodes()] == ["1"]

    def test_a_class_of_ones_own(self, store):
        """A subclass comes back as the LlamaIndex class that it is made from."""

        class Picture(ImageNode):
            mood: str = "calm"

        store.add([Picture(id_="p", text="owl", image_url="http://x", embedding=[1, 0])])
        [back] = store.get_nodes()
        assert (type(back), back.text, back.image_url) == (ImageNode, "owl", "http://x")

    def test_ids(self, store, ask):
        """Any text is an id and comes back as given; the same id replaces text, metadata and vector (B50, B33)."""
        odd = ["note-7", "../../etc/x", "/abs", "C:\\x", "spaces/AB/9", ".", "CON", "鍵🦉", "' OR 1=1 --"]
        assert store.add([node(one, one) for one in odd]) == odd
        assert {one.node_id for one in store.get_nodes(odd)} == set(odd)
        assert store.add([node("first", "note-7", 90), node("second", "note-7", 60, v=2)]) == ["note-7"] * 2
        [back] = store.get_nodes(["note-7"])
        assert (back.text, back.metadata) == ("second", {"v": 2})
        assert dict(ask())["note-7"] == pytest.approx(0.75, abs=1e-6)
        assert len(store.get_nodes()) == len(odd)
        store.add([node("owl", who="ann"), node("owl", who="bob")])
        for who in ("ann", "bob"):
            assert [found.text for found in store.get_nodes(filters=where("who", who))] == ["owl"]

    def test_bad_nodes(self, store):
        """What is no node, has no embedding or no usable id is a typed error, and nothing is written."""
        for bad in ("text", TextNode(text="x"), node("x", ""), node("x", "a\0b"), None):
            with pytest.raises(InvalidInputError):
                store.add([node("fine"), bad])
        for bad in ("text", None, 7):
            with pytest.raises(InvalidInputError):
                store.add(bad)
        with pytest.raises(InvalidInputError, match="embedding_model=None"):
            store.add([TextNode(text="x")])
        assert store.add([]) == []
        assert store.get_nodes() == []


class TestDeleting:
    """Deletes take exactly what they name."""

    def test_by_source_document(self, store):
        """`delete` takes the nodes of that document; nodes without a source belong to none, not to "None"."""
        store.add(
            [
                part_of("d1", node("x", "1")),
                part_of("d1", node("x", "2")),
                part_of("d2", node("x", "3")),
                node("x", "4"),
            ]
        )
        store.delete("None")
        store.delete("unknown")
        assert len(store.get_nodes()) == 4
        store.delete("d1")
        assert {one.node_id for one in store.get_nodes()} == {"3", "4"}
        store.add([part_of("None", node("x", "5"))])
        store.delete("None")
        assert {one.node_id for one in store.get_nodes()} == {"3", "4"}
        for bad in (None, "", 7):
            with pytest.raises(InvalidInputError, match="ref_doc_id"):
                store.delete(bad)

    def test_by_id_and_filter(self, store, ask):
        """`delete_nodes` takes the ids that satisfy the filters; what is deleted is in no answer any more."""
        store.add([node("owl", str(i), i, n=i) for i in range(9)])
        store.delete_nodes(["0", "1", "unknown"], where("n", 0, ">"))
        store.delete_nodes(filters=where("n", 5, ">"))
        store.delete_nodes(["2"])
        store.delete_nodes([])
        for mode in ("default", "hybrid", "text_search"):
            assert set(ids(ask(mode=mode))) == {"0", "3", "4", "5"}

    def test_ids_mean_the_same_everywhere(self, store, ask):
        """Ids are a list, or what gives them one by one, for reads, queries and deletes; a text is refused."""
        store.add([node("owl", str(i), i) for i in range(4)])
        for call in (
            store.get_nodes,
            store.delete_nodes,
            lambda given: ask(node_ids=given),
            lambda given: ask(doc_ids=given),
        ):
            with pytest.raises(InvalidInputError, match="list of ids"):
                call("1")
        assert [one.node_id for one in store.get_nodes(iter(["2", "1", "2", "unknown"]))] == ["2", "1"]
        assert ids(ask(node_ids=iter(["1"]))) == ["1"]
        store.delete_nodes(iter(["1"]))
        assert sorted(one.node_id for one in store.get_nodes()) == ["0", "2", "3"]

    def test_more_than_a_page(self, store, monkeypatch):
        """Reads and deletes go on to the last page."""
        monkeypatch.setattr("llamaindex_memkit.vectorstore._PAGE", 2)
        store.add([node("owl", str(i)) for i in range(5)])
        assert len(store.get_nodes()) == 5
        store.delete_nodes(filters=where("none", 1, "!="))
        assert store.get_nodes() == []

    def test_nothing_named_is_refused(self, store):
        """Deleting without ids or a condition is refused: only `clear` takes everything (B36)."""
        store.add([node("x", "1")])
        nothing = MetadataFilters(filters=[])
        for filters in (None, nothing, MetadataFilters(filters=[nothing], condition="not")):
            with pytest.raises(InvalidInputError, match="clear"):
                store.delete_nodes(filters=filters)
        assert len(store.get_nodes()) == 1

    def test_isolation(self, memory, ask):
        """Two users, two names and a user's memories never see each other; clearing one leaves the rest (B36)."""
        memory.add("alice's owl", scope=ALICE)
        places = [(ALICE, "x"), (ALICE, "y"), (BOB, "x"), (Scope.session("s", user="alice"), "x")]
        stores = [MemkitVectorStore(memory=memory, scope=scope, name=name) for scope, name in places]
        for i, one in enumerate(stores):
            one.add([part_of("d1", node(f"owl {i}", "same-id"))])
        for i, one in enumerate(stores):
            assert [found.text for found in one.get_nodes()] == [f"owl {i}"]
            for mode in ("default", "hybrid", "text_search"):
                assert ids(ask(of=one, mode=mode)) == ["same-id"]
        stores[0].clear()
        stores[1].delete("d1")
        stores[2].delete_nodes(["same-id"])
        assert [len(one.get_nodes()) for one in stores] == [0, 0, 0, 1]
        assert [hit.record.content for hit in memory.recall("owl", scope=ALICE)] == ["alice's owl"]
        stores[3].clear()
        memory.delete(scope=ALICE)
        stores[0].clear()

    def test_names_are_no_paths(self, memory, path):
        """Any text is a collection's name; it makes no file (B33)."""
        before = {one for one in path.parent.rglob("*") if one.is_dir()}
        for name in ("../../x", "/abs", "a/../b", ".", "CON", "C:\\x"):
            one = MemkitVectorStore(memory=memory, scope=ALICE, name=name)
            one.add([node(name, name)])
            assert [found.text for found in one.get_nodes()] == [name]
        assert not (path.parent.parent / "x").exists()
        assert all("CON" not in one.name and one.name != "b" for one in path.parent.rglob("*"))
        assert before <= {one for one in path.parent.rglob("*") if one.is_dir()}
        for bad in ("", "a\0b", 7):
            with pytest.raises(ValueError, match="name"):
                MemkitVectorStore(memory=memory, scope=ALICE, name=bad)


class TestAsync:
    """The async methods."""

    async def test_the_same_in_other_threads(self, tmp_path):
        """Each async method does what its sync one does, and never on the event loop's thread."""
        threads = set()

        def clock():
            threads.add(threading.get_ident())
            return utc_now()

        with Memory.open(tmp_path / "m.db", clock=clock) as memory:
            store = MemkitVectorStore(memory=memory, scope=ALICE)
            threads.clear()
            assert await store.async_add(
                [part_of(f"d{i}", node("owl", str(i), i, n=i)) for i in range(5)]
            ) == list("01234")
            query = VectorStoreQuery(query_embedding=angled(0), similarity_top_k=3)
            assert await store.aquery(query) == store.query(query)
            threads.clear()
            mmr = VectorStoreQuery(query_embedding=angled(0), mode=VectorStoreQueryMode.MMR)
            assert (await store.aquery(mmr, mmr_threshold=1.0)).ids == ["0"]
            assert [one.node_id for one in await store.aget_nodes(["1"], where("n", 1))] == ["1"]
            await store.adelete("d0")
            await store.adelete_nodes(["1", "2"], where("n", 2))
            await store.adelete_nodes(["3"])
            assert [one.node_id for one in await store.aget_nodes()] == ["4", "1"]
            await store.aclear()
            assert await store.aget_nodes() == []
            assert threading.get_ident() not in threads


class TestSentAround:
    """Copies and serialised forms."""

    def test_needs_a_memory_and_a_scope(self, memory):
        """Without a memory or a file, or without a scope, there is a typed error that says what to give."""
        with pytest.raises(ConfigError, match=r"needs memory=Memory\.open"):
            MemkitVectorStore(scope=ALICE)
        with pytest.raises(ConfigError, match=r"memkit_core\.Memory"):
            MemkitVectorStore(memory="memory.db", scope=ALICE)
        for bad in (None, "alice", [], [["user"]], [["user", ""]]):
            with pytest.raises(ScopeError):
                MemkitVectorStore(memory=memory, scope=bad)

    def test_dict_round_trip(self, memory, path, store):
        """`to_dict` is JSON, names file, scope and collection and no content, and `from_dict` reconnects."""
        scope = Scope.session("s1", user=Scope.user("alice", org="acme"))
        one = MemkitVectorStore(memory=memory, scope=scope, name="notes", embedding_model="mine")
        one.add([node("secret words", "1")])
        data = json.loads(json.dumps(one.to_dict()))
        assert data == {
            "path": str(path),
            "scope": [["org", "acme"], ["user", "alice"], ["session", "s1"]],
            "name": "notes",
            "embedding_model": "mine",
            "class_name": "MemkitVectorStore",
        }
        again = MemkitVectorStore.from_dict(data)
        assert again.client is memory
        assert again.scope == scope
        assert again.get_nodes() == one.get_nodes()
        assert MemkitVectorStore.from_json(one.to_json()).get_nodes() == one.get_nodes()
        own = MemkitVectorStore.from_dict(store.to_dict() | {"embedding_model": None, "name": "own"})
        assert own.is_embedding_query is False
        with pytest.raises(ConfigError, match=r"gone\.db"):
            MemkitVectorStore.from_dict(data | {"path": str(path.parent / "gone.db")})

    def test_a_memory_without_a_file(self):
        """What lives in memory only cannot be serialised, and says so."""
        with Memory.open(":memory:") as memory:
            one = MemkitVectorStore(memory=memory, scope=ALICE)
            for call in (one.to_dict, one.to_json, lambda: pickle.dumps(one)):
                with pytest.raises(ConfigError, match="file"):
                    call()

    @pytest.mark.parametrize(
        "copied",
        [copy.copy, copy.deepcopy, lambda m: m.model_copy(), lambda m: m.model_copy(deep=True)],
        ids=["copy", "deepcopy", "model_copy", "model_copy deep"],
    )
    def test_copies(self, memory, store, copied):
        """Copies of each kind share the memory and work; so does the original (B71)."""
        store.add([node("owl", "1")])
        other = copied(store)
        other.add([node("fox", "2")])
        assert other.client is memory
        store.add([node("elk", "3")])
        assert {one.node_id for one in store.get_nodes()} == {"1", "2", "3"}
        assert copy.deepcopy({"state": [store]})["state"][0].get_nodes() == store.get_nodes()

    def test_pickle(self, store):
        """A pickled store finds its file again, here and in another process (B71)."""
        store.add([node("owl", "1")])
        data = pickle.dumps(store)
        again = pickle.loads(data)
        assert again.get_nodes() == store.get_nodes()
        again.client.close()
        code = "import pickle, sys; s = pickle.load(sys.stdin.buffer); print(s.get_nodes()[0].text)"
        done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
        assert done.stdout.decode().strip() == "owl"
        assert len(store.get_nodes()) == 1

    def test_persist_is_not_needed(self, store, tmp_path):
        """Nodes are in the file when `add` returns: `persist` writes nothing."""
        store.add([node("owl", "1")])
        store.persist(str(tmp_path / "elsewhere" / "x.json"))
        assert not (tmp_path / "elsewhere").exists()
        context = StorageContext.from_defaults(vector_store=store)
        context.persist(str(tmp_path / "storage"))
        assert not any(
            "vector_store" in one.name for one in (tmp_path / "storage").iterdir() if "image" not in one.name
        )
