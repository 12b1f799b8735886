"""Memories of idle sessions, as periodic work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memkit_core.errors import BackendError, ModelError

if TYPE_CHECKING:
    from memkit_core.formation.formation import Formation


def form_idle(formation: Formation, *, idle_seconds: float, renew: Callable[[], None]) -> None:
    """Form memories of the sessions that are idle; `renew` is called before each part of one.

    Raises:
        BackendError: the store failed for some sessions, which are read the next time.
        ModelError: the extractor found no answer for some messages, which are kept.
    """
    reports = formation.run_due(idle_seconds=idle_seconds, progress=renew)
    failed = [report for report in reports if report.failed]
    if failed:
        raise BackendError(
            f"the store failed for {len(failed)} session{'s' * (len(failed) > 1)}, read again the next time; "
            f"the last error: {failed[-1].errors[-1]}",
            backend="store",
            operation="formation",
        )
    aside = sum(report.set_aside for report in reports)
    if aside:
        # Without what the extractor said: an error of a model may quote what was said.
        raise ModelError(
            f"new messages that could not be read: {aside}; they are kept, see memory.formation.set_aside",
            model="extractor",
        )
