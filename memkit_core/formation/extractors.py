"""Two extractors: rules for what is said outright, and a chat model that fills a schema."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memkit_core.chat_models import resolve_chat_model
from memkit_core.errors import InvalidInputError, ModelError, shown
from memkit_core.formation.answers import json_object
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import Message, RecordType, Role
from memkit_core.ports import Extracted, Extractor
from memkit_core.prompts import extraction_prompt

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_log = logging.getLogger("memkit")

KINDS: Mapping[str, tuple[RecordType, str]] = {
    "facts": (RecordType.FACT, "fact"),
    "preferences": (RecordType.PREFERENCE, "preference"),
    "tasks": (RecordType.FACT, "task"),
    "patterns": (RecordType.PREFERENCE, "pattern"),
    "episodes": (RecordType.EVENT, "episode"),
    "skills": (RecordType.SKILL, "skill"),
}
"""Of which type the memories of a field of the schema are, and the tag they carry."""
_CONTENT = ("content", "text")
MOST_ITEMS = 500
"""The most items of one answer; what comes behind them is left out and told."""
_SALVAGES = 3


class ChatExtractor:
    """`Extractor` by a chat model: one call with `prompts.extraction_prompt`, checked against a schema.

    The schema is a pydantic model. Each of its fields that is a list gives a memory an item, each other
    model and text in it one; a model of plain values alone is one memory as a whole. `content` or `text` is the
    content, else "name: value" of all fields; `key`, `confidence`, `sources` and `type` mean what
    they do in `Extracted`; all else becomes metadata. `KINDS` gives the type by the field's name.
    """

    def __init__(
        self, model: object, *, schema: type[BaseModel] | None = None, instructions: str = ""
    ) -> None:
        """Ask `model`: a LangChain chat model, a LlamaIndex LLM, or a function from prompt to answer.

        Args:
            model: see `resolve_chat_model`.
            schema: what to fill; `schemas.Formed` when None.
            instructions: what else the model should know, such as what matters to your application.

        Raises:
            InvalidInputError: `model` or `schema` is none of these.
        """
        from pydantic import BaseModel

        from memkit_core.formation.schemas import Formed

        self._model = resolve_chat_model(model)
        self._schema = Formed if schema is None else schema
        if not (isinstance(self._schema, type) and issubclass(self._schema, BaseModel)):
            raise InvalidInputError(f"schema must be a pydantic model, got {shown(schema)}")
        if not isinstance(instructions, str):
            raise InvalidInputError(f"instructions must be a text, got {shown(instructions)}")
        self._instructions = instructions
        self._form = json.dumps(self._schema.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
        self.name = f"chat model {getattr(self._model, 'name', '')}".strip()

    def prompt(self, messages: Sequence[Message]) -> str:
        """What the model is asked; for budgets."""
        return extraction_prompt(messages, self._form, self._instructions)

    def __call__(self, messages: Sequence[Message]) -> list[Extracted]:
        """See `Extractor`.

        Raises:
            ModelError: the model failed, or its answer is not one JSON object, or holds nothing of the schema.
        """
        answer = json_object(self._model(self.prompt(messages)), model=self.name)
        said = shown(answer)
        filled, whole = self._filled(dict(answer))
        found = list(_items(filled))
        # Of an empty answer nothing is lost; of one in another form, or all wrong, what it says would be.
        if not found and answer and not (whole and filled.model_fields_set):
            raise ModelError(f"the answer does not fill the schema: {said}", model=self.name)
        return found

    def _filled(self, answer: dict[str, object]) -> tuple[BaseModel, bool]:
        """The schema with what is right of an answer, and whether that is all; what is wrong is left out."""
        from pydantic import ValidationError

        for tries in range(_SALVAGES):
            try:
                return self._schema.model_validate(answer), not tries
            except ValidationError as error:
                _log.warning(
                    "an answer was not all in the schema; %d parts are left out", error.error_count()
                )
                if not _leave_out(answer, error):
                    break
        raise ModelError(f"the answer does not fill the schema: {shown(answer)}", model=self.name)


def _leave_out(answer: dict[str, object], error: ValidationError) -> bool:
    """Take what is wrong out of an answer: the item of a list, or else the field; whether anything was."""
    wrong: dict[str, set[int] | None] = {}
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        field, *inner = one["loc"] or ("",)
        name = str(field)
        items = wrong.setdefault(name, set())
        if inner and isinstance(inner[0], int) and items is not None:
            items.add(inner[0])
        else:
            wrong[name] = None
    changed = False
    for name, places in wrong.items():
        value = answer.get(name)
        if places is None or not isinstance(value, list):
            changed |= answer.pop(name, None) is not None
        else:
            answer[name] = [item for place, item in enumerate(value) if place not in places]
            changed = True
    return changed


def _items(filled: BaseModel) -> Iterator[Extracted]:
    from pydantic import BaseModel

    values = {name: getattr(filled, name) for name in type(filled).model_fields}
    if not any(isinstance(value, list | tuple | BaseModel) for value in values.values()):
        if (whole := _extracted(filled, "")) is not None:
            yield whole
        return
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            # A number beside lists counts something; it is no memory by itself.
            found = None if item is None or isinstance(item, int | float) else _extracted(item, name)
            if found is not None:
                yield found


def _extracted(item: object, name: str) -> Extracted | None:
    kind, tag = KINDS.get(name, (RecordType.FACT, name))
    tags = (tag,) if tag else ()
    fields = _plain(item)
    if not isinstance(fields, dict):
        text = "" if fields is None else str(fields)
        return Extracted(content=text, type=kind, tags=tags) if text.strip() else None
    given = {key: fields.pop(key, None) for key in ("key", "confidence", "sources", "type")}
    content = next((fields.pop(word) for word in _CONTENT if isinstance(fields.get(word), str)), None)
    if content is None:
        content = "; ".join(f"{key}: {_said(value)}" for key, value in fields.items() if value is not None)
    if not str(content).strip():
        return None
    sources = given["sources"] if isinstance(given["sources"], list) else []
    key, sure, named = given["key"], given["confidence"], given["type"]
    return Extracted(
        content=str(content),
        type=RecordType(named) if isinstance(named, str) and named in list(RecordType) else kind,
        key=key if isinstance(key, str) and key.strip() else None,
        confidence=float(sure) if type(sure) in (int, float) and 0 <= sure <= 1 else None,
        sources=tuple(number for number in sources if type(number) is int),
        tags=tags,
        metadata={word: value for word, value in fields.items() if value is not None},
    )


def _plain(item: object) -> Any:
    from pydantic import BaseModel
    from pydantic_core import to_jsonable_python

    return item.model_dump(mode="json") if isinstance(item, BaseModel) else to_jsonable_python(item)


def _said(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------------------ by rules

_LEAD = r"(?:(?:oh|well|hi|hello|hey|and|so|ok(?:ay)?|actually|by the way|btw)[,!.]?\s+){0,3}"
_NOTHING_LASTING = (
    r"(?!\s+(?:to\s+(?:know|see|ask|say)|your|you\b|this|that|it\b|how|what|the\s+way|when|if\b))"
)
_ENGLISH: tuple[tuple[str, RecordType, str | None, str], ...] = (
    (r"my\s+name\s+is\s+[^\W\d_]", RecordType.PROFILE, "name", "fact"),
    (
        r"(?:please\s+)?(?:remember|note|don['\u2019]t\s+forget)\s+that\s+(?P<said>\S.*)",
        RecordType.FACT,
        None,
        "fact",
    ),
    (r"i\s+(?:now\s+)?live\s+in\s+(?-i:[A-Z])", RecordType.FACT, "home", "fact"),
    (r"i(?:['\u2019]m|\s+am)\s+(?:not\s+)?allergic\s+to\s+\S", RecordType.FACT, None, "fact"),
    (
        r"i\s+(?:really\s+|also\s+|still\s+)?(?:like|love|enjoy|prefer|hate|dislike|(?:do\s+not|don['\u2019]t)\s+like)"
        + _NOTHING_LASTING
        + r"\s+\S",
        RecordType.PREFERENCE,
        None,
        "preference",
    ),
    (r"my\s+favou?rite\s+[\w ]{1,40}\s+(?:is|are)\s+\S", RecordType.PREFERENCE, None, "preference"),
)
_CHINESE: tuple[tuple[str, RecordType, str | None, str], ...] = (
    (r"(?:我叫|我的名字(?:是|叫))[^\W\d_]", RecordType.PROFILE, "name", "fact"),
    (r"(?:请|你要)?记住[，,：:\s]*(?P<said>\S.*)", RecordType.FACT, None, "fact"),  # noqa: RUF001 - Chinese marks
    (r"我(?:现在)?住在[^\W\d_一二三四五六七八九十楼层号这那里哪]{2,8}$", RecordType.FACT, "home", "fact"),
    (r"我对.{1,30}(?:不)?过敏", RecordType.FACT, None, "fact"),
    (
        r"我(?:很|最|更|也|还|非常|不|不太)?(?:喜欢|爱|讨厌)(?!你|这|那|知道|的)\S",
        RecordType.PREFERENCE,
        None,
        "preference",
    ),
)
_RULES = tuple(
    (re.compile(lead + form, re.IGNORECASE), kind, key, tag)
    for lead, forms in ((_LEAD, _ENGLISH), ("", _CHINESE))
    for form, kind, key, tag in forms
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")  # noqa: RUF001 - the marks that end a Chinese sentence
_ASKED = re.compile(r"[?？吗呢]\s*[?？]?\s*$")  # noqa: RUF001 - as above
_LONGEST = 300
_RULE_CONFIDENCE = 0.8


class RuleExtractor:
    """`Extractor` that needs no model: only what a user says of themselves outright, in English or Chinese.

    A sentence that begins with "my name is", "I live in" a place, "I like" or "I hate", "I am allergic to",
    "my favourite … is", "remember that", 我叫, 我住在, 我喜欢, 我对…过敏 or 记住. Kept as it was said; names and
    homes have the keys `name` and `home`, so that a new one takes the place of the old. Questions, quotes,
    conditions and what the assistant says give nothing: it rather misses than invents.
    """

    name = "rules"

    def __call__(self, messages: Sequence[Message]) -> list[Extracted]:
        """See `Extractor`."""
        return [
            found
            for number, message in enumerate(messages, 1)
            if message.role is Role.USER
            for sentence in _SENTENCES.split(message.text)
            if (found := _by_rule(sentence.strip(), number)) is not None
        ]


def _by_rule(sentence: str, number: int) -> Extracted | None:
    if not sentence or len(sentence) > _LONGEST or _ASKED.search(sentence):
        return None
    bare = sentence.rstrip(".!。！；; ")  # noqa: RUF001 - Chinese marks
    for form, kind, key, tag in _RULES:
        if found := form.match(bare):
            said = found.groupdict().get("said") or bare
            return Extracted(
                content=said, type=kind, key=key, confidence=_RULE_CONFIDENCE, sources=(number,), tags=(tag,)
            )
    return None


def checked_extractor(given: object) -> Extractor:
    """`given` when it can extract, `RuleExtractor` for None."""
    if given is None:
        return RuleExtractor()
    if isinstance(given, type) or not callable(given) or hasattr(given, "invoke"):
        raise InvalidInputError(
            f"extractor takes a function of messages, got {shown(given)}; give a chat model as ChatExtractor(model)"
        )
    return given
