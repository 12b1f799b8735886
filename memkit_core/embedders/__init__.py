"""Embedders: from text to vectors. One file an implementation; `resolve` chooses."""

from memkit_core.embedders.resolve import resolve_embedder

__all__ = ["resolve_embedder"]
