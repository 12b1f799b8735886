"""Odd values at every parameter of every verb: a typed error, and nothing changed, or a meaning."""

import dataclasses
import inspect
import io
import itertools
from functools import partial

import numpy as np
import pytest

from memkit_core import (
    Config,
    Forgetting,
    InvalidInputError,
    MemkitError,
    Memory,
    Message,
    NewDocument,
    NewItem,
    NewMemory,
    Ranking,
    RecallLog,
    Role,
    Schedule,
    Scope,
    Tracing,
)
from memkit_core.models import MEMORIES, MESSAGES, Status

ALICE = Scope.user("alice")
SESSION = Scope.session("s1", user=ALICE)
DOCUMENTS, STORE = "documents:notes", "store:notes"


def deep(make):
    """A value nested so deeply that it cannot even be printed."""
    value = make(0)
    for _ in range(100_000):
        value = make(value)
    return value


class Awkward:
    """Has no truth value, cannot be compared, hashed or printed."""

    __hash__ = None

    def _refuse(self, *_):
        raise RuntimeError("awkward")

    __bool__ = __eq__ = __repr__ = __str__ = _refuse


# Made once and never changed: freeing a deep one is a recursion of its own.
ODD = {
    "None": None,
    "True": True,
    "5": 5,
    "-1": -1,
    "huge": 10**5000,
    "nan": float("nan"),
    "inf": float("inf"),
    "text": "x",
    "empty": "",
    "surrogate": "\ud800",
    "nul": "\0",
    "bytes": b"x",
    "list": [],
    "dict": {},
    "object": object(),
    "class": int,
    "array": np.array([0.5, 1.0]),
    "array of text": np.array(["fact"]),
    "no array": np.array(0.5),
    "deep list": deep(lambda inner: [inner]),
    "deep dict": deep(lambda inner: {"k": inner}),
    "awkward": Awkward(),
}
IN_A_LIST = {f"[{name}]": [value] for name, value in ODD.items()}
VALUES = ODD | IN_A_LIST


class Counts:
    """A model that makes no one wait."""

    model, fast = "counts", True

    def embed_documents(self, texts):
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        return [1.0, float(len(text))]


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    with Memory.open(tmp_path_factory.mktemp("odd") / "memory.db", embedder=Counts()) as opened:
        yield opened


def fill(memory):
    """Something of every kind, the same each time."""
    memory.delete(everything=True)
    memory.add("I like tea.", scope=ALICE, id="m1", tags=["drink"], metadata={"n": 1})
    memory.sessions.append([Message(id="t1", role=Role.USER, text="hello")], scope=SESSION)
    memory.documents("notes", scope=ALICE).put([NewDocument(id="d1", content="a note")])
    memory.items("notes", scope=ALICE).put(
        [NewItem(namespace=("n",), key="k1", value={"a": 1}, texts=["a text"])]
    )
    memory.working.update("remember", scope=SESSION)
    memory.runs.save("r1", {"step": 1}, scope=ALICE)


def state(memory):
    """All that the public reads show."""
    spaces = ((ALICE, MEMORIES), (SESSION, MESSAGES), (ALICE, DOCUMENTS), (ALICE, STORE))
    return (
        [
            # Recalls are counted some seconds later, also those of the call before.
            dataclasses.replace(one, access_count=0, last_accessed_at=None)
            for s, space in spaces
            for one in memory.list_records(scope=s, space=space, status=list(Status))
        ],
        memory.sessions.list(scope=ALICE),
        memory.sessions.read(scope=SESSION),
        memory.working.get(scope=SESSION),
        memory.runs.list(scope=ALICE),
    )


PARTS = {
    "memory": lambda memory: memory,
    "sessions": lambda memory: memory.sessions,
    "working": lambda memory: memory.working,
    "runs": lambda memory: memory.runs,
    "upkeep": lambda memory: memory.upkeep,
    "documents": lambda memory: memory.documents("notes", scope=ALICE),
    "items": lambda memory: memory.items("notes", scope=ALICE),
}
GOOD = {
    "content": "I like coffee.",
    "embedder": Counts(),
    "query": "tea",
    "scope": ALICE,
    "id": "m1",
    "items": ["I like juice."],
    "ids": ["d1"],
    "messages": [Message(role=Role.USER, text="again")],
    "run_id": "r1",
    "recall_id": "a1",
    "record_id": "m1",
    "state": {"step": 2},
    "documents": ["another note"],
    "document": "d1",
    "new": [NewItem(namespace=("n",), key="k2", value={"a": 2}, texts=["two", "texts"])],
    "namespace": ("n",),
    "key": "k1",
    "text": "A long note.",
    "model": lambda prompt: "a title",
    "summarize": " and ".join,
    "tags": ["drink"],
    "to": Scope.workspace("w1"),
    "session": SESSION,
    "source": io.StringIO(""),
}
"""What a parameter without a default is given while another one is odd."""
LEFT_OUT = {
    "memory.close": "ends the memory",
    "memory.turn_context": "has tests of its own",
    "sessions.relevant_window": "has tests of its own",
    "sessions.window": "has tests of its own",
}


def verbs():
    """(part, verb, parameter) for each parameter of each public method of each part."""
    with Memory.open(":memory:", embedder=Counts()) as memory:
        for part, of in PARTS.items():
            kind = type(of(memory))
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                if name.startswith("_") or f"{part}.{name}" in LEFT_OUT:
                    continue
                for parameter in itertools.islice(inspect.signature(method).parameters, 1, None):
                    yield part, name, parameter


