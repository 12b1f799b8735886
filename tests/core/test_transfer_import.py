"""Importing: increments, other owners and models, and files that are not what they should be."""

import codecs
import io
import json

import pytest

from memkit_core import (
    BackendError,
    ImportFileError,
    InvalidInputError,
    Memory,
    Message,
    NewDocument,
    Role,
    Scope,
    ScopeError,
    ToolCall,
)
from memkit_core.models import MEMORIES, MESSAGES
from memkit_core.transfer import files

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
TALK = Scope.session("s1", user=ALICE)


def text_of(memory, **options):
    stream = io.StringIO()
    report = memory.export_jsonl(stream, **({"everything": True} | options))
    return stream.getvalue(), report


def body(memory, **options):
    """All lines but the header, which names the store."""
    return text_of(memory, **options)[0].split("\n")[1:]


def take(memory, text, **options):
    return memory.import_jsonl(io.StringIO(text), **options)


# ------------------------------------------------------------------------------- increments


def test_increments_keep_another_store_in_step(house, open_memory):
    """A full export and then what changed since each watermark, deletes included, give the same store."""
    other, _ = open_memory()
    text, report = text_of(house)
    take(other, text)
    for act in (
        lambda: house.add("new fact", scope=ALICE),
        lambda: house.update("parked", scope=ALICE, importance=0.1),
        lambda: house.delete("../../etc/x", scope=ALICE),
        lambda: house.sessions.append([Message(role=Role.USER, text="more", id="m9")], scope=TALK),
        lambda: house.sessions.delete(["m1"], scope=TALK),
        lambda: house.working.update("and cake", scope=ALICE),
        lambda: house.documents("books", scope=ALICE).clear(),
        lambda: house.delete(scope=BOB),
        lambda: None,
    ):
        act()
        text, report = text_of(house, watermark=report.watermark)
        first = take(other, text)
        assert not first.skipped
        assert not take(other, text).changed
        for memory in (house, other):
            # A turn may be exported before it is embedded, and is then embedded where it arrives.
            assert memory.flush()
        assert body(other) == body(house)
    assert report.rows == 0


def test_a_memory_made_again_under_its_id_arrives(house, open_memory, clock):
    """Deleted and added anew it has a lower version than the old one, and yet takes its place."""
    other, _ = open_memory()
    text, report = text_of(house)
    take(other, text)
    clock.now = clock.now.replace(hour=1)
    house.delete("parked", scope=ALICE)
    house.add("I sold the car.", scope=ALICE, id="parked")
    text, _ = text_of(house, watermark=report.watermark)
    assert take(other, text).inserted == {"records": 1}
    assert other.get("parked", scope=ALICE) == house.get("parked", scope=ALICE)
    assert len(other.history("parked", scope=ALICE)) == 1
    assert not take(other, text).changed


def test_an_increment_holds_what_changed_alone(house):
    """It names the watermark it begins at, and holds no row that did not change."""
    _, report = text_of(house)
    house.add("new fact", scope=ALICE)
    text, more = text_of(house, watermark=report.watermark)
    header, record, end = map(json.loads, text.splitlines())
    assert (header["after"], header["watermark"]) == (report.watermark, more.watermark)
    assert record["content"] == "new fact"
    assert end["lines"] == 1


def test_deletes_tell_no_names(house):
    """A tombstone of a deleted user holds neither the user's id nor any other of its names."""
    _, report = text_of(house)
    house.delete(scope=ALICE)
    text, more = text_of(house, watermark=report.watermark)
    assert more.counts.keys() == {"deleted"}
    assert not any(name in text for name in ("alice", "parked", "s1", "etc", "books", "run 1"))
    own, _ = text_of(house, everything=False, scope=BOB, watermark=report.watermark)
    assert json.loads(own.splitlines()[-1])["lines"] == 0


