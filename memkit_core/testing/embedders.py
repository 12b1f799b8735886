"""The contract of `memkit_core.ports.Embedder` as a pytest suite.

```python
class TestMyEmbedder(EmbedderContract):
    sides_differ = True

    @pytest.fixture
    def embedder(self):
        return MyEmbedder()
```
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from memkit_core.ports import Embedder, Matrix
from memkit_core.testing.guard import ContractGuard

TEXTS = (
    "I moved to Denver in May.",
    "The spare key is under the blue pot.",
    "Tickets about the login page go to POL-358.",
)

UNICODE = (
    "Ich heiße Jürgen, naïve café",
    "cafe\N{COMBINING ACUTE ACCENT}",
    "東京タワーは高い",
    "דירה בתל אביב",
    "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET} \N{EARTH GLOBE EUROPE-AFRICA}",
)

BLANK = ("", " ", "\n\t ")

LONG = "The meeting about the budget was moved to Thursday. " * 2000
"""104,000 characters, about 24,000 tokens: more than any model reads at once."""


class EmbedderContract(ContractGuard):
    """What memkit relies on in an embedder. Inherit, and give the fixture `embedder`.

    Attributes:
        sides_differ: whether a query and a document of the same text have different vectors; both
            answers are tested.
        reads_blank: False for a service that refuses a text of white space only. memkit never
            sends one.
        tolerance: the largest difference between two vectors of the same text, in each number.
    """

    sides_differ: ClassVar[bool] = False
    reads_blank: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-5

    @pytest.fixture
    def embedder(self) -> Embedder:
        """The embedder to test, fresh for each test."""
        raise NotImplementedError("give a fixture named embedder")

    def test_the_model_has_a_name(self, embedder: Embedder) -> None:
        """Model and revision are always known, stay the same, and can stand in a fingerprint."""
        name, revision = embedder.model, embedder.revision
        assert isinstance(name, str)
        assert name.strip()
        assert isinstance(revision, str)
        embedder.embed_query(TEXTS[0])
        assert (embedder.model, embedder.revision) == (name, revision)

    def test_documents_are_rows_of_float32(self, embedder: Embedder) -> None:
        """Documents come back as a finite matrix `(n, d) float32`, one row a text."""
        rows = _checked(embedder.embed_documents(list(TEXTS)), count=len(TEXTS))
        assert (np.linalg.norm(rows, axis=1) > 0).all()

    def test_a_query_is_a_vector_of_the_same_length(self, embedder: Embedder) -> None:
        """A query is a finite vector `(d,) float32` of the documents' dimension."""
        vector = embedder.embed_query(TEXTS[0])
        assert isinstance(vector, np.ndarray)
        assert vector.ndim == 1
        rows = _checked(vector[np.newaxis], count=1)
        assert rows.shape[1] == embedder.embed_documents(list(TEXTS[:1])).shape[1]

    def test_rows_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        """Each row belongs to the text at its place, whatever stands beside it, repeats included."""
        first, second, third = embedder.embed_documents(list(TEXTS))
        assert not np.allclose(first, second, atol=10 * self.tolerance)
        mixed = embedder.embed_documents([TEXTS[2], TEXTS[0], TEXTS[2], TEXTS[1]])
        self._same(mixed, np.stack([third, first, third, second]))

    def test_the_same_text_has_the_same_vector(self, embedder: Embedder) -> None:
        """Embedding again, alone or in company, gives the same numbers."""
        rows = embedder.embed_documents(list(TEXTS[:2]))
        self._same(embedder.embed_documents([TEXTS[1]])[0], rows[1])
        self._same(embedder.embed_query(TEXTS[1]), embedder.embed_query(TEXTS[1]))

    def test_the_sides_are_kept_apart(self, embedder: Embedder) -> None:
        """A query and a document of the same text differ exactly where the model says they do."""
        query = embedder.embed_query(TEXTS[0])
        document = embedder.embed_documents([TEXTS[0]])[0]
        assert np.allclose(query, document, atol=self.tolerance) is not self.sides_differ

    def test_no_texts_are_no_rows(self, embedder: Embedder) -> None:
        """An empty list is an empty matrix, not an error."""
        rows = embedder.embed_documents([])
        assert isinstance(rows, np.ndarray)
        assert rows.ndim == 2
        assert len(rows) == 0

    def test_a_long_text_is_embedded_and_harms_no_other(self, embedder: Embedder) -> None:
        """A text beyond what the model reads has a vector, and its neighbours keep theirs."""
        alone = embedder.embed_documents([TEXTS[0]])[0]
        rows = _checked(embedder.embed_documents([LONG, TEXTS[0]]), count=2)
        assert np.linalg.norm(rows[0]) > 0
        self._same(rows[1], alone)

    def test_every_language_is_embedded(self, embedder: Embedder) -> None:
        """Letters of any script and emoji are taken, in both sides."""
        rows = _checked(embedder.embed_documents(list(UNICODE)), count=len(UNICODE))
        assert _checked(embedder.embed_query(UNICODE[2])[np.newaxis], count=1).shape[1] == rows.shape[1]

    def test_blank_text_is_no_error(self, embedder: Embedder) -> None:
        """Nothing but white space gives a finite vector, a zero one if there is nothing to embed."""
        if not self.reads_blank:
            pytest.skip("this service refuses blank text; memkit never sends it")
        _checked(embedder.embed_documents([*BLANK, TEXTS[0]]), count=len(BLANK) + 1)
        _checked(embedder.embed_query("")[np.newaxis], count=1)

    def test_words_are_compared_alone(self, embedder: Embedder) -> None:
        """A model that compares words gives each its row, the same in any company, and zeros for what it does not know."""
        embed = getattr(embedder, "embed_words", None)
        if embed is None:
            return
        rows = _checked(embed(["dog", "puppy", "dog"]), count=3)
        self._same(rows[2], rows[0])
        self._same(_checked(embed(["puppy"]), count=1)[0], rows[1])
        assert len(embed([])) == 0

    def _same(self, found: Matrix, expected: Matrix) -> None:
        np.testing.assert_allclose(found, expected, rtol=0, atol=self.tolerance)


def _checked(rows: Matrix, *, count: int) -> Matrix:
    """`rows`, which must be what `Embedder.embed_documents` promises for `count` texts."""
    assert isinstance(rows, np.ndarray)
    assert rows.dtype == np.float32
    assert rows.ndim == 2
    assert len(rows) == count
    assert rows.shape[1] > 0
    assert np.isfinite(rows).all()
    return rows
