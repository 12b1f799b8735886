"""`memory.transfer`: taking what is remembered elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from memkit_core.embedders.checked import CurrentModel
from memkit_core.errors import (
    ConfigError,
    InvalidInputError,
    MissingDependencyError,
    ModelError,
    ScopeError,
    shown,
)
from memkit_core.inputs import checked_bool, checked_enum, checked_scopes, checked_space, listed
from memkit_core.live import Live
from memkit_core.models import NOTES, RUNS, RecordType, Target
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_TRANSFER
from memkit_core.ports import Selection, VectorSpace
from memkit_core.scope import Scope
from memkit_core.stores.handle import StoreHandle
from memkit_core.times import Clock, TimeLike, to_utc
from memkit_core.transfer.files import Place, check_apart, path_of, reading, replaced_file, writing
from memkit_core.transfer.mapping import Mapped, ScopeMap
from memkit_core.transfer.reports import BackupReport, ExportReport, ImportReport, OnError, Progress
from memkit_core.transfer.watermarks import read_watermark


@observed(OF_TRANSFER)
class Transfer(Live):
    """Exports, imports and backups. Reached as `memory.transfer`; thread-safe.

    The file format stands in `docs/transfer.md`.
    """

    def __init__(
        self,
        store: StoreHandle,
        model: CurrentModel,
        clock: Clock,
        *,
        settle: Callable[[Scope | None], object],
        changed: Callable[[], None],
    ) -> None:
        """`settle` writes what waits in a scope, or everywhere; `changed` is told after an import."""
        self._store = store
        self._model = model
        self._clock = clock
        self._settle = settle
        self._changed = changed

    def export_jsonl(
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
        """Write what is remembered as JSONL, one row a line: one state of the store, whoever writes meanwhile.

        Records of all spaces and statuses with vectors and history, sessions with messages and
        summaries, working memories and run states with their versions. What has expired is left out.
        The same store gives the same bytes. Memory use does not grow with the store.

        Args:
            to: a path, whose file appears (or is replaced) when all of it is written and is readable
                by its owner alone; or an open text or binary stream, which stays open.
            scope: whose; of a user the user's sessions too.
            everything: of everybody, instead of a scope.
            since: only records, messages and values created at this moment or later.
            until: only such created before this moment.
            types: only records of these types, and nothing else.
            spaces: only these: `"memories"`, `"messages"` for sessions with all that is theirs,
                `"documents:<name>"`, `"store:<name>"`, `"notes"` for working memories, `"runs"` for run states.
            watermark: only what changed since the export that gave it, and what was deleted since, or was
                changed and has expired.
            progress: is told how many of about how many rows are written.

        Raises:
            ScopeError: neither a scope nor `everything=True` was given.
            InvalidInputError: a value out of range, a path of the store itself, or a watermark that
                is not one of this store.
            OSError: the file cannot be written; nothing is left of it.
        """
        # Here, because pydantic takes as long to import as all the rest of a memory.
        from memkit_core.transfer.exporting import write_rows

        everything = checked_bool(everything, "export_jsonl: everything")
        if everything and scope is not None:
            raise InvalidInputError("export_jsonl: give everything=True alone, or a scope")
        if scope is None and not everything:
            raise ScopeError("export_jsonl: say whose: scope=Scope.user('alice'), or everything=True")
        scopes = None if scope is None else checked_scopes(scope, verb="export_jsonl")
        selection = Selection(
            scopes=scopes,
            spaces=tuple(_checked_space(space) for space in listed(spaces, "spaces")),
            types=tuple(checked_enum(RecordType, kind, "types") for kind in listed(types, "types")),
            since=None if since is None else to_utc(since, name="since"),
            until=None if until is None else to_utc(until, name="until"),
            changed_after=None if watermark is None else self._change(watermark),
            now=self._clock(),
        )
        for owner in (None,) if scopes is None else scopes:
            self._settle(owner)
        with (
            writing(to, store=self._path()) as write,
            self._store.portable().snapshot(selection) as snapshot,
        ):
            return write_rows(snapshot, selection, self._store.store_id, write, progress)

    def import_jsonl(
        self,
        source: Place,
        *,
        scopes: ScopeMap | None = None,
        on_error: OnError | str = OnError.STOP,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Take what `export_jsonl` wrote: ids, versions, times, statuses and histories as they are.

        Of what is there already the newer one holds, by (version, updated_at); importing the same
        file again changes nothing. A message that is there is replaced if its session is not newer
        here. Rows are never merged by what they say. Vectors of the memory's own model are kept,
        those of another one are left and the records wait in the outbox to be embedded; collections
        of documents keep the vector space they came with.

        Rows are taken in batches, each in a transaction of its own, and others write meanwhile. An
        import that was killed is completed by running it again.

        Args:
            source: a path, or an open text or binary stream.
            scopes: where rows of a scope go: a dict, in which scopes that it does not name stay but
                follow a parent that it names, or a function that is asked for each scope.
            on_error: `"stop"` reads and checks the whole file first, and changes nothing when any line
                is wrong. `"skip"` takes every line that is right, and reports the others.
            progress: is told how many of how many bytes are read.

        Raises:
            ImportFileError: the file is no export or of another version; with `"stop"` also a line
                that is wrong, or no end. It has the file and the number of the line.
            InvalidInputError, ScopeError: an argument that cannot be used.
            BackendError: the store failed; the batches before stay, and running it again goes on.
            OSError: the file cannot be read.
        """
        # As in `export_jsonl`.
        from memkit_core.transfer.importing import Import

        mapped = Mapped(scopes)
        policy = checked_enum(OnError, on_error, "on_error")
        self._settle(None)
        with reading(source, store=self._path()) as lines:
            run = Import(
                lines,
                self._store.portable(),
                mapped,
                on_error=policy,
                prepare=self._own_space,
                held_space=self._held_space,
                read_log=lambda session, last, before: self._store.log.read(
                    session, last=last, before=before
                ),
                clock=self._clock,
                progress=progress,
            )
            try:
                report = run.run()
            finally:
                self._changed()
        return report

    def backup(
        self,
        to: str | Path,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> BackupReport:
        """Copy the store's file while it is in use: one state of it, which opens as a memory of its own.

        The copy holds the vectors, so its index is built without embedding. It appears under its name
        when it is whole.

        Args:
            to: the file to be made; its folder must exist.
            overwrite: replace a file that is there. It must not be open, nor have been left by a
                process that was killed: its write-ahead log would be taken for the copy's.
            progress: is told how many of how many pages are copied.

        Raises:
            InvalidInputError: there is a file already, or it belongs to the store itself.
            ConfigError: the memory keeps no file.
            BackendError: the store failed; nothing is left of the copy.
            OSError: the copy cannot be written; nothing is left of it.
        """
        store = self._store.copyable()
        if store is None:
            raise ConfigError("backup: this memory keeps no file; use export_jsonl")
        path = path_of(to, "backup")
        if path is None:
            raise InvalidInputError(f"backup: give a path, got {shown(to)}")
        check_apart(path, str(store.path), "backup")
        log = path.with_name(path.name + "-wal")
        if path.exists() and not overwrite:
            raise InvalidInputError(f"backup: {path} is there already; give another path, or overwrite=True")
        if log.exists():
            raise InvalidInputError(
                f"backup: {log} is there: {path} is open or was not closed; close it, or give another path"
            )
        self._settle(None)
        with replaced_file(path) as part:
            store.copy_to(part, progress=progress)
        return BackupReport(path=str(path), bytes=path.stat().st_size)

    # ------------------------------------------------------------------ inner

    def _path(self) -> str | None:
        store = self._store.copyable()
        return None if store is None else str(store.path)

    def _change(self, watermark: str) -> int:
        # What is written after this has a higher number, so an export cannot begin too late.
        with self._store.portable().snapshot(Selection(scopes=(), now=self._clock())) as snapshot:
            last = snapshot.change
        return read_watermark(watermark, store_id=self._store.store_id, change=last)

    def _own_space(self, spaces: list[VectorSpace]) -> VectorSpace | None:
        """The memory's own vector space; made the store's when the file has vectors of it."""
        model, vectors = self._model(), self._store.vectors
        held = vectors.space()
        names = {(space.model, space.revision) for space in spaces if not space.given}
        if held is not None or (model.model, model.revision) not in names:
            return held
        try:
            own = model.space()
        except (ModelError, MissingDependencyError):
            # Without the model nobody knows whether the vectors are of the length it makes now.
            return None
        vectors.use_space(own)
        return own

    def _held_space(self, target: Target) -> tuple[bool, VectorSpace | None]:
        held = self._store.space_of(target)
        return held is not None, held if held is not None and held.given else None


def _checked_space(space: object) -> str:
    return str(space) if space in (NOTES, RUNS) else checked_space(space)
