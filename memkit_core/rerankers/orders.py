"""From an order of texts to scores."""

from __future__ import annotations

from collections.abc import Sequence

from memkit_core.errors import ModelError, shown


def scores_of_order(order: Sequence[object], many: int, *, model: str) -> list[float]:
    """The scores of `many` texts of which `order` names the places, best first: 1 down to 1 / n, 0 for the rest.

    Raises:
        ModelError: it names a place twice, or one that there is not.
    """
    ranks = {place: rank for rank, place in enumerate(order)}
    if len(ranks) < len(order) or not ranks.keys() <= set(range(many)):
        raise ModelError(
            f"was asked for the order of {many} texts and gave {shown(list(order))}", model=model
        )
    return [1 - ranks[place] / many if place in ranks else 0.0 for place in range(many)]
