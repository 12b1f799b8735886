"""The tokenizer that feeds every keyword backend."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.text.tokenizer import MAX_TERM_LENGTH, TOKENIZER_VERSION, keyword_terms

MEGABYTE = 1_000_000

any_text = st.text(st.characters(exclude_categories=()), max_size=200)


def matches(query: str, document: str) -> bool:
    """Whether at least one term of the query is a term of the document."""
    return not set(keyword_terms(query)).isdisjoint(keyword_terms(document))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("POL-358", ["pol-358", "pol", "358"]),
        ("ZX-9941", ["zx-9941", "zx", "9941"]),
        ("GB/s", ["gb/s", "gb", "s"]),
        ("foo_bar.baz", ["foo_bar.baz", "foo", "bar", "baz"]),
        ("x:y", ["x:y", "x", "y"]),
        ("3.14", ["3.14", "3", "14"]),
        ("camelCase", ["camelcas", "camel", "case"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("rock-climbing", ["rock-climbing", "rock", "climb"]),
    ],
)
def test_identifiers_whole_and_in_parts(text: str, expected: list[str]) -> None:
    """An identifier is one term and each of its parts is another."""
    assert expected == keyword_terms(text)


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("lee", "mail ann.lee@example.com today"),
        ("example.com", "mail ann.lee@example.com today"),
        ("ann.lee@example.com", "mail (ann.lee@example.com) today"),
        ("readme.md", "see docs/guide/readme.md"),
        ("https://example.org/a?b=1", "it is at https://example.org/a?b=1."),
        ("don't", "I don\u2019t eat peanuts"),
        ("1000000", "it cost 1,000,000 crowns"),
        ("caroline", "Caroline's dog"),
        ("they've painted", "painting"),
        ("amour", "l'amour"),
        ("LGBTQ", "the LGBTQ+ group"),
        ("cafe", "Caf\u00e9"),
        ("CAF\u00c9", "cafe\u0301"),
        ("strasse", "Stra\u00dfe"),
        ("istanbul", "\u0130stanbul"),
        ("\u0131sparta", "ISPARTA"),
        ("lodz", "\u0141\u00f3d\u017a"),
        ("oresund", "\u00d8resund"),
        ("\u0645\u062d\u0645\u062f", "\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f"),
        ("\u0645\u0640\u062d\u0645\u062f", "\u0645\u062d\u0645\u062f"),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd"),
        ("\uff21\uff22\uff23", "abc"),
        ("co\u00adop\u200berate", "cooperate"),
        ("foo AND bar", "only bar"),
        ('"quoted"', "the quoted word"),
        ("NEAR(", "near"),
        ("(", "a lone ( here"),
        ("*", "a lone * here"),
        ("\U0001f389", "well done\U0001f389"),
        ("C++", "she writes C++."),
        ("c#", "C#/Java"),
        ("\u5ddd", "\u56db\u5ddd"),
    ],
)
def test_findable(query: str, document: str) -> None:
    """A text is found by the literals, names and spellings it contains."""
    assert matches(query, document)


@pytest.mark.parametrize(("one", "other"), [("C++", "C#"), ("C++", "c"), ("C#", "c")])
def test_language_names_are_distinct(one: str, other: str) -> None:
    """C, C++ and C# share no term."""
    assert not matches(one, other)


def test_inflections_share_a_stem() -> None:
    """English words are stemmed, so inflected forms match."""
    assert keyword_terms("painting painted paints") == ["paint"] * 3


def test_repeats_are_kept() -> None:
    """A term appears as often as it occurs, for the term frequency counts."""
    assert keyword_terms("tea, tea and tea") == ["tea"] * 3


def test_stop_words_go_unless_alone() -> None:
    """Stop words are dropped from a text with other words and kept in a text without."""
    assert keyword_terms("who are the Beatles") == ["beatl"]
    assert keyword_terms("Who are they?") == ["who", "are", "they"]


def test_stop_words_are_compared_before_stemming() -> None:
    """A word whose stem is a stop word is not lost."""
    assert keyword_terms("he was willing") == ["will"]


def test_negation_is_content() -> None:
    """Negations stay, so that a statement and its denial differ."""
    assert keyword_terms("not allergic") != keyword_terms("allergic")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u559c\u6b22\u7eff\u8336", ["喜", "喜欢", "欢", "欢绿", "绿", "绿茶", "茶"]),
        ("\u8336", ["茶"]),
        ("\uc11c\uc6b8", ["서", "서울", "울"]),
        ("\uff83\uff9e\uff72", ["デ", "デイ", "イ"]),
        ("我用Python3", ["我", "我用", "用", "python3"]),
        ("\u0e14\u0e35\u0e04\u0e23", ["ดี", "ดีค", "ค", "คร", "ร"]),
    ],
)
def test_scripts_without_spaces(text: str, expected: list[str]) -> None:
    """Scripts without spaces give single characters and overlapping pairs."""
    assert sorted(expected) == sorted(keyword_terms(text))