@pytest.mark.parametrize(
    "wrong", ["", "x", "nobody:1", "a:b", 7, ":1", "{store}:-1", "{store}:1.0", "{store}:999999"]
)
def test_a_watermark_that_is_none_is_refused(house, wrong):
    """Text that no export gave, another store's, and a state that this store has not reached."""
    wrong = wrong.format(store=house._store.store_id) if isinstance(wrong, str) else wrong
    with pytest.raises(InvalidInputError, match="watermark"):
        text_of(house, watermark=wrong)


# ------------------------------------------------------------------------------- what holds


def test_the_newer_version_holds(house, open_memory):
    """By id: what is newer in the store stays, what is newer in the file comes, nothing is doubled."""
    text, _ = text_of(house)
    other, _ = open_memory()
    take(other, text)
    for n in range(2):
        other.update("parked", scope=ALICE, content=f"changed here {n}")
    report = take(other, text)
    assert not report.changed
    assert other.get("parked", scope=ALICE).content == "changed here 1"
    newer, _ = text_of(other)
    assert take(house, newer).updated == {"records": 1}
    assert house.history("parked", scope=ALICE) == other.history("parked", scope=ALICE)
    assert house.recall("changed here", scope=ALICE)[0].record.id == "parked"


def test_a_fact_said_again_and_moved_twice_stays_one(house, open_memory):
    """Repeats that became one are one after any number of imports, with their count."""
    other, _ = open_memory()
    for _ in range(3):
        take(other, text_of(house)[0])
        take(house, text_of(other)[0])
    for memory in (house, other):
        assert memory.get("parked", scope=ALICE).mentions == 2
        assert len(memory.list_records(scope=ALICE)) == 2


def test_a_conversation_that_goes_on_in_both_places(house, open_memory, clock):
    """Messages of both are kept; those that are there in a newer log are not replaced."""
    other, _ = open_memory()
    take(other, text_of(house)[0])
    house.sessions.append([Message(role=Role.USER, text="from the house", id="h")], scope=TALK)
    clock.now = clock.now.replace(hour=5)
    other.sessions.append(
        [
            Message(role=Role.USER, text="from elsewhere", id="o"),
            Message(role=Role.USER, text="new", id="m1"),
        ],
        scope=TALK,
    )
    report = take(other, text_of(house)[0])
    assert report.inserted == {"messages": 1, "turns": 1}
    # The summary covers what one of them said before.
    assert report.skipped == 1
    told = {message.id: message.text for message in other.sessions.read(scope=TALK)}
    assert (told["h"], told["o"], told["m1"]) == ("from the house", "from elsewhere", "new")
    found = other.recall("house elsewhere", scope=TALK, include_messages=True)
    assert {hit.record.id for hit in found} >= {"h", "o"}
    assert other.flush()
    assert other.upkeep.verify().whole


def test_a_conversation_stays_in_order_in_a_session_that_went_on(house, open_memory):
    """Where places are taken, what was said comes behind it in its own order, results behind their calls."""
    turn = [
        Message(role=Role.USER, text="ship it", id="h1"),
        Message(
            role=Role.ASSISTANT, text="", id="h2", tool_calls=[ToolCall(id="k", name="f", arguments="{}")]
        ),
        Message(role=Role.TOOL, text="shipped", id="h3", tool_call_id="k"),
        Message(role=Role.ASSISTANT, text="done", id="h4"),
    ]
    other, _ = open_memory()
    take(other, text_of(house)[0])
    house.sessions.append(turn, scope=TALK)
    other.sessions.append([Message(role=Role.USER, text="from elsewhere", id="o")], scope=TALK)
    take(other, text_of(house)[0])
    ids = [message.id for message in other.sessions.for_model(scope=TALK)]
    assert ids[-5:] == ["o", "h1", "h2", "h3", "h4"]
    assert not take(other, text_of(house)[0]).changed


# ------------------------------------------------------------------------------- other owners


