"""What a keeper of the index of one vector space does."""

from __future__ import annotations

from typing import Protocol

from memkit_core.errors import BackendError, ConfigError
from memkit_core.ports import VectorIndex, VectorSource, VectorSpace


class IndexKeeper(Protocol):
    """Hands out the index of one vector space. Thread-safe; raises nothing but memkit's errors."""

    def index(self) -> VectorIndex | None:
        """The index to search, verified, or None while this process cannot have it. Never waits."""

    def writable(self) -> VectorIndex | None:
        """The same, or None while another process is the one that writes it."""

    def space_of(self, index: VectorIndex) -> VectorSpace | None:
        """The vector space of an index that was handed out; None once it is out of use."""

    def prepare(self, source: VectorSource) -> bool:
        """Build the index of a space that is coming, to be found whole when it comes into use.

        False where this process cannot do that; it is then built when it is needed. While it is built
        no change may be confirmed.

        Raises:
            BackendError: it could not be built.
        """

    def drop(self, space: VectorSpace) -> bool:
        """Delete what is kept of the index of a retired space; False while another process is the writer."""

    def writing(self, index: VectorIndex, number: int) -> None:
        """Note with the index, before the first write since it was confirmed, which change it may hold."""

    def confirmed(self, index: VectorIndex, synced_through: int) -> None:
        """Note with the index which change it and the store agree on."""

    def distrust(self, index: VectorIndex, error: Exception) -> None:
        """This index failed in use: rebuild it before one is handed out again."""

    def rebuild(self) -> None:
        """Build the index anew from the store, now; raises `BackendError` when that is not possible."""

    def check_room(self) -> None:
        """Raise `BackendUnavailableError` when there is too little room to write safely."""

    def close(self) -> None:
        """Let go of the index; safe to call twice."""


def passing(error: Exception) -> bool:
    """Whether the index is whole all the same: it cannot be reached, or refuses the key, for now."""
    return isinstance(error, ConfigError) or (isinstance(error, BackendError) and error.retryable)
