"""`memory.working`: one note per session or user, kept by a model."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool
from llama_index.core.tools import FunctionTool
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, computed_field, field_validator
from pydantic.alias_generators import to_camel

from memkit_core import Config, InvalidInputError, Memory, Scope
from memkit_core.conversation.merging import merged_objects
from memkit_core.errors import ConflictError, RecordNotFoundError, ScopeError

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)
OTHER = Scope.session("s2", user=ALICE)
TEMPLATE = "# Person\n- name:\n- goals:"


class Person(BaseModel):
    """What a note says of a person."""

    model_config = ConfigDict(extra="forbid")
    name: str
    born: date | None = None
    likes: list[str] = []
    home: dict[str, str] = {}


class OldPerson(BaseModel):
    """The schema of a version before."""

    first_name: str


@pytest.fixture(params=["in memory", "in a file"])
def memory(request, tmp_path):
    path = ":memory:" if request.param == "in memory" else tmp_path / "m.db"
    with Memory.open(path) as memory:
        yield memory


# ------------------------------------------------------------------------------- merging

SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, -1.5, "", "1", "é"])
OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), SCALARS | st.lists(SCALARS, max_size=3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | SCALARS, max_size=3),
    max_leaves=6,
)


def merged(old, new):
    """What is merged, None where a value would be lost."""
    try:
        return merged_objects(old, new)
    except InvalidInputError:
        return None


def holds(both, part):
    """Whether every key of `part` is in `both`, and every item of its lists."""
    if isinstance(part, dict):
        return all(key in both and holds(both[key], value) for key, value in part.items())
    if isinstance(part, list):
        return all(repr(item) in map(repr, both) for item in part)
    return True


@given(old=OBJECTS, new=OBJECTS)
def test_merging_loses_nothing_and_is_done_once(old, new):
    """Every key and list item of both is there, the same again changes nothing, neither is touched."""
    before = json.dumps([old, new])
    both = merged(old, new)
    assert json.dumps([old, new]) == before
    if both is None:
        return
    assert holds(both, old)
    assert holds(both, new)
    # As text: in Python 1, 1.0 and True are equal.
    assert json.dumps(merged_objects(both, new)) == json.dumps(both)
    assert json.dumps(merged_objects(both, both)) == json.dumps(both)


@given(old=OBJECTS)
def test_merging_with_nothing_changes_nothing(old):
    """Nothing added is nothing changed."""
    assert json.dumps(merged_objects(old, {})) == json.dumps(old)


def test_what_merging_means():
    """Objects go key by key, lists are united in order, others are replaced, None says nothing."""
    old = {"a": {"x": 1, "y": [1, {"k": 1}]}, "b": "old", "c": "kept"}
    new = {"a": {"y": [{"k": 1}, True, 2, 2]}, "b": "new", "c": None, "d": None}
    assert merged_objects(old, new) == {
        "a": {"x": 1, "y": [1, {"k": 1}, True, 2]},
        "b": "new",
        "c": "kept",
        "d": None,
    }


@pytest.mark.parametrize("new", [5, "x", [1]])
def test_an_object_is_not_lost_by_appending(new):
    """A value of another kind does not replace an object or a list."""
    with pytest.raises(InvalidInputError, match=r"content\.a\.b is an object"):
        merged_objects({"a": {"b": {"c": 1}}}, {"a": {"b": new}})


# ------------------------------------------------------------------------------- the note


def test_a_json_note(memory):
    """Appending merges, replacing drops the rest; dicts, models and JSON text are taken."""
    working = memory.working.using(schema=Person)
    assert working.get(scope=TALK).version == 0
    assert working.get(scope=TALK).content is None
    working.update({"name": "Bo", "likes": ["tea"], "home": {"town": "Lund"}}, scope=TALK)
    working.update('{"name": "Bo", "likes": ["tea", "rye"], "home": {"zip": "1"}}', scope=TALK)
    note = working.update(Person(name="Bo", born=date(1990, 1, 2)), scope=TALK)
    assert note.content == {
        "name": "Bo",
        "likes": ["tea", "rye"],
        "home": {"town": "Lund", "zip": "1"},
        "born": "1990-01-02",
    }
    assert (note.version, note.format, note.fits) == (3, "json", True)
    assert working.get(scope=TALK) == note
    assert working.update({"name": "Al"}, scope=TALK, mode="replace").content == {"name": "Al"}


def test_a_text_note_and_a_markdown_note(memory):
    """Text is put on a line behind what is there; with a template the note is Markdown."""
    memory.working.update("Likes tea.", scope=TALK)
    assert memory.working.update("Has a dog.\n", scope=TALK).content == "Likes tea.\nHas a dog.\n"
    note = memory.working.using(template=TEMPLATE).update("- goals: sail", scope=TALK)
    assert note.content == "Likes tea.\nHas a dog.\n- goals: sail"
    assert note.format == "markdown"
    assert memory.working.update("Anew", scope=TALK, mode="replace").text == "Anew"


def test_one_note_per_session_or_per_user(memory):
    """Each session has a note of its own; per user all sessions share the user's."""
    memory.working.update("of the first", scope=TALK)
    assert memory.working.get(scope=OTHER).content is None
    shared = memory.working.using(per="user")
    shared.update("of alice", scope=TALK)
    assert shared.get(scope=OTHER) == shared.get(scope=ALICE) == memory.working.get(scope=ALICE)
    assert shared.get(scope=OTHER).content == "of alice"
    assert memory.working.get(scope=TALK).content == "of the first"
    assert shared.get(scope=Scope.session("s1", user="bob")).content is None


