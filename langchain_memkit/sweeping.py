"""A thread that frees the space of what has expired."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memkit_core import ClosedError, MemkitError

_LOGGER = logging.getLogger("memkit.langchain")


class Sweeper(threading.Thread):
    """Calls a sweep in intervals until it is told to stop."""

    def __init__(self, sweep: Callable[[], object], seconds: float) -> None:
        super().__init__(name="memkit-ttl-sweeper", daemon=True)
        self.stopped = threading.Event()
        self._sweep = sweep
        self._seconds = min(seconds, threading.TIMEOUT_MAX)

    def run(self) -> None:
        """Sweep until it is stopped or the memory is closed."""
        while not self.stopped.wait(self._seconds):
            try:
                self._sweep()
            except ClosedError:
                return
            except MemkitError as error:
                # Nothing is lost: the next time does it.
                _LOGGER.warning("store: the sweep failed: %s", error)
