"""`memory.documents(...)`: a named collection of texts, what the frameworks' vector stores are made of."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from numpy.typing import ArrayLike

from memkit_core.chunking import ContentType, level_for
from memkit_core.config import Config
from memkit_core.documents.building import NewDocument, build_document
from memkit_core.documents.chunks import (
    chunk_records,
    cut,
    has_several_sizes,
    in_order,
    of_documents,
    of_level,
    with_parents,
)
from memkit_core.documents.searching import DocumentSearch, SearchMode, at_level, weighed
from memkit_core.documents.spaces import CollectionSpace, finite
from memkit_core.embedders.checked import CheckedEmbedder, CurrentModel
from memkit_core.errors import (
    BackendError,
    DimensionMismatchError,
    InvalidInputError,
    shown,
)
from memkit_core.filters import And, Filter, FilterLike, conjunction, parse_filter
from memkit_core.indexing import Indexer, Indexers
from memkit_core.inputs import (
    checked_bool,
    checked_count,
    checked_enum,
    checked_fraction,
    checked_id,
    checked_text,
    listed,
)
from memkit_core.live import Live
from memkit_core.models import (
    DOCUMENTS,
    DeleteReceipt,
    MemoryRecord,
    RecallResult,
    RecordPage,
    Status,
    Target,
)
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_DOCUMENTS
from memkit_core.ports import Chunker, Embedder, Level, ListQuery, RecordStore, Vector, VectorSpace
from memkit_core.recall.copies import PartitionCopies
from memkit_core.recall.query import RecallQuery
from memkit_core.scope import Scope
from memkit_core.sequences import iterated
from memkit_core.text.clean import storable
from memkit_core.times import Clock

_log = logging.getLogger("memkit")

_PAGE = 1000


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
        scope: Scope,
        *,
        store: RecordStore,
        indexers: Indexers,
        own: CurrentModel,
        copies: PartitionCopies,
        embedder: CheckedEmbedder | None,
        model: str | None,
        config: Config,
        clock: Clock,
        changed: Callable[[], None],
        redact: Callable[[str], str] | None = None,
    ) -> None:
        """`Memory.documents` is the way in: `embedder` and `model` are None for the memory's own vectors."""
        self.name = name
        self.scope = scope
        self._target = Target(scope=scope, space=f"{DOCUMENTS}{checked_id(name, 'name')}")
        self._store = store
        self._indexers = indexers
        self._own = own
        self._embedder = embedder
        self._model = model
        self._config = config
        self._clock = clock
        self._changed = changed
        self._redact = redact
        self._space_of = CollectionSpace(name, self._target, store=store, embedder=embedder, model=model)
        self._searched = DocumentSearch(
            self._target, store=store, own=own, copies=copies, embedder=embedder, model=model
        )
        self._space_of.held(None)

    @property
    def space(self) -> str:
        """The space its records are in, `documents:<name>`."""
        return self._target.space

    @property
    def embedder(self) -> Embedder | None:
        """What embeds its texts and queries, None when they come with their vectors; raises `ModelError`."""
        return self._own() if self._model is None else self._embedder

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
        given = self._space_of.checked(vectors, len(records))
        if not records:
            return []
        space = self._space_of.to_write(given)
        stored = self._store.records.put(self.scope, records, vector_space=space, vectors=given)
        self._index(stored, space, verb="put")
        return stored

    def _index(self, stored: Sequence[MemoryRecord], space: VectorSpace | None, *, verb: str) -> None:
        try:
            self._indexer(space).sync([record.point_id for record in stored])
        except BackendError as error:
            # Documented degradation: the documents are safe, and the worker goes on with the outbox.
            _log.warning("%s: stored, but not indexed yet: %s", verb, error)
        self._changed()

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
        self._space_of.checked(None, len(records))
        space = self._space_of.to_write(None) if records else None
        stored, _ = self._store.records.replace(
            self.scope, self.space, [document], records, vector_space=space
        )
        self._index(stored, space, verb="add_document")
        return stored

    def _record(self, document: object) -> MemoryRecord:
        return build_document(document, target=self._target, config=self._config, now=self._clock())

    def _indexer(self, space: VectorSpace | None) -> Indexer:
        return self._indexers.own if space is None else self._indexers.given(space, self._embedder)

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
        if not isinstance(query, str):
            raise InvalidInputError(f"search: query must be a string, got {shown(query)}")
        asked = RecallQuery(
            text=storable(query),
            scopes=(self.scope,),
            space=self.space,
            top_k=checked_count(top_k, "search: top_k", most=self._config.max_top_k),
            where=parse_filter(filters),
            types=(),
            statuses=(Status.ACTIVE,),
            include_messages=False,
            # A document is no memory: neither its age nor an importance nobody gave counts.
            ranking=dataclasses.replace(self._config.ranking, recency=0.0, newer=0.0, importance=0.0),
            candidates=max(self._config.candidates, 3 * top_k),
            asked_at=self._clock(),
            now=self._clock(),
        )
        chosen = checked_enum(SearchMode, mode, "mode")
        if alpha is not None:
            chosen, ranking = weighed(chosen, asked.ranking, checked_fraction(alpha, "alpha"))
            asked = dataclasses.replace(asked, ranking=ranking)
        floor = checked_fraction(min_similarity, "min_similarity")
        if floor > 0 and chosen is SearchMode.KEYWORD:
            raise InvalidInputError(
                f"search: min_similarity={shown(min_similarity)} compares vectors, and a search by words has none; "
                "leave it out, or search with mode 'dense' or 'hybrid'"
            )
        given = None if vector is None else finite(vector, 1, "vector")
        space = self._space_of.held(None if given is None else len(given))
        if space is None and self._model is not None:
            # Empty: the memory's own index, the only one there is, has vectors of another model.
            return RecallResult()
        if given is not None and self._model is None:
            own = self._store.vectors.space()
            if own is not None and own.dimension != len(given):
                raise DimensionMismatchError(
                    f"the memory's vectors have {own.dimension} dimensions, the query {len(given)}",
                    backend="memkit",
                    operation="documents",
                )
        ask = partial(self._searched, mode=chosen, given=given, indexer=self._indexer(space), floor=floor)
        wanted = None if level is None else checked_enum(Level, level, "level")
        result = ask(asked if wanted is None else at_level(asked, wanted))
        if wanted is None and any(has_several_sizes(hit.record) for hit in result):
            # Most collections have one size, and are asked once.
            result = ask(at_level(asked, level_for(query)))
        return with_parents(result, self.get) if checked_bool(parents, "parents") else result

    # ------------------------------------------------------------------ reading and deleting

    def get(self, ids: Iterable[str]) -> list[MemoryRecord]:
        """The documents with these ids that exist, in the order of `ids`, without repeats."""
        wanted = [checked_id(one) for one in listed(ids, "ids")]
        found = self._store.records.get(self.scope, self.space, wanted, now=self._clock())
        return [record for record in found if record.status is Status.ACTIVE]

    def chunks(self, document: str, *, level: Level | str | None = None) -> list[MemoryRecord]:
        """The chunks of a document, the smallest first and those of a size in the order of the text.

        Of one `level` alone, as `search` finds them, when it is given. Empty for an unknown document.
        """
        where = conjunction(
            of_documents([checked_id(document, "document")]),
            None if level is None else of_level(checked_enum(Level, level, "level")),
        )
        return in_order(self._all(where))

    def vectors(self, ids: Iterable[str]) -> dict[str, Vector]:
        """The stored vector of each of these documents that has one, `(d,) float32`, by id."""
        points = {record.point_id: record.id for record in self.get(ids)}
        space = self._space_of.held(None)
        table = self._store.vectors if space is None else self._store.given(space).vectors
        found, rows = table.scan(self._target, where=None, now=self._clock(), points=list(points))
        return {points[point]: row for point, row in zip(found, rows, strict=True)}

    def list(
        self, *, filters: FilterLike | None = None, limit: int = 100, cursor: str | None = None
    ) -> RecordPage:
        """Documents that satisfy `filters`, newest first; the cursor pages on."""
        query = ListQuery(
            space=self.space,
            where=parse_filter(filters),
            limit=checked_count(limit, "list: limit", most=10_000),
            cursor=cursor,
        )
        return self._store.records.list(self.scope, query, now=self._clock())

    def delete(self, ids: Iterable[str] | None = None, *, filters: FilterLike | None = None) -> DeleteReceipt:
        """Delete the documents with these ids, or those that satisfy `filters`; unknown ids count as nothing.

        The id of a document of `add_document` stands for all of its chunks. All go in one transaction.

        Raises:
            InvalidInputError: neither, or both, were given: see `clear` for all of them.
        """
        if (ids is None) == (filters is None):
            raise InvalidInputError("delete: give ids or filters; clear() deletes the whole collection")
        if ids is None:
            receipt = self._store.records.delete(self.scope, self.space, self._all_ids(filters))
        else:
            wanted = [checked_id(one) for one in listed(ids, "ids")]
            _, receipt = self._store.records.replace(self.scope, self.space, wanted, ids=wanted)
        self._changed()
        return receipt

    def _all_ids(self, filters: FilterLike | None) -> Sequence[str]:
        where = parse_filter(filters)
        if where in (None, And(())):
            raise InvalidInputError(
                "delete: filters holds no condition; clear() deletes the whole collection"
            )
        return [record.id for record in self._all(where)]

    def _all(self, where: Filter | None) -> Sequence[MemoryRecord]:
        page = self.list(filters=where, limit=_PAGE)
        found = [*page]
        while page.cursor is not None:
            page = self.list(filters=where, limit=_PAGE, cursor=page.cursor)
            found += page
        return found

    def clear(self) -> DeleteReceipt:
        """Delete every document of this collection, and nothing else, in one transaction."""
        receipt = self._store.records.delete_space(self.scope, self.space)
        self._changed()
        return receipt
