"""Keeping vector indexes in step with the store: one `Indexer` a vector space, `Indexers` for all of them."""

from memkit_core.indexing.indexer import DenseAnswer, Indexer
from memkit_core.indexing.indexers import Indexers

__all__ = ["DenseAnswer", "Indexer", "Indexers"]
