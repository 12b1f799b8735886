"""The keyword suite over an index that is no part of a store.

`SQLiteStore` and `InMemoryStore` run the same suite with the rest of their contract, in
test_record_stores.py.
"""

from collections import Counter

import numpy as np
import pytest

from memkit_core.filters import matches
from memkit_core.models import Target
from memkit_core.ports import KeywordHit
from memkit_core.stores.keyword_scores import average_length, query_terms, term_score, term_weights
from memkit_core.testing import KeywordIndexContract, StoreWithKeywords
from memkit_core.text.tokenizer import keyword_terms


class PlainKeywords:
    """As somebody else could write one: records by point id, each with its terms; every search a scan."""

    def __init__(self):
        self.rows = {}
        self.store = None

    def write(self, records):
        for record in records:
            self.rows[record.point_id] = record, Counter(keyword_terms(record.index_text))

    def remove(self, points):
        for point in points:
            self.rows.pop(point, None)

    def of_owner(self, target):
        return [
            (record, terms)
            for record, terms in self.rows.values()
            if record.space == target.space
            and Target(scope=record.scope, space=record.space).owner == target.owner
        ]

    def search(self, target, query, *, where, now, limit):
        rows = self.of_owner(target)
        terms = query_terms(query)
        frequencies = [sum(term in counts for _, counts in rows) for term in terms]
        weight = dict(zip(terms, term_weights(frequencies, len(rows)), strict=True))
        average = average_length(len(rows), sum(counts.total() for _, counts in rows))
        scores = {
            record.point_id: sum(
                term_score(weight[term], counts[term], counts.total(), average)
                for term in terms
                if counts[term]
            )
            for record, counts in rows
            if (not target.narrowed or record.scope == target.scope)
            and (record.pinned or record.expires_at is None or record.expires_at > now)
            and (where is None or matches(where, record))
        }
        best = sorted((point for point, score in scores.items() if score > 0), key=scores.get, reverse=True)
        # What ranking needs of a row is the store's to say.
        found = self.store.records.candidates(target, best[:limit], radius=0, where=None, now=now)
        candidates = {one.point_id: one for one in found}
        return [KeywordHit(candidate=candidates[point], score=scores[point]) for point in best[:limit]]

    def counts(self, target, query, candidates):
        terms = query_terms(query)
        counted = {record.point_id: counts for record, counts in self.of_owner(target)}
        return np.array(
            [[counted.get(one.point_id, Counter())[term] for term in terms] for one in candidates], float
        ).reshape(len(candidates), len(terms))


class TestAnIndexWithoutAStore(KeywordIndexContract):
    @pytest.fixture
    def store(self):
        index = PlainKeywords()
        store = index.store = StoreWithKeywords(index, write=index.write, remove=index.remove)
        yield store
        store.close()
