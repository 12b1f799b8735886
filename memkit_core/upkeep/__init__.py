"""Upkeep: what keeps a store right over the years."""

from memkit_core.upkeep.reembed import ReembedReport
from memkit_core.upkeep.upkeep import Findings, Upkeep

__all__ = ["Findings", "ReembedReport", "Upkeep"]
