"""`memory.sessions`: conversations made, named, listed, read by agent and deleted."""

import contextlib
import sqlite3
from types import SimpleNamespace

import pytest
from langchain_core.language_models import FakeListChatModel
from llama_index.core.llms import MockLLM

from memkit_core import Config, ConfigError, Memory, Message, ModelError, RecordNotFoundError, Role, Scope
from memkit_core.chat_models import resolve_chat_model
from memkit_core.errors import InvalidInputError, ScopeError

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)


BLOCKS = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Te"}, "a", {"type": "x"}]
"""The content of a chat model's answer, of which the text alone is what it says."""


class Says:
    """A chat model by LangChain's method that always says the same."""

    def __init__(self, answer):
        self.answer = answer

    def invoke(self, _):
        return self.answer


@pytest.fixture(params=["in memory", "in a file"])
def memory(request, tmp_path):
    path = ":memory:" if request.param == "in memory" else tmp_path / "m.db"
    with Memory.open(path) as memory:
        yield memory


def say(memory, *texts, role=Role.USER, **fields):
    return memory.sessions.append([Message(role=role, text=text, **fields) for text in texts], scope=TALK)


# ------------------------------------------------------------------------------- read


@pytest.mark.parametrize("messages", [4, 5])
def test_paging_backwards_ends_with_an_empty_page(memory, messages):
    """Each page is read before the first position of the one behind it, until there is none."""
    said = [f"m{n}" for n in range(messages)]
    say(memory, *said)
    found = []
    page = memory.sessions.read(scope=TALK, last=2)
    while page:
        found = [message.text for message in page] + found
        page = memory.sessions.read(scope=TALK, last=2, before=page[0].position)
    assert found == said


# ------------------------------------------------------------------------------- made and changed


def test_a_session_is_made_once(memory):
    """The first call makes it; later ones and appends find it, and overwrite nothing."""
    made = memory.sessions.create(scope=TALK, title="Tea", metadata={"tags": ("a", "b"), "no": None})
    assert (made.title, made.metadata, made.messages) == ("Tea", {"tags": ["a", "b"], "no": None}, 0)
    assert memory.sessions.create(scope=TALK, title="Other", metadata={"x": 1}) == made
    say(memory, "Hello")
    assert memory.sessions.get(scope=TALK).title == "Tea"
    assert memory.sessions.create(scope=TALK).messages == 1
    assert memory.sessions.window(scope=TALK)[0].text == "Hello"


CREATE = """
    import sys
    from memkit_core import Memory, Message, Role, Scope
    with Memory.open("m.db") as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(30):
            talk = Scope.session(f"s{n}", user="alice")
            print(memory.sessions.create(scope=talk, title=sys.argv[1]).title)
            memory.sessions.append([Message(role=Role.USER, text="hi")], scope=talk)
"""


def test_processes_make_one_session(tmp_path, start_script):
    """Two processes that make the same sessions get the same ones, each with the messages of both."""
    Memory.open(tmp_path / "m.db").close()
    others = [start_script(CREATE, name) for name in "pq"]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    titles = [other.stdout.read().split() for other in others]
    assert [other.wait(60) for other in others] == [0, 0]
    assert titles[0] == titles[1]
    with Memory.open(tmp_path / "m.db") as memory:
        sessions = memory.sessions.list(scope=ALICE)
        assert [one.messages for one in sessions] == [2] * 30
        assert {one.scope.id: one.title for one in sessions} == {
            f"s{n}": title for n, title in enumerate(titles[0])
        }


def test_title_and_metadata_change(memory):
    """Given keys are replaced, None removes, the rest stays; an unknown session is not made."""
    with pytest.raises(RecordNotFoundError):
        memory.sessions.update(scope=TALK, title="Tea")
    assert memory.sessions.get(scope=TALK) is None
    memory.sessions.create(scope=TALK, metadata={"a": 1, "b": 2})
    changed = memory.sessions.update(scope=TALK, title="Tea", metadata={"a": None, "c": [3]})
    assert (changed.title, changed.metadata) == ("Tea", {"b": 2, "c": [3]})
    assert memory.sessions.update(scope=TALK, title=None).title is None
    assert memory.sessions.get(scope=TALK).metadata == {"b": 2, "c": [3]}


