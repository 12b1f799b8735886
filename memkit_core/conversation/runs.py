"""`memory.runs`: the saved states of workflow runs."""

from __future__ import annotations

import json

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError
from memkit_core.inputs import checked_id, checked_version
from memkit_core.jsonvalues import JsonValue, checked_metadata
from memkit_core.live import Live
from memkit_core.models import RUNS, DeleteReceipt, RunState, StoredValue
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_RUNS
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope, require_scope
from memkit_core.times import Clock


@observed(OF_RUNS)
class Runs(Live):
    """Saves, loads and lists the states of runs, by scope. Reached as `memory.runs`; thread-safe."""

    def __init__(self, store: RecordStore, config: Config, clock: Clock) -> None:
        """Work on `store`."""
        self._store = store
        self._config = config
        self._clock = clock

    def save(
        self,
        run_id: str,
        state: JsonValue,
        *,
        scope: Scope,
        status: str = "paused",
        expected_version: int | None = None,
    ) -> RunState:
        """Save the state of a run, in the place of an earlier one, and return it as stored.

        Args:
            run_id: names the run in its scope.
            state: JSON; what is not JSON is refused, not converted.
            scope: whose run it is.
            status: the word it is listed by.
            expected_version: save only if the stored state has this version, 0 for "there is none".

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: a value that cannot be stored; nothing is changed.
            ConflictError: somebody else saved it since; load it again and decide.
        """
        owner = require_scope(scope, verb="runs.save")
        name, word = checked_id(run_id, "run_id"), checked_id(status, "status")
        checked = checked_metadata({"state": state}, name="run")["state"]
        size, most = len(json.dumps(checked, ensure_ascii=False)), self._config.max_content_chars
        if size > most:
            raise InvalidInputError(
                f"the state of run {name!r} has {size} characters as JSON, at most {most} are allowed; "
                "raise Config.max_content_chars"
            )
        if expected_version is not None:
            checked_version(expected_version)
        stored = self._store.values.put(
            owner, RUNS, name, checked, label=word, expected_version=expected_version, now=self._clock()
        )
        return _run(owner, stored)

    def load(self, run_id: str, *, scope: Scope) -> RunState | None:
        """The state of a run, None when nothing was saved under this id in this scope."""
        owner = require_scope(scope, verb="runs.load")
        found = self._store.values.get(owner, RUNS, checked_id(run_id, "run_id"))
        return None if found is None else _run(owner, found)

    def delete(self, run_id: str, *, scope: Scope) -> DeleteReceipt:
        """Delete the state of a run; an unknown id counts as nothing."""
        owner = require_scope(scope, verb="runs.delete")
        return self._store.values.delete(owner, RUNS, checked_id(run_id, "run_id"))

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, *, scope: Scope, status: str | None = None) -> list[RunState]:
        """The runs of a scope, with that status if one is given, last saved first."""
        owner = require_scope(scope, verb="runs.list")
        label = None if status is None else checked_id(status, "status")
        return [_run(owner, value) for value in self._store.values.list(owner, RUNS, label=label)]


def _run(owner: Scope, value: StoredValue) -> RunState:
    assert value.label is not None
    return RunState(
        scope=owner,
        run_id=value.key,
        state=value.value,
        status=value.label,
        version=value.version,
        created_at=value.created_at,
        updated_at=value.updated_at,
    )