def test_under_another_user(house, open_memory):
    """A dict takes a user's rows elsewhere, sessions included; nothing arrives under the old name."""
    other, _ = open_memory()
    carol = Scope.user("carol", org="acme")
    text, exported = text_of(house, everything=False, scope=ALICE)
    report = take(other, text, scopes={ALICE: carol})
    assert report.inserted == exported.counts
    assert not take(other, text, scopes={ALICE: carol}).changed
    session = Scope.session("s1", user=carol)
    assert other.get("parked", scope=carol).scope == carol
    assert [one.id for one in other.sessions.read(scope=session)] == ["m0", "m1", "m2", "m3", "m4"]
    assert other.summaries.get(scope=session).text == "keys"
    assert other.working.get(scope=carol).text == house.working.get(scope=ALICE).text
    assert other.runs.load("run 1", scope=session).state == {"step": 1, "a": 2}
    assert other.recall("keys", scope=carol, include_messages=True)[0].scope == session
    assert '"alice"' not in text_of(other)[0]
    assert other.upkeep.verify().whole


def test_a_function_maps_scopes(house, open_memory):
    """A function is asked for every scope; a session under another name tells it in its turns."""

    def moved(scope):
        return Scope.session("other", user=BOB) if scope == TALK else BOB if scope == ALICE else scope

    other, _ = open_memory()
    take(other, text_of(house)[0], scopes=moved)
    session = Scope.session("other", user=BOB)
    turn = other.get("m1", scope=session, space=MESSAGES)
    assert (turn.metadata["session_id"], turn.created_in_session_id) == ("other", "other")
    assert len(other.list_records(scope=BOB)) == 3


def test_deletes_under_another_user(house, open_memory):
    """Deletes follow the mapping; what nobody can map any more is reported and deletes nothing."""
    other, _ = open_memory()
    text, report = text_of(house)
    take(other, text, scopes={ALICE: BOB})
    house.delete("parked", scope=ALICE)
    text, report = text_of(house, watermark=report.watermark)
    assert take(other, text, scopes={ALICE: BOB}).deleted == 1
    assert other.get("parked", scope=BOB) is None
    house.delete(scope=ALICE)
    text, report = text_of(house, watermark=report.watermark)
    gone = take(other, text, scopes={ALICE: BOB})
    assert gone.deleted
    assert {line.reason.split(";")[0] for line in gone.skipped_lines} == {
        "whose it was is not known any more"
    }
    unknown = take(other, text, scopes=lambda scope: scope)
    assert unknown.skipped == report.rows
    assert other.get("b1", scope=BOB, space="documents:books") is None


@pytest.mark.parametrize(
    ("scopes", "error"),
    [
        ("alice", InvalidInputError),
        ({"alice": BOB}, ScopeError),
        ({ALICE: None}, ScopeError),
        (lambda _: None, ImportFileError),
        (lambda _: Scope.org("x"), ImportFileError),
        ({ALICE: Scope.org("x")}, ImportFileError),
    ],
)
def test_a_mapping_that_maps_to_nothing_is_refused(house, open_memory, scopes, error):
    """A mapping to no scope, or of a session to what is none, changes nothing."""
    other, _ = open_memory()
    with pytest.raises(error):
        take(other, text_of(house)[0], scopes=scopes)
    assert text_of(other)[1].rows == 0


# ------------------------------------------------------------------------------- other models


def test_another_model_embeds_anew(house, open_memory):
    """Vectors of another model are not taken: the records wait and are embedded; given ones are kept."""
    other, embedder = open_memory(model="another", size=6)
    report = take(other, text_of(house)[0])
    assert report.reembedded == 7
    other.flush()
    assert embedder.texts == 7
    assert other._store.vectors.space().model == "another"
    hit = other.recall("I parked on level 5.", scope=ALICE)[0]
    assert hit.signals.similarity == pytest.approx(1)
    theirs = other.documents("theirs", scope=ALICE, embedding_model="their-model")
    assert theirs.vectors(["v1"])["v1"].tolist() == [1, 2, 3]
    assert other.upkeep.verify().whole


