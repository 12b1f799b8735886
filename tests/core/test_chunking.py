"""`ContentChunker`: texts cut by what they are."""

import builtins
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit_core.chunking import HIERARCHY, SIZES, ContentChunker, ContentType, Level, level_for
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.errors import InvalidInputError, MissingDependencyError

pytest.importorskip("semantic_text_splitter")

ENGLISH = (
    "The owl sleeps all day. At night it hunts mice in the barn.\n\nIn winter it moves closer to the house. "
)
CHINESE = "猫头鹰白天睡觉。晚上它在谷仓里捉老鼠！\n\n冬天的时候它会搬到离房子更近的地方。你见过它吗？"  # noqa: RUF001 - Chinese marks
MARKDOWN = """# Guide

Welcome.

## Install

Run pip. It takes a minute.

### Linux

```sh
# not a heading
pip install it
```

Setext
------

The end.
"""
PYTHON = '''"""A module."""

import os


class Owl:
    """Sleeps all day."""

    def hunt(self, mice):
        """Catch them."""
        return [mouse for mouse in mice if mouse.is_slow]

    def sleep(self, hours):
        """Until it is dark."""
        return hours + 1


def main():
    """Begin."""
    owl = Owl()
    return owl.sleep(os.getpid())
'''
TEXTS = st.lists(
    st.sampled_from(
        [
            "owl",
            "猫头鹰",
            " ",
            "\n",
            "\n\n",
            ". ",
            "。",
            "# ",
            "```\n",
            "👩‍👧",
            "e\u0301",
            "\r\n",
            "\t",
            "x" * 70,
            "- ",
        ]
    ),
    max_size=60,
).map("".join)


def covered(text, chunks):
    """What of `text` stands in none of the chunks."""
    left = list(text)
    for chunk in chunks:
        left[chunk.start : chunk.end] = [""] * (chunk.end - chunk.start)
    return "".join(left)