@pytest.mark.parametrize(
    "content",
    [
        {"likes": ["tea"]},
        {"name": 5},
        {"name": "Bo", "born": "never"},
        {"name": "Bo", "shoe": 1},
        "no JSON",
        '{"name": "Bo"',
        "[1]",
        '{"name": NaN}',
        "[" * 100_000,
        {"name": float("nan")},
        {"name": {1, 2}},
        {1: 2},
        None,
        7,
        Person,
    ],
    ids=range(15),
)
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_what_does_not_fit_is_refused(memory, content, mode):
    """Content that is not JSON or does not fit the schema is refused, and nothing is changed."""
    working = memory.working.using(schema=Person)
    with pytest.raises(InvalidInputError):
        working.update(content, scope=TALK, mode=mode)
    assert working.get(scope=TALK).version == 0
    kept = working.update({"name": "Bo"}, scope=TALK)
    if not (mode == "append" and content == {"likes": ["tea"]}):  # which fits what is there
        with pytest.raises(InvalidInputError):
            working.update(content, scope=TALK, mode=mode)
        assert working.get(scope=TALK) == kept


class Pet(BaseModel):
    """Nested, with names and aliases."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")
    pet_name: str
    is_wild: bool = False


class Owner(BaseModel):
    """A schema whose JSON has other names than its fields."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")
    full_name: str
    all_pets: list[Pet] = []
    best_pet: Pet | None = None
    pets_by_room: dict[str, Pet] = {}

    @computed_field
    @property
    def how_many(self) -> int:
        return len(self.all_pets)


class Choosy(BaseModel):
    """A schema that reads other names than it writes."""

    name: str = Field(validation_alias=AliasChoices("name", "called"), serialization_alias="title")


class Grumpy(BaseModel):
    """A schema whose validator raises what pydantic does not catch."""

    name: str

    @field_validator("name")
    @classmethod
    def _refuse(cls, name):
        if name == "Bo":
            raise KeyError(name)
        return name


