"""From what was said to what is remembered, without repeats and without what is no longer so.

| file | holds |
|---|---|
| `proposals` | pairs of memories that may say the same or contradict each other |
| `judges` | who decides: by rules that never retire anything, or a chat model |
| `resolving` | what a decision does to both memories, in one transaction that can be undone |
| `consolidating` | all of it over one scope, or over all of them |
| `formation`, `running` | the runs over conversations, and what one does |
| `extractors`, `schemas` | what finds memories in messages: rules, or a chat model that fills a schema |
| `drafts`, `cursors`, `budgets` | what a run keeps in the store between two steps, and between two runs |
| `answers` | JSON out of what a chat model says |

Similarity only proposes: "allergic" and "not allergic" are closer to each other than "level 3" and
"level 5 now" are. A judge decides.
"""

from memkit_core.formation.budgets import Budget
from memkit_core.formation.cursors import SetAside
from memkit_core.formation.extractors import ChatExtractor, RuleExtractor
from memkit_core.formation.formation import Formation
from memkit_core.formation.judges import ChatJudge, RuleJudge
from memkit_core.formation.resolving import ConsolidationReport, Decision
from memkit_core.formation.running import FormationReport

__all__ = [
    "Budget",
    "ChatExtractor",
    "ChatJudge",
    "ConsolidationReport",
    "Decision",
    "Formation",
    "FormationReport",
    "RuleExtractor",
    "RuleJudge",
    "SetAside",
]
