"""The one tokenizer behind every keyword backend.

All keyword indexes and all keyword queries go through `keyword_terms`, so two backends can differ
in speed but never in what matches. `TOKENIZER_VERSION` belongs in an index's fingerprint: raise it
with every change that alters the terms of any text.

What happens to a text, in order:

1. It is cut at white space; each piece is handled alone (and remembered, see below).
2. A piece is NFKC-normalised and invisible format characters are dropped. Control characters and
   lone surrogates end a word and appear in no term.
3. Scripts written without spaces give overlapping pairs *and* single characters: Han, Hiragana,
   Katakana, Hangul and Bopomofo by character, Thai, Lao, Khmer and Myanmar by grapheme cluster.
   The singles make a query of one character findable.
4. Everything else is broken into words by the Unicode rules (UAX #29, `regex` package). Words
   glued together by one joining sign (`POL-358`, `GB/s`, `foo_bar.baz`, `a:b`, `x@y.org`) are kept
   whole and in parts, `camelCase` too. `c++` and `c#` stay whole only: the part would be `c`.
5. Terms are case-folded; Latin, Greek and Cyrillic accents are removed (`café` = `cafe`), Latin
   letters with a stroke and ligatures spelt plainly (`Łódź` = `lodz`), and the points and vowel
   signs of Arabic and Hebrew, which are mostly left out, removed. ASCII words are stemmed (English Snowball). A term has at most `MAX_TERM_LENGTH` characters;
   what is longer is cut, so very long words match by their beginning.
6. English stop words are dropped, unless nothing else is left: a text of stop words only is
   indexed by, and can be found by, those words. Negations are not stop words.

A piece without any letter or digit (`*`, `->`, an emoji) is a term of its own.

Importing this module loads neither `regex` nor `Stemmer`; the first call does.
"""

from __future__ import annotations

import functools
import re
import threading
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Protocol

    import regex

    class _Stemmer(Protocol):
        """The part of a Snowball stemmer used here; the package ships no types."""

        def stemWord(self, word: str) -> str: ...  # noqa: N802 - the library's name


__all__ = ["MAX_TERM_LENGTH", "TOKENIZER_VERSION", "content_words", "keyword_terms", "word_term"]

TOKENIZER_VERSION: Final = "memkit-terms-2"

MAX_TERM_LENGTH: Final = 64

# Letters that no normal form takes apart, as they are typed where a keyboard does not have them.
_SPELT_PLAINLY: Final = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ħ": "h",
        "ŧ": "t",
        "\u0131": "i",
    }
)

# Longer pieces are rarely seen twice, and remembering them would make the cache unbounded in bytes.
_MAX_CACHED_PIECE: Final = 48

# The Snowball project's English list (https://snowballstem.org/algorithms/english/stop.txt)
# without its contractions, which are cut back to their first word before the look-up, and without
# "no", "nor" and "not": dropping those makes "allergic" and "not allergic" the same memory.
_ENGLISH: Final = """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can could did do does doing down during each few for from further
    had has have having he her here hers herself him himself his how i if in into is it its
    itself let me more most my myself of off on once only or other ought our ours ourselves out
    over own same she should so some such than that the their theirs them themselves then there
    these they this those through to too under until up very was we were what when where which
    while who whom why will with would you your yours yourself yourselves
"""
_STOP_WORDS: Final = frozenset(_ENGLISH.split())

# Dashes, dots and ampersands stand alone in ordinary prose; as terms they only lengthen documents.
_STOP_SYMBOLS: Final = "-\u2013\u2014&.\u2026,:;!?'\"\u2018\u201c\u201d\u2022\u00b7"

# What English glues to a word with an apostrophe. "n't" is missing on purpose: "don't" stays whole.
_CLITICS: Final = ("'s", "'ll", "'re", "'ve", "'d", "'m")


class _Own(threading.local):
    """What each thread has for itself: a Snowball stemmer keeps the word it works on in itself.

    With a lock in place of this, a child forked while another thread held it would wait for ever.
    """

    stemmer: _Stemmer | None = None


_own = _Own()


_Piece = tuple[tuple[str, ...], tuple[str, ...]]
"""Terms of one piece of text between white space: content and stop words. A plain tuple of plain tuples, because the
garbage collector looks at tens of thousands of other objects each time, while all threads wait."""


