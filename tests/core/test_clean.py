"""Text that every store and index can hold, and the form in which two texts are one memory."""

import json
import sys
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memkit_core.text.clean import normal_form, storable


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("half \ud83d end", "half \ufffd end"),
        ("\ud83d", "\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("a\0b", "a\ufffdb"),
        ("\0\ud83d\0", "\ufffd\ufffd\ufffd"),
        ("pair \ud83d\ude00", "pair 😀"),
        (json.loads('"\\ud83d x \\ud83d\\ude00"'), "\ufffd x 😀"),
        ("丹佛 \ud800 café", "丹佛 \ufffd café"),
    ],
)
def test_only_what_cannot_be_stored_is_replaced(text, stored):
    """NUL and lone surrogates become U+FFFD; a split pair becomes its character; nothing else changes."""
    assert storable(text) == stored


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_valid_text_is_the_same_object(text):
    """Valid text is returned as it is: accents, joiners, right-to-left, control characters."""
    assert storable(text) is text


@given(st.text(st.characters()))
def test_any_text_can_be_stored(text):
    """Whatever the text, what is stored is UTF-8 without NUL, and storing again changes nothing."""
    clean = storable(text)
    clean.encode("utf-8")
    assert "\0" not in clean
    assert storable(clean) is clean


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hello,  World!", "hello, world"),
        ("“I like tea.”", "i like tea"),
        ("STRASSE", "straße"),
        ("\uff46\uff55\uff4c\uff4c\u3000\uff57\uff49\uff44\uff54\uff48", "full width"),
        ("e\u0301", "É"),
        ("茶が好き。", "茶が好き"),
        ("a\n b\t", "a b"),
        ("5 ㎡", "5 m²"),
        ("\uff11\uff10⁶", "10⁶"),
        ("ﬁne 10⁶ e\u0301", "fine 10⁶ \xe9"),
    ],
)
def test_the_same_memory(one, other):
    """Case, width, white space, and quotes and sentence marks at the ends make no other memory."""
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C++", "C"), ("-5", "5"), ("3.14", "314"), (".5 mg", "5 mg"), ("“.5”", "5"), ("#1", "1"), ("a.b", "ab"), ("not allergic", "allergic"),
        ("level 3", "level 5"), ("50%", "50"), ("$5", "5"), ("café", "cafe"),
        ("10⁶ cells", "106 cells"), ("H₂O", "H2O"), ("1½ cups", "11\u20442 cups"), ("5 ㎡", "5 m2"), ("x²", "x³"),
    ],
)  # fmt: skip
def test_another_memory(one, other):
    """Signs that carry meaning are kept."""
    assert normal_form(one) != normal_form(other)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_is_normalised_away(text):
    """A text of quotes and marks alone keeps a form of its own: only a blank text has none."""
    assert bool(normal_form(text)) is bool(text.split())


def spares(char):
    """Whether a character is, or stands for, a superscript, a subscript or a fraction."""
    parts = unicodedata.decomposition(char).split()
    if parts and parts[0] in ("<super>", "<sub>", "<fraction>"):
        return True
    return any(spares(chr(int(code, 16))) for code in parts if not code.startswith("<"))


def test_only_superscripts_subscripts_and_fractions_are_spared():
    """Of all characters, these are the ones whose NFKC form is another memory."""
    folded = (chr(code) for code in range(sys.maxunicode + 1) if unicodedata.decomposition(chr(code)))
    for char in folded:
        compatible = unicodedata.normalize("NFKC", char)
        assert (normal_form(f"a{char}a") != normal_form(f"a{compatible}a")) is spares(char), hex(ord(char))


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("e\u0301\u0323\u1100\u1161\ufb01")))
def test_all_other_text_is_compared_as_nfkc(text):
    """Where no such character stands, the whole text has the form of its NFKC, marks in any order."""
    assume(not any(spares(char) for char in text))
    assert normal_form(text) == normal_form(unicodedata.normalize("NFKC", text))
