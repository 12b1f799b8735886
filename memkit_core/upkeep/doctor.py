"""The doctor: what is wrong with a live store, or soon will be, each with its remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from memkit_core.config import MEBIBYTE, Config
from memkit_core.errors import BackendError, ConfigError, shown
from memkit_core.indexing import Indexers
from memkit_core.models import CHUNK
from memkit_core.plurals import plural
from memkit_core.ports import MovedRecord, Selection, VectorSpace
from memkit_core.scope import Scope
from memkit_core.stores.handle import StoreHandle
from memkit_core.times import Clock

if TYPE_CHECKING:
    from memkit_core.embedders.checked import CurrentModel
    from memkit_core.upkeep.upkeep import Findings

_LOOKS = 3
"""Looks at the outbox over which it grows before that is told (spec E3)."""
_LONGEST_LOG = 64 * MEBIBYTE
"""Of the write-ahead log (spec E3): fifteen times what makes a writer empty it."""
_HIGHEST_TOP_K = 10_000
_RESERVES = 2
"""A disk is nearly full when less than so many times `Config.disk_reserve` is free."""


class Level(StrEnum):
    """How bad it is: what is lost or wrong, what soon may be, and what is worth knowing."""

    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that the doctor found.

    Attributes:
        level: how bad it is.
        code: a short name for it that stays the same, such as `outbox-growing`.
        what: a sentence with the numbers.
        remedy: what to do.
    """

    level: Level
    code: str
    what: str
    remedy: str


