"""`memory.documents(...)`: a named collection of texts, what the frameworks' vector stores are made of."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from numpy.typing import ArrayLike

from memkit_core.chunking import ContentType
from memkit_core.documents.building import NewDocument, build_document
from memkit_core.documents.chunks import (
    chunk_records,
    cut,
    in_order,
    of_documents,
    of_level,
    with_parents,
)
from memkit_core.documents.rows import Rows
from memkit_core.documents.searching import SearchMode
from memkit_core.errors import InvalidInputError, shown
from memkit_core.filters import And, FilterLike, conjunction, parse_filter
from memkit_core.inputs import checked_bool, checked_count, checked_enum, checked_id, checked_text, listed
from memkit_core.live import Live
from memkit_core.models import DeleteReceipt, MemoryRecord, RecallResult, RecordPage
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_DOCUMENTS
from memkit_core.ports import Chunker, Embedder, Level, Vector
from memkit_core.sequences import iterated
from memkit_core.text.clean import storable


@observed(OF_DOCUMENTS)
class Documents(Live):
    """A named collection of texts that belongs to one scope. Reached as `memory.documents`; thread-safe.

    It is a space of its own: nothing here is recalled as a memory, and clearing it touches nothing
    else. A collection has the vectors of one model: of the memory's embedder, of an embedder of its
    own, or those that its texts come with. Documents are never merged; the same id replaces.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        *,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        """`Memory.documents` is the way in."""
        self.name = name
        self.scope = rows.target.scope
        self._rows = rows
        self._store = rows.store
        self._config = rows.config
        self._redact = redact

    @property
    def space(self) -> str:
        """The space its records are in, `documents:<name>`."""
        return self._rows.target.space

    @property
    def embedder(self) -> Embedder | None:
        """What embeds its texts and queries, None when they come with their vectors; raises `ModelError`."""
        return self._rows.embedder

    # ------------------------------------------------------------------ writing

    def put(
        self, documents: Iterable[NewDocument | str], *, vectors: ArrayLike | None = None
    ) -> list[MemoryRecord]:
        """Add documents, replacing those with the same ids; returns the stored records in order.

        One transaction: all or nothing. They are found by words when this returns, and by vector too
        unless the embedder or the index failed: then they wait in the outbox, see
        `Memory.capabilities`. The same id twice in one call is one document, the last.

        Args:
            documents: what to keep; a text stands for `NewDocument(content=text)`.
            vectors: shape `(n, d)`, one row a document, for a collection whose texts come with their
                vectors; an all-zero row means nothing to embed.

        Raises:
            InvalidInputError: a document or vectors that cannot be stored; nothing is written.
            DimensionMismatchError: vectors of another length than those the collection holds.
            ConfigError: the collection holds vectors of another model.
            ModelError: an embedder of the collection's own failed at its very first use, when the
                length of its vectors is not known yet.
        """
        given_documents = iterated(documents)
        if given_documents is None:
            raise InvalidInputError(f"put takes a list of texts or NewDocument, got {shown(documents)}")
        records = [self._record(document) for document in given_documents]
        if len(records) > self._config.max_batch:
            raise InvalidInputError(
                f"put: at most {self._config.max_batch} documents in one call, got {len(records)}"
            )
        given = self._rows.vectors.checked(vectors, len(records))
        return self._rows.put(records, given) if records else []

    def add_document(
        self,
        text: str,
        *,
        id: str | None = None,  # noqa: A002 - the word every reader expects
        chunker: Chunker | ContentType | str = ContentType.ARTICLE,
        context: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> list[MemoryRecord]:
        """Cut a long text into chunks and add them, in the place of all chunks of a document with this id.

        Each chunk is a document of the collection, with the text as it stands there; what is embedded
        and keyword-indexed is led by `context` and the headings it stands under. `chunk_place` tells
        where in the text a chunk stands. One transaction: all or nothing; found as after `put`. A chunk
        that is what it was keeps its vector. With `Config.redact`, the text is redacted before it is
        cut, and places count in the redacted text.

        Args:
            text: the document; a blank one has no chunks.
            id: names the document, to replace or delete it; a UUID is made when None.
            chunker: what cuts it: a `ContentChunker`, any function from a text to chunks, or a content
                type ("documentation", "conversation", "article") for its first size.
            context: what the document is, such as its title, to be embedded with each chunk.
            metadata: of each chunk.

        Returns:
            The stored chunks, in the order of the chunker; `source` of each is the document's id.

        Raises:
            InvalidInputError: an argument that cannot be stored, or a chunker that gave no chunks of this
                text, or too many; nothing is written.
            MissingDependencyError: the extra `chunking` is not installed.
            ConfigError: as in `put`.
            ModelError: as in `put`.
        """
        document = str(uuid.uuid4()) if id is None else checked_id(id)
        if not isinstance(text, str):
            raise InvalidInputError(f"add_document takes a text, got {shown(text)}")
        clean = storable(text if self._redact is None else self._redact(text))
        chunks = cut(clean, chunker, config=self._config)
        plain = dataclasses.replace(self._record(NewDocument(content="", metadata=metadata)), source=document)
        about = checked_text(context, "context", max_chars=self._config.max_content_chars)
        records = chunk_records(chunks, plain, context=about)
        self._rows.vectors.checked(None, len(records))
        stored, _ = self._rows.replace([document], records, verb="add_document")
        return stored

    def _record(self, document: object) -> MemoryRecord:
        return build_document(document, target=self._rows.target, config=self._config, now=self._rows.now())

    # ------------------------------------------------------------------ searching

    def search(
        self,
        query: str = "",
        *,
        vector: ArrayLike | None = None,
        top_k: int = 4,
        filters: FilterLike | None = None,
        mode: SearchMode | str = SearchMode.DENSE,
        alpha: float | None = None,
        min_similarity: float = 0.0,
        level: Level | str | None = None,
        parents: bool = False,
    ) -> RecallResult:
        """The documents nearest to `query`, best first.

        Args:
            query: text, for the words and, where no `vector` is given, for the embedder.
            vector: shape `(d,)`, the query's own vector, of the model the collection holds.
            top_k: the most hits, 1 to `Config.max_top_k`.
            filters: conditions that every hit satisfies, see `memkit_core.filters`; the keys of a
                document's metadata are `metadata.<key>`.
            mode: "dense" orders by `signals.similarity`, which then is the score; "keyword" by BM25;
                "hybrid" fuses both, without regard to the age of a document.
            alpha: the share of the vectors in "hybrid", 0 for words alone to 1 for vectors alone; None
                for the weights of `Config.ranking`.
            min_similarity: only hits with a similarity, (1 + cosine) / 2, of at least this; not for
                a search by words alone, which compares no vectors.
            level: "small", "medium" or "large", for documents that were cut in several sizes; None for
                the rule of `memkit_core.chunking.level_for`. Other documents are found at every level.
            parents: with each hit that was cut out of a larger chunk, that one as its `parent`.

        Returns:
            The hits. When the query could not be embedded the keyword leg answers, and `.missing`
            holds "dense"; "index" is there while exact scans stand in for the index.

        Raises:
            DimensionMismatchError: `vector` has another length than the collection's vectors.
            InvalidInputError: `top_k` out of range, a query that is no text, or settings that do not
                go together.
            FilterError: an unknown operator or unusable key; never an empty answer instead.
        """
        result = self._rows.search(
            query,
            top_k=checked_count(top_k, "search: top_k", most=self._config.max_top_k),
            where=parse_filter(filters),
            mode=mode,
            vector=vector,
            alpha=alpha,
            min_similarity=min_similarity,
            level=level,
        )
        return with_parents(result, self.get) if checked_bool(parents, "parents") else result

    # ------------------------------------------------------------------ reading and deleting

    def get(self, ids: Iterable[str]) -> list[MemoryRecord]:
        """The documents with these ids that exist, in the order of `ids`, without repeats."""
        return self._rows.get([checked_id(one) for one in listed(ids, "ids")])

    def chunks(self, document: str, *, level: Level | str | None = None) -> list[MemoryRecord]:
        """The chunks of a document, the smallest first and those of a size in the order of the text.

        Of one `level` alone, as `search` finds them, when it is given. Empty for an unknown document.
        """
        where = conjunction(
            of_documents([checked_id(document, "document")]),
            None if level is None else of_level(checked_enum(Level, level, "level")),
        )
        return in_order(self._rows.all(where))

    def vectors(self, ids: Iterable[str]) -> dict[str, Vector]:
        """The stored vector of each of these documents that has one, `(d,) float32`, by id."""
        points = {record.point_id: record.id for record in self.get(ids)}
        space, store = self._rows.vectors.held(None), self._rows.store
        table = store.vectors if space is None else store.given(space).vectors
        found, rows = table.scan(self._rows.target, where=None, now=self._rows.now(), points=list(points))
        return {points[point]: row for point, row in zip(found, rows, strict=True)}

    def list(
        self, *, filters: FilterLike | None = None, limit: int = 100, cursor: str | None = None
    ) -> RecordPage:
        """Documents that satisfy `filters`, newest first; the cursor pages on."""
        most = checked_count(limit, "list: limit", most=10_000)
        return self._rows.list(parse_filter(filters), limit=most, cursor=cursor)

    def delete(self, ids: Iterable[str] | None = None, *, filters: FilterLike | None = None) -> DeleteReceipt:
        """Delete the documents with these ids, or those that satisfy `filters`; unknown ids count as nothing.

        The id of a document of `add_document` stands for all of its chunks. All go in one transaction.

        Raises:
            InvalidInputError: neither, or both, were given: see `clear` for all of them.
        """
        if (ids is None) == (filters is None):
            raise InvalidInputError("delete: give ids or filters; clear() deletes the whole collection")
        if ids is None:
            return self._rows.delete(self._all_ids(filters))
        wanted = [checked_id(one) for one in listed(ids, "ids")]
        return self._rows.replace(wanted, ids=wanted, verb="delete")[1]

    def _all_ids(self, filters: FilterLike | None) -> Sequence[str]:
        where = parse_filter(filters)
        if where in (None, And(())):
            raise InvalidInputError(
                "delete: filters holds no condition; clear() deletes the whole collection"
            )
        return [record.id for record in self._rows.all(where)]

    def clear(self) -> DeleteReceipt:
        """Delete every document of this collection, and nothing else, in one transaction."""
        return self._rows.clear()