def test_the_same_model_embeds_nothing(house, open_memory):
    """With the model that made them the vectors come along."""
    other, embedder = open_memory()
    assert take(other, text_of(house)[0]).reembedded == 0
    other.flush()
    assert embedder.texts <= 1  # to learn the length of its vectors


def test_vector_spaces_never_mix(house, open_memory):
    """A collection that has vectors of another model takes none of the file's."""
    other, _ = open_memory()
    held = other.documents("theirs", scope=ALICE, embedding_model="a third model")
    held.put([NewDocument(content="mine", id="mine")], vectors=[[1.0, 0.0]])
    with pytest.raises(ImportFileError, match="another space"):
        take(other, text_of(house)[0])
    assert text_of(other)[1].counts == {"records": 1}
    report = take(other, text_of(house)[0], on_error="skip")
    assert report.skipped == 1
    assert [one.id for one in held.list()] == ["mine"]
    assert other.get("parked", scope=ALICE) is not None


# ------------------------------------------------------------------------------- bad files


def edited(text, number, edit):
    lines = text.rstrip("\n").split("\n")
    lines[number] = edit(lines[number])
    return "\n".join(lines) + "\n"


def changed(**fields):
    return lambda line: json.dumps(json.loads(line) | fields)


RECORD = -3
BAD_LINES = {
    "no JSON": (lambda line: line[: len(line) // 2], "JSON"),
    "empty": (lambda _: "", "JSON"),
    "a list": (lambda _: "[]", "object"),
    "unknown kind": (changed(kind="what"), "tag"),
    "unknown field": (changed(extra=1), "extra"),
    "missing field": (lambda line: line.replace('"importance"', '"unimportance"'), "importance"),
    "another type": (changed(importance="0.5"), "importance"),
    "out of range": (changed(importance=1.5), "importance"),
    "no status": (changed(status="deleted"), "status"),
    "no time": (changed(created_at="yesterday"), "created_at"),
    "naive time": (changed(created_at="2026-01-01T00:00:00"), "created_at"),
    "no space": (changed(space="x"), "space"),
    "no scope": (changed(scope=[["user", ""]]), "scope"),
    "unknown scope kind": (changed(scope=[["team", "x"]]), "scope"),
    "session without user": (changed(scope=[["session", "x"]]), "scope"),
    "empty scope": (changed(scope=[]), "scope"),
    "NUL": (changed(content="a\0b"), "NUL"),
    "lone surrogate": (lambda line: line.replace('"content":"', '"content":"\\ud83d'), "hex escape"),
    "no base64": (changed(vector="!"), "base64"),
    "short vector": (changed(vector="AACAPw=="), "dimensions"),
    "infinite vector": (changed(vector="AACAfwAAgH8AAIB/AACAfw=="), "finite"),
    "unknown vector space": (changed(vector_space="nobody|1|4"), "vector space"),
    "no vector space": (changed(vector_space=None), "vector space"),
    "version 0": (changed(version=0), "version"),
    "history of a document": (
        changed(
            space="documents:x",
            history=[
                {"version": 1, "kind": "updated", "at": "2026-01-01T00:00:00Z", "before": {"content": "x"}}
                | {"dropped": {}, "others": []}
            ],
        ),
        "only memories have a history",
    ),
    "a second header": (
        lambda _: json.dumps(
            {"kind": "header", "format": "", "version": 1, "store": "", "watermark": "", "after": None}
            | {"vector_spaces": []}
        ),
        "header",
    ),
    "a summary without its session": (
        lambda _: json.dumps(
            {"kind": "summary", "scope": [["user", "u"], ["session", "s"]], "text": "x", "position": 0}
            | {"updated_at": "2026-01-01T00:00:00Z"}
        ),
        "session line",
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line(house, open_memory, name):
    """By default it changes nothing and is named by file, number and reason; else only it is left out."""
    edit, reason = BAD_LINES[name]
    text = edited(text_of(house, everything=False, scope=ALICE)[0], RECORD, edit)
    number = len(text.rstrip("\n").split("\n")) + RECORD + 1
    other, _ = open_memory()
    with pytest.raises(ImportFileError, match=rf"the stream, line {number}: .*{reason}") as caught:
        take(other, text)
    assert (caught.value.file, caught.value.line) == ("the stream", number)
    assert text_of(other)[1].rows == 0
    assert other._store.vectors.space() is None
    report = take(other, text, on_error="skip")
    (skipped,) = report.skipped_lines
    assert skipped.line == number
    assert reason in skipped.reason
    assert sum(report.inserted.values()) == text_of(house, everything=False, scope=ALICE)[1].rows - 1


def test_an_over_long_line(house, open_memory, monkeypatch):
    """A line beyond the limit is not read into memory; the lines after it are."""
    text = edited(text_of(house)[0], RECORD, lambda line: line + " " * 5000)
    monkeypatch.setattr(files, "LONGEST_LINE", 4000)
    other, _ = open_memory()
    with pytest.raises(ImportFileError, match="longer than"):
        take(other, text)
    assert take(other, text, on_error="skip").skipped == 1
    with pytest.raises(ImportFileError, match=r"line 1: .*longer"):
        take(other, "x" * 10_000)


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.1])
def test_a_file_that_was_cut_off(house, open_memory, kept):
    """Without its end a file changes nothing, or is imported as far as it goes and reported."""
    whole = text_of(house)[0]
    text = whole[: int(len(whole) * kept)]
    other, _ = open_memory()
    with pytest.raises(ImportFileError) as caught:
        take(other, text)
    assert caught.value.line >= len(text.split("\n"))
    assert text_of(other)[1].rows == 0
    assert any("cut off" in line.reason for line in take(other, text, on_error="skip").skipped_lines)
    assert not take(other, whole).skipped
    assert body(other) == body(house)


def test_lines_that_are_missing_or_too_many(house, open_memory):
    """The end line tells how many lines there were; nothing may stand behind it."""
    lines = text_of(house)[0].rstrip("\n").split("\n")
    other, _ = open_memory()
    for wrong, reason in (([*lines[:3], *lines[4:]], "end line"), ([*lines, lines[-2]], "after the end")):
        with pytest.raises(ImportFileError, match=reason) as caught:
            take(other, "\n".join(wrong))
        assert str(caught.value).count("Nothing was changed") == 1
    assert text_of(other)[1].rows == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("\n", "no memkit export"),
        ("hello\n", "no memkit export"),
        ("SQLite format 3\0\n", "no memkit export"),
        ('{"kind":"end","lines":0}\n', "no header"),
        ("{header:format=other}", "no header"),
        ("{header:version=2}", "upgrade"),
        ("{header:vector_spaces=bad}", "fingerprint"),
    ],
)
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_is_no_export_is_refused_whole(house, open_memory, text, reason, on_error):
    """Without a header that can be read nothing is imported, whatever is to happen to bad lines."""
    if text.startswith("{header"):
        name, _, value = text[8:-1].partition("=")
        spaces = [{"fingerprint": "x", "model": "y", "revision": "", "dimension": 4, "given": False}]
        given = {"format": "other", "version": 2, "vector_spaces": spaces}[name]
        assert value
        text = edited(text_of(house)[0], 0, changed(**{name: given}))
    other, _ = open_memory()
    with pytest.raises(ImportFileError, match=reason) as caught:
        take(other, text, on_error=on_error)
    assert caught.value.line == 1
    assert text_of(other)[1].rows == 0


