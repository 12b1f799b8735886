"""What the stores over a collection have in common: how they are copied, pickled and shown."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import ClassVar, Self

from memkit_core import Scope


class OverCollection:
    """A store over one collection of a memory, which it opens again where it is copied or unpickled.

    Attributes:
        live: the attributes that `_open` makes, which neither copies nor pickles keep.
    """

    live: ClassVar[frozenset[str]]
    scope: Scope
    name: str

    @abstractmethod
    def _open(self) -> None:
        """Open the collection; nothing is read yet."""

    def __getstate__(self) -> dict[str, object]:
        """What copies and pickles keep: all but what `_open` makes."""
        return {name: value for name, value in self.__dict__.items() if name not in self.live}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Open the collection again."""
        self.__dict__.update(state)
        self._open()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """A copy that shares memory and model: live connections cannot be copied."""
        return copy.copy(self)

    def __repr__(self) -> str:
        """The class, and which collection of whose it is."""
        return f"{type(self).__name__}(scope={self.scope!r}, name={self.name!r})"
