"""What an answer lacks, by what it says is missing."""

from __future__ import annotations

import logging


def lacking(missing: frozenset[str]) -> list[str]:
    """The parts of `RecallResult.missing` for which an answer may be poorer, sorted.

    "index" is none of them: without an index every vector is compared, which finds as much.
    """
    return sorted(missing - {"index"})


def warn_degraded(log: logging.Logger, who: str, missing: frozenset[str]) -> None:
    """Log what an answer lacks, where the caller's framework has no place to say it; nothing when it is whole."""
    if parts := lacking(missing):
        log.warning("%s: the answer is degraded, missing: %s", who, ", ".join(parts))