def test_blank_lines_at_the_end_count_for_nothing(house, open_memory):
    """What an editor or a shell adds behind the last line changes nothing; more lines do."""
    other, _ = open_memory()
    text, exported = text_of(house)
    assert take(other, text + "\n  \n\n").inserted == exported.counts
    with pytest.raises(ImportFileError, match="more after the end"):
        take(other, text + "\nx\n")


def test_a_file_that_an_editor_saved(house, tmp_path, open_memory):
    """A byte order mark in front and other line ends change nothing."""
    path = tmp_path / "saved.jsonl"
    path.write_bytes(codecs.BOM_UTF8 + text_of(house)[0].encode().replace(b"\n", b"\r\n"))
    other, _ = open_memory()
    assert not other.import_jsonl(path).skipped
    assert body(other) == body(house)


def test_the_file_is_named(house, tmp_path, open_memory):
    """An error names the path that was given."""
    path = tmp_path / "broken.jsonl"
    path.write_bytes(text_of(house)[0].encode()[:-20] + b"\xff\xfe")
    other, _ = open_memory()
    with pytest.raises(ImportFileError, match=r"broken\.jsonl, line"):
        other.import_jsonl(path)


def test_no_such_policy(house):
    """Only stop and skip are known."""
    with pytest.raises(InvalidInputError, match="on_error"):
        take(house, text_of(house)[0], on_error="ignore")


