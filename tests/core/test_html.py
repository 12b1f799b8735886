"""What notebooks show: tables with captions and headings, in which memory content is data."""

import dataclasses
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from memkit_core import Memory, NewMemory, Note, RecallResult, Scope
from memkit_core.models import NoteFormat
from memkit_core.testing.samples import NOW, record

ALICE = Scope.user("alice")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></tr></table><h1>gone</h1>",
    "</pre></figure><iframe src=//evil>",
    "' onmouseover='alert(1)",
    "&lt;b&gt; &amp; &#60;b&#62;",
    "\x00\x1b[31m red \x9b",
    "\u202e reversed",
    "\u2069 out of its cell \u2066",
    "lone \ud800 surrogate",
    "<!-- --> <![CDATA[ x ]]>",
)
OWN = {"table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "figure", "figcaption", "pre"}


class Read(HTMLParser):
    """The tags, attributes and texts of a document, as a browser takes them."""

    def __init__(self, document):
        super().__init__()
        self.tags, self.attributes, self.open, self.texts = [], set(), [], []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = unknown_decl = handle_pi = handle_comment


def read(value):
    """What a notebook gets of a value, which must be well formed and of memkit's own tags alone."""
    document = value._repr_html_()
    document.encode()
    found = Read(document)
    assert not found.open
    assert {tag for tag, _ in found.tags} <= OWN
    assert found.attributes <= {"scope", "style"}
    assert {attrs["scope"] for tag, attrs in found.tags if tag == "th"} <= {"row", "col"}
    return found


def seen(text):
    directions = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
    return text.translate(
        dict.fromkeys((*range(9), *range(11, 32), *range(127, 160), 55296, *directions), "�")
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_content_is_data(text):
    """Whatever a memory says, in whichever field, is shown as that text and never becomes markup."""
    owner = Scope.user(text.encode("utf-8", "replace").decode().replace("\0", "0"))
    hostile = record(
        owner,
        text,
        text,
        tags=(text,),
        metadata={text: text},
        source=text,
        key=text,
        created_in_session_id=text,
    )
    (hit,) = RecallResult(hits=(_scored(hostile),))
    result = RecallResult(hits=(hit,), missing=frozenset({text}))
    note = Note(scope=owner, content=text, format=NoteFormat.TEXT, version=1)
    json_note = dataclasses.replace(note, content={text: text}, format=NoteFormat.JSON)
    for value in (hostile, result, result.explain(), note):
        assert seen(text) in read(value).texts, type(value)
    read(json_note)
    read(result.explain())


def _scored(one):
    with Memory.open(":memory:", embedder="none") as memory:
        memory.add("tea", scope=ALICE)
        (hit,) = memory.recall("tea", scope=ALICE)
    return dataclasses.replace(hit, record=one)


def test_a_recall_is_a_table(memory):
    """A result has a caption, a heading for each column, one line a hit and what is missing of it."""
    memory.add_many([NewMemory(content="I like tea."), NewMemory(content="Tea is at five.")], scope=ALICE)
    result = memory.recall("tea", scope=ALICE)

    found = read(dataclasses.replace(result, missing=frozenset({"dense"}), truncated=True))

    assert [attrs["scope"] for tag, attrs in found.tags if tag == "th"] == ["col"] * 9 + ["row"] * 2
    assert found.texts[0] == "2 hits, best first; not in full: dense; more would have ranked next"
    assert {"I like tea.", "Tea is at five.", "why", result[0].why, "user:alice"} <= set(found.texts)
    assert read(RecallResult()).texts[0] == "0 hits, best first"


def test_an_explanation_is_a_list_and_a_table(memory):
    """`explain` still gives a list of dicts; a notebook shows every column of it."""
    memory.add("I like tea.", scope=ALICE)
    rows = memory.recall("tea", scope=ALICE, explain=True).explain()

    assert isinstance(rows, list)
    assert rows == [dict(rows[0])]
    found = read(rows)
    assert set(rows[0]) <= set(found.texts)
    assert read(RecallResult().explain()).texts == ["0 hits explained"]


def test_a_record_shows_what_it_has(memory):
    """A record shows its text and the fields that are set, and no empty ones."""
    memory.add("I like tea.", scope=ALICE, tags=["drink"], metadata={"cup": 2}, occurred_at=NOW)
    (one,) = memory.list_records(scope=ALICE)

    texts = read(one).texts

    assert {"I like tea.", "drink", '{"cup": 2}', "2026-01-15 12:00:00+00:00", "active"} <= set(texts)
    assert "supersedes" not in texts
    page = memory.list_records(scope=ALICE)
    assert {"I like tea.", "1 record"} <= set(read(page).texts)


def test_working_memory_is_shown_whole(memory):
    """A note shows whose it is and all of its text with its lines, also when it is long or empty."""
    assert "empty" in read(memory.working.get(scope=ALICE)).texts[0]
    memory.working.update("first\n\n  second" + " more" * 999, scope=ALICE)
    found = read(memory.working.get(scope=ALICE))
    assert found.texts[0] == "Working memory of user:alice, text, version 1"
    assert found.texts[1].startswith("first\n\n  second more")
    assert found.texts[1].endswith("more")


def test_long_text_is_cut_in_tables():
    """A record of megabytes makes no table of megabytes, and says how long it is."""
    long = record(ALICE, "a", "x" * 10_000, created_at=datetime(2026, 1, 1, tzinfo=UTC))
    document = long._repr_html_()
    assert len(document) < 5_000
    assert "(10,000 characters)" in document
