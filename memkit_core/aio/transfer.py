"""The awaited form of `memory.transfer`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from memkit_core.aio.hops import Hops
from memkit_core.live import Live
from memkit_core.models import RecordType
from memkit_core.scope import Scope
from memkit_core.times import TimeLike
from memkit_core.transfer import BackupReport, ExportReport, ImportReport, OnError, Transfer
from memkit_core.transfer.files import Place
from memkit_core.transfer.mapping import ScopeMap
from memkit_core.transfer.reports import Progress


class AsyncTransfer(Live):
    """The verbs of `memory.transfer`, awaited; reached as `AsyncMemory.transfer`. See `Transfer`.

    A `progress` is called in the worker thread.
    """

    def __init__(self, transfer: Transfer, hops: Hops) -> None:
        """Call `transfer` in worker threads."""
        self._transfer = transfer
        self._hops = hops

    async def export_jsonl(
        self,
        to: Place,
        *,
        scope: Scope | Sequence[Scope] | None = None,
        everything: bool = False,
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        types: Iterable[RecordType | str] = (),
        spaces: Iterable[str] = (),
        watermark: str | None = None,
        progress: Progress | None = None,
    ) -> ExportReport:
        """See `Transfer.export_jsonl`."""
        return await self._hops.run(
            self._transfer.export_jsonl, to, scope=scope, everything=everything, since=since, until=until,
            types=types, spaces=spaces, watermark=watermark, progress=progress,
        )  # fmt: skip

    async def import_jsonl(
        self,
        source: Place,
        *,
        scopes: ScopeMap | None = None,
        on_error: OnError | str = OnError.STOP,
        progress: Progress | None = None,
    ) -> ImportReport:
        """See `Transfer.import_jsonl`."""
        return await self._hops.run(
            self._transfer.import_jsonl, source, scopes=scopes, on_error=on_error, progress=progress
        )

    async def backup(
        self,
        to: str | Path,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> BackupReport:
        """See `Transfer.backup`."""
        return await self._hops.run(self._transfer.backup, to, overwrite=overwrite, progress=progress)
