"""`StoreHandle`: one memory's view of a store that several memories of a process may share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memkit_core.errors import ClosedError, ConfigError

if TYPE_CHECKING:
    from memkit_core.models import Target
    from memkit_core.observing import Observer
    from memkit_core.ports import (
        Copyable,
        JobTable,
        KeywordIndex,
        Logged,
        MessageLog,
        Outbox,
        PartitionTable,
        Portable,
        Problem,
        RecallTable,
        RecordStore,
        RecordTable,
        SpaceTable,
        ValueTable,
        VectorSource,
        VectorSpace,
        VectorTable,
    )
    from memkit_core.stores.redacting import Redaction


class StoreHandle:
    """A `RecordStore` that can be closed for its own holder while the store goes on for others."""

    def __init__(
        self, store: RecordStore, redaction: Redaction | None = None, *, observer: Observer | None = None
    ) -> None:
        """Open, as `store` is; what is written through this handle goes through `redaction` first.

        `observer` sees what the parts of the holder do.
        """
        self._store = store
        self._redaction = redaction
        self.observer = observer
        self.closed = False

    def check_open(self) -> None:
        """Raise `ClosedError` once this handle was closed."""
        if self.closed:
            raise ClosedError("the memory was closed; open it again")

    @property
    def _open(self) -> RecordStore:
        self.check_open()
        return self._store

    @property
    def store_id(self) -> str:
        """See `RecordStore`."""
        return self._store.store_id

    @property
    def durable(self) -> bool:
        """See `RecordStore`."""
        return self._store.durable

    @property
    def records(self) -> RecordTable:
        """See `RecordStore`."""
        if self._redaction is None:
            return self._open.records
        # As in `portable`.
        from memkit_core.stores.redacting import redacting_records

        return redacting_records(self._open.records, self._redaction)

    @property
    def keywords(self) -> KeywordIndex:
        """See `RecordStore`."""
        return self._open.keywords

    @property
    def vectors(self) -> VectorTable:
        """See `RecordStore`."""
        return self._open.vectors

    @property
    def outbox(self) -> Outbox:
        """See `RecordStore`."""
        return self._open.outbox

    @property
    def partitions(self) -> PartitionTable:
        """See `RecordStore`."""
        return self._open.partitions

    @property
    def spaces(self) -> SpaceTable:
        """See `RecordStore`."""
        return self._open.spaces

    @property
    def log(self) -> MessageLog:
        """See `RecordStore`."""
        if self._redaction is None:
            return self._open.log
        # As in `portable`.
        from memkit_core.stores.redacting import redacting_log

        return redacting_log(self._open.log, self._redaction)

    @property
    def values(self) -> ValueTable:
        """See `RecordStore`."""
        if self._redaction is None:
            return self._open.values
        # As in `portable`.
        from memkit_core.stores.redacting import redacting_values

        return redacting_values(self._open.values, self._redaction)

    @property
    def recalls(self) -> RecallTable:
        """See `RecordStore`."""
        if self._redaction is None:
            return self._open.recalls
        # As in `portable`.
        from memkit_core.stores.redacting import redacting_recalls

        return redacting_recalls(self._open.recalls, self._redaction)

    @property
    def jobs(self) -> JobTable:
        """See `RecordStore`."""
        return self._open.jobs

    def given(self, space: VectorSpace) -> VectorSource:
        """See `RecordStore`."""
        return self._open.given(space)

    def space_of(self, target: Target) -> VectorSpace | None:
        """See `RecordStore`."""
        return self._open.space_of(target)

    def given_spaces(self) -> list[VectorSpace]:
        """See `RecordStore`."""
        return self._open.given_spaces()

    def portable(self) -> Portable:
        """The store, as one whose rows can be moved.

        Raises:
            ConfigError: it cannot do that.
        """
        # Here, so that importing memkit loads no port.
        from memkit_core.ports import Portable

        if isinstance(store := self._open, Portable):
            if self._redaction is None:
                return store
            from memkit_core.stores.redacting import redacting_portable

            return redacting_portable(store, self._redaction)
        raise ConfigError("the rows of this store cannot be exported or imported: it is not `Portable`")

    def copyable(self) -> Copyable | None:
        """The store, as one that can be copied as a whole; None when it keeps no file."""
        # As in `portable`.
        from memkit_core.ports import Copyable

        store = self._open
        return store if isinstance(store, Copyable) else None

    def logged(self) -> Logged | None:
        """The store, as one with a write-ahead log; None when it has none."""
        # As in `portable`.
        from memkit_core.ports import Logged

        store = self._open
        return store if isinstance(store, Logged) else None

    def verify(self) -> list[Problem]:
        """See `RecordStore`."""
        return self._open.verify()

    def repair(self) -> list[Problem]:
        """See `RecordStore`."""
        return self._open.repair()

    def purge(self) -> None:
        """See `RecordStore`."""
        self._open.purge()

    def close(self) -> None:
        """Close this handle only; safe to call twice."""
        self.closed = True