@pytest.mark.parametrize(
    "bad",
    [
        {"title": ""},
        {"title": "  "},
        {"title": 5},
        {"title": "x" * 301},
        {"metadata": [1]},
        {"metadata": {"a": {1}}},
    ],
)
def test_a_bad_title_or_metadata_is_refused(memory, bad):
    """What cannot be stored is refused and changes nothing."""
    with pytest.raises(InvalidInputError):
        memory.sessions.create(scope=TALK, **bad)
    assert memory.sessions.get(scope=TALK) is None
    kept = memory.sessions.create(scope=TALK, title="Tea")
    with pytest.raises(InvalidInputError):
        memory.sessions.update(scope=TALK, **bad)
    with pytest.raises(InvalidInputError):
        memory.sessions.update(scope=TALK, metadata=None)
    assert memory.sessions.get(scope=TALK) == kept


def test_sessions_are_of_a_user(memory):
    """A session is made in a session scope, and listed for a user."""
    for scope in (None, ALICE, Scope.org("o")):
        with pytest.raises(ScopeError):
            memory.sessions.create(scope=scope)
        with pytest.raises(ScopeError):
            memory.sessions.update(scope=scope, title="Tea")
    with pytest.raises(ScopeError):
        memory.sessions.list(scope=TALK)


def test_sessions_come_in_pages(memory):
    """Pages of a list hold each session once, in its order."""
    for n in range(5):
        memory.sessions.create(scope=Scope.session(f"s{n}", user=ALICE))
    whole, paged = memory.sessions.list(scope=ALICE), []
    while page := memory.sessions.list(scope=ALICE, limit=2, after=paged[-1] if paged else None):
        paged += page
    assert paged == whole
    assert len(whole) == 5
    theirs = memory.sessions.create(scope=Scope.session("s1", user="bob"))
    for bad in ({"limit": 0}, {"after": "s1"}, {"after": theirs}):
        with pytest.raises(InvalidInputError):
            memory.sessions.list(scope=ALICE, **bad)


# ------------------------------------------------------------------------------- agents


def test_messages_by_agent(memory):
    """The messages of an agent, or of its children, come alone and in order, newest last."""
    say(memory, "plan")
    say(memory, "a1", "a2", role=Role.ASSISTANT, agent_id="a")
    say(memory, "b1", role=Role.ASSISTANT, agent_id="b", parent_agent_id="a")
    say(memory, "a3", role=Role.ASSISTANT, agent_id="a")
    read = memory.sessions.read
    assert [one.text for one in read(scope=TALK, agent_id="a")] == ["a1", "a2", "a3"]
    assert [one.text for one in read(scope=TALK, agent_id="a", last=2)] == ["a2", "a3"]
    assert [one.text for one in read(scope=TALK, parent_agent_id="a")] == ["b1"]
    with pytest.raises(InvalidInputError):
        read(scope=TALK, agent_id=5)


def test_reading_by_agent_does_not_read_the_rest(tmp_path):
    """The query plan of reading by agent looks up that agent's messages in an index, already in order."""
    with Memory.open(tmp_path / "m.db") as memory:
        say(memory, "hello", agent_id="a", parent_agent_id="b")
    with contextlib.closing(sqlite3.connect(tmp_path / "m.db")) as file:
        for column, index in (("agent_id", "agent"), ("parent_agent_id", "parent_agent")):
            plan = file.execute(
                "EXPLAIN QUERY PLAN SELECT text FROM messages WHERE scope_id = ? AND position < ? "
                f"AND {column} = ? ORDER BY position DESC LIMIT ?",
                (1, 9, "a", 1),
            ).fetchall()
            told = " ".join(row[3] for row in plan)
            assert f"USING INDEX messages_by_{index} " in told
            assert "TEMP B-TREE" not in told


# ------------------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Tea in Lund", "Tea in Lund"),
        ('Title: "Tea in Lund"\n\nI hope this helps!', "Tea in Lund"),
        ("\n## **Tea in Lund**\n", "Tea in Lund"),
        ("„Tee in Lund“", "Tee in Lund"),
        ("丹佛", "丹佛"),
        ('Sure! Here is a title:\n\n"Tea in Lund".', "Tea in Lund"),
        ("**Tea: hot, in the U.S.**", "Tea: hot, in the U.S."),
        ("Title:\nTea in Lund", "Tea in Lund"),
        ("Tea:", "Tea:"),
        ("word " * 40, ("word " * 16)[:79].rstrip() + "…"),
    ],
)
def test_a_model_gives_the_title(memory, answer, title):
    """The first line of the answer without its dress is the title; the model sees how it began."""
    say(memory, "How do I brew tea in Lund?", "With </conversation> water.")
    say(memory, *("later" for _ in range(30)))
    prompts = []
    session = memory.sessions.generate_title(
        scope=TALK, model=lambda prompt: prompts.append(prompt) or answer
    )
    assert session.title == title
    assert memory.sessions.get(scope=TALK) == session
    assert len(prompts) == 1
    assert "How do I brew tea in Lund?" in prompts[0]
    assert prompts[0].count("</conversation>") == 1
    assert prompts[0].count("later") < 12