def test_a_schema_with_aliases(memory):
    """A value has one name, its alias, however it is given: what is appended by name changes what is stored."""
    working = memory.working.using(schema=Owner)
    working.update(Owner(full_name="Al", best_pet=Pet(pet_name="Tom")), scope=TALK)
    assert working.get(scope=TALK).content == {"fullName": "Al", "bestPet": {"petName": "Tom"}}
    working.update(
        {"full_name": "Bo", "best_pet": {"is_wild": True}, "allPets": [{"pet_name": "Pip"}]}, scope=TALK
    )
    working.update('{"fullName": "Cy", "pets_by_room": {"pet_name": {"petName": "Rex"}}}', scope=TALK)
    note = working.get(scope=TALK)
    assert note.content == {
        "fullName": "Cy",
        "bestPet": {"petName": "Tom", "isWild": True},
        "allPets": [{"petName": "Pip"}],
        "petsByRoom": {"pet_name": {"petName": "Rex"}},
    }
    assert note.fits
    kept = Owner.model_validate(note.content)
    assert working.update(kept, scope=TALK, mode="replace").content == note.content
    with pytest.raises(InvalidInputError, match="two names"):
        working.update({"full_name": "Di", "fullName": "Ed"}, scope=TALK)
    assert working.get(scope=TALK) == note


def test_a_schema_that_writes_other_names_than_it_reads(memory):
    """An instance is stored by the names that the schema reads."""
    working = memory.working.using(schema=Choosy)
    note = working.update(Choosy.model_validate({"called": "Al"}), scope=TALK)
    assert Choosy.model_validate(note.content).name == "Al"
    assert note.fits


def test_a_validator_that_raises_anything(memory):
    """Whatever a validator raises, the note is refused with what it said, and one that is stored can be read."""
    memory.working.using(schema=OldPerson).update({"first_name": "Al"}, scope=OTHER)
    working = memory.working.using(schema=Grumpy)
    for mode in ("append", "replace"):
        with pytest.raises(InvalidInputError, match="KeyError"):
            working.update({"name": "Bo"}, scope=TALK, mode=mode)
    assert working.get(scope=TALK).version == 0
    working.update({"name": "Al"}, scope=TALK)
    with pytest.raises(InvalidInputError, match="KeyError"):
        working.update({"name": "Bo"}, scope=TALK)
    free = memory.working.using(schema=OldPerson)
    free.update({"first_name": "Al", "name": "Bo"}, scope=OTHER)
    assert not working.get(scope=OTHER).fits
    told = working.tools(scope=TALK)[1]({"name": "Bo"})
    assert told.startswith("Not saved: ")
    assert "KeyError" in told


def test_deep_nesting_is_refused(memory):
    """Nesting without end is a typed error in every form it can come in, and changes nothing."""
    deep = {"home": {}}
    inner = deep["home"]
    for _ in range(5000):
        inner["a"] = {}
        inner = inner["a"]
    circle = Pet(pet_name="x")
    object.__setattr__(circle, "pet_name", circle)
    object.__setattr__(circle, "__pydantic_fields_set__", {"pet_name"})
    for schema, content in (
        (Person, deep), (Person, '{"name": ' * 5000 + "1" + "}" * 5000), (Pet, circle),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError):
            memory.working.using(schema=schema).update(content, scope=TALK)
    assert memory.working.get(scope=TALK).version == 0


@pytest.mark.parametrize("content", [None, 7, b"x", "", "  \n", {"a": 1}, ["x"]])
def test_a_text_note_takes_text(memory, content):
    """Anything but a text that says something is refused."""
    with pytest.raises(InvalidInputError):
        memory.working.update(content, scope=TALK)
    assert memory.working.get(scope=TALK).version == 0


@pytest.mark.parametrize(
    "shape",
    [
        {"schema": dict},
        {"schema": Person(name="Bo")},
        {"schema": {"type": "object"}},
        {"schema": "Person"},
        {"schema": Person, "template": TEMPLATE},
        {"template": ""},
        {"template": 5},
        {"per": "org"},
        {"per": None},
    ],
    ids=str,
)
def test_a_shape_that_cannot_be(memory, shape):
    """A schema that is no pydantic model, a template that is no text: refused before anything is read."""
    with pytest.raises(InvalidInputError):
        memory.working.using(**shape)


