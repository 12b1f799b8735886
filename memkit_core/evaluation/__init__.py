"""Measuring recall on conversations with gold evidence: `memkit eval` as functions.

```python
from memkit_core.evaluation import evaluate, read_dataset, summary

print(summary(evaluate(read_dataset("my-data"), ks=(5, 10)))["overall"]["hybrid"]["recall@5"])
```
"""

from memkit_core.evaluation.chunk_sizes import ChunkComparison, compare_chunk_sizes
from memkit_core.evaluation.configurations import Configuration, parse_configuration
from memkit_core.evaluation.dataset import Dataset, DatasetError, Question, Turn, read_dataset
from memkit_core.evaluation.from_log import LogOutcome, evaluate_log, log_summary, log_tables
from memkit_core.evaluation.plot import save_plot
from memkit_core.evaluation.report import summary
from memkit_core.evaluation.run import Outcome, evaluate
from memkit_core.evaluation.tables import tables

__all__ = [
    "ChunkComparison",
    "Configuration",
    "Dataset",
    "DatasetError",
    "LogOutcome",
    "Outcome",
    "Question",
    "Turn",
    "compare_chunk_sizes",
    "evaluate",
    "evaluate_log",
    "log_summary",
    "log_tables",
    "parse_configuration",
    "read_dataset",
    "save_plot",
    "summary",
    "tables",
]
