"""One run of formation over a session: read, find, keep, write, judge."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from memkit_core.config import Config
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.errors import BackendError, ConflictError, InvalidInputError, shown
from memkit_core.formation.budgets import Budgets
from memkit_core.formation.consolidating import Consolidation
from memkit_core.formation.cursors import Cursors, Place
from memkit_core.formation.drafts import Draft, drafts_of, record_of, write
from memkit_core.formation.extractors import MOST_ITEMS
from memkit_core.formation.resolving import Decision
from memkit_core.models import MemoryRecord, Message, Role
from memkit_core.ports import Extracted, Extractor, Judge, RecordStore
from memkit_core.prompts import without_added
from memkit_core.scope import Scope
from memkit_core.times import Clock

_log = logging.getLogger("memkit")

_TRIES = 3
_BATCH_TOKENS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class FormationReport:
    """What one run over a session did.

    Attributes:
        session: whose messages were read.
        records: the memories that were written, or became one with what was there.
        decisions: what a judge decided on the new ones; see `Decision`.
        messages: how many messages were read.
        postponed: whether the budget had no room for the rest, which the next run reads.
        cancelled: whether a newer turn came meanwhile; nothing of what was read was kept.
        set_aside: how many messages no try could read; see `Formation.set_aside`.
        failed: whether the store failed in the middle of it; what was not read is read by the next run.
        errors: what went wrong, in words.
    """

    session: Scope
    records: tuple[MemoryRecord, ...] = ()
    decisions: tuple[Decision, ...] = ()
    messages: int = 0
    postponed: bool = False
    cancelled: bool = False
    set_aside: int = 0
    failed: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What every run works with.

    Attributes:
        settle: has what waits for a session stored.
        written: has new records indexed.
        changed: tells the index that records changed.
    """

    store: RecordStore
    config: Config
    clock: Clock
    cursors: Cursors
    budgets: Budgets
    settle: Callable[[Scope], object]
    written: Callable[[Sequence[MemoryRecord]], None]
    changed: Callable[[], None]


