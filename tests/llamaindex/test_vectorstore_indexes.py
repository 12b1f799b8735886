"""LlamaIndex's own indexes, engines and pipelines over a `MemkitVectorStore`."""

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.retrievers import VectorIndexRetriever
from llama_index.core.schema import ImageNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from llamaindex_memkit import MemkitVectorStore
from memkit_core import Memory, Scope

ALICE = Scope.user("alice")


@pytest.fixture
def index(store, letters):
    return VectorStoreIndex.from_vector_store(store, embed_model=letters)


def where(key, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value)])


def texts(found):
    return [one.node.get_content() for one in found]


def test_from_nodes_over_a_restart(path, letters):
    """An index built of nodes is found again from the file alone, in a new process's place."""
    nodes = [
        TextNode(
            id_=text,
            text=text,
            metadata={"n": n},
            excluded_embed_metadata_keys=["n"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d1")},
        )
        for n, text in enumerate(["owls hoot", "foxes bark", "elks bellow"])
    ]
    with Memory.open(path) as memory:
        context = StorageContext.from_defaults(vector_store=MemkitVectorStore(memory=memory, scope=ALICE))
        VectorStoreIndex(nodes, storage_context=context, embed_model=letters)
    with Memory.open(path) as memory:
        store = MemkitVectorStore(memory=memory, scope=ALICE)
        index = VectorStoreIndex.from_vector_store(store, embed_model=letters)
        [best] = index.as_retriever(similarity_top_k=1).retrieve("foxes bark")
        assert best.node == nodes[1]
        assert best.score == pytest.approx(1, abs=1e-6)
        assert {one.node_id for one in store.get_nodes()} == {node.node_id for node in nodes}


def test_documents_come_and_go(index, store):
    """`insert`, `update_ref_doc`, `delete_nodes` and `delete_ref_doc` change exactly their document."""
    index.insert(Document(text="owls hoot", doc_id="d1"))
    index.insert(Document(text="foxes bark", doc_id="d2"))
    index.update_ref_doc(Document(text="owls sleep", doc_id="d1"))
    assert {node.text for node in store.get_nodes()} == {"owls sleep", "foxes bark"}
    index.delete_ref_doc("d1")
    assert [node.text for node in store.get_nodes()] == ["foxes bark"]
    index.delete_nodes([node.node_id for node in store.get_nodes()])
    assert index.as_retriever().retrieve("owls") == []


@pytest.mark.parametrize("mode", ["default", "hybrid", "text_search", "sparse", "mmr"])
async def test_retrievers(index, mode):
    """A retriever with filters finds the same, sync and async, in every mode."""
    index.insert_nodes([TextNode(text=f"owls hoot {n}", metadata={"n": n}) for n in range(20)])
    retriever = index.as_retriever(similarity_top_k=3, filters=where("n", 7), vector_store_query_mode=mode)
    assert texts(retriever.retrieve("owls hoot")) == ["owls hoot 7"]
    assert texts(await retriever.aretrieve("owls hoot")) == ["owls hoot 7"]
    unfiltered = index.as_retriever(similarity_top_k=3, vector_store_query_mode=mode)
    assert len(unfiltered.retrieve("owls hoot")) == 3


async def test_query_engines(index):
    """A query engine puts what was found before its model; a cutoff means the similarity."""
    index.insert_nodes([TextNode(text="owls hoot"), TextNode(text="zzz")])
    settings = {"llm": MockLLM(), "similarity_top_k": 2, "vector_store_query_mode": "hybrid", "alpha": 0.5}
    engine = index.as_query_engine(**settings, sparse_top_k=12)
    assert "owls hoot" in str(engine.query("owls hoot"))
    assert "owls hoot" in str(await engine.aquery("owls hoot"))
    strict = index.as_query_engine(
        **settings, node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.99)]
    )
    assert texts(strict.query("owls hoot").source_nodes) == ["owls hoot"]


async def test_built_async(store, letters):
    """An index that adds its nodes asynchronously stores the same, inside a running loop too."""
    index = VectorStoreIndex.from_vector_store(store, embed_model=letters, use_async=True)
    await index.ainsert_nodes([TextNode(text="owls hoot", id_="1")])
    assert [node.node_id for node in store.get_nodes()] == ["1"]
    await index.adelete_ref_doc("unknown")
    await index.adelete_nodes(["1"])
    assert store.get_nodes() == []


def test_pictures_beside_texts(index):
    """Image nodes are found with their class; a retriever made without ids of its own finds the texts beside them."""
    index.insert_nodes([TextNode(text="owls hoot"), ImageNode(text="an owl", image_url="http://x/y.png")])
    found = VectorIndexRetriever(index, similarity_top_k=2).retrieve("owls")
    assert {type(one.node) for one in found} == {TextNode, ImageNode}


async def test_ingestion(store, letters):
    """A pipeline adds its nodes once, replaces those of a changed document, and deletes those of one that is gone."""
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), letters],
        vector_store=store,
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    one, two = Document(text="owls hoot", doc_id="d1"), Document(text="foxes bark", doc_id="d2")
    pipeline.run(documents=[one, two])
    pipeline.run(documents=[one, two])
    assert sorted(node.text for node in store.get_nodes()) == ["foxes bark", "owls hoot"]
    pipeline.run(documents=[Document(text="owls sleep", doc_id="d1")])
    assert [node.text for node in store.get_nodes()] == ["owls sleep"]
    await pipeline.arun(documents=[Document(text="owls wake", doc_id="d1")])
    assert [node.text for node in store.get_nodes()] == ["owls wake"]