@pytest.mark.parametrize("scope", [None, "alice", Scope.org("o"), Scope.workspace("w")])
def test_a_note_needs_its_owner(memory, scope):
    """No verb works without a session or a user."""
    working = memory.working
    for call in (
        working.get,
        working.clear,
        working.history,
        working.undo,
        working.instructions,
        working.tools,
        lambda scope: working.update("x", scope=scope),
    ):
        with pytest.raises(ScopeError):
            call(scope=scope)


@pytest.mark.parametrize(
    "bad", [{"mode": "merge"}, {"mode": None}, {"expected_version": -1}, {"expected_version": True}]
)
def test_a_bad_argument_is_refused(memory, bad):
    """Modes and versions that do not exist are refused."""
    with pytest.raises(InvalidInputError):
        memory.working.update("x", scope=TALK, **bad)


def test_a_note_has_a_limit():
    """A note that would be longer than `max_note_chars` is refused, also when appending makes it so."""
    with Memory.open(":memory:", config=Config(max_note_chars=10)) as memory:
        memory.working.update("12345", scope=TALK)
        with pytest.raises(InvalidInputError, match="max_note_chars"):
            memory.working.update("67890", scope=TALK)
        assert memory.working.update("67890 1234", scope=TALK, mode="replace").version == 2
        with pytest.raises(InvalidInputError, match="max_note_chars"):
            memory.working.using(schema=Person).update({"name": "Bo"}, scope=ALICE)


def test_a_note_that_no_longer_fits(memory):
    """A note of another schema is readable and flagged; it can be replaced, and appended to once that fits."""
    memory.working.using(schema=OldPerson).update({"first_name": "Bo"}, scope=TALK)
    working = memory.working.using(schema=Person)
    note = working.get(scope=TALK)
    assert (note.content, note.fits) == ({"first_name": "Bo"}, False)
    assert "replace it" in working.instructions(scope=TALK)
    with pytest.raises(InvalidInputError, match="Person"):
        working.update({"name": "Bo"}, scope=TALK)
    assert memory.working.get(scope=TALK).fits is False
    with pytest.raises(InvalidInputError, match="another kind"):
        memory.working.update("text", scope=TALK)
    assert working.update({"name": "Bo"}, scope=TALK, mode="replace").fits
    memory.working.update("text", scope=TALK, mode="replace")
    with pytest.raises(InvalidInputError, match="another kind"):
        working.update({"name": "Bo"}, scope=TALK)


def test_nothing_new_writes_nothing(memory):
    """Saying the same again makes no version; 1 and True are not the same."""

    class Free(BaseModel):
        model_config = ConfigDict(extra="allow")

    working = memory.working.using(schema=Free)
    working.update({"a": 1, "b": [1]}, scope=TALK)
    assert working.update({"b": [1]}, scope=TALK).version == 1
    assert working.update({"a": True}, scope=TALK).version == 2
    assert working.get(scope=TALK).content["a"] is True


def test_undo_goes_back_step_by_step(memory):
    """Each undo goes one change further back, past clearing and down to the empty note; then it says so."""
    working = memory.working
    with pytest.raises(RecordNotFoundError):
        working.undo(scope=TALK)
    for text in "ABC":
        working.update(text, scope=TALK, mode="replace")
    assert working.clear(scope=TALK).content is None
    assert working.clear(scope=TALK).version == 4
    assert working.get(scope=TALK).text == ""
    assert working.undo(scope=TALK).content == "C"
    assert working.undo(scope=TALK).content == "B"
    working.update("D", scope=TALK, mode="replace")
    assert [working.undo(scope=TALK).content for _ in range(3)] == ["B", "A", None]
    with pytest.raises(RecordNotFoundError):
        working.undo(scope=TALK)
    said = [note.content for note in working.history(scope=TALK)]
    assert said == ["A", "B", "C", None, "C", "B", "D", "B", "A", None]
    assert [note.version for note in working.history(scope=TALK)] == list(range(1, 11))


