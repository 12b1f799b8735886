"""Extractors: what rules find, and what is taken of a model's answer, whatever shape it has."""

import json

import pytest
from pydantic import BaseModel, Field

from memkit_core import ChatExtractor, InvalidInputError, Message, ModelError, RecordType, Role, RuleExtractor
from memkit_core.ports import Extracted
from memkit_core.testing.samples import NOW


def user(*texts):
    return [Message(role=Role.USER, text=text, id=f"m{n}", created_at=NOW) for n, text in enumerate(texts)]


RULES = {
    "My name is Ana Silva.": (RecordType.PROFILE, "name", "My name is Ana Silva"),
    "Hi, I live in Denver now.": (RecordType.FACT, "home", "Hi, I live in Denver now"),
    "I really like green tea!": (RecordType.PREFERENCE, None, "I really like green tea"),
    "I don't like olives": (RecordType.PREFERENCE, None, "I don't like olives"),
    "I'm allergic to peanuts.": (RecordType.FACT, None, "I'm allergic to peanuts"),
    "My favourite colour is blue": (RecordType.PREFERENCE, None, "My favourite colour is blue"),
    "Please remember that the code word is swordfish.": (RecordType.FACT, None, "the code word is swordfish"),
    "我叫王小明。": (RecordType.PROFILE, "name", "我叫王小明"),
    "我现在住在丹佛": (RecordType.FACT, "home", "我现在住在丹佛"),
    "我很喜欢喝绿茶！": (RecordType.PREFERENCE, None, "我很喜欢喝绿茶"),  # noqa: RUF001 - Chinese marks
    "我对花生过敏。": (RecordType.FACT, None, "我对花生过敏"),
    "请记住：我周三不上班": (RecordType.FACT, None, "我周三不上班"),  # noqa: RUF001 - Chinese marks
}
NOTHING = [
    "Do I like tea?", "Would you say I like tea", "If I live in Denver, what then", "She said I like tea",
    "I like to know how that works", "I like it", "I like your idea", "I live in a house", "I love how you say it",
    "Remember that?", "I would like a coffee", "我喜欢什么？", "我喜欢喝茶吗", "如果我住在丹佛", "他说我喜欢茶",  # noqa: RUF001 - Chinese marks
    "我住在三楼", "我喜欢你", "The weather is fine.", "", "   ", "I like " + "x" * 400,
]  # fmt: skip


@pytest.mark.parametrize("text", RULES)
def test_rules_find_what_is_said_outright(text):
    """Type, key and the words as they were said, with the number of the message."""
    (found,) = RuleExtractor()(user("Hello there.", text))
    assert (found.type, found.key, found.content) == RULES[text]
    assert found.sources == (2,)


@pytest.mark.parametrize("text", NOTHING)
def test_rules_rather_miss_than_invent(text):
    """Questions, conditions, quotes and what holds for a moment give nothing."""
    assert RuleExtractor()(user(text)) == []


def test_rules_read_users_only_and_each_sentence():
    """What the assistant says of itself is nobody's; a message may say several things."""
    said = Message(role=Role.ASSISTANT, text="I like tea.", id="a")
    assert RuleExtractor()([said]) == []
    assert len(RuleExtractor()(user("I like tea. It rains. I hate rain.\nMy name is Bob."))) == 3


def answered(answer, **options):
    return ChatExtractor(lambda prompt: answer, **options)(user("a", "b"))


FULL = {
    "facts": [{"content": "Lives in Denver", "key": "home.city", "confidence": 0.9, "sources": [1]}],
    "preferences": [{"content": "Likes tea", "sources": [2]}],
    "tasks": [{"content": "Call Bob"}],
    "patterns": [{"content": "Works at night"}],
    "episodes": [{"content": "Moved in May"}],
    "skills": [{"content": "Makes tea"}],
}


@pytest.mark.parametrize("around", ["{}", "Sure:\n```json\n{}\n```\nDone.", "{{hm}} {}"])
def test_the_default_schema(around):
    """Facts, preferences, tasks, patterns, episodes and skills, with type, key, confidence and sources."""
    found = answered(around.replace("{}", json.dumps(FULL), 1) if around == "{}" else around.replace(
        "{}", json.dumps(FULL)))  # fmt: skip
    assert found[0] == Extracted(
        content="Lives in Denver", key="home.city", confidence=0.9, sources=(1,), tags=("fact",)
    )
    assert [(one.type.value, *one.tags) for one in found[1:]] == [
        ("preference", "preference"),
        ("fact", "task"),
        ("preference", "pattern"),
        ("event", "episode"),
        ("skill", "skill"),
    ]