class TestPlaces:
    """Where chunks stand in their text."""

    @settings(max_examples=300, deadline=None)
    @given(
        text=TEXTS,
        kind=st.sampled_from(["documentation", "conversation", "article"]),
        size=st.integers(1, 60),
    )
    def test_chunks_hold_all_of_the_text(self, text, kind, size):
        """Each chunk is what stands at its place and not longer than its size; only white space is in none."""
        chunks = ContentChunker(kind, sizes=size)(text)
        assert all(text[chunk.start : chunk.end] == chunk.content for chunk in chunks)
        assert all(chunk.content.strip() for chunk in chunks)
        assert covered(text, chunks).strip() == ""
        assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
        # One grapheme is never cut, even if it is longer than a chunk may be.
        assert all(len(chunk.content) <= max(size, 8) for chunk in chunks)

    @settings(max_examples=150, deadline=None)
    @given(text=TEXTS, small=st.integers(4, 20), overlap=st.sampled_from([0, 0.15, 0.5]))
    def test_a_smaller_chunk_lies_in_its_parent(self, text, small, overlap):
        """With several sizes each level holds the whole text, and a parent holds all of its children."""
        chunks = ContentChunker("article", sizes=[4 * small, small, 2 * small], overlap=overlap)(text)
        for level in {chunk.level for chunk in chunks}:
            assert covered(text, [chunk for chunk in chunks if chunk.level is level]).strip() == ""
        sizes = tuple(Level)
        for chunk in chunks:
            assert (chunk.parent is None) is (chunk.level is Level.LARGE)
            if chunk.parent is not None:
                parent = chunks[chunk.parent]
                assert sizes.index(parent.level) == sizes.index(chunk.level) + 1
                assert parent.start <= chunk.start
                assert chunk.end <= parent.end

    @pytest.mark.parametrize("text", ["", " ", "\n\n \t\u3000\n", "\ufeff \n"[1:]])
    @pytest.mark.parametrize("kind", ["documentation", "conversation", "article"])
    def test_a_blank_text_has_no_chunks(self, text, kind):
        """Nothing but white space gives nothing, in one size and in three."""
        assert ContentChunker(kind)(text) == []
        assert ContentChunker(kind, sizes=HIERARCHY)(text) == []

    def test_a_short_text_is_one_chunk(self):
        """What fits is not cut, and loses only the white space around it."""
        [chunk] = ContentChunker()("\n\n  The owl sleeps. \n")
        assert (chunk.content, chunk.start, chunk.end) == ("  The owl sleeps.", 2, 19)
        assert (chunk.level, chunk.parent, chunk.context) == (Level.MEDIUM, None, "")

    def test_what_no_store_can_hold_is_replaced(self):
        """NUL and lone surrogates become U+FFFD, at the same places."""
        [chunk] = ContentChunker()("a\0b \ud800 c")
        assert chunk.content == "a\ufffdb \ufffd c"

    @pytest.mark.parametrize("unit", ["x", "记忆", "word ", "🦉", "=\n"])
    def test_a_huge_text_without_sentences(self, unit):
        """A quarter of a million characters with nowhere to cut take as long as any, and none is lost."""
        text = unit * (250_000 // len(unit))
        chunks = ContentChunker("article", sizes=512, overlap=0)(text)
        assert covered(text, chunks).strip() == ""
        assert max(len(chunk.content) for chunk in chunks) <= 512
        assert len(chunks) < 1000


class TestOverlap:
    """What a chunk repeats of the one before."""

    @pytest.mark.parametrize("text", [ENGLISH * 20, CHINESE * 20])
    def test_neighbours_share_about_the_share_that_was_asked_for(self, text):
        """By default each chunk begins within 15 % of its size before the end of the last, at a word."""
        chunks = ContentChunker("article", sizes=200)(text)
        assert len(chunks) > 5
        for last, chunk in itertools.pairwise(chunks):
            # Blank lines between two chunks count as repeated, but are not there to see.
            assert 10 <= last.end - chunk.start <= 30
            assert not re.match(r"[a-z]", text[chunk.start]) or text[chunk.start - 1].isspace()

    def test_without_overlap_nothing_is_repeated(self):
        """With 0 each character is in one chunk."""
        chunks = ContentChunker("article", sizes=100, overlap=0)(ENGLISH * 9)
        assert all(last.end <= chunk.start for last, chunk in itertools.pairwise(chunks))

    @pytest.mark.parametrize("overlap", [-0.1, 0.6, 1, 20, 512, float("nan"), True, "0.1", None])
    def test_an_overlap_that_cannot_be_is_refused(self, overlap):
        """It is a share of the size of at most a half: nothing else, and never as large as the chunk."""
        with pytest.raises(InvalidInputError, match=r"overlap is a share of the size, from 0 to 0\.5"):
            ContentChunker(overlap=overlap)


class TestTypes:
    """What is cut where."""

    def test_the_first_sizes(self):
        """Documentation 512, code 1000, conversations 256, articles 768 characters."""
        assert {kind.value: size for kind, size in SIZES.items()} == {
            "documentation": 512, "code": 1000, "conversation": 256, "article": 768
        }  # fmt: skip
        for kind in set(ContentType) - {ContentType.CODE}:
            chunks = ContentChunker(kind)(ENGLISH * 60)
            assert SIZES[kind] * 0.6 < max(len(chunk.content) for chunk in chunks) <= SIZES[kind]

    def test_documentation_is_cut_at_headings_and_knows_them(self):
        """The context of a chunk is the path of headings above it: no comment of a code block, not its own."""
        chunks = ContentChunker("documentation", sizes=60, overlap=0)(MARKDOWN)
        assert [(chunk.context, chunk.content.splitlines()[0]) for chunk in chunks] == [
            ("", "# Guide"),
            ("Guide", "## Install"),
            ("Guide > Install", "### Linux"),
            ("Guide", "Setext"),
        ]

    def test_a_part_of_a_section_has_its_heading(self):
        """Every chunk of a long section is told what it is a section of, in every size."""
        text = f"# Owls\n\n{ENGLISH * 5}\n\n## Food\n\n{ENGLISH * 5}"
        for chunk in ContentChunker("documentation", sizes=HIERARCHY)(text):
            food = chunk.start > text.index("## Food")
            assert chunk.context == ("Owls > Food" if food else "Owls" if chunk.start else "")

    def test_lines_end_as_they_like(self):
        """Places of headings are right with the line ends of Windows too."""
        text = MARKDOWN.replace("\n", "\r\n")
        chunks = ContentChunker("documentation", sizes=70, overlap=0)(text)
        assert [chunk.context for chunk in chunks if chunk.content.startswith("Setext")] == ["Guide"]

    def test_a_conversation_is_cut_between_turns(self):
        """No turn is cut that fits."""
        turns = [
            f"{name}: I saw {n} owls in the barn last night." for n in range(9) for name in ("Ann", "Bob")
        ]
        chunks = ContentChunker("conversation", overlap=0)("\n".join(turns))
        assert [turn for chunk in chunks for turn in chunk.content.splitlines()] == turns

    def test_code_is_cut_at_functions_and_classes(self):
        """Each function is whole, with its indentation; the first line of a class leads what follows."""
        pytest.importorskip("tree_sitter_python")
        chunks = ContentChunker("code", sizes=160, overlap=0, language="python")(PYTHON)
        assert [chunk.content.splitlines()[0] for chunk in chunks] == [
            '"""A module."""',
            "class Owl:",
            "    def sleep(self, hours):",
            "def main():",
        ]
        assert chunks[2].content.endswith("return hours + 1")
        assert covered(PYTHON, chunks).strip() == ""

    def test_overlap_of_code_is_whole_lines(self):
        """What a chunk of code repeats begins with a line."""
        pytest.importorskip("tree_sitter_python")
        for chunk in ContentChunker("code", sizes=160, overlap=0.3, language="python")(PYTHON):
            assert chunk.start == 0 or PYTHON[chunk.start - 1] == "\n"

    @pytest.mark.parametrize(
        ("language", "code"),
        [
            ("javascript", "function a() { return 1; }\nfunction b() { return 2; }\n"),
            ("typescript", "function a(): number { return 1; }\nclass B { c: number = 2; }\n"),
            ("tsx", "function A() { return <b>1</b>; }\nfunction B() { return <i/>; }\n"),
            ("java", "class A { int a() { return 1; } }\nclass B { int b() { return 2; } }\n"),
            ("go", "package a\nfunc A() int { return 1 }\nfunc B() int { return 2 }\n"),
            ("rust", "fn a() -> i32 { 1 }\nfn b() -> i32 { 2 }\nfn c() -> i32 { 3 }\n"),
            ("c", "int a(void) { return 1; }\nint b(void) { return 2; }\n"),
            ("cpp", "class A { int a; };\nint b() { return A().a; }\n"),
        ],
    )
    def test_every_language_it_names(self, language, code):
        """The grammar of each language is found and used."""
        try:
            chunker = ContentChunker("code", sizes=40, overlap=0, language=language)
        except MissingDependencyError:
            pytest.skip(f"no grammar of {language}")
        chunks = chunker(code)
        assert len(chunks) > 1
        assert covered(code, chunks).strip() == ""

    @pytest.mark.parametrize("language", [None, "cobol", "", 7, "os", ["python"]])
    def test_code_needs_a_language_it_knows(self, language):
        """Which languages there are is told."""
        with pytest.raises(InvalidInputError, match="code needs its language, one of c, cpp, go, java"):
            ContentChunker("code", language=language)

    def test_a_language_is_of_code_alone(self):
        """A language given for a text is a mistake, not ignored."""
        with pytest.raises(InvalidInputError, match="language='python' is for content_type 'code'"):
            ContentChunker("article", language="python")


class TestSizes:
    """How long a chunk may be."""

    def test_sizes_in_tokens(self):
        """With a counter, no chunk has more tokens than its size, whatever the language."""
        for text in (ENGLISH * 20, CHINESE * 20):
            chunks = ContentChunker("article", sizes=(32, 64), count=approximate_tokens)(text)
            for level, size in ((Level.SMALL, 32), (Level.LARGE, 64)):
                found = [chunk for chunk in chunks if chunk.level is level]
                tokens = [approximate_tokens(chunk.content) for chunk in found]
                assert size * 0.6 < max(tokens) <= size
                assert covered(text, found).strip() == ""

    def test_a_counter_that_counts_nothing_is_refused(self):
        """What is no number of tokens is said to be none."""
        with pytest.raises(InvalidInputError, match="count must answer with a number of tokens"):
            ContentChunker(count=lambda text: "many")(ENGLISH)
        with pytest.raises(InvalidInputError, match="count takes a function"):
            ContentChunker(count=7)

    @pytest.mark.parametrize(
        "sizes", [0, -1, 1.5, True, "512", [], [1, 2, 4, 8], [256, None], [256, 300], object()]
    )
    def test_sizes_that_cannot_be_are_refused(self, sizes):
        """One to three whole numbers, each at least twice the one below it."""
        with pytest.raises(InvalidInputError, match="size"):
            ContentChunker(sizes=sizes)

    @pytest.mark.parametrize("kind", ["essay", None, 7])
    def test_an_unknown_type_is_refused(self, kind):
        """The types there are, are told."""
        with pytest.raises(InvalidInputError, match="content_type must be one of documentation, code"):
            ContentChunker(kind)

    def test_only_texts_are_cut(self):
        """Bytes and None are no text."""
        for value in (b"x", None, 7):
            with pytest.raises(InvalidInputError, match="a chunker takes a text"):
                ContentChunker()(value)


@pytest.mark.parametrize(
    ("query", "level"),
    [
        ("Who lives in the barn?", Level.MEDIUM),
        ("How many owls are there?", Level.MEDIUM),
        ("谷仓里有多少只猫头鹰", Level.MEDIUM),
        ("它什么时候搬家", Level.MEDIUM),
        ("When did he explain it?", Level.MEDIUM),
        ("Why does it move in winter?", Level.LARGE),
        ("Why?", Level.LARGE),
        ("Explain when owls hunt", Level.LARGE),
        ("总结一下猫头鹰的习惯", Level.LARGE),
        ("owls that live near churches", Level.LARGE),
        ("owls in winter", Level.SMALL),
        ("somehow", Level.SMALL),
        ("猫头鹰", Level.SMALL),
        (" ", Level.MEDIUM),
    ],
)
def test_the_level_of_a_question(query, level):
    """A bare term is looked up in small chunks, one thing in medium ones, all else in large ones."""
    assert level_for(query) is level


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("semantic_text_splitter", ContentChunker),
        ("markdown_it", lambda: ContentChunker("documentation")("# Owl")),
        ("tree_sitter_python", lambda: ContentChunker("code", language="python")),
    ],
)
def test_a_missing_library_is_named_with_the_command(module, make, monkeypatch):
    """Without the extra the error ends with the command that installs it."""
    real = builtins.__import__

    def without(name, *given, **named):
        if name == module:
            raise ImportError(name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"Run: pip install 'memkit-llm\[chunking\]'$"):
        make()