def test_the_history_has_a_limit():
    """As many versions are kept as the settings say, and undo goes as far."""
    with Memory.open(":memory:", config=Config(note_versions=2)) as memory:
        for text in "ABCD":
            memory.working.update(text, scope=TALK, mode="replace")
        assert [note.content for note in memory.working.history(scope=TALK)] == ["B", "C", "D"]
        assert memory.working.undo(scope=TALK).content == "C"
        with pytest.raises(RecordNotFoundError):
            memory.working.undo(scope=TALK)


def test_an_expected_version_guards_the_note(memory):
    """With `expected_version` a note that somebody changed meanwhile is not overwritten."""
    memory.working.update("A", scope=TALK, expected_version=0)
    for wrong in (0, 2):
        with pytest.raises(ConflictError):
            memory.working.update("B", scope=TALK, mode="replace", expected_version=wrong)
    assert memory.working.update("B", scope=TALK, expected_version=1).content == "A\nB"


def test_eight_threads_append(memory):
    """Appends of eight threads at once are all in the note."""
    working = memory.working.using(schema=Person)
    working.update({"name": "Bo"}, scope=TALK)

    def append(number):
        for n in range(8):
            working.update({"likes": [f"{number}.{n}"], "home": {f"{number}.{n}": ""}}, scope=TALK)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(8)))
    note = working.get(scope=TALK)
    assert sorted(note.content["likes"]) == sorted(note.content["home"])
    assert len(note.content["likes"]) == 64
    assert note.version == 65


APPEND = """
    import sys
    from memkit_core import Memory, Scope
    with Memory.open("m.db") as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(40):
            memory.working.update(f"{sys.argv[1]}.{n}", scope=Scope.session("s1", user="alice"))
"""


def test_two_processes_append(tmp_path, start_script):
    """Appends of two processes at once are all in the note, which is there after reopening."""
    Memory.open(tmp_path / "m.db").close()
    others = [start_script(APPEND, name) for name in "pq"]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        other.stdout.read()
        assert other.wait(60) == 0
    with Memory.open(tmp_path / "m.db") as memory:
        lines = memory.working.get(scope=TALK).text.splitlines()
        assert sorted(lines) == sorted(f"{name}.{n}" for name in "pq" for n in range(40))
        for name in "pq":
            assert [one for one in lines if one[0] == name] == [f"{name}.{n}" for n in range(40)]
        assert len(memory.working.history(scope=TALK)) == 80
        assert memory.upkeep.verify().problems == ()


# ------------------------------------------------------------------------------- the prompt


def test_the_instructions(memory):
    """They name append as the default, call replace dangerous, and ask to begin an empty note."""
    for working in (
        memory.working,
        memory.working.using(template=TEMPLATE),
        memory.working.using(schema=Person),
    ):
        text = working.instructions(scope=TALK)
        assert 'default is mode "append"' in text
        assert 'Mode "replace" is dangerous' in text
        assert "`update_working_memory`" in text
        assert "The note is empty. Begin it" in text
    assert TEMPLATE in memory.working.using(template=TEMPLATE).instructions(scope=TALK)
    assert '"born"' in memory.working.using(schema=Person).instructions(scope=TALK)
    memory.working.update("Likes tea.", scope=TALK)
    text = memory.working.instructions(scope=TALK)
    assert "\n```text\nLikes tea.\n```" in text
    assert "empty" not in text


def test_no_note_breaks_out_of_its_fence():
    """Whatever the note says stands whole between a fence and the next line that closes it."""
    with Memory.open(":memory:") as memory:

        @given(note=st.text("`~\n a", min_size=1, max_size=30).filter(str.strip))
        def each(note):
            memory.working.update(note, scope=TALK, mode="replace")
            text = memory.working.instructions(scope=TALK)
            fence = text.rsplit("\n", 1)[1]
            assert set(fence) == {"`"}
            assert len(fence) >= 3
            assert text.endswith(f"\n{fence}text\n{note}\n{fence}")
            # A run of as many marks or more would close it.
            assert fence not in note

        each()