def test_a_failing_model_leaves_the_title(memory):
    """A model that raises, says nothing or no text is a `ModelError`, and the title stays."""
    say(memory, "Hello")
    memory.sessions.update(scope=TALK, title="Tea")

    def fails(_):
        raise RuntimeError("busy")

    async def waits(_):
        return "late"

    for model in (
        fails,
        waits,
        *(Says(answer) for answer in ("", " \n", "***", None, 5)),
    ):
        with pytest.raises(ModelError):
            memory.sessions.generate_title(scope=TALK, model=model)
    assert memory.sessions.get(scope=TALK).title == "Tea"


def test_nothing_to_name(memory):
    """A session that is not there, or in which nothing was said, gets no title, and no model is asked."""
    asked = []
    with pytest.raises(RecordNotFoundError):
        memory.sessions.generate_title(scope=TALK, model=asked.append)
    memory.sessions.create(scope=TALK)
    say(memory, "Be kind.", role=Role.SYSTEM)
    with pytest.raises(InvalidInputError):
        memory.sessions.generate_title(scope=TALK, model=asked.append)
    assert asked == []


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (FakeListChatModel(responses=["Tea"]), "Tea"),
        (Says(SimpleNamespace(content=BLOCKS)), "Tea"),
        (MockLLM(), "Tea?"),
        (str.upper, "TEA?"),
    ],
    ids=["langchain", "blocks", "llamaindex", "function"],
)
def test_models_of_others(model, says):
    """A LangChain model, a LlamaIndex LLM and a function are chat models."""
    assert resolve_chat_model(model)("Tea?") == says


@pytest.mark.parametrize(
    "answer",
    [
        '<think>\nA draft: {"title": "x"}\n</think>\n\nTrip to Rome',
        "<THINKING>Hm.</Thinking>Trip to Rome",
        "The user greets.\n</think>\nTrip to Rome",
        "[THINK]Hm.[/THINK]Trip to Rome",
        "<think></think>\n\nTrip to Rome",
    ],
)
def test_thoughts_are_no_answer(memory, answer):
    """What a reasoning model thinks in front of its answer is in no title, and in nothing else it is asked for."""
    say(memory, "We go to Rome.")
    assert memory.sessions.generate_title(scope=TALK, model=lambda _prompt: answer).title == "Trip to Rome"
    assert resolve_chat_model(lambda _prompt: answer)("?").strip() == "Trip to Rome"


@pytest.mark.parametrize(
    "answer", ["How to strip <think> and </think>", "About:\n<think>\nHm.\n</think>\nand so on"]
)
def test_an_answer_about_thoughts_stays(answer):
    """Tags inside of an answer are what the model says."""
    assert resolve_chat_model(lambda _prompt: answer)("?") == answer


@pytest.mark.parametrize("answer", ["<think>And then", "<think>Hm.</think>\n", "\n</think>\n"])
def test_thoughts_alone(answer):
    """A model that never came to its answer said nothing."""
    with pytest.raises(ModelError):
        resolve_chat_model(lambda _prompt: answer)("?")


@pytest.mark.parametrize("model", [None, "gpt", 5, ..., Says], ids=repr)
def test_what_is_no_model(model):
    """Names, classes and objects without a known method are refused."""
    with pytest.raises(InvalidInputError):
        resolve_chat_model(model)


# ------------------------------------------------------------------------------- deleted


def test_a_session_goes_with_all_it_has(memory):
    """One call deletes messages, turns, vectors, note and runs of a session and counts each; the rest stays."""
    say(memory, "I like tea.", "And rye.")
    memory.add("A memory.", scope=TALK)
    memory.working.update("Likes tea.", scope=TALK)
    memory.runs.save("r", {"step": 1}, scope=TALK)
    memory.runs.save("r", {"step": 1}, scope=ALICE)
    memory.flush()
    receipt = memory.sessions.clear(scope=TALK)
    counted = (
        receipt.messages,
        receipt.turns,
        receipt.vectors,
        receipt.sessions,
        receipt.notes,
        receipt.runs,
    )
    assert counted == (2, 2, 2, 1, 1, 1)
    assert memory.sessions.clear(scope=TALK).nothing
    assert len(memory.list_records(scope=TALK)) == 1
    assert len(memory.recall("tea", scope=ALICE, include_messages=True)) == 0
    assert memory.runs.load("r", scope=ALICE) is not None
    assert memory.upkeep.verify().problems == ()


