"""`memory.formation`: from conversations to memories, off the turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from memkit_core.config import Config
from memkit_core.errors import BackendError, InvalidInputError, ScopeError, shown
from memkit_core.formation.budgets import Budget, Budgets
from memkit_core.formation.cursors import Cursors, SetAside
from memkit_core.formation.extractors import checked_extractor
from memkit_core.formation.judges import checked_judge
from memkit_core.formation.running import FormationReport, Run, Workshop
from memkit_core.inputs import checked_amount, checked_bool, checked_timeout
from memkit_core.live import Live
from memkit_core.models import MemoryRecord, Role
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_FORMATION
from memkit_core.ports import Extractor, Judge, RecordStore
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.times import Clock

IDLE_SECONDS = 300.0
_LOOK_BACK = timedelta(days=30)
_MOST = 2**53


@observed(OF_FORMATION)
class Formation(Live):
    """Forms memories of what was said. Reached as `memory.formation`; thread-safe; has no thread of its own.

    The messages stay as they are, as evidence, and each memory names those it was made from. Only
    messages that no run has read before are read, whatever process reads them.
    """

    def __init__(
        self,
        store: RecordStore,
        config: Config,
        clock: Clock,
        *,
        settle: Callable[[Scope], object],
        written: Callable[[Sequence[MemoryRecord]], None],
        changed: Callable[[], None],
    ) -> None:
        """Read and write in `store`; see `Workshop` for what else."""
        self._store = store
        self._config = config
        self._clock = clock
        self._cursors = Cursors(store)
        self._budgets = Budgets(store)
        self._shop = Workshop(
            store=store, config=config, clock=clock, cursors=self._cursors, budgets=self._budgets,
            settle=settle, written=written, changed=changed,
        )  # fmt: skip

    def run(
        self,
        *,
        scope: Scope,
        extractor: Extractor | None = None,
        judge: Judge | None = None,
        into: Scope | None = None,
        assistant: bool = False,
        again: bool = False,
    ) -> FormationReport:
        """Form memories of the messages of a session that were not read before.

        Written as by `Memory.add`: an exact duplicate becomes one with what is there, a value of a key takes
        the place of the one before and keeps its tags, metadata and pin. The rest a judge compares with what
        is there, see `Upkeep.consolidate`. What memkit put into a message, recalled memories above all, is
        taken out before it is read. An extractor that raises is tried up to three times; then the
        messages are set aside, and the run goes on behind them.

        Safe to kill: what an extractor found is stored before it is written, and written by the next run.

        Args:
            scope: the session.
            extractor: `ChatExtractor(model)`, or your own; `Config.extractor` when None, or else
                `RuleExtractor()`, which needs no model.
            judge: see `Upkeep.consolidate`.
            into: whose memories they become: the session's own, or of what is above it; its user when None.
            assistant: also read what the assistant said; what tools and the system say is never read.
            again: read what was set aside once more, instead of new messages.

        Raises:
            ScopeError: `scope` is not a session, or `into` not above it.
            InvalidInputError: no extractor or judge.
            BackendError: the store failed; what was read before stays.
        """
        session = _session(scope, "run")
        extract, decide = self._chosen(extractor, judge)
        checked_bool(again, "run: again")
        roles = (Role.USER, Role.ASSISTANT) if checked_bool(assistant, "run: assistant") else (Role.USER,)
        run = Run(self._shop, session, _target(session, into), extract, decide, roles, cancel=False)
        return run.again() if again else run.all()

    def due(self, *, idle_seconds: float = IDLE_SECONDS) -> list[Scope]:
        """The sessions with new messages in which nothing was said for so long, the longest idle first.

        A newer message begins the wait anew. Of sessions that were active within the last 30 days.
        """
        idle = checked_timeout(idle_seconds, "due: idle_seconds") or 0.0
        now = self._clock()
        found = self._store.log.idle(since=now - _LOOK_BACK, until=now - timedelta(seconds=idle))
        return [one.scope for one in found if self._behind(one.scope)]

    def _behind(self, session: Scope) -> bool:
        place = self._cursors.get(session)
        return bool(place.pending) or place.position < self._cursors.newest(session)

    def run_due(
        self,
        *,
        extractor: Extractor | None = None,
        judge: Judge | None = None,
        assistant: bool = False,
        idle_seconds: float = IDLE_SECONDS,
        progress: Callable[[], object] | None = None,
    ) -> list[FormationReport]:
        """Run over every session that is due, see `run` and `due`; for a scheduler of your own.

        `memory.upkeep` does it as part of the periodic work when `Config.extractor` is set. Where a message
        arrives while a session is read, what was found in the last part is dropped: the session is due
        again once it is idle. `progress` is called before each part of a session and each question to the judge.
        A session for which the store fails is told by `FormationReport.failed` and `errors`, and the next is read.

        Raises:
            InvalidInputError: no extractor or judge, or an argument that cannot be.
            BackendError: the store could not say which sessions are due.
        """
        extract, decide = self._chosen(extractor, judge)
        if progress is not None and not callable(progress):
            raise InvalidInputError(f"run_due: progress must be a function, got {shown(progress)}")
        roles = (Role.USER, Role.ASSISTANT) if checked_bool(assistant, "run_due: assistant") else (Role.USER,)
        reports = []
        for session in self.due(idle_seconds=idle_seconds):
            into = _target(session, None)
            run = Run(self._shop, session, into, extract, decide, roles, cancel=True, progress=progress)
            try:
                reports.append(run.all())
            except BackendError as error:
                # One session that cannot be read or written must not keep those behind it waiting.
                reports.append(run.failed(error))
        return reports

    def _chosen(self, extractor: Extractor | None, judge: Judge | None) -> tuple[Extractor, Judge]:
        extractor = self._config.extractor if extractor is None else extractor
        judge = self._config.judge if judge is None else judge
        return checked_extractor(extractor), checked_judge(judge)

    def set_aside(self, *, scope: Scope) -> list[SetAside]:
        """What of a session no try of an extractor could read; the messages themselves are all there."""
        return self._cursors.aside(_session(scope, "set_aside"))

    def set_budget(self, tokens: int | None, *, scope: Scope, seconds: float = 86_400.0) -> Budget:
        """Let formation spend so many tokens in a period for a scope and all below it; returns the budget.

        Counted are the prompts of `ChatExtractor`, each try, by estimate, before they are sent. A session's
        run needs room in its own budget, its user's, and those above. What has no room waits.

        Args:
            tokens: how many; 0 stops formation, None lifts the limit.
            scope: whose.
            seconds: how long a period is.
        """
        require_scope(scope, verb="set_budget")
        most = None if tokens is None else checked_amount(tokens, "set_budget: tokens", most=_MOST)
        period = checked_timeout(seconds, "set_budget: seconds")
        if not period:
            raise InvalidInputError(f"set_budget: seconds must be above 0, got {shown(seconds)}")
        return self._budgets.set(scope, most, period, now=self._clock())

    def budget(self, *, scope: Scope) -> Budget:
        """The budget of a scope and what was spent in its present period; nothing is counted before it is set."""
        return self._budgets.get(require_scope(scope, verb="budget"), now=self._clock())


def _session(scope: object, verb: str) -> Scope:
    session = require_scope(scope, verb=f"formation.{verb}")
    if session.kind is not ScopeKind.SESSION:
        raise ScopeError(
            f"formation.{verb}: scope must be a session, Scope.session(id, user=...), got {shown(session)}"
        )
    return session


def _target(session: Scope, into: Scope | None) -> Scope:
    """Where the memories of a session go: its user unless told otherwise."""
    if into is None:
        assert session.parent is not None
        return session.parent
    wanted = require_scope(into, verb="formation.run")
    above: Scope | None = session
    while above is not None:
        if above == wanted:
            return wanted
        above = above.parent
    raise ScopeError(f"formation.run: into must be the session or a scope above it, got {shown(wanted)}")
