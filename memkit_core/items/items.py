"""`memory.items(...)`: a named collection of values by namespace and key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from memkit_core.documents.rows import Rows
from memkit_core.documents.searching import SearchMode
from memkit_core.errors import BackendError, ConflictError, InvalidInputError, RecordNotFoundError, shown
from memkit_core.filters import Condition, Filter, FilterLike, Op, conjunction, parse_filter
from memkit_core.inputs import checked_amount, checked_bool, checked_enum
from memkit_core.items.building import (
    Item,
    NewItem,
    build_item,
    expiry,
    parts_of,
    read_item,
    ttl_of,
)
from memkit_core.items.names import NO_PART, VALUE, item_id, names_of, of_items, within
from memkit_core.jsonvalues import JsonValue
from memkit_core.live import Live
from memkit_core.models import DeleteReceipt, MemoryRecord, RecordPatch
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_ITEMS
from memkit_core.ports import Embedder
from memkit_core.sequences import iterated

Matching = Callable[[Mapping[str, JsonValue]], bool]
"""Whether a value is wanted, for what no filter can say."""

_log = logging.getLogger("memkit")

_MOST = 2**31
_MANY = 1000
"""Hits above which it is worth while to count first how many rows there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage(Sequence[Item]):
    """What a search of items found, in order.

    Attributes:
        items: the items.
        missing: what did not answer in full, as in `RecallResult.missing`.
    """

    items: tuple[Item, ...] = ()
    missing: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Item]:
        """The items, in order."""
        return iter(self.items)

    def __len__(self) -> int:
        """How many items these are."""
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        """The item, or those, at this place."""
        return self.items[index]


