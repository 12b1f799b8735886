"""How many tokens formation may spend for a scope in a period."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from memkit_core.errors import ConflictError
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import StoredValue
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope

FORMATION = "formation"
"""The kind of the stored values of formation: cursors, budgets and what was set aside."""
_KEY = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The tokens of one scope and period.

    Attributes:
        tokens: how many may be spent in a period, None for any number.
        seconds: how long a period is; the first begins with the first token spent.
        spent: how many were spent in the present one.
        ends_at: when the present one ends; None before the first.
    """

    tokens: int | None = None
    seconds: float = 86_400.0
    spent: int = 0
    ends_at: datetime | None = None


class Budgets:
    """Budgets in stored values. What two processes spend at once is counted once each."""

    def __init__(self, store: RecordStore) -> None:
        """Keep them in `store`."""
        self._store = store

    def get(self, scope: Scope, *, now: datetime) -> Budget:
        """The budget of a scope as it stands now."""
        return _read(self._store.values.get(scope, FORMATION, _KEY), now)

    def set(self, scope: Scope, tokens: int | None, seconds: float, *, now: datetime) -> Budget:
        """Set the budget; what was spent in the present period stays spent."""
        while True:
            stored = self._store.values.get(scope, FORMATION, _KEY)
            old = _read(stored, now)
            budget = Budget(tokens=tokens, seconds=seconds, spent=old.spent, ends_at=old.ends_at)
            if self._put(scope, budget, stored, now):
                return budget

    def spend(self, scope: Scope, tokens: int, *, now: datetime) -> bool:
        """Spend tokens of a scope and of all above it that have a budget; whether all had room.

        Where one has not, nothing is spent of any.
        """
        paid: list[Scope] = []
        for one in _upwards(scope):
            if not self._spend_one(one, tokens, now):
                for other in paid:
                    self._spend_one(other, -tokens, now)
                return False
            paid.append(one)
        return True

    def _spend_one(self, scope: Scope, tokens: int, now: datetime) -> bool:
        while True:
            stored = self._store.values.get(scope, FORMATION, _KEY)
            if stored is None:
                return True
            old = _read(stored, now)
            if old.tokens is not None and tokens > 0 and old.spent + tokens > old.tokens:
                return False
            ends = old.ends_at or now + timedelta(seconds=old.seconds)
            new = Budget(
                tokens=old.tokens, seconds=old.seconds, spent=max(old.spent + tokens, 0), ends_at=ends
            )
            if self._put(scope, new, stored, now):
                return True

    def _put(self, scope: Scope, budget: Budget, stored: StoredValue | None, now: datetime) -> bool:
        ends = None if budget.ends_at is None else budget.ends_at.isoformat()
        value: JsonValue = {
            "tokens": budget.tokens, "seconds": budget.seconds, "spent": budget.spent, "ends_at": ends,
        }  # fmt: skip
        version = 0 if stored is None else stored.version
        try:
            self._store.values.put(scope, FORMATION, _KEY, value, expected_version=version, now=now)
        except ConflictError:
            return False
        return True


def _upwards(scope: Scope) -> Iterator[Scope]:
    one: Scope | None = scope
    while one is not None:
        yield one
        one = one.parent


def _read(stored: StoredValue | None, now: datetime) -> Budget:
    value = None if stored is None else stored.value
    if not isinstance(value, dict):
        return Budget()
    tokens, seconds, spent, ends = (value.get(name) for name in ("tokens", "seconds", "spent", "ends_at"))
    ends_at = datetime.fromisoformat(ends) if isinstance(ends, str) else None
    if ends_at is not None and ends_at <= now:
        # A period that is over: the next one begins with the next token.
        ends_at, spent = None, 0
    return Budget(
        tokens=tokens if isinstance(tokens, int) else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else 86_400.0,
        spent=spent if isinstance(spent, int) else 0,
        ends_at=ends_at,
    )