class Run:
    """One run over one session; with `cancel` it keeps nothing of a batch during which a message came.

    `progress` is called before each batch, and before each question to the judge.
    """

    def __init__(
        self,
        shop: Workshop,
        session: Scope,
        into: Scope,
        extract: Extractor,
        judge: Judge,
        roles: tuple[Role, ...],
        *,
        cancel: bool,
        progress: Callable[[], object] | None = None,
    ) -> None:
        self._shop = shop
        self._session = session
        self._into = into
        self._extract = extract
        self._judge = judge
        self._roles = roles
        self._cancel = cancel
        self._progress = progress
        self._report = FormationReport(session=session)
        self._errors: list[str] = []

    def all(self) -> FormationReport:
        """Read all that is new."""
        self._shop.settle(self._session)
        place = self._finish(self._shop.cursors.get(self._session))
        unread = list(self._shop.cursors.unread(self._session, place.position))
        end = unread[-1].position if unread else None
        for batch in self._batches(unread):
            if self._progress is not None:
                self._progress()
            found = self._found(batch)
            if found is None and self._report.postponed:
                break
            if self._cancel and self._shop.cursors.newest(self._session) != end:
                self._report = dataclasses.replace(self._report, cancelled=True)
                break
            moved = self._kept(place, batch, found)
            if moved is None:
                break
            place = moved
        return self._told()

    def again(self) -> FormationReport:
        """Read what was set aside."""
        shop = self._shop
        for one in shop.cursors.aside(self._session):
            messages = shop.cursors.between(self._session, one.first, one.last)
            found: list[Draft] | None = []
            for batch in self._batches(messages):
                found = self._found(batch)
                if found is None:
                    break
                self._judged(self._written(found, self._into), self._into)
            if found is not None:
                shop.cursors.take_back(one)
            elif self._report.postponed:
                break
        return self._told()

    def failed(self, error: BackendError) -> FormationReport:
        """What was done until `error` ended the run."""
        self._errors.append(str(error))
        self._report = dataclasses.replace(self._report, failed=True)
        return self._told()

    def _told(self) -> FormationReport:
        return dataclasses.replace(self._report, errors=tuple(self._errors))

    def _batches(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """Messages in runs of about so many tokens; one that is longer stands alone."""
        batch: list[Message] = []
        tokens = 0
        for message in messages:
            more = approximate_tokens(message.text) if message.role in self._roles else 0
            if batch and tokens + more > _BATCH_TOKENS:
                yield batch
                batch, tokens = [], 0
            batch.append(message)
            tokens += more
        if batch:
            yield batch

    def _found(self, batch: Sequence[Message]) -> list[Draft] | None:
        """What an extractor finds in a batch; None when it found no answer, or may not be asked."""
        said = [dataclasses.replace(one, text=without_added(one.text).strip()) for one in batch]
        said = [message for message in said if message.role in self._roles and message.text]
        if not said:
            return []
        error = ""
        for _ in range(_TRIES):
            if not self._affordable(said):
                self._report = dataclasses.replace(self._report, postponed=True)
                return None
            try:
                found = _listed(self._extract(said))
            except Exception as failure:  # noqa: BLE001 - a model, or the user's own extractor, may raise anything
                error = f"the extractor failed: {type(failure).__name__}: {shown(str(failure))}"
                _log.warning("formation of %d messages is tried again: %s", len(said), type(failure).__name__)
                continue
            if len(found) > MOST_ITEMS:
                self._errors.append(f"{len(found)} items were found at once; the first {MOST_ITEMS} are kept")
            now = self._shop.clock()
            drafts, errors = drafts_of(
                found[:MOST_ITEMS], said, session=self._session, now=now, config=self._shop.config
            )
            self._errors += errors
            return drafts
        self._errors.append(error)
        return None

    def _affordable(self, said: Sequence[Message]) -> bool:
        prompt = getattr(self._extract, "prompt", None)
        if prompt is None:
            return True
        cost = approximate_tokens(prompt(said))
        return self._shop.budgets.spend(self._session, cost, now=self._shop.clock())

    def _kept(self, place: Place, batch: Sequence[Message], found: list[Draft] | None) -> Place | None:
        """Move the cursor behind a batch and write what was found; None when somebody else has done so."""
        shop, now = self._shop, self._shop.clock()
        last = batch[-1].position or 0
        if not shop.cursors.between(self._session, last, last):
            # Deleted while a model thought: what it said of that must not come back.
            return None
        target = Place(position=last, pending=tuple(found or ()), into=self._into, version=place.version)
        if found is None:
            shop.cursors.set_aside(self._session, batch, self._errors[-1], now=now)
        try:
            moved = shop.cursors.put(self._session, target, now=now)
        except ConflictError:
            self._errors.append("another run read the same messages first; what this one found is dropped")
            return None
        report = self._report
        self._report = dataclasses.replace(report, messages=report.messages + len(batch))
        if found is None:
            self._report = dataclasses.replace(self._report, set_aside=report.set_aside + len(batch))
        return self._finish(moved)

    def _finish(self, place: Place) -> Place:
        """Write what was found up to a place, if that is not done, and note that it is."""
        if not place.pending:
            return place
        into = place.into or self._into
        written = self._written(place.pending, into)
        done = Place(position=place.position, version=place.version)
        try:
            place = self._shop.cursors.put(self._session, done, now=self._shop.clock())
        except ConflictError:
            # Another run wrote the same at the same time.
            place = self._shop.cursors.get(self._session)
        # Last, because a judge may take minutes; what it did not come to a consolidation finds.
        self._judged(written, into)
        return place

    def _written(self, drafts: Sequence[Draft], into: Scope) -> list[MemoryRecord]:
        """Write what was found; returns what it became."""
        shop, now = self._shop, self._shop.clock()
        records = [
            record_of(draft, self._session, into=into, now=now, config=shop.config) for draft in drafts
        ]
        written = write(shop.store, records, now=now)
        if written:
            shop.written(written)
            self._report = dataclasses.replace(self._report, records=(*self._report.records, *written))
        return written

    def _judged(self, written: Sequence[MemoryRecord], into: Scope) -> None:
        """Have what is new compared with what is there."""
        shop = self._shop
        new = {record.id for record in written if record.version == 1 and record.key is None}
        consolidation = Consolidation(
            shop.store, shop.clock, self._judge, dry_run=False, changed=shop.changed, progress=self._progress
        )
        if new:
            decided = consolidation.run(into, only=new)
            decisions = (*self._report.decisions, *decided.decisions)
            self._report = dataclasses.replace(self._report, decisions=decisions)
            self._errors += decided.errors


def _listed(found: object) -> list[Extracted]:
    if isinstance(found, list | tuple):
        return list(found)
    raise InvalidInputError(f"an extractor must return a list of Extracted, got {shown(found)}")
