"""Upkeep: what keeps a store right over the years."""

from memkit_core.upkeep.decay import Fading, Fate, Forgotten, effective_importance
from memkit_core.upkeep.jobs import JobRun
from memkit_core.upkeep.upkeep import Findings, Upkeep

__all__ = ["Fading", "Fate", "Findings", "Forgotten", "JobRun", "Upkeep", "effective_importance"]
