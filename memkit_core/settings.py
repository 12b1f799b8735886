"""Settings of upkeep, the recall log and tracing: what is forgotten, when, what is kept of recalls and told of calls."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from memkit_core.errors import ConfigError, shown


class ForgetPolicy(StrEnum):
    """Which rule archives; one at a time, never both."""

    IMPORTANCE = "importance"
    UTILITY = "utility"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """What `memory.upkeep.forget` archives and deletes. All constants are those of spec E1.

    `d` is the time since a memory was last recalled, since it was made when it never was.

    Attributes:
        policy: `"importance"`: effective importance, `importance * exp(-d / decay_days)`, below
            `archive_below` and `d` of at least `idle_days`. `"utility"`: `recency_weight *
            0.5^(d / half_life_hours) + access_weight * min(accesses / full_accesses, 1) +
            importance_weight * importance` below `utility_below`.
        decay_days: after so many days untouched, 0.37 of the importance is left.
        archive_below: the effective importance below which a memory is archived.
        idle_days: a memory recalled within so many days is not archived by importance; one that was
            changed or restored within them by neither policy.
        utility_below: the utility below which a memory is archived.
        half_life_hours: hours after which recency counts half.
        full_accesses: recalls that count in full.
        recency_weight, access_weight, importance_weight: what each counts for in the utility.
        delete_after_days: what has been archived, and unchanged, for longer is deleted; None for never.
        batch: memories of one transaction: other writers wait that long.
    """

    policy: ForgetPolicy = ForgetPolicy.IMPORTANCE
    decay_days: float = 90.0
    archive_below: float = 0.1
    idle_days: float = 30.0
    utility_below: float = 0.2
    half_life_hours: float = 72.0
    full_accesses: float = 10.0
    recency_weight: float = 0.4
    access_weight: float = 0.3
    importance_weight: float = 0.3
    delete_after_days: float | None = None
    batch: int = 250

    def __post_init__(self) -> None:
        """Refuse settings that no memory could be forgotten by."""
        if not isinstance(self.policy, str) or self.policy not in list(ForgetPolicy):
            raise ConfigError(f"policy must be importance or utility, got {shown(self.policy)}")
        object.__setattr__(self, "policy", ForgetPolicy(self.policy))
        _check_numbers(self, above=("decay_days", "half_life_hours", "full_accesses", "batch"))
        if self.delete_after_days is not None:
            checked_days(self.delete_after_days, "delete_after_days")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When the periodic work of a store is done; see `memory.upkeep.run_due`. Periods are those of spec E5.

    Attributes:
        thread: whether a thread of the memory does it from its opening on; else `memory.upkeep.start`,
            `run_due` or `memkit upkeep` do.
        outbox_seconds: between two tries of what waits for its vector or for the index.
        checkpoint_seconds: between two checkpoints that empty the write-ahead log.
        sweep_seconds: between two sweeps of what has expired.
        formation_seconds: between two looks for idle sessions, when `Config.extractor` is set.
        idle_seconds: nothing was said for so long in a session that is idle.
        forget_hour: the hour of the day, 0 to 23 in UTC, at which memories are forgotten; None for never.
        consolidate_hour: the hour at which near duplicates and contradictions are settled, see
            `memory.upkeep.consolidate`; None for never.
        lease_seconds: how long a process that died keeps the others from a job it had begun.
    """

    thread: bool = True
    outbox_seconds: float = 30.0
    checkpoint_seconds: float = 300.0
    sweep_seconds: float = 3600.0
    formation_seconds: float = 60.0
    idle_seconds: float = 300.0
    forget_hour: int | None = None
    consolidate_hour: int | None = None
    lease_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Refuse what is no schedule."""
        if not isinstance(self.thread, bool):
            raise ConfigError(f"thread must be True or False, got {shown(self.thread)}")
        periods = ("outbox_seconds", "checkpoint_seconds", "sweep_seconds", "formation_seconds")
        _check_numbers(self, above=(*periods, "lease_seconds"))
        if self.lease_seconds > _LONGEST_LEASE:
            raise ConfigError(
                f"lease_seconds must be at most {_LONGEST_LEASE}, got {shown(self.lease_seconds)}"
            )
        for name in ("forget_hour", "consolidate_hour"):
            hour = getattr(self, name)
            if hour is not None and (type(hour) is not int or not 0 <= hour < 24):  # noqa: PLR2004 - hours of a day
                raise ConfigError(f"{name} must be a whole number from 0 to 23, or None, got {shown(hour)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLog:
    """That recalls are logged, and how; see `Config.recall_log` and `memory.feedback`.

    Attributes:
        query: `"text"` keeps what was asked, `"hash"` its SHA-256 alone. Short or guessable texts can be
            found again from that, and `memkit eval --from-log` needs the text.
        keep: so many recalls, the newest; older ones are deleted.
    """

    query: Literal["text", "hash"] = "text"
    keep: int = 10_000

    def __post_init__(self) -> None:
        """Refuse what is no way to log."""
        if not isinstance(self.query, str) or self.query not in ("text", "hash"):
            raise ConfigError(f"query must be text or hash, got {shown(self.query)}")
        _check_numbers(self, above=("keep",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """That the calls of a memory are OpenTelemetry spans; see `Config.tracing` and docs/observability.md.

    Attributes:
        ids: whether a span names the one record and the session that it is about
            (`gen_ai.memory.record.id`, `gen_ai.conversation.id`). Ids may be names or addresses of people.
    """

    ids: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no switch."""
        if not isinstance(self.ids, bool):
            raise ConfigError(f"ids must be True or False, got {shown(self.ids)}")


_LONGEST_DAYS = 1_000_000
_HIGHEST = 1e9
_LONGEST_LEASE = 86_400


def checked_days(value: object, name: str) -> float:
    """A number of days above 0.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST_DAYS:
        raise ConfigError(f"{name} must be a number of days above 0, or None for never, got {shown(value)}")
    return float(value)


def _check_numbers(settings: Forgetting | Schedule | RecallLog, *, above: tuple[str, ...]) -> None:
    """Refuse what is no number of the kind of its default, or too low; `above` names what must exceed 0."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(field.default, bool) or not isinstance(field.default, int | float):
            continue
        kinds = (int, float) if isinstance(field.default, float) else (int,)
        # A whole number may be too large for `isfinite`.
        number = isinstance(value, kinds) and (isinstance(value, int) or math.isfinite(value))
        if isinstance(value, bool) or not number:
            raise ConfigError(f"{field.name} must be a number like {field.default!r}, got {shown(value)}")
        positive = field.name in above
        if value < 0 or (positive and value == 0) or value > _HIGHEST:
            least = "above 0" if positive else "0 or more"
            raise ConfigError(f"{field.name} must be {least}, at most {_HIGHEST:g}, got {shown(value)}")
