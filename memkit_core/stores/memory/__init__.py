"""The record store that keeps nothing: the readable model of what every store must do."""

from memkit_core.stores.memory.store import InMemoryStore

__all__ = ["InMemoryStore"]
