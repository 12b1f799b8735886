"""Loading a model on first use, once, and what a fork does to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from memkit_core.errors import ModelError
from memkit_core.locks import ThreadLock

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A model that is loaded on first use and belongs to the process that loaded it. Thread-safe.

    The threads of an engine do not survive a fork. A child loads the model again, or, where the
    engine cannot start a second time (OpenMP waits forever for threads that are gone), is refused.
    """

    def __init__(self, load: Callable[[], T], *, model: str, survives_fork: bool) -> None:
        """Nothing is loaded yet; `model` names it in errors."""
        self._load, self._model, self._survives_fork = load, model, survives_fork
        self._mutex = ThreadLock()
        self._loaded: tuple[int, T] | None = None

    def get(self) -> T:
        """The model, loaded if it is not.

        Raises:
            ModelError: this process was forked from one that had loaded it, and its engine cannot
                start again.
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
                loaded = self._loaded = (pid, self._load())
        return loaded[1]
