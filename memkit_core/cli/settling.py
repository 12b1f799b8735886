"""Waiting until what a command wrote can be found, as far as this process can see to it."""

from __future__ import annotations

from dataclasses import dataclass

from memkit_core import BackendUnavailableError, Memory
from memkit_core.cli.output import stderr, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How far it went.

    Attributes:
        outbox: changes that still wait to be embedded or indexed.
        no_index: why this process has no vector index, which recall then does without; None when it has.
    """

    outbox: int
    no_index: str | None

    def tell(self) -> None:
        """Say what is left, if anything."""
        if self.no_index is not None:
            stderr().print(
                f"until the vector index has all of it, recall compares with every vector, which is slower: {visible(self.no_index)}",
                soft_wrap=True,
            )
        if self.outbox:
            stderr().print(f"still waiting to be embedded or indexed: {self.outbox:,}")


def settled(memory: Memory) -> Settled:
    """Embed and index what waits; what another process must do is left to it."""
    no_index = None
    with stderr().status("embedding and indexing"):
        memory.flush()
        if not memory.capabilities.index:
            # It is being built beside; waited for, so that the next command finds it.
            try:
                memory.upkeep.reindex()
            except BackendUnavailableError as error:
                no_index = str(error)
            memory.flush()
        return Settled(outbox=memory.capabilities.outbox.length, no_index=no_index)
