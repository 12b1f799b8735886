"""What held at a moment (spec A8): a filter, and the statuses it is asked of."""

from __future__ import annotations

from datetime import datetime

from memkit_core.filters import And, Condition, Filter, Op, Or
from memkit_core.models import Status
from memkit_core.times import to_ms


def held_at(moment: datetime) -> Filter:
    """Holds for records that were so at `moment`: from their beginning on, up to and without their end."""
    at = to_ms(moment)
    begun = Or(
        (
            Condition(("valid_from",), Op.LTE, at),
            And((Condition(("valid_from",), Op.EXISTS, False), Condition(("created_at",), Op.LTE, at))),
        )
    )
    lasting = Or((Condition(("valid_until",), Op.EXISTS, False), Condition(("valid_until",), Op.GT, at)))
    return And((begun, lasting))


def statuses_then(statuses: tuple[Status, ...]) -> tuple[Status, ...]:
    """The statuses to look among: what is superseded by now was active once."""
    if Status.ACTIVE in statuses and Status.SUPERSEDED not in statuses:
        return (*statuses, Status.SUPERSEDED)
    return statuses
