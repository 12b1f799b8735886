"""`MemkitStore`: items of one scope as a LangGraph store, for `create_agent(..., store=...)` and graphs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor

from langchain_memkit._langgraph import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langchain_memkit.collection import OverCollection
from langchain_memkit.embeddings import MemkitEmbeddings
from langchain_memkit.store_filters import value_filter
from langchain_memkit.store_input import (
    Namespace,
    checked_fields,
    checked_op,
    checked_ttl_config,
    common_prefix,
    indexed_fields,
    matches_condition,
    own_embedding,
    texts_of,
)
from langchain_memkit.sweeping import Sweeper
from memkit_core import (
    InvalidInputError,
    Memory,
    NewItem,
    Scope,
    SearchMode,
)
from memkit_core.degraded import warn_degraded
from memkit_core.errors import shown
from memkit_core.inputs import checked_amount, checked_count, checked_enum
from memkit_core.items import Item as StoredItem
from memkit_core.items.building import checked_ttl
from memkit_core.jsonvalues import checked_metadata
from memkit_core.sequences import iterated

_LOGGER = logging.getLogger("memkit.langchain")
_MINUTE = 60.0
_MOST = 2**31


class MemkitStore(OverCollection, BaseStore):
    """The long-term store of an agent or graph: JSON values by namespace and key, of one scope.

    Setup:
        `pip install 'memkit-llm[agents]'`

    Instantiate:
        ```python
        store = MemkitStore(memory, scope=Scope.user("alice"))
        agent = create_agent(model, tools, store=store)  # or StateGraph(...).compile(store=store)
        ```
        It is a space of its own, `store:<name>`: nothing in it is recalled as a memory. **Whose it is
        says the scope, which has no default**; namespaces are labels inside of it. LangGraph's labels
        hold no dot, so an e-mail address is a scope rather than a label.

    Put:
        A value is a mapping that is JSON and comes back equal, a tuple as a list. What cannot be
        stored (a set, bytes, a datetime, NaN, an integer beyond 64 bits, text with NUL) is an
        `InvalidInputError`, a `ValueError` that names the key; see `langchain_memkit.plain.plain` for a
        conversion. `created_at` stays over updates. The puts of a batch are one transaction: all or
        nothing. Its reads see what was there before.

    Search:
        Without a query those that were updated last come first, `score` is None. With a query the
        nearest come first; `score` is (1 + cosine) / 2, in [0, 1], identical 1, of the nearest of the
        indexed texts. Behind them, as far as `limit` goes, stand items that could not be compared, with
        the score None: those that were put with `index=False`, or whose fields were not there. For
        `filter` see `langchain_memkit.store_filters`; it is applied before `limit`.

    Time to live:
        `ttl` is in minutes, and begins anew at each read that does not say `refresh_ttl=False`. What
        has expired is gone from every read at once, whatever `omit_expired` says; a sweep only frees
        the space: `memory.upkeep` does it with its other work, `sweep_ttl` and `start_ttl_sweeper` here.

    Async:
        Each has its asynchronous form, which does the same work in one worker thread.

    When the model is down words answer a query, without a score, and a warning goes to the logger
    `memkit.langchain`. Thread-safe, and safe from several processes: the last put wins. Copies share
    the memory, unpickling reopens it.

    Attributes:
        memory: where it is kept; the caller closes it.
        scope: whose items these are.
        name: the name of the collection.
        items: the collection itself, for what LangGraph has no verb for.
    """

    supports_ttl = True
    live = frozenset({"items", "_sweeper"})

    def __init__(
        self,
        memory: Memory,
        *,
        scope: Scope,
        name: str = "default",
        index: IndexConfig | Literal[False] | None = None,
        ttl: TTLConfig | None = None,
        embedding_model: str | None = None,
        mode: SearchMode | str = SearchMode.DENSE,
    ) -> None:
        """Open the collection; nothing is embedded or written yet.

        Args:
            memory: where it is kept.
            scope: whose items.
            name: any text of at most 4,096 characters.
            index: what items are found by: `{"fields": ["text", "notes[*].title"]}`, the whole value
                when None. With `embed` it has a model of its own instead of the memory's; `dims` is not
                needed, the model tells it. False: queries rank nothing.
            ttl: `default_ttl` and `sweep_interval_minutes` in minutes, `refresh_on_read`.
            embedding_model: the name of the model in `index`, when that does not say it.
            mode: "dense" orders by similarity; "hybrid" and "keyword" search by words too, and then
                `score` orders one answer and compares with no other.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            ConfigError: the collection holds vectors of another model, a model without a name, or
                settings that there are not.
            InvalidInputError: `memory` is no `Memory`, or a name that cannot be one.
        """
        if not isinstance(memory, Memory):
            raise InvalidInputError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        self.memory = memory
        self.scope = scope
        self.name = name
        self.ttl_config = checked_ttl_config(ttl)
        self._mode = checked_enum(SearchMode, mode, "mode")
        self._fields = indexed_fields(index)
        self._embedding = own_embedding(index)
        self._index = IndexConfig(**index) if isinstance(index, Mapping) else IndexConfig()
        self._embedding_model = embedding_model
        self._open()

    def _open(self) -> None:
        self.items = self.memory.items(
            self.name, scope=self.scope, embedder=self._embedding, embedding_model=self._embedding_model
        )
        self._sweeper: Sweeper | None = None

    @property
    def embeddings(self) -> Embeddings | None:
        """The model of `index`, or the memory's embedder; None with `index=False`."""
        if self._fields is None:
            return None
        if isinstance(self._embedding, Embeddings):
            return self._embedding
        return MemkitEmbeddings(self.items.embedder)

    @property
    def index_config(self) -> IndexConfig | None:
        """What items are found by, as LangGraph's stores tell it: by this apps see whether queries rank.

        `embed` as it was given, else `embeddings`; all `fields`; `dims` if it was given. A new dict; None
        with `index=False`.
        """
        if self._fields is None:
            return None
        config = IndexConfig(**self._index)
        config["fields"] = [*self._fields]
        if config.get("embed") is None:
            config["embed"] = MemkitEmbeddings(self.items.embedder)
        return config

    # ------------------------------------------------------------------ the two that all others are made of

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do all of `ops` and return what each gives, in order: of puts and deletes None.

        Reads see what was there before. Of several puts under one name the last counts; all puts and
        deletes are one transaction, and come after the reads.

        Raises:
            InvalidNamespaceError: a namespace that cannot be one; nothing was written.
            InvalidInputError: anything else that cannot be done; nothing was written.
        """
        given = iterated(ops)
        if given is None:
            raise InvalidInputError(f"batch takes a list of operations, got {shown(ops)}")
        listed = [checked_op(op) for op in given]
        puts = {(tuple(op.namespace), op.key): op for op in listed if isinstance(op, PutOp)}
        new = [self._new(op) for op in puts.values() if op.value is not None]
        gone = [name for name, op in puts.items() if op.value is None]
        results = [self._answer(op) for op in listed]
        if puts:
            self.items.put(new, delete=gone)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`. Cancelling the await does not stop a write that has begun."""
        return await run_in_executor(None, self.batch, ops)

    def _new(self, op: PutOp) -> NewItem:
        # Checked first: texts are taken from what will be stored.
        if not isinstance(op.value, Mapping):
            raise InvalidInputError(f"put: a value must be a mapping, got {shown(op.value)}")
        value = checked_metadata(op.value, name="value")
        if op.index is not None and op.index is not False:
            fields: Sequence[str] | None = checked_fields(op.index)
        else:
            fields = None if op.index is False else self._fields
        return NewItem(
            namespace=op.namespace,
            key=op.key,
            value=value,
            texts=[] if fields is None or self._fields is None else texts_of(value, fields),
            ttl=None if op.ttl is None else checked_ttl(op.ttl) * _MINUTE,
        )

    def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self.items.get(op.namespace, op.key, refresh=op.refresh_ttl)
            return None if found is None else Item(**_fields_of(found))
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        return None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.query is not None and not isinstance(op.query, str):
            raise InvalidInputError(f"search: query must be a text or None, got {shown(op.query)}")
        asked = value_filter(op.filter)
        result = self.items.search(
            op.namespace_prefix,
            query="" if op.query is None or self._fields is None else op.query,
            filters=None if asked is None else asked.where,
            matching=None if asked is None else asked.matching,
            limit=op.limit,
            offset=op.offset,
            mode=self._mode,
            refresh=op.refresh_ttl,
        )
        warn_degraded(_LOGGER, "store", result.missing)
        return [SearchItem(**_fields_of(found), score=found.score) for found in result]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        limit = checked_amount(op.limit, "list_namespaces: limit", most=_MOST)
        offset = checked_amount(op.offset, "list_namespaces: offset", most=_MOST)
        conditions = tuple(op.match_conditions or ())
        found = [
            one
            for one in self.items.namespaces(common_prefix(conditions))
            if all(matches_condition(condition, one) for condition in conditions)
        ]
        if op.max_depth is not None:
            depth = checked_count(op.max_depth, "list_namespaces: max_depth", most=_MOST)
            found = sorted({one[:depth] for one in found})
        return found[offset : offset + limit]

    # ------------------------------------------------------------------ what has expired

    def sweep_ttl(self) -> int:
        """Delete what has expired in the memory, whoever's it is; returns how many records.

        No read shows what has expired, swept or not: this frees the space.
        """
        return self.memory.upkeep.sweep().records

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Let a thread call `sweep_ttl` from time to time, until `stop_ttl_sweeper` or the memory is closed.

        For a memory that does not do its periodic work itself, see `memkit_core.Config.upkeep`. Called
        again, it changes nothing.

        Args:
            sweep_interval_minutes: how often; else what `ttl` says, else every 5 minutes.
        """
        minutes = sweep_interval_minutes
        if minutes is None:
            minutes = (self.ttl_config or {}).get("sweep_interval_minutes") or 5
        if self._sweeper is None or not self._sweeper.is_alive():
            self._sweeper = Sweeper(self.sweep_ttl, checked_ttl(minutes) * _MINUTE)
            self._sweeper.start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End that thread, and wait for it up to `timeout` seconds; whether none runs any longer."""
        if self._sweeper is not None:
            self._sweeper.stopped.set()
            self._sweeper.join(timeout)
            if self._sweeper.is_alive():
                return False
            self._sweeper = None
        return True


def _fields_of(found: StoredItem) -> dict[str, Any]:
    return {
        "namespace": found.namespace,
        "key": found.key,
        "value": found.value,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
    }
