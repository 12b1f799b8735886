"""What is deleted is gone from every read path, and after a purge from every file."""

import dataclasses

import pytest

from memkit_core import Config, Memory, Message, NewDocument, NewMemory, Role, Scope
from memkit_core.errors import BackendError, BackendUnavailableError, InvalidInputError, ScopeError
from memkit_core.models import MESSAGES, DeleteReceipt, Status

ANN, BOB = Scope.user("ann"), Scope.user("bob")
TALK, BOBS = Scope.session("s", user="ann"), Scope.session("s", user="bob")
MARK = "zyxmarker"
"""Stands in all that is ann's, in nothing else."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path, clock):
    with Memory.open(path, clock=clock) as opened:
        yield opened


def fill(memory, user, session, mark, facts=3, messages=4):
    """Something of every kind there is."""
    memory.add_many([NewMemory(content=f"{mark} fact {n}", tags=[mark]) for n in range(facts)], scope=user)
    for scope in (user, session):
        for text in ("dark", "light"):
            memory.add(
                f"{mark} {text} {scope.kind}", scope=scope, key=mark, metadata={mark: mark}, source=mark
            )
        memory.working.update(f"{mark} note", scope=scope)
        memory.runs.save(mark, {"secret": mark}, scope=scope)
    memory.documents(mark, scope=user).put([NewDocument(content=f"{mark} document", id=mark)])
    memory.sessions.append(
        [
            Message(role=Role.USER, text=f"{mark} said {n}", speaker=mark, id=f"{mark}{n}")
            for n in range(messages)
        ],
        scope=session,
    )
    memory.sessions.update(scope=session, title=mark)
    memory.summaries.update(scope=session, threshold=40, keep=1)


def seen(memory, user, session):
    """All that any read shows."""
    shown = [
        memory.list_records(scope=scope, status=list(Status), limit=9999).records for scope in (user, session)
    ]
    shown += [memory.list_records(scope=session, space=MESSAGES, limit=9999).records]
    shown += [memory.recall(MARK, scope=[user, session], include_messages=True, top_k=50).hits]
    shown += [memory.recall(MARK, scope=[user, session], status=list(Status), as_of=memory._clock()).hits]
    shown += [
        memory.documents(MARK, scope=user).list().records,
        memory.documents(MARK, scope=user).search(MARK).hits,
    ]
    shown += [memory.sessions.read(scope=session), memory.sessions.list(scope=user)]
    shown += [memory.runs.list(scope=scope) for scope in (user, session)]
    shown += [[memory.working.get(scope=scope).content] for scope in (user, session)]
    shown += [[memory.summaries.get(scope=session)], [memory.turn_context(session, MARK).prompt]]
    return shown


def nothing(shown):
    return [one for part in shown for one in part if one] == []


def test_a_user_goes_with_all_that_is_theirs(memory):
    """One call, however much there is, with a receipt of each kind; another user keeps everything."""
    fill(memory, ANN, TALK, MARK, facts=350, messages=1200)
    fill(memory, BOB, BOBS, "bobsword")
    before = [len(part) for part in seen(memory, BOB, BOBS)]
    assert not nothing(seen(memory, ANN, TALK))
    memory.flush()
    # Of each pair of values of a key the second superseded the first, which its history tells.
    receipt = memory.delete(scope=ANN)
    assert dataclasses.replace(receipt, keywords=0) == DeleteReceipt(
        records=355, turns=1200, messages=1200, sessions=1, vectors=1555, turn_vectors=1200, history=2, notes=2,
        runs=2, summaries=1,
    )  # fmt: skip
    assert receipt.keywords > 1555
    assert nothing(seen(memory, ANN, TALK))
    assert memory.delete(scope=ANN).nothing
    memory.flush()
    assert nothing(seen(memory, ANN, TALK))
    assert memory.upkeep.verify().whole
    assert [len(part) for part in seen(memory, BOB, BOBS)] == before


@pytest.mark.parametrize("wrong", [{}, {"scope": None}, {"scope": ""}, {"scope": "ann"}])
def test_a_delete_without_a_scope_is_refused(memory, wrong):
    """Nothing, None or a name means nobody, never everybody; everything goes only when it is said."""
    fill(memory, ANN, TALK, MARK)
    with pytest.raises(ScopeError):
        memory.delete(**wrong)
    for more in ({"id": "x"}, {"scope": ANN}):
        with pytest.raises(InvalidInputError):
            memory.delete(everything=True, **more)
    assert not nothing(seen(memory, ANN, TALK))


def test_everything_and_what_comes_after(path, clock):
    """After everything was deleted there is nothing; then what is added, also after opening again."""
    with Memory.open(path, clock=clock) as memory:
        fill(memory, ANN, TALK, MARK)
        assert memory.delete(everything=True).records == 8
        assert nothing(seen(memory, ANN, TALK))
        assert memory.delete(everything=True).nothing
        record = memory.add(f"{MARK} again", scope=ANN)
        assert [hit.record.id for hit in memory.recall(MARK, scope=ANN)] == [record.id]
    with Memory.open(path, clock=clock) as memory:
        assert [one.id for one in memory.list_records(scope=ANN)] == [record.id]
        assert [hit.record.id for hit in memory.recall(MARK, scope=ANN)] == [record.id]
        assert len(memory.history(record.id, scope=ANN)) == 1
        assert memory.upkeep.verify().whole


def test_an_index_that_fails_to_delete_shows_nothing(memory, monkeypatch):
    """A deleted memory is hidden at once and leaves the index with the next try."""
    gone = memory.add(f"{MARK} gone", scope=ANN)
    memory.add(f"{MARK} stays", scope=ANN)
    memory.flush()
    index = memory._indexers.own.held()
    tries = []

    def failing(points):
        tries.append(points)
        raise BackendUnavailableError("down", backend="test", operation="delete")

    with monkeypatch.context() as broken:
        broken.setattr(index, "delete", failing)
        assert memory.delete(gone.id, scope=ANN).records == 1
        memory._indexers.sync()
        assert [hit.record.content for hit in memory.recall(MARK, scope=ANN)] == [f"{MARK} stays"]
    assert tries
    assert memory.flush(10)
    assert memory._indexers.own.held().count() == 1
    assert memory.upkeep.verify().whole


# ------------------------------------------------------------------------------- purge


def holding(folder, word):
    """The files of a folder in which the word stands, as UTF-8 bytes, whatever they are."""
    return sorted(
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and word.encode() in file.read_bytes()
    )


@pytest.mark.parametrize("mark", ["zyxmarker", "丹佛zyx标记"])
def test_after_a_purge_the_mark_is_in_no_file(path, run_script, mark):
    """Deleted texts, ids, titles, notes and all else of a user stand in no file; others keep all.

    The file is looked into by another process than those that have it open: a plain `open` there
    would drop SQLite's locks.
    """
    with Memory.open(path) as memory:
        for number in range(20):
            fill(
                memory,
                Scope.user(f"other{number}"),
                Scope.session("s", user=f"other{number}"),
                f"word{number}",
            )
        user = Scope.user(mark, workspace=mark)
        fill(memory, user, Scope.session(mark, user=user), mark, facts=200, messages=50)
        memory.add(f"{mark} " + "a long text " * 2000, scope=user, id=mark)
        memory.flush()
        memory.delete(scope=user)
        memory.flush()
    assert holding(path.parent, mark) == ["memory.db"]
    with Memory.open(path) as memory:
        assert memory.upkeep.purge().nothing
        found = run_script(
            f"""
            from pathlib import Path
            word = {mark!r}.encode()
            print([str(f) for f in Path(".").rglob("*") if f.is_file() and word in f.read_bytes()])
            """
        )
        assert found == "[]"
        assert memory.upkeep.verify().whole
        assert len(memory.list_records(scope=Scope.user("other7"), status=list(Status))) == 5
        assert memory.recall("word7 fact", scope=Scope.user("other7"))
        assert memory.add("later", scope=user).version == 1
    assert holding(path.parent, mark + " fact") == []


def test_a_purge_takes_what_has_expired_along(path, clock):
    """It sweeps first, and says what it swept; what was superseded stays."""
    with Memory.open(path, clock=clock) as memory:
        memory.add(f"{MARK} expired", scope=ANN, expires_at=clock.now)
        for text in ("dark", "light"):
            memory.add(text, scope=ANN, key="theme")
        assert memory.upkeep.purge().records == 1
        assert [one.content for one in memory.list_records(scope=ANN, as_of=clock.now, status=list(Status))]
    assert holding(path.parent, MARK) == []


def test_a_purge_that_cannot_be_says_so(path):
    """Another memory that reads keeps it from being whole: an error, nothing is lost, and it can be tried again."""
    with Memory.open(path, config=Config(busy_timeout=0.2)) as memory:
        record = memory.add(f"{MARK} stays", scope=ANN)
        with memory._parts.store._database.snapshot() as reader:
            reader.execute("SELECT count(*) FROM records").fetchone()
            memory.add("more", scope=ANN)
            with pytest.raises(BackendError, match="reader"):
                memory.upkeep.purge()
        assert memory.get(record.id, scope=ANN) == record
        assert memory.upkeep.purge().nothing
        assert memory.get(record.id, scope=ANN) == record


def test_a_memory_without_a_file_is_purged_too():
    """There is nothing to do, and nothing fails."""
    with Memory.open(":memory:") as memory:
        memory.add("tea", scope=ANN)
        assert memory.upkeep.purge().nothing
        assert len(memory.recall("tea", scope=ANN)) == 1
