"""Upkeep: what keeps a store right over the years."""

from memkit_core.upkeep.decay import Fading, Fate, Forgotten, effective_importance
from memkit_core.upkeep.doctor import Finding, Level
from memkit_core.upkeep.jobs import JobRun
from memkit_core.upkeep.reembed import ReembedReport
from memkit_core.upkeep.stats import Indexed, SpaceStats, Stats
from memkit_core.upkeep.upkeep import Findings, Upkeep

__all__ = [
    "Fading",
    "Fate",
    "Finding",
    "Findings",
    "Forgotten",
    "Indexed",
    "JobRun",
    "Level",
    "ReembedReport",
    "SpaceStats",
    "Stats",
    "Upkeep",
    "effective_importance",
]