@observed(OF_ITEMS)
class Items(Live):
    """Values by namespace and key that belong to one scope. Reached as `memory.items`; thread-safe.

    It is a space of its own: nothing here is recalled as a memory, and clearing it touches nothing
    else. A namespace is a list of labels and needs not be made; whole labels count, so `("user",)`
    is no part of `("users",)`. Items are never merged: what is put under a name replaces what was
    there. They can expire; what has expired is gone from every read at once.
    """

    def __init__(self, name: str, rows: Rows) -> None:
        """`Memory.items` is the way in."""
        self.name = name
        self.scope = rows.target.scope
        self._rows = rows
        self._store = rows.store

    @property
    def space(self) -> str:
        """The space its records are in, `store:<name>`."""
        return self._rows.target.space

    @property
    def embedder(self) -> Embedder | None:
        """What embeds texts and queries; raises `ModelError`."""
        return self._rows.embedder

    # ------------------------------------------------------------------ writing

    def put(self, new: Iterable[NewItem], *, delete: Iterable[tuple[Sequence[str], str]] = ()) -> list[Item]:
        """Store values under their names, and delete others; returns what is stored, in order.

        One transaction: all or nothing. A name that there is keeps its `created_at`; of a name that is
        given twice the last value is stored, and one that is also to be deleted is stored. Found by
        words when this returns, and by vector too unless the embedder or the index failed: then they
        wait in the outbox, see `Memory.capabilities`.

        Args:
            new: what to store. A text that is too long to be indexed is cut, its value is not.
            delete: pairs of namespace and key; unknown ones count as nothing.

        Raises:
            InvalidInputError: something that cannot be stored; nothing is written.
            ConfigError: the collection holds vectors of another model.
            ModelError: an embedder of the collection's own failed at its very first use.
        """
        given, names = iterated(new), iterated(delete)
        if given is None or names is None:
            raise InvalidInputError(
                f"put takes a list of NewItem and pairs to delete, got {shown(new)} and {shown(delete)}"
            )
        target, config, now = self._rows.target, self._rows.config, self._rows.now()
        built = [build_item(one, target=target, config=config, now=now) for one in given]
        # Of the same name the last one, with its parts and no other's.
        newest = {records[0].id: records for records in built}
        gone = [_named(pair) for pair in names]
        records = [record for one in newest.values() for record in one]
        if len(records) > config.max_batch:
            raise InvalidInputError(
                f"put: at most {config.max_batch} items and texts in one call, got {len(records)}"
            )
        if not records and not gone:
            return []
        stored, _ = self._rows.replace([*newest, *gone], records, ids=gone, verb="put")
        items = {record.id: read_item(record) for record in stored}
        return [item for one in built if (item := items[one[0].id]) is not None]

    def delete(self, namespace: Sequence[str], key: str) -> DeleteReceipt:
        """Delete the value under this name; nothing happens when there is none."""
        gone = [item_id(namespace, key)]
        return self._rows.replace(gone, ids=gone, verb="delete")[1]

    def clear(self) -> DeleteReceipt:
        """Delete every item of this collection, and nothing else, in one transaction."""
        return self._rows.clear()

    # ------------------------------------------------------------------ reading

    def get(self, namespace: Sequence[str], key: str, *, refresh: bool = True) -> Item | None:
        """The value under this name, None without one.

        Args:
            namespace: its labels.
            key: its key.
            refresh: whether an item with a time to live begins it anew; `updated_at` does not move. When
                the store takes no writes, it is read as it is, and a warning is logged.
        """
        anew = checked_bool(refresh, "refresh")
        records = self._rows.get([item_id(namespace, key)])
        items = self._read(records, {}, refresh=anew)
        return items[0] if items else None

    def namespaces(self, prefix: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """The namespaces of all visible items below `prefix`, sorted; no value is read."""
        names = (names_of(one) for one in self._ids(conjunction(within(prefix), NO_PART)))
        return sorted({one[0] for one in names if one is not None})

    def search(
        self,
        prefix: Sequence[str] = (),
        *,
        query: str = "",
        filters: FilterLike | None = None,
        matching: Matching | None = None,
        limit: int = 10,
        offset: int = 0,
        mode: SearchMode | str = SearchMode.DENSE,
        refresh: bool = True,
    ) -> ItemPage:
        """Items in the namespace `prefix` and below it.

        Without a query those that were updated last come first. With one, the best come first: an item
        is as near as the nearest of its texts. Behind them stand the items that could not be compared,
        without a score, those without texts among them.

        Args:
            prefix: labels; none for all items.
            query: what to compare with; blank for none.
            filters: conditions, see `memkit_core.filters`; `value_key(...)` names a key of a value.
            matching: a further condition, for what no filter can say: called with the value of each
                item that satisfies the rest.
            limit: the most items.
            offset: how many of the first ones to leave out.
            mode: "dense" orders by similarity, which is the score; "hybrid" and "keyword" have a score
                that orders this result alone.
            refresh: as in `get`, for the items that are returned.

        Raises:
            FilterError: an unknown operator or unusable key; never an empty answer instead.
            InvalidInputError: an argument of the wrong kind or out of range.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"search: query must be a string, got {shown(query)}")
        # Of a class, the call would make an object and decide nothing.
        if matching is not None and (not callable(matching) or isinstance(matching, type)):
            raise InvalidInputError(f"search: matching must be a function, got {shown(matching)}")
        most = checked_amount(limit, "search: limit", most=_MOST)
        skip = checked_amount(offset, "search: offset", most=_MOST)
        chosen = checked_enum(SearchMode, mode, "mode")
        anew = checked_bool(refresh, "refresh")
        place = within(prefix)
        where = conjunction(place, NO_PART, parse_filter(filters))
        if matching is not None:
            kept = [one.id for one in self._rows.all(where) if matching(_value(one))]
            where = conjunction(NO_PART, Condition(("id",), Op.IN, [*kept]))
        if not most:
            return ItemPage()
        if not query.strip():
            ids = self._ids(where, limit=most, offset=skip)
            return ItemPage(items=self._read(self._rows.get(ids), {}, refresh=anew))
        if filters is not None or matching is not None:
            # Only the item's own record holds its value; its other texts are known by its id.
            place = of_items(self._ids(where))
        scores, missing = self._ranked(query, place, chosen, most + skip)
        best = [*scores][skip : skip + most]
        if len(best) < most:
            rest = conjunction(where, Condition(("id",), Op.NIN, [*scores]))
            best += self._ids(rest, limit=most - len(best), offset=max(0, skip - len(scores)))
        return ItemPage(items=self._read(self._rows.get(best), scores, refresh=anew), missing=missing)

    def _ids(self, where: Filter | None, *, limit: int | None = None, offset: int = 0) -> Sequence[str]:
        return self._rows.ids(where, limit=limit, offset=offset)

    def _ranked(
        self, query: str, place: Filter | None, mode: SearchMode, wanted: int
    ) -> tuple[dict[str, float | None], frozenset[str]]:
        """The scores of the best items by id, best first, at least `wanted` if there are; what is missing."""
        if wanted > _MANY:
            wanted = max(min(wanted, len(self._ids(place))), 1)
        top_k = wanted + 1
        while True:
            result = self._rows.search(query, top_k=top_k, where=place, mode=mode)
            scores: dict[str, float | None] = {}
            sure = set[str]()
            for hit in sorted(result, key=lambda hit: (-hit.score, hit.record.id)):
                score = hit.signals.similarity if mode is SearchMode.DENSE else hit.score
                scores.setdefault(hit.record.source or hit.record.id, score)
                if hit.score > result[-1].score:
                    sure.add(hit.record.source or hit.record.id)
            # Of equals that are not all there, these may not be those that another page begins behind.
            if len(sure) >= wanted or len(result) < top_k:
                return scores, result.missing
            top_k *= 4

    # ------------------------------------------------------------------ time to live

    def _read(
        self, records: Sequence[MemoryRecord], scores: Mapping[str, float | None], *, refresh: bool
    ) -> tuple[Item, ...]:
        if refresh:
            records = self._all_refreshed(records)
        items = (read_item(record, score=scores.get(record.id)) for record in records)
        return tuple(item for item in items if item is not None)

    def _all_refreshed(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        done: list[MemoryRecord] = []
        try:
            for record in records:
                done.append(self._refreshed(record))  # noqa: PERF401 - what was done before it failed stays
        except BackendError as error:
            # Documented degradation: what was read is right, and a full disk must not hide it.
            _log.warning("items: read, but their time to live did not begin anew: %s", error)
        return [*done, *records[len(done) :]]

    def _refreshed(self, record: MemoryRecord) -> MemoryRecord:
        """The record with its time to live begun anew; as it was when somebody changed it meanwhile."""
        seconds = ttl_of(record)
        if seconds is None:
            return record
        try:
            patch = RecordPatch(expires_at=expiry(self._rows.now(), seconds))
        except InvalidInputError:
            # It ended shortly before the end of all dates, and would end behind it.
            return record
        parts = self._rows.get(parts_of(record))
        try:
            new = self._rows.change(record, patch)
            for part in parts:
                self._rows.change(part, patch)
        except (ConflictError, RecordNotFoundError):
            # Who wrote it anew also began its time anew.
            return record
        return new


def _named(pair: object) -> str:
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 - a pair
        raise InvalidInputError(f"delete takes pairs of namespace and key, got {shown(pair)}")
    return item_id(*pair)


def _value(record: MemoryRecord) -> Mapping[str, JsonValue]:
    value = record.metadata.get(VALUE)
    return value if isinstance(value, Mapping) else {}
