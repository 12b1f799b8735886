"""Lines to rows: checked, mapped, and taken in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO

from memkit_core.errors import ScopeError
from memkit_core.models import Summary, Target
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    Outcome,
    Portable,
    Tombstone,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.times import Clock, utc_now
from memkit_core.transfer.covering import Covered, ReadLog
from memkit_core.transfer.exporting import name_of
from memkit_core.transfer.files import LONGEST_LINE, NumberedLine, Place, Source, reading
from memkit_core.transfer.lines import FORMAT, VERSION, EndLine, HeaderLine, parsed
from memkit_core.transfer.mapping import Mapped, ScopeMap
from memkit_core.transfer.reports import ImportReport, OnError, Progress, SkippedLine

BATCH = 500
"""Lines of one transaction at most."""
_BATCH_BYTES = 4 * 2**20
"""Bytes of lines after which a transaction ends: what an import holds at once."""
_SHOWN = 100
"""Skipped lines that a report names one by one."""


class Import:
    """One import of one source. The source is read twice when a bad line is to stop it."""

    def __init__(
        self,
        source: Source,
        store: Portable,
        mapped: Mapped,
        *,
        on_error: OnError,
        prepare: Callable[[list[VectorSpace]], VectorSpace | None],
        held_space: Callable[[Target], tuple[bool, VectorSpace | None]],
        read_log: ReadLog,
        clock: Clock,
        progress: Progress | None,
    ) -> None:
        """`prepare` is told the vector spaces of the file and gives the memory's own space.

        `held_space` tells whether a target has rows, and their given space, None for the own.
        """
        self._source = source
        self._store = store
        self._mapped = mapped
        self._skip = on_error is OnError.SKIP
        self._prepare = prepare
        self._held_space = held_space
        self._covered = Covered(read_log)
        self._clock = clock
        self._progress = progress
        self._spaces: list[VectorSpace] = []
        self._own: VectorSpace | None = None
        self._counts: dict[Outcome, Counter[str]] = {outcome: Counter() for outcome in Outcome}
        self._skipped: list[SkippedLine] = []
        self._skips = self._reembedded = self._bytes = self._superseded = 0
        self._whole = True
        self._kept_session: Scope | None = None
        self._last: str | None = None

    def run(self) -> ImportReport:
        """Check, then take.

        Raises:
            ImportFileError: no export, or with `OnError.STOP` a line that is none; nothing was changed.
            BackendError: the store failed; what was taken stays, and the same import completes it.
        """
        self.check()
        self._take()
        # At the end, since what a line brings may itself have given way on a later one.
        while gave_way := self._store.settle_keys(now=self._clock(), limit=BATCH):
            self._superseded += gave_way
        counts = self._counts
        unchanged = counts[Outcome.UNCHANGED] + counts[Outcome.OLDER]
        return ImportReport(
            inserted=dict(counts[Outcome.INSERTED]),
            updated=dict(counts[Outcome.UPDATED]),
            unchanged=dict(unchanged),
            deleted=counts[Outcome.DELETED].total(),
            skipped=self._skips,
            skipped_lines=tuple(self._skipped),
            reembedded=self._reembedded,
            superseded=self._superseded,
        )

    def check(self) -> None:
        """Read every line, when a bad one is to stop it, else the header; take none.

        Raises:
            ImportFileError: see `run`.
        """
        if self._skip:
            self._header(next(self._source.lines(), None))
            return
        spaces: dict[Target, VectorSpace | None] = {}
        for number, row in self._rows(self._stop):
            moved = self._moved(number, row, self._stop)
            if isinstance(moved, MovedRecord):
                record = moved.record
                owner = Target(scope=record.scope, space=record.space).owner
                target = Target(scope=owner, space=record.space)
                given = _given(moved)
                if target not in spaces:
                    there, held = self._held_space(target)
                    spaces[target] = held if there else given
                if spaces[target] != given:
                    self._stop(number, f"{target.space!r} of {target.scope} has vectors of another space")
        # What is only left out is noted when the rest is taken.
        self._skips, self._skipped = 0, []

    def _take(self) -> None:
        batch: list[tuple[int, MovedRow]] = []
        bad = self._note if self._skip else self._stop
        self._header(next(self._source.lines(), None))
        self._own = self._prepare(self._spaces)
        for number, row in self._rows(bad, told=self._progress):
            moved = self._moved(number, row, bad)
            if isinstance(moved, Summary) and self._covered.watched:
                self._receive(batch)
                batch, self._bytes = [], 0
                if self._covered.differ(moved):
                    self._note(number, "it covers other messages than those that are there")
                    continue
            if moved is not None:
                batch.append((number, moved))
            if len(batch) >= BATCH or self._bytes >= _BATCH_BYTES or isinstance(moved, MovedSession):
                # What becomes of a session decides what becomes of its messages.
                self._receive(batch)
                batch, self._bytes = [], 0
        self._receive(batch)
        if self._progress is not None:
            self._progress(self._source.size, self._source.size)

    def _receive(self, batch: list[tuple[int, MovedRow]]) -> None:
        if not batch:
            return
        received = self._store.receive([row for _, row in batch])
        for (number, row), (outcome, reason) in zip(batch, received, strict=True):
            if outcome is Outcome.REFUSED:
                self._note(number, reason)
            else:
                self._counts[outcome][name_of(row)] += 1
                self._count_embedding(row, outcome)
            if isinstance(row, MovedMessage):
                self._covered.took(row.message, outcome)
        last, outcome = batch[-1][1], received[-1].outcome
        if isinstance(last, MovedSession):
            session = last.session.scope
            self._kept_session = session if outcome is Outcome.OLDER else None
            self._covered.begin(None if outcome is Outcome.INSERTED else session, whole=self._whole)

    def _count_embedding(self, row: MovedRow, outcome: Outcome) -> None:
        if isinstance(row, MovedRecord) and outcome in (Outcome.INSERTED, Outcome.UPDATED):
            other = _given(row) is None and row.vector_space not in (None, self._own)
            self._reembedded += other and row.vector is not None

    # ------------------------------------------------------------------ lines

    def _rows(self, bad: _Bad, told: Progress | None = None) -> Iterator[tuple[int, MovedRow]]:
        """The rows of the lines that are right, by the number of the line; the others go to `bad`."""
        lines = self._source.lines()
        spaces = self._header(next(lines, None))
        session: Scope | None = None
        done = 0
        number, ended = 1, False
        for number, text in lines:
            done += len(text or b"") + 1
            self._bytes += len(text or b"")
            if told is not None and number % BATCH == 0:
                told(done, max(done, self._source.size))
            if ended and text is not None and not text.strip():
                continue
            if ended:
                bad(number, "there is more after the end line; give one export a file")
                continue
            try:
                line = parsed(_whole(text))
                if isinstance(line, EndLine):
                    ended = True
                    held = number - 2  # less header and end
                    if line.lines != held:
                        raise ValueError(f"the file holds {held} lines, its end line says {line.lines}")  # noqa: TRY301 - as below
                    continue
                if isinstance(line, HeaderLine):
                    raise ValueError("a second header; give one export a file")  # noqa: TRY301, TRY004 - as all that is wrong with a line
                row = line.row(spaces)
                session = _session_above(row, session)
            except ValueError as error:
                bad(number, str(error))
                continue
            yield number, row
        if not ended:
            bad(number + 1, "the file is cut off: it has no end line; export again")

    def _header(self, first: NumberedLine | None) -> dict[str, VectorSpace]:
        """The vector spaces that the header names; also when bad lines are skipped it must be right."""
        if first is None:
            raise self._source.error("the file is empty", 1)
        try:
            header = parsed(_whole(first.text))
        except ValueError as error:
            raise self._source.error(f"this is no memkit export: {error}", 1) from error
        if not isinstance(header, HeaderLine) or header.format != FORMAT:
            raise self._source.error("this is no memkit export: the first line is no header", 1)
        if header.version != VERSION:
            raise self._source.error(
                f"the file has version {header.version} of the format, this memkit reads version {VERSION}; "
                "run: pip install --upgrade memkit-llm",
                1,
            )
        spaces = {entry.fingerprint: entry.space() for entry in header.vector_spaces}
        for fingerprint, space in spaces.items():
            if fingerprint != space.fingerprint:
                raise self._source.error(
                    f"{fingerprint!r} is not the fingerprint of {space.fingerprint!r}", 1
                )
        self._spaces = list(spaces.values())
        self._whole = header.after is None
        return spaces

    def _moved(self, number: int, row: MovedRow, bad: _Bad) -> MovedRow | None:
        try:
            moved = self._mapped.row(row)
        except ScopeError as error:
            bad(number, str(error))
            return None
        if moved is None:
            assert isinstance(row, Tombstone)
            self._note(number, "whose it was is not known any more; name its scope in a dict of scopes")
        elif isinstance(moved, MovedSession):
            self._last = None
        elif isinstance(moved, MovedMessage):
            kept = moved.message.session == self._kept_session
            moved = replace(moved, replace=not kept, after=self._last)
            self._last = moved.message.id
        return moved

    def _stop(self, number: int, reason: str) -> None:
        raise self._source.error(
            f"{reason}. Nothing was changed; mend the file, or give on_error='skip' to leave such lines out",
            number,
        )

    def _note(self, number: int, reason: str) -> None:
        self._skips += 1
        if len(self._skipped) < _SHOWN:
            self._skipped.append(SkippedLine(number, reason))


@contextmanager
def checked_source(place: Place, *, scopes: ScopeMap | None, on_error: OnError) -> Iterator[IO[bytes]]:
    """What an import into an empty store would not refuse, as a stream to import; no store is touched.

    Raises:
        ImportFileError: see `Import.run`.
        OSError: the file cannot be read.
    """
    # Here, since every other import has a store.
    from memkit_core.stores.memory import InMemoryStore

    with reading(place, store=None) as source:
        Import(
            source,
            InMemoryStore(),
            Mapped(scopes),
            on_error=on_error,
            prepare=lambda _: None,
            held_space=lambda _: (False, None),
            read_log=lambda *_: [],
            clock=utc_now,
            progress=None,
        ).check()
        yield source.again()


_Bad = Callable[[int, str], None]


def _given(row: MovedRecord) -> VectorSpace | None:
    space = row.vector_space
    return space if space is not None and space.given else None


def _whole(text: bytes | None) -> bytes:
    if text is None:
        raise ValueError(f"the line is longer than {LONGEST_LINE:,} bytes")
    return text


def _session_above(row: MovedRow, session: Scope | None) -> Scope | None:
    """The session whose lines these are; its messages and its summary stand right below it."""
    if isinstance(row, MovedSession):
        return row.session.scope
    mine = row.message.session if isinstance(row, MovedMessage) else None
    mine = row.session if isinstance(row, Summary) else mine
    if mine is not None and mine != session:
        raise ValueError(f"it is of {mine}, whose session line does not stand above it")
    return session
