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


def normal_form(text: str) -> str:
    """The form in which two texts count as the same memory (spec B5).

    NFKC, case-folded, white space to one space, quotes and sentence marks stripped at the ends
    only: `C++`, `-5`, `3.14` and `.5` keep theirs. Text of such marks alone stays as it is.
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    bare = folded.lstrip(_ENDS)
    # The mark before a digit is part of a number.
    if _POINT.match(folded, max(len(folded) - len(bare) - 1, 0)):
        bare = folded[-len(bare) - 1 :]
    return bare.rstrip(_ENDS) or folded
