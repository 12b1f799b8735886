"""The awaited form of a collection of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memkit_core.aio.hops import Hops
from memkit_core.documents import SearchMode
from memkit_core.filters import FilterLike
from memkit_core.items import Item, ItemPage, Items, NewItem
from memkit_core.items.items import Matching
from memkit_core.live import Live
from memkit_core.models import DeleteReceipt


class AsyncItems(Live):
    """The verbs of a collection of items, awaited; reached as `AsyncMemory.items`. See `Items`."""

    def __init__(self, items: Items, hops: Hops) -> None:
        """Call `items` in worker threads."""
        self.items = items
        self._hops = hops

    async def put(
        self, new: Iterable[NewItem], *, delete: Iterable[tuple[Sequence[str], str]] = ()
    ) -> list[Item]:
        """See `Items.put`."""
        return await self._hops.run(self.items.put, new, delete=delete)

    async def delete(self, namespace: Sequence[str], key: str) -> DeleteReceipt:
        """See `Items.delete`."""
        return await self._hops.run(self.items.delete, namespace, key)

    async def clear(self) -> DeleteReceipt:
        """See `Items.clear`."""
        return await self._hops.run(self.items.clear)

    async def get(self, namespace: Sequence[str], key: str, *, refresh: bool = True) -> Item | None:
        """See `Items.get`."""
        return await self._hops.run(self.items.get, namespace, key, refresh=refresh)

    async def namespaces(self, prefix: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """See `Items.namespaces`."""
        return await self._hops.run(self.items.namespaces, prefix)

    async def search(
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
        """See `Items.search`."""
        return await self._hops.run(
            self.items.search,
            prefix,
            query=query,
            filters=filters,
            matching=matching,
            limit=limit,
            offset=offset,
            mode=mode,
            refresh=refresh,
        )