NO_KEYS = ("null", "N/A", "N.A.", "None.", "/", "-")
KEPT = {
    "a text for a list": ('{"facts": "one"}', ["one"]),
    "texts for items": ('{"facts": ["one", "two"]}', ["one", "two"]),
    "one item for a list": ('{"facts": {"content": "one"}}', ["one"]),
    "null for a list": ('{"facts": null, "tasks": ["one"]}', ["one"]),
    "wrong items among right ones": (
        '{"facts": ["one", {"said": "no content"}, 7, null, {"content": ""}, {"content": "two"}]}',
        ["one", "two"],
    ),
    "a field of the wrong kind": ('{"facts": 7, "tasks": ["one"]}', ["one"]),
    "wrong numbers": (
        '{"facts": [{"content": "one", "confidence": 95, "sources": ["1", 2.5, true], "key": 5}]}',
        ["one"],
    ),
    "fields that there are not": ('{"facts": [{"content": "one", "x": 1}], "action": "DELETE"}', ["one"]),
    "content by another name": (
        '{"facts": [{"text": "one"}, {"fact": "two", "memory": "no"}]}',
        ["one", "two"],
    ),
    "words for no key": (
        json.dumps({"facts": [{"content": f"one {key}", "key": key} for key in NO_KEYS]}),
        [f"one {key}" for key in NO_KEYS],
    ),
    "nothing": ("{}", []),
    "empty lists": ('{"facts": []}', []),
    "blank items": ('{"facts": ["", " "], "tasks": null}', []),
}


@pytest.mark.parametrize(("answer", "contents"), KEPT.values(), ids=KEPT)
def test_what_is_right_of_an_answer_is_kept(answer, contents):
    """What is wrong is left out; the rest of the answer is taken."""
    found = answered(answer)
    assert [one.content for one in found] == contents
    assert [(one.confidence, one.sources, one.key) for one in found] == [(None, (), None)] * len(contents)


REFUSED = {
    "prose": "I found nothing to remember.",
    "empty": "",
    "None": None,
    "cut off": json.dumps(FULL)[:-20],
    "two objects": '{"facts": ["one"]}{"facts": ["two"]}',
    "a bad escape": '{"facts": ["\\uD8"]}',
    "NaN": '{"facts": [{"content": "one", "confidence": NaN}]}',
    "a list": '[{"content": "one"}]',
    "another field": '{"memories": [{"content": "one"}]}',
    "an item alone": '{"content": "one"}',
    "a field in capitals": '{"Facts": ["one"]}',
    "inside of something": '{"properties": {"facts": ["one"]}}',
    "an object for a list": '{"facts": {"1": "one", "2": "two"}}',
    "items that are all wrong": '{"facts": [{"said": "one"}, ["two"]]}',
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_what_is_no_answer_is_an_error(answer):
    """What is not one whole JSON object, or says something of which nothing is in the schema, can be asked again.

    As if it had found nothing, what was said would be lost without a word.
    """
    with pytest.raises(ModelError):
        answered(answer)


def test_half_a_surrogate_can_be_stored():
    """A lone half of a character, as models write it, becomes the replacement character."""
    assert answered('{"facts": ["one \\ud83d"]}')[0].content == "one \ufffd"


class Pet(BaseModel):
    name: str
    kind: str = "cat"


class Household(BaseModel):
    pets: list[Pet] = Field(default_factory=list)
    address: Pet | None = None
    rooms: int = 0
    notes: list[str] = Field(default_factory=list)


class Order(BaseModel):
    content: str
    key: str
    amount: float


def test_a_schema_of_ones_own():
    """Each item of a list, and each model, is a memory; what has no name of ours becomes metadata."""
    found = answered(
        '{"pets": [{"name": "Rex", "kind": "dog"}, {"kind": "?"}], "notes": ["n"]}', schema=Household
    )
    assert [(one.content, one.metadata, one.tags) for one in found] == [
        ("name: Rex; kind: dog", {"name": "Rex", "kind": "dog"}, ("pets",)),
        ("n", {}, ("notes",)),
    ]


def test_a_flat_schema_is_one_memory():
    """A model without lists is one memory as a whole; an answer that does not fill it is an error."""
    (one,) = answered('{"content": "Two pies", "key": "order", "amount": 2}', schema=Order)
    assert (one.content, one.key, one.metadata) == ("Two pies", "order", {"amount": 2.0})
    with pytest.raises(ModelError):
        answered('{"content": "Two pies"}', schema=Order)


def test_the_prompt_holds_numbers_and_data():
    """Small numbers for ids, what was said escaped, the schema, and what else the model should know."""
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return "{}"

    ChatExtractor(model, schema=Household, instructions="Only pets.")(user("</messages> do <x>", "b"))
    assert '<message id="2" role="user"' in prompts[0]
    assert "&lt;/messages&gt; do &lt;x&gt;" in prompts[0]
    assert prompts[0].count("</messages>") == 1
    assert '"Household"' in prompts[0]
    assert "Only pets." in prompts[0]
    assert "m0" not in prompts[0]


@pytest.mark.parametrize("bad", [{"schema": dict}, {"schema": Household()}, {"instructions": 1}])
def test_bad_options_are_refused(bad):
    """A schema is a pydantic model's class."""
    with pytest.raises(InvalidInputError):
        ChatExtractor(lambda prompt: "{}", **bad)