class _Patterns(NamedTuple):
    """Compiled expressions; every repetition is possessive or over one class, so all are linear."""

    invisible: regex.Pattern[str]
    mark_run: regex.Pattern[str]
    accent: regex.Pattern[str]
    token: regex.Pattern[str]
    not_symbol: regex.Pattern[str]
    boundary: regex.Pattern[str]
    part: regex.Pattern[str]
    hump: regex.Pattern[str]
    cluster: regex.Pattern[str]
    ascii_word: re.Pattern[str]
    plain_word: regex.Pattern[str]
    negation: regex.Pattern[str]
    grouped_number: regex.Pattern[str]


def keyword_terms(text: str) -> list[str]:
    """Return the index terms of a text, in reading order and with repeats.

    Documents and queries use the same function. The result is empty only if the text holds
    nothing but white space, control characters and unassigned code points. Runs in time linear in
    the text, never raises on any `str`, and is safe to call from several threads.
    """
    content: list[str] = []
    stop: list[str] = []
    for piece in text.split():
        terms = _remembered(piece) if len(piece) <= _MAX_CACHED_PIECE else _analyse(piece)
        content += terms[0]
        stop += terms[1]
    return content or stop


@functools.lru_cache(maxsize=1 << 16)
def _remembered(piece: str) -> _Piece:
    """Return `_analyse(piece)` from a cache: running text repeats most of its pieces."""
    return _analyse(piece)


def content_words(text: str) -> list[str]:
    """Return the words of a text as they are written but for case and accents, in reading order and with repeats.

    Only words of three letters or more that stand alone or in a compound: nothing with a digit or an underscore, no
    negation such as "don't", no pair of characters, and no English stop word. Needs no cache to be quick, and what
    `keyword_terms` says of threads and odd input holds here too.
    """
    patterns = _patterns()
    if text.isascii():
        clean, word = text.lower(), patterns.ascii_word
    else:
        clean, word = _fold(_clean(text)), patterns.plain_word
    if "n't" in clean:
        clean = patterns.negation.sub(" ", clean)
    return [found[:MAX_TERM_LENGTH] for found in word.findall(clean) if found not in _STOP_WORDS]


def word_term(word: str) -> str:
    """The term of `keyword_terms` that stands for a word of `content_words`."""
    return _stem(word)


def _analyse(piece: str) -> _Piece:
    """Split one piece into content terms and stop words."""
    content: list[str] = []
    stop: list[str] = []
    clean = _clean(piece)
    found = False
    for word in _words(clean):
        found = True
        (stop if word in _STOP_WORDS else content).append(_stem(word))
    if not found and (symbols := _patterns().not_symbol.sub("", clean)[:MAX_TERM_LENGTH]):
        (content if symbols.strip(_STOP_SYMBOLS) else stop).append(symbols)
    return tuple(content), tuple(stop)


def _clean(piece: str) -> str:
    """Normalise a piece so that equal-looking texts are equal and no later step can blow up."""
    if piece.isascii():
        return piece
    patterns = _patterns()
    # CPython orders combining marks by insertion sort, so a long run of them takes quadratic time.
    # UAX #15 (Stream-Safe Text Format) allows 30 in a row.
    safe = patterns.mark_run.sub(r"\1", patterns.invisible.sub("", piece))
    return unicodedata.normalize("NFKC", safe).replace("\u2019", "'")


def _words(piece: str) -> Iterator[str]:
    """Yield the folded, unstemmed terms of a cleaned piece."""
    patterns = _patterns()
    for match in patterns.token.finditer(piece):
        token = match.group()
        if match.lastgroup == "word":
            yield from _compound(token)
        elif match.lastgroup == "pairs":
            yield from _pairs(token)
        elif match.lastgroup == "clusters":
            yield from _pairs(patterns.cluster.findall(token))
        else:
            yield token


def _compound(token: str) -> Iterator[str]:
    """Yield a word, or a compound first whole and then in parts."""
    patterns = _patterns()
    whole = _bare(_fold(token).strip("_"))
    if not whole:
        return
    if patterns.grouped_number.fullmatch(whole):
        yield whole.replace(",", "")
        return
    yield whole
    if whole.endswith(("+", "#")) and len(whole.rstrip("+#")) == 1:
        return
    if not token.isalpha() or patterns.hump.search(token):
        for word in patterns.boundary.split(token):
            if not patterns.part.fullmatch(word):
                yield from _parts(word, whole)


