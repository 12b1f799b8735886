"""What ranking reads of candidates, a column each: made once for each row of a copy, not once for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memkit_core.models import Role
from memkit_core.recall.ranking import ends_in_question

if TYPE_CHECKING:
    from memkit_core.ports import Candidate

COLUMNS = [
    ("length", np.int64),
    ("importance", np.float64),
    ("since", np.int64),
    ("session", np.int64),
    ("position", np.int64),
    ("speaker", np.int32),
    ("asks", np.bool_),
    ("assistant", np.bool_),
]
"""As `Candidate`, but for: `speaker`, a number of `Speakers`; `asks`, see `ends_in_question`; and
`assistant`, whether an assistant says it."""

Columns = NDArray[np.void]
"""`(n,)` with the fields of `COLUMNS`, and perhaps others."""
Speakers = dict[str | None, int]
"""A number for each speaker, from 0 in the order of their appearance; nobody is one of them."""


def column_values(candidate: Candidate, speakers: Speakers) -> tuple[int | float, ...]:
    """The fields of `COLUMNS` of one candidate; a new speaker gets the next number."""
    return (
        candidate.length,
        candidate.importance,
        candidate.since,
        candidate.session,
        candidate.position,
        speakers.setdefault(candidate.speaker, len(speakers)),
        candidate.ending != "" and ends_in_question(candidate.ending, candidate.speaker),
        candidate.role == Role.ASSISTANT,
    )


def columns_of(candidates: Sequence[Candidate], speakers: Speakers) -> Columns:
    """The columns of some candidates."""
    return np.array([column_values(one, speakers) for one in candidates], np.dtype(COLUMNS))


class Chosen(Sequence[Any]):
    """Some elements of a list by their places, looked up when they are asked for.

    The list may grow, and its elements be replaced, but not move.
    """

    def __init__(self, elements: list[Any], places: NDArray[np.intp]) -> None:
        """The elements at `places`, in that order."""
        self._elements = elements
        self._places = places

    def __len__(self) -> int:
        """How many were chosen."""
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        """The element of that number, counted from 0."""
        return self._elements[self._places[index]]