def test_vowel_signs_are_kept() -> None:
    """Marks that are vowels in their script are not folded away."""
    assert keyword_terms("हिन्दी") != keyword_terms("हनद")
    assert keyword_terms("ガ") != keyword_terms("カ")


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00", "\ud800", "\u200b", "___"])
def test_nothing_to_find(text: str) -> None:
    """A text without any visible content has no terms."""
    assert keyword_terms(text) == []


def test_broken_characters_separate_words() -> None:
    """NUL and lone surrogates end a word and appear in no term."""
    assert keyword_terms("left\x00right \ud800north\udfffsouth") == [
        "left",
        "right",
        "north",
        "south",
    ]


@given(any_text)
def test_terms_are_bounded_and_encodable(text: str) -> None:
    """Every term is non-empty, has at most the maximum length, no space and a UTF-8 form."""
    for term in keyword_terms(text):
        assert 0 < len(term) <= MAX_TERM_LENGTH
        assert not any(char.isspace() for char in term)
        assert term.encode()


@given(st.lists(st.sampled_from(["tea", "POL-358", "茶", "C++", "don't", "Café"]), max_size=8))
def test_spacing_does_not_matter(words: list[str]) -> None:
    """Terms of a text are the terms of its pieces, whatever white space is between them."""
    assert keyword_terms(" \u3000\n".join(words)) == [t for w in words for t in keyword_terms(w)]


@pytest.mark.parametrize(
    "text",
    [
        "x" * MEGABYTE,
        "_" * MEGABYTE,
        "(" * MEGABYTE,
        "aB" * (MEGABYTE // 2),
        "a-" * (MEGABYTE // 2),
        "a'" * (MEGABYTE // 2),
        "1," * (MEGABYTE // 2),
        "茶" * MEGABYTE,
        "a" + "\u0301\u0323" * (MEGABYTE // 2),
        "a\u00ad" * (MEGABYTE // 2),
        "\U0001f1fa\U0001f1f8" * (MEGABYTE // 2),
        "\ud800" * MEGABYTE,
    ],
    ids=lambda text: ascii(text[:3]),
)
def test_long_words_take_linear_time(text: str) -> None:
    """A word of a million characters costs about four times one of a quarter million."""
    quarter = _seconds(text[: len(text) // 4])
    whole = _seconds(text)

    # Quadratic behaviour would give a factor of 16; the constant forgives short measurements.
    assert whole < 8 * quarter + 0.5


def _seconds(text: str) -> float:
    start = time.thread_time()
    keyword_terms(text)
    return time.thread_time() - start


def test_long_word_is_found_by_its_beginning() -> None:
    """A word longer than the maximum is cut, and still found by itself."""
    assert keyword_terms("x" * MEGABYTE) == ["x" * MAX_TERM_LENGTH]


def test_threads_agree() -> None:
    """Several threads stemming at once get the same terms as one."""
    words = [f"{stem}ing" for stem in ("paint", "walk", "jump", "climb", "sing", "read")]
    texts = [" ".join(f"{word}{chr(97 + n % 26)}ly" for word in words) for n in range(26)]
    results: list[list[list[str]]] = []

    def work() -> None:
        results.append([keyword_terms(text) for text in texts])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [[keyword_terms(text) for text in texts]] * 4


@pytest.mark.parametrize("where", ["making a stemmer", "stemming"])
def test_a_child_forked_while_another_thread_stems_can_stem(
    where: str, monkeypatch: pytest.MonkeyPatch, in_child: Callable[[Callable[[], object]], object]
) -> None:
    """A fork while another thread makes its stemmer or looks for a stem leaves every thread of the child able to."""
    busy, done = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, _: str) -> None:
            self._stops("making a stemmer")

        def stemWord(self, word: str) -> str:  # noqa: N802 - the library's name
            self._stops("stemming")
            return word

        def _stops(self, here: str) -> None:
            if here == where:
                busy.set()
                done.wait()

    def in_new_threads() -> list[list[str]]:
        # Several at once: one alone may pass for the thread that the fork left behind.
        together = threading.Barrier(3)

        def terms(text: str) -> list[str]:
            together.wait()
            return keyword_terms(text)

        with ThreadPoolExecutor(3) as executor:
            return list(executor.map(terms, ["unstemmedyet walking"] * 3))

    keyword_terms("warming up")
    with monkeypatch.context() as patch:
        patch.setattr("Stemmer.Stemmer", Slow)
        thread = threading.Thread(target=keyword_terms, args=(f"neverstemmed{where[0]}",))
        thread.start()
        assert busy.wait(60)
    try:
        assert in_child(in_new_threads) == [["unstemmedyet", "walk"]] * 3
    finally:
        done.set()
        thread.join()


def test_import_is_light() -> None:
    """Importing the tokenizer loads neither the word breaker nor the stemmer."""
    code = "import sys, memkit_core.text.tokenizer; print(sorted({'regex', 'Stemmer'} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_terms_are_pinned() -> None:
    """The terms of a mixed text change only together with the version."""
    text = "Ann's C++ job at GB/s isn't POL-358; 3,000 茶 Café rock-climbing"

    terms = " ".join(keyword_terms(text))

    assert TOKENIZER_VERSION == "memkit-terms-2"
    assert terms == "ann c++ job gb/s gb s isn't pol-358 pol 358 3000 茶 cafe rock-climbing rock climb"