def _parts(word: str, whole: str) -> Iterator[str]:
    """Yield the terms of one Unicode word inside the compound `whole`, without repeating it."""
    patterns = _patterns()
    bare = _bare(_fold(word).strip("_"))
    if bare != whole and patterns.part.search(bare):
        yield bare
    if bare.endswith("n't"):
        return
    for part in patterns.part.split(word[: len(word) if bare == _fold(word) else len(bare)]):
        folded = _fold(part)
        if folded and folded != whole:
            yield folded
        humps = patterns.hump.split(part)
        if len(humps) > 1:
            # Single letters left over from `iPhone` or `PhD` match far too much.
            yield from (_fold(hump) for hump in humps if len(hump) > 1)


def _fold(word: str) -> str:
    """Case-fold a word and remove the accents of Latin, Greek and Cyrillic letters.

    Of other scripts only what writers of Arabic and Hebrew mostly leave out goes: elsewhere marks are
    vowels or tell letters apart.
    """
    if word.isascii():
        return word.lower()
    bare = _patterns().accent.sub("", unicodedata.normalize("NFD", word.casefold()))
    return unicodedata.normalize("NFC", bare).translate(_SPELT_PLAINLY)


def _bare(word: str) -> str:
    """Cut an English clitic: `caroline's` and `they've` are found by their first word."""
    for clitic in _CLITICS:
        if word.endswith(clitic):
            return word[: -len(clitic)]
    return word


def _pairs(units: Sequence[str]) -> Iterator[str]:
    """Yield each unit and each overlapping pair of units of a run without spaces."""
    previous = ""
    for unit in units:
        if previous:
            yield previous + unit
        yield unit
        previous = unit


def _stem(word: str) -> str:
    """Return the English stem of an ASCII word; anything else comes back as it is, but cut."""
    short = word[:MAX_TERM_LENGTH]
    if short in _STOP_WORDS or not (short.isascii() and short.isalpha()):
        return short
    return _cached_stem(short)


@functools.lru_cache(maxsize=1 << 16)
def _cached_stem(word: str) -> str:
    # No cached_property, which makes its value under a lock in Python 3.11.
    if _own.stemmer is None:
        import Stemmer

        _own.stemmer = Stemmer.Stemmer("english")
    return str(_own.stemmer.stemWord(word))


@functools.cache
def _patterns() -> _Patterns:
    import regex

    paired = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\u30fc"
    clustered = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    letter = rf"[[\p{{L}}\p{{N}}\p{{M}}_]--[{paired}{clustered}]]"
    number = r"\d++(?:,\d{3})++(?:\.\d++)?+"
    word = rf"{number}(?!{letter})|{letter}++(?:[-./:@&+'\\~=#]{letter}++)*+(?:\+\+?|\#)?+"
    emoji = r"\p{Regional_Indicator}{2}|\p{Extended_Pictographic}\p{Emoji_Modifier}?+"

    def compiled(pattern: str) -> regex.Pattern[str]:
        return regex.compile(rf"(?V1){pattern}")

    return _Patterns(
        invisible=compiled(r"[\p{Cf}\p{Variation_Selector}]+"),
        mark_run=compiled(r"(\p{M}{30})\p{M}+"),
        # Combining accents, Hebrew points, and the signs and the stretching of Arabic; not its hamza and madda.
        accent=compiled(
            r"[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
            r"\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"
        ),
        token=compiled(
            rf"(?P<word>{word})|(?P<pairs>[{paired}]++)|(?P<clusters>[{clustered}]++)"
            rf"|(?P<emoji>{emoji})"
        ),
        not_symbol=compiled(r"[\p{C}\p{Z}\p{M}_]+"),
        boundary=compiled(r"(?w)\b"),
        part=compiled(r"[^\p{L}\p{N}\p{M}]+"),
        hump=compiled(r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll}{2})"),
        cluster=compiled(r"\X"),
        # The standard library's is the faster one.
        ascii_word=re.compile(r"\b[a-z]{3,}\b", re.ASCII),
        plain_word=compiled(
            rf"(?<![\p{{L}}\p{{N}}\p{{M}}_])[\p{{L}}--[{paired}{clustered}]]{{3,}}+(?![\p{{L}}\p{{N}}\p{{M}}_])"
        ),
        negation=compiled(r"[\p{L}\p{N}\p{M}_]++(?<=n)'t(?![\p{L}\p{N}\p{M}_])"),
        grouped_number=compiled(number),
    )
