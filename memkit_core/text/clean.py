"""Text that every store and index can hold."""

from __future__ import annotations

import re
import unicodedata

REPLACEMENT = "\ufffd"

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    """`text` with each NUL and each lone surrogate replaced by U+FFFD, else unchanged.

    SQLite and PostgreSQL cannot hold these two; every other character, paired escapes included,
    stays byte-identical. Returns the same object when there is nothing to replace.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A well-formed pair of surrogates, as some JSON decoders leave it, is one character.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _UNSTORABLE.sub(REPLACEMENT, text)
    return text.replace("\0", REPLACEMENT) if "\0" in text else text


_QUOTES = "\"'`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u300c\u300d\u300e\u300f"
_SENTENCE_MARKS = ".,;:!?\u2026\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u3001\u00a1\u00bf"
_ENDS = _QUOTES + _SENTENCE_MARKS + " "
_POINT = re.compile(r"[.,]\d")


# Compatibility forms that carry meaning: 10⁶ is not 106, and 1½ is not 11/2.
_MEANT = ("<super>", "<sub>", "<fraction>")


def normal_form(text: str) -> str:
    """The form in which two texts count as the same memory (spec B5).

    NFKC, case-folded, white space to one space, quotes and sentence marks stripped at the ends
    only: `C++`, `-5`, `3.14` and `.5` keep theirs. Text of such marks alone stays as it is.
    Superscripts, subscripts and fractions, the characters whose decomposition in the Unicode
    Character Database is tagged so, are not folded: `10⁶` is not `106`.
    """
    folded = " ".join(_compatible(text).casefold().split())
    bare = folded.lstrip(_ENDS)
    # The mark before a digit is part of a number.
    if _POINT.match(folded, max(len(folded) - len(bare) - 1, 0)):
        bare = folded[-len(bare) - 1 :]
    return bare.rstrip(_ENDS) or folded


def _compatible(text: str) -> str:
    """NFKC of `text`, but for the characters of `_MEANT`, which stay."""
    if unicodedata.is_normalized("NFKC", text):
        return text
    return unicodedata.normalize("NFC", text.translate({ord(char): _expanded(char) for char in set(text)}))


def _expanded(char: str) -> str:
    found = unicodedata.decomposition(char)
    if not found or found.startswith(_MEANT):
        return char
    # Step by step, because ㎡ stands for m², and only then for m2.
    return "".join(_expanded(chr(int(code, 16))) for code in found.split() if not code.startswith("<"))