# ------------------------------------------------------------------------------- interrupted


def test_an_import_that_fails_is_completed_by_another(tmp_path, open_memory, monkeypatch):
    """Batches before the failure stay; running it again adds the rest and doubles nothing."""
    source, _ = open_memory()
    source.add_many([f"fact number {n}" for n in range(1300)], scope=ALICE)
    source.sessions.append([Message(role=Role.USER, text=f"said {n}") for n in range(700)], scope=TALK)
    source.flush()
    text, exported = text_of(source)
    other, _ = open_memory(tmp_path / "m.db")
    store = other._parts.store
    receive, calls = store.receive, []

    def failing(rows):
        calls.append(rows)
        if len(calls) == 4:
            raise BackendError("no more", backend="test", operation="receive")
        return receive(rows)

    monkeypatch.setattr(store, "receive", failing)
    with pytest.raises(BackendError):
        take(other, text)
    there = text_of(other)[1].rows
    assert 0 < there < exported.rows
    report = take(other, text)
    assert sum(report.inserted.values()) == exported.rows - there
    assert body(other) == body(source)
    assert other.upkeep.verify().whole


def test_others_write_meanwhile(tmp_path, open_memory):
    """While a long import runs, another memory on the same file writes between its batches."""
    source, _ = open_memory()
    source.add_many([f"fact number {n}" for n in range(1500)], scope=ALICE)
    path = tmp_path / "x.jsonl"
    source.export_jsonl(path, everything=True)
    memory, _ = open_memory(tmp_path / "m.db")
    written = []

    def write(done, total):
        written.append(memory.add(f"written at {done}", scope=BOB).id)

    assert memory.transfer.import_jsonl(path, progress=write).inserted == {"records": 1500}
    assert len(written) > 2
    assert {one.id for one in memory.list_records(scope=BOB)} == set(written)


def test_a_text_stream_of_another_encoding(house, tmp_path, open_memory):
    """An export that was written through a UTF-16 stream is read through one."""
    path = tmp_path / "x.txt"
    with path.open("w", encoding="utf-16", newline="") as stream:
        house.export_jsonl(stream, everything=True)
    other, _ = open_memory()
    with path.open(encoding="utf-16", newline="") as stream:
        other.import_jsonl(stream)
    assert body(other) == body(house)
    with Memory.open(":memory:") as third, path.open(encoding="latin-1") as stream:
        with pytest.raises(ImportFileError, match="no memkit export"):
            third.import_jsonl(stream)
        assert third.list_records(scope=ALICE, space=MEMORIES).records == ()