def unchanged_or_typed(memory, call, what):
    """Call it: what it raises is memkit's, and then nothing has changed."""
    before = state(memory)
    try:
        call()
    except MemkitError as error:
        str(error).encode()
        assert state(memory) == before, what
    except OSError:
        # The name of a file may be any text.
        assert what.startswith("source="), what
    except Exception as error:  # noqa: BLE001 - the point of the test
        pytest.fail(f"{what}: {type(error).__name__}: {str(error)[:200]}", pytrace=False)
    else:
        if state(memory) != before:
            fill(memory)


@pytest.mark.parametrize(
    ("part", "verb", "parameter"), [pytest.param(*one, id=".".join(one)) for one in verbs()]
)
def test_every_parameter_of_every_verb(memory, part, verb, parameter):
    """Whatever is given, only a `MemkitError` comes out, and then nothing has changed."""
    fill(memory)
    method = getattr(PARTS[part](memory), verb)
    of_session = part in ("sessions", "working") and verb != "list"
    needed = {
        name: SESSION if name == "scope" and of_session else GOOD[name]
        for name, one in inspect.signature(method).parameters.items()
        if one.default is one.empty
    }
    if verb == "delete" and part == "documents":
        needed = {}
    for name, value in VALUES.items():
        unchanged_or_typed(memory, partial(method, **needed | {parameter: value}), f"{parameter}={name}")


@pytest.mark.parametrize("value", ["no", "", 1, 0, None, [], np.array(True)])
def test_yes_and_no(memory, value):
    """What is True or False is nothing else: "no" is no yes, and 1 does not delete everything."""
    fill(memory)
    before = state(memory)
    for call in (
        lambda: memory.add("I like coffee.", scope=ALICE, important=value),
        lambda: memory.add("I like coffee.", scope=ALICE, pinned=value),
        lambda: memory.add("I like coffee.", scope=ALICE, background=value),
        lambda: memory.add_many([NewMemory(content="I like coffee.", important=value)], scope=ALICE),
        lambda: memory.update("m1", scope=ALICE, pinned=value),
        lambda: memory.recall("tea", scope=ALICE, include_messages=value),
        lambda: memory.promote("m1", scope=ALICE, to=GOOD["to"], move=value),
        lambda: memory.delete(everything=value),
    ):
        with pytest.raises(InvalidInputError, match="True or False"):
            call()
    assert state(memory) == before


@pytest.mark.parametrize(
    ("kind", "add"),
    [
        (NewMemory, lambda memory, one: memory.add_many([one], scope=ALICE)),
        (NewDocument, lambda memory, one: memory.documents("notes", scope=ALICE).put([one])),
        (NewItem, lambda memory, one: memory.items("notes", scope=ALICE).put([one])),
        (Message, lambda memory, one: memory.sessions.append([one], scope=SESSION)),
    ],
)
def test_every_field_of_what_is_added(memory, kind, add):
    """The fields of the values that verbs take in lists are checked alike."""
    fill(memory)
    good = {
        Message: {"role": Role.USER, "text": "again"},
        NewItem: {"namespace": ("n",), "key": "k1", "value": {"a": 3}},
    }.get(kind, {"content": "I like coffee."})
    for field in inspect.signature(kind).parameters:
        for name, value in VALUES.items():
            odd = kind(**good | {field: value})
            unchanged_or_typed(memory, partial(add, memory, odd), f"{field}={name}")


@pytest.mark.parametrize(
    "key", ["metadata.n", "type", "status", "tags", "created_at", "importance", "pinned", "content"]
)
def test_values_and_operators_of_filters(memory, key):
    """What a condition compares with, and its operator, are checked for every kind of key."""
    fill(memory)
    ask = partial(memory.recall, "tea", scope=ALICE)
    for name, value in VALUES.items():
        for op in ("eq", "ne", "gt", "lte", "in", "nin", "exists", "contains"):
            unchanged_or_typed(memory, partial(ask, filters={key: {op: value}}), f"{key} {op} {name}")
        if isinstance(value, str | int | float | bytes | None):
            unchanged_or_typed(memory, partial(ask, filters={key: {value: 1}}), f"{key} {name} 1")
            unchanged_or_typed(memory, partial(ask, filters={value: 1}), f"{name} eq 1")


@pytest.mark.parametrize("parameter", list(inspect.signature(Memory.open).parameters))
def test_opening(tmp_path, monkeypatch, parameter):
    """What `Memory.open` cannot use is a typed error."""
    monkeypatch.chdir(tmp_path)
    for name, value in VALUES.items():
        if parameter == "clock" and name == "class":
            continue  # It can be called, and what it tells is for its author to know.
        try:
            Memory.open(**{"path": tmp_path / "m.db"} | {parameter: value}).close()
        except MemkitError:
            pass
        except Exception as error:  # noqa: BLE001 - the point of the test
            pytest.fail(f"{parameter}={name}: {type(error).__name__}: {str(error)[:200]}", pytrace=False)


@pytest.mark.parametrize("kind", [Ranking, Config, RecallLog, Forgetting, Schedule, Tracing])
def test_settings(kind):
    """Settings and weights that cannot be used are a typed error when they are made."""
    for field in inspect.signature(kind).parameters:
        for name, value in VALUES.items():
            try:
                kind(**{field: value})
            except MemkitError:
                pass
            except Exception as error:  # noqa: BLE001 - the point of the test
                pytest.fail(f"{field}={name}: {type(error).__name__}: {str(error)[:200]}", pytrace=False)
