"""Measuring recall on conversations with gold evidence: `memkit eval` as functions.

```python
from memkit_core.evaluation import evaluate, read_dataset, summary

print(summary(evaluate(read_dataset("my-data"), ks=(5, 10)))["overall"]["hybrid"]["recall@5"])
```
"""

from memkit_core.evaluation.chunk_sizes import ChunkComparison, compare_chunk_sizes
from memkit_core.evaluation.dataset import Dataset, DatasetError, Question, Turn, read_dataset
from memkit_core.evaluation.report import summary, tables
from memkit_core.evaluation.run import Outcome, evaluate

__all__ = [
    "ChunkComparison",
    "Dataset",
    "DatasetError",
    "Outcome",
    "Question",
    "Turn",
    "compare_chunk_sizes",
    "evaluate",
    "read_dataset",
    "summary",
    "tables",
]
