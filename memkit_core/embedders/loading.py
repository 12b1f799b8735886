"""Loading a model on first use, once, and what a fork does to it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from memkit_core.errors import ModelError
from memkit_core.locks import ThreadLock

T = TypeVar("T")

_SLOW = 1.0
_PAUSE = 60.0
"""Seconds in which a load that failed after more than `_SLOW` is not tried again: a download that cannot be reached
takes most of a minute to say so, each time."""


class PerProcess(Generic[T]):
    """A model that is loaded on first use and belongs to the process that loaded it. Thread-safe.

    The threads of an engine do not survive a fork. A child loads the model again, or, where the
    engine cannot start a second time (OpenMP waits forever for threads that are gone), is refused.
    """

    def __init__(
        self,
        load: Callable[[], T],
        *,
        model: str,
        survives_fork: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is loaded yet; `model` names it in errors, `monotonic` is the clock, in seconds."""
        self._load, self._model, self._survives_fork = load, model, survives_fork
        self._monotonic = monotonic
        self._again_at, self._failure = -math.inf, ""
        self._mutex = ThreadLock()
        self._loaded: tuple[int, T] | None = None

    def get(self) -> T:
        """The model, loaded if it is not.

        Raises:
            ModelError: this process was forked from one that had loaded it, and its engine cannot
                start again; or it was slow to fail a moment ago. What `load` raises comes through.
        """
        pid = os.getpid()
        loaded = self._loaded
        if loaded is not None and loaded[0] == pid:
            return loaded[1]
        with self._mutex:
            loaded = self._loaded
            if loaded is not None and loaded[0] != pid and not self._survives_fork:
                raise ModelError(
                    "was loaded before this process was forked, and its engine cannot run in the child; "
                    "embed first in the child, or start the process with spawn",
                    model=self._model,
                )
            if loaded is None or loaded[0] != pid:
                loaded = self._loaded = (pid, self._load_now())
        return loaded[1]

    def _load_now(self) -> T:
        begun = self._monotonic()
        if begun < self._again_at:
            raise ModelError(
                f"could not be loaded a moment ago, and is not tried again before {_PAUSE:g} s have passed: "
                f"{self._failure}",
                model=self._model,
            )
        try:
            return self._load()
        except Exception as error:
            ended = self._monotonic()
            if ended - begun > _SLOW:
                self._again_at, self._failure = ended + _PAUSE, f"{type(error).__name__}: {error}"
            raise