def test_a_long_note_is_shown_whole(memory):
    """The note is never trimmed."""
    note = "".join(f"line {n}\n" for n in range(1500))
    memory.working.update(note, scope=TALK)
    assert note in memory.working.instructions(scope=TALK)


def test_the_tools(memory):
    """Three functions by name that get, update and clear, and tell the model what was refused."""
    get, update, clear = memory.working.using(schema=Person).tools(scope=TALK)
    names = ["get_working_memory", "update_working_memory", "clear_working_memory"]
    assert [tool.__name__ for tool in (get, update, clear)] == names
    assert all(tool.__doc__ for tool in (get, update, clear))
    assert get() == "The note is empty."
    assert update({"likes": ["tea"]}).startswith("Not saved: the note would not fit Person: name")
    assert '"Bo"' in update({"name": "Bo"})
    assert '"Bo"' in get()
    assert memory.working.using(schema=Person).get(scope=TALK).content == {"name": "Bo"}
    clear()
    assert get() == "The note is empty."
    assert memory.working.get(scope=OTHER).version == 0


@pytest.mark.parametrize(("shape", "kind"), [({}, "string"), ({"schema": Person}, "object")])
def test_frameworks_make_tools_of_them(memory, shape, kind):
    """LangChain and LlamaIndex read name, description and parameters off the functions."""
    for function in memory.working.using(**shape).tools(scope=TALK):
        lc, li = StructuredTool.from_function(function), FunctionTool.from_defaults(function)
        assert lc.name == li.metadata.name == function.__name__
        assert lc.description
        parameters = li.metadata.get_parameters_dict()["properties"]
        assert lc.args == parameters
        if "update" in lc.name:
            assert parameters["content"]["type"] == kind
            assert parameters["mode"]["enum"] == ["append", "replace"]


@pytest.mark.parametrize(
    "text", ['{"name": "Bo"}', '```json\n{"name": "Bo"}\n```', ' ```\n{"name": "Bo"}\n``` ']
)
def test_an_object_that_is_written_as_text(memory, text):
    """What a model writes as JSON text, in a fence or not, is taken for the object; other text is told to it."""
    working = memory.working.using(schema=Person)
    update = working.tools(scope=TALK)[1]
    for tool in (
        StructuredTool.from_function(update).invoke,
        lambda given: str(FunctionTool.from_defaults(update).call(**given)),
    ):
        assert tool({"content": "her name is Bo"}).startswith(
            "Not saved: a note with a schema takes a JSON object"
        )
        assert '"Bo"' in tool({"content": text})
        assert working.get(scope=TALK).content == {"name": "Bo"}
        working.clear(scope=TALK)


def test_the_same_lines_again(memory):
    """Appending lines that stand in a note already changes nothing; part of a line is another line."""
    memory.working.update("likes tea and cake\n- oslo\n- bergen\n", scope=TALK)
    for again in ("likes tea and cake", "- oslo\n- bergen", "\n- bergen\n", "likes tea and cake\n"):
        assert memory.working.update(again, scope=TALK).version == 1
    memory.working.update("likes tea", scope=TALK)
    memory.working.update("- bergen\n- oslo", scope=TALK)
    assert (
        memory.working.get(scope=TALK).content
        == "likes tea and cake\n- oslo\n- bergen\nlikes tea\n- bergen\n- oslo"
    )


def test_a_session_takes_its_note_along(memory):
    """Clearing a session or deleting a user deletes the notes with their history, and says so."""
    memory.working.update("secret", scope=TALK)
    memory.working.update("more", scope=TALK)
    memory.working.update("of alice", scope=ALICE)
    assert memory.upkeep.verify().problems == ()
    receipt = memory.sessions.clear(scope=TALK)
    assert (receipt.notes, receipt.nothing) == (1, False)
    assert memory.working.history(scope=TALK) == []
    memory.working.update("again", scope=OTHER)
    assert memory.delete(scope=ALICE).notes == 2
    assert memory.working.get(scope=ALICE).version == memory.working.get(scope=OTHER).version == 0