class Doctor:
    """Looks at one store through one memory."""

    def __init__(
        self,
        store: StoreHandle,
        indexers: Indexers,
        embedder: CurrentModel,
        config: Config,
        clock: Clock,
        *,
        verify: Callable[[], Findings],
    ) -> None:
        """`verify` compares all that is derived with the records."""
        self._store = store
        self._indexers = indexers
        self._embedder = embedder
        self._config = config
        self._clock = clock
        self._verify = verify

    def findings(self) -> list[Finding]:
        """All that is found, the worst first; see `Upkeep.doctor`."""
        found = [*self._settings(), *self._files(), *self._step()]
        if not any(one.code == "damaged" for one in found):
            # Of a damaged file nothing else can be trusted, or even read.
            found += [*self._models(), *self._outbox(), *self._jobs(), *self._chunks()]
        return sorted(found, key=lambda one: list(Level).index(one.level))

    def _settings(self) -> Iterator[Finding]:
        if self._config.environment == "production" and not self._store.durable:
            yield Finding(
                level=Level.ERROR,
                code="not-durable",
                what="this is production, and the store forgets everything when the process ends",
                remedy="open a file: Memory.open(path)",
            )
        if self._config.max_top_k > _HIGHEST_TOP_K:
            yield Finding(
                level=Level.WARNING,
                code="top-k-uncapped",
                what=f"Config.max_top_k is {self._config.max_top_k:,}: one call may ask for nearly everything",
                remedy=f"set it to {_HIGHEST_TOP_K:,} or less; the default is {Config().max_top_k:,}",
            )

    def _files(self) -> Iterator[Finding]:
        logged = self._store.logged()
        if logged is None:
            return
        if (length := logged.log_bytes()) > _LONGEST_LOG:
            yield Finding(
                level=Level.WARNING,
                code="log-long",
                what=f"the write-ahead log has {length // MEBIBYTE:,} MiB: some reader keeps it from being emptied",
                remedy="end transactions that are left open on this file, then run memkit upkeep",
            )
        free, reserve = shutil.disk_usage(logged.path.parent).free, self._config.disk_reserve
        if free < _RESERVES * reserve:
            yield Finding(
                level=Level.WARNING,
                code="disk-full",
                what=f"{free // MEBIBYTE:,} MiB are free on the disk; below {reserve // MEBIBYTE:,} MiB the "
                "vector index is not written",
                remedy="free some space, or lower Config.disk_reserve",
            )

    def _step(self) -> Iterator[Finding]:
        found = self._verify()
        for problem in found:
            damaged = problem.kind == "file"
            yield Finding(
                level=Level.ERROR,
                code="damaged" if damaged else "out-of-step",
                what=problem.detail if damaged else f"{problem.detail}: {problem.count:,} ({problem.kind})",
                remedy="go back to a backup" if damaged else "run memkit repair",
            )
        for name in found.unchecked:
            yield Finding(
                level=Level.WARNING,
                code="index-held",
                what=f"this process cannot use the vector index of {name}: another process, or a memory with "
                "other settings, holds it, or it is being built; recall scans exactly meanwhile",
                remedy="nothing, if that is meant; else close the other one",
            )

    def _models(self) -> Iterator[Finding]:
        own = self._store.vectors.space()
        asked = self._embedder()
        if (
            own is not None
            and not asked.absent
            and (own.model, own.revision) != (asked.model, asked.revision)
        ):
            yield Finding(
                level=Level.ERROR,
                code="models-differ",
                what=f"the vectors are of {_named(own.model, own.revision)}, queries are embedded by "
                f"{_named(asked.model, asked.revision)}",
                remedy=f"open the memory again with the model {shown(own.model)}, or embed it anew",
            )
        for space in self._spaces(own):
            if not space.revision:
                yield Finding(
                    level=Level.WARNING,
                    code="no-model-version",
                    what=f"the vectors of {shown(space.model)} name no version of it: other weights under the "
                    "same name would not be noticed",
                    remedy="give the embedder a revision",
                )

    def _spaces(self, own: VectorSpace | None) -> list[VectorSpace]:
        return [*([] if own is None else [own]), *self._store.given_spaces()]

    def _outbox(self) -> Iterator[Finding]:
        state = self._indexers.state()
        last = "" if state.last_error is None else f"; the last error: {state.last_error}"
        try:
            looks = self._store.jobs.look(state.length, now=self._clock(), keep=_LOOKS)
        except BackendError as error:
            yield Finding(
                level=Level.ERROR,
                code="not-writable",
                what=f"nothing can be written: {error}",
                remedy="free the disk, or end the process that holds the file",
            )
            return
        if len(looks) == _LOOKS and looks == sorted(set(looks)):
            yield Finding(
                level=Level.ERROR,
                code="outbox-growing",
                what=f"what waits for the index grew over {_LOOKS} looks: {', '.join(map(str, looks))}{last}",
                remedy="see that the embedding model answers and that one process holds the index",
            )
        if state.failed:
            yield Finding(
                level=Level.WARNING,
                code="outbox-failed",
                what=f"{state.failed:,} {plural(state.failed, 'change')} used up all tries{last}",
                remedy="mend what failed, then run memkit repair, or memory.flush() in Python: both try once more",
            )

    def _chunks(self) -> Iterator[Finding]:
        cut = self._places_of_chunks()
        if not cut:
            return
        yield Finding(
            level=Level.INFO,
            code="chunk-size-unmeasured",
            what=f"{len(cut):,} {plural(len(cut), 'document is', 'documents are')} cut into chunks; the store does not know whether their size was measured",
            remedy="compare sizes on data like yours: memkit eval PATH --chunk-sizes 256,512,1024",
        )
        apart = sum(not any(_overlap(places) for places in levels.values()) for levels in cut.values())
        if apart == len(cut):
            yield Finding(
                level=Level.WARNING,
                code="chunks-without-overlap",
                what=f"in none of {apart:,} {plural(apart, 'document')} do chunks overlap: what stands across a border is found by "
                "neither side",
                remedy="add the documents again with an overlap of 0.1 to 0.2, the default of ContentChunker",
            )

    def _places_of_chunks(self) -> dict[tuple[Scope, str, str], dict[object, list[tuple[int, int]]]]:
        """Of each document of several chunks of a size, by size, where these begin and end."""
        counts = self._store.records.counts()
        spaces = tuple({count.space for count in counts if count.space.startswith("documents:")})
        cut: dict[tuple[Scope, str, str], dict[object, list[tuple[int, int]]]] = {}
        try:
            rows_of = self._store.portable().snapshot
        except ConfigError:
            # A store of somebody else's that cannot tell its rows; nothing is said of its chunks.
            return cut
        if spaces:
            with rows_of(Selection(spaces=spaces, now=self._clock())) as snapshot:
                records = (row.record for row in snapshot.rows() if isinstance(row, MovedRecord))
                for record in records:
                    place = record.metadata.get(CHUNK)
                    if record.source is None or not isinstance(place, Mapping):
                        continue
                    start, end = place.get("start"), place.get("end")
                    if isinstance(start, int) and isinstance(end, int):
                        document = (record.scope, record.space, record.source)
                        cut.setdefault(document, {}).setdefault(place.get("level"), []).append((start, end))
        several = {
            document: {level: places for level, places in levels.items() if len(places) > 1}
            for document, levels in cut.items()
        }
        return {document: levels for document, levels in several.items() if levels}

    def _jobs(self) -> Iterator[Finding]:
        for job in self._store.jobs.list():
            if job.last_error is not None:
                yield Finding(
                    level=Level.WARNING,
                    code="job-failed",
                    what=f"the periodic job {job.name} failed at {job.last_run_at:%Y-%m-%d %H:%M}: {job.last_error}",
                    remedy=f"mend that; it is tried again at {job.due_at:%Y-%m-%d %H:%M}",
                )


def _overlap(places: list[tuple[int, int]]) -> bool:
    """Whether one of some chunks of one size begins before the one before it ends."""
    ordered = sorted(places)
    return any(later[0] < earlier[1] for earlier, later in pairwise(ordered))


def _named(model: str, revision: str) -> str:
    return f"{shown(model)} ({shown(revision)})" if revision else shown(model)
