"""From what was found to what is ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit_core.models import MESSAGES
from memkit_core.recall.bm25 import Floats
from memkit_core.recall.query import Found, RecallQuery
from memkit_core.recall.query_dates import date_fit, dates_in
from memkit_core.recall.ranking import (
    Bools,
    Ints,
    Pool,
    by_other_speaker,
    is_question,
    only_the_query,
)
from memkit_core.recall.related import relatedness
from memkit_core.stores.keyword_scores import query_terms
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import from_ms, to_ms

_DAY_MS = 86_400_000


def pool_of(query: RecallQuery, found: Sequence[Found]) -> Pool:
    """All that was found, as one pool; of at least one target something was.

    Raises:
        ModelError: words could not be compared, see `RecallQuery.words`.
    """

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([one.columns[name] for one in found])

    given = [one.counts for one in found if one.counts is not None]
    # Only what surrounds a turn is counted.
    counts = np.concatenate(given) if given else np.zeros((sum(len(one.columns) for one in found), 0))
    session, since = column("session"), column("since")
    totals = column("length").astype(np.float64)
    return Pool(
        keyword=np.concatenate([one.keyword for one in found]),
        cosine=np.concatenate([one.cosine for one in found]),
        counts=counts,
        related=_related(query, counts, found),
        totals=totals,
        session=session,
        position=column("position"),
        other_speaker=_other_speaker(query.text, found),
        # What a person asks an assistant tells about the person; between people the answer comes next.
        asks=column("asks") & ~np.isin(session, np.unique(session[column("assistant")])),
        echoes=_echoes(query.text, session, counts, totals),
        dated=_dated(query.text, since.tolist()),
        age_days=(to_ms(query.asked_at) - since.astype(np.float64)) / _DAY_MS,
        importance=column("importance"),
    )


def _related(query: RecallQuery, counts: Floats, found: Sequence[Found]) -> Floats:
    """See `relatedness`; only turns that a leg found have related words."""
    rows: list[int] = []
    texts: list[str] = []
    before = 0
    for one in found:
        if one.target.space == MESSAGES:
            led = np.flatnonzero((one.keyword > 0) | ~np.isnan(one.cosine)).tolist()
            rows += [before + row for row in led]
            texts += [one.candidates[row].text for row in led]
        before += len(one.candidates)
    if query.words is None or not texts:
        return np.zeros_like(counts)
    words = query.words.numbers(texts)
    return relatedness(query.text, query_terms(query.text), counts, np.array(rows), words, query.words)


def _echoes(text: str, session: Ints, counts: Floats, totals: Floats) -> Bools:
    if not is_question(text):
        return np.zeros(len(session), bool)
    return (session >= 0) & only_the_query(counts, totals, len(keyword_terms(text)))


def _other_speaker(text: str, found: Sequence[Found]) -> Bools:
    spoke = [np.unique(one.columns["speaker"]).tolist() for one in found]
    speakers = {one.speakers[number] for one, numbers in zip(found, spoke, strict=True) for number in numbers}
    names = {speaker: keyword_terms(speaker) for speaker in speakers if speaker is not None}
    if not names:
        return np.zeros(sum(len(one.candidates) for one in found), bool)
    asked = keyword_terms(text)
    return np.concatenate(
        [
            # Those of whom nothing was found have no name here, and are marked for nobody.
            by_other_speaker(asked, one.speakers, names)[one.columns["speaker"]]
            for one in found
        ]
    )


def _dated(text: str, since: Sequence[int]) -> Floats:
    dates = dates_in(text)
    if not dates:
        return np.zeros(len(since))
    return np.array([date_fit(dates, from_ms(moment)) for moment in since])
