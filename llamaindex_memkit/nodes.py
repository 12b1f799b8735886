"""Between LlamaIndex's nodes and the core's documents, without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    TextNode,
)

from llamaindex_memkit.convert import plain
from memkit_core import InvalidInputError, MemoryRecord
from memkit_core.documents import NewDocument
from memkit_core.filters import Condition, condition, metadata_key
from memkit_core.jsonvalues import JsonValue

OWN = "_llama_index"
"""The one metadata key of a document that is ours; a user's key of that name is moved below it."""

SOURCE_KEYS = frozenset({"doc_id", "document_id", "ref_doc_id"})
"""Filter keys that name a node's source document, as in every LlamaIndex store; a user's own win."""

SOURCE_PATH = (OWN, "source")
"""Where the id of the source document is; nodes without one have none."""

_KINDS: Mapping[str, type[BaseNode]] = {
    kind.__name__: kind for kind in (TextNode, ImageNode, IndexNode, Node, Document, ImageDocument)
}


def to_document(node: BaseNode) -> NewDocument:
    """The node as a document: its text, its metadata under its own keys, and the rest as one JSON text.

    A JSON text keeps the order of the metadata, which a node's hash depends on. Metadata that JSON
    does not know is stored in the form `plain` gives it. The argument stays as it is.

    Raises:
        InvalidInputError: the node has an object that LlamaIndex cannot serialise, or several sources.
    """
    try:
        source = node.source_node
        dumped = node.dict(exclude={"embedding", "text"}, warnings=False)
    except ValueError as error:
        raise InvalidInputError(f"node {node.node_id!r} cannot be stored: {error}") from error
    for name, resource in node:
        # Pydantic leaves the bytes of media out.
        if isinstance(resource, MediaResource) and resource.data is not None:
            dumped[name]["data"] = resource.data
    body = {name: plain(value) for name, value in dumped.items()}
    own: dict[str, JsonValue] = {"type": _kind_of(node), "node": json.dumps(body, ensure_ascii=False)}
    if source is not None:
        own["source"] = source.node_id
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    if OWN in metadata:
        own["displaced"] = metadata[OWN]
    return NewDocument(id=node.node_id, content=node.get_content(), metadata={**metadata, OWN: own})


def _kind_of(node: BaseNode) -> str:
    return next((kind.__name__ for kind in type(node).__mro__ if kind.__name__ in _KINDS), "TextNode")


def to_node(record: MemoryRecord) -> BaseNode:
    """A new node: the one that was stored, without its embedding, or a `TextNode` of another document.

    Of a class that LlamaIndex does not have comes back the class of LlamaIndex that it is made from.
    """
    own = record.metadata.get(OWN)
    if not isinstance(own, dict):
        return TextNode(id_=record.id, text=record.content, metadata=dict(record.metadata))
    body = json.loads(str(own["node"]))
    kind = _KINDS[str(own["type"])]
    if issubclass(kind, TextNode):
        body["text"] = record.content
    return kind.from_dict(body)


def filterable(record: MemoryRecord) -> dict[str, JsonValue]:
    """What LlamaIndex's filters see of a node: its metadata, and its source under `SOURCE_KEYS`."""
    found = dict(record.metadata)
    own = found.pop(OWN, None)
    if not isinstance(own, dict):
        return found
    if "displaced" in own:
        found[OWN] = own["displaced"]
    if "source" in own:
        found = {**dict.fromkeys(SOURCE_KEYS, own["source"]), **found}
    return found


def path_of(key: str) -> tuple[str, ...]:
    """Where the value of a node's metadata `key` is in the metadata of its document."""
    return (OWN, "displaced") if key == OWN else (key,)


def from_sources(ids: Sequence[str]) -> Condition:
    """The nodes whose source document is one of these."""
    return condition(metadata_key(*SOURCE_PATH), "in", list(ids))
