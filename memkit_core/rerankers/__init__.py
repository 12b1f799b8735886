"""Rerankers of other libraries as a `Reranker`, recognised by their methods, and one that asks an LLM."""

from memkit_core.rerankers.listwise import ListwiseReranker
from memkit_core.rerankers.objects import resolve_reranker
from memkit_core.rerankers.orders import scores_of_order

__all__ = ["ListwiseReranker", "resolve_reranker", "scores_of_order"]
