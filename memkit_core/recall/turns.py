"""Recall among the messages of one session, for those who wire conversations together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memkit_core.config import Config
from memkit_core.inputs import turn_point
from memkit_core.models import MESSAGES, Message, RecallResult, Status
from memkit_core.recall.pipeline import Recall
from memkit_core.recall.query import RecallQuery
from memkit_core.scope import Scope
from memkit_core.text.clean import storable
from memkit_core.times import Clock


def turn_finder(
    recall: Recall, config: Config, clock: Clock
) -> Callable[[str, Scope, Sequence[Message], int], RecallResult]:
    """A function that finds the turns of a session that answer a text; see `FindTurns`."""

    def find(text: str, session: Scope, exclude: Sequence[Message], top_k: int) -> RecallResult:
        now = clock()
        return recall.run(
            RecallQuery(
                text=storable(text),
                scopes=(session,),
                top_k=top_k,
                where=None,
                types=(),
                statuses=(Status.ACTIVE,),
                include_messages=False,
                ranking=config.ranking,
                candidates=max(config.candidates, 3 * top_k),
                asked_at=now,
                now=now,
                exclude=frozenset(turn_point(message) for message in exclude),
                space=MESSAGES,
            )
        )

    return find
