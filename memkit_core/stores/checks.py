"""What every store checks before it writes."""

from __future__ import annotations

from collections.abc import Sequence

from memkit_core.errors import ScopeError
from memkit_core.models import MemoryRecord
from memkit_core.scope import Scope


def check_scopes(scope: Scope, records: Sequence[MemoryRecord]) -> None:
    """Refuse records of another scope than the one the caller named."""
    for record in records:
        if record.scope != scope:
            raise ScopeError(f"put: record {record.id!r} is of {record.scope}, the call is about {scope}")