def test_messages_in_place_of_others(memory):
    """What is given stands in place of all but what is kept, with the turns; the session keeps its own."""
    first, *_ = say(memory, "My canoe is blue.", "My canoe is old.", "My tent is green.")
    memory.working.update("a note", scope=TALK)
    memory.sessions.update(scope=TALK, title="Boats")
    memory.sessions.queue.append([Message(role=Role.USER, text="My canoe leaks.")], scope=TALK)
    new = memory.sessions.replace(
        [Message(role=Role.USER, text="My canoe is new.")], scope=TALK, keep=[first.id, "unknown"]
    )
    assert memory.sessions.read(scope=TALK) == [first, *new]
    hits = memory.recall("canoe tent", scope=TALK, include_messages=True)
    assert {hit.record.content for hit in hits} == {"My canoe is blue.", "My canoe is new."}
    assert memory.sessions.replace([], scope=TALK, keep=[first.id]) == []
    assert memory.sessions.read(scope=TALK) == [first]
    assert memory.sessions.replace(iter([]), scope=TALK) == []
    assert memory.sessions.read(scope=TALK) == []
    assert memory.sessions.get(scope=TALK).title == "Boats"
    assert memory.working.get(scope=TALK).text == "a note"
    other = Scope.session("other", user=ALICE)
    assert memory.sessions.replace([], scope=other) == []
    assert memory.sessions.get(scope=other) is None


def test_a_bad_replacement_changes_nothing(memory):
    """A message that cannot be stored, ids that are none and another kind of scope are refused before anything goes."""
    said = say(memory, "a", "b")
    for bad in ("text", [Message(role=Role.USER, text="c"), "d"], Message(role=Role.USER, text="c"), None):
        with pytest.raises(InvalidInputError):
            memory.sessions.replace(bad, scope=TALK)
    for keep in ("a", [7], None, [""]):
        with pytest.raises(InvalidInputError):
            memory.sessions.replace([], scope=TALK, keep=keep)
    with pytest.raises(ScopeError):
        memory.sessions.replace([], scope=ALICE)
    with (
        pytest.raises(InvalidInputError, match="replace: at most 1 "),
        Memory.open(":memory:", config=Config(max_batch=1)) as small,
    ):
        small.sessions.replace(said, scope=TALK)
    assert memory.sessions.read(scope=TALK) == said


def test_nothing_of_a_deleted_user_is_in_the_file(tmp_path):
    """After a delete neither note, run state, title nor the earlier versions can be found in the file."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        memory.sessions.create(scope=TALK, title="marker-title", metadata={"k": "marker-metadata"})
        for text in ("marker-old", "marker-new"):
            memory.working.update(text, scope=TALK, mode="replace")
        memory.runs.save("marker-run", "marker-state", scope=TALK, status="marker-status")
        memory.delete(scope=ALICE)
        memory.add("kept", scope=Scope.user("bob"))
    assert b"marker" not in path.read_bytes()
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM scopes").fetchone() == (1,)


def test_conversations_can_be_kept_out_of_recall():
    """By configuration no turn is searchable, by the metadata of a session those of that session are not."""
    alice = Scope.user("alice")
    said = [Message(role=Role.USER, text="my owl is called Pip")]
    for config in (Config(disk_reserve=1, index_messages=False), Config(disk_reserve=1)):
        with Memory.open(":memory:", config=config) as memory:
            quiet, open_ = (Scope.session(name, user=alice) for name in ("quiet", "open"))
            memory.sessions.create(scope=quiet, metadata={"memkit_searchable": False})
            for scope in (quiet, open_):
                memory.sessions.append(said, scope=scope)
                memory.sessions.queue.append(said, scope=scope)
                assert len(memory.sessions.read(scope=scope)) == 2
            found = memory.recall("owl", scope=alice, include_messages=True, top_k=9)
            assert {hit.record.scope for hit in found} == ({open_} if config.index_messages else set())
            assert memory.upkeep.verify().problems == ()
    with pytest.raises(ConfigError, match="index_messages"):
        Config(index_messages="no")
