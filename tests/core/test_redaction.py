"""Redaction: nothing that `Config.redact` takes out is in any file, index, embedding call or history."""

import inspect
import io
import json

import numpy as np
import pytest

from memkit_core import (
    Config,
    ConfigError,
    Memory,
    Message,
    NewDocument,
    NewItem,
    NewMemory,
    Role,
    Scope,
    SecretRedactor,
    ToolCall,
)
from memkit_core.ports import MessageLog, RecallTable, RecordTable, ValueTable
from memkit_core.stores import redacting
from memkit_core.text.redaction import is_card_number

ALICE = Scope.user("alice")
TALK = Scope.session("s", user="alice")
SECRET = "sk-proj-Ab3dEf6hIj9kLmN0pQrStUvWxYz12345"


class Watched:
    """An embedder that keeps every text it is given."""

    model = "watched"
    # As the built-in one: its texts are embedded before they are stored, unless they are redacted.
    fast = True

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return np.ones((len(texts), 4), np.float32)

    def embed_query(self, text):
        return np.ones(4, np.float32)


def careful(path, **options):
    return Memory.open(path, config=Config(redact=SecretRedactor(), disk_reserve=1), **options)


SECRETS = {
    "api_key": (
        SECRET,
        "sk-ant-api03-" + "Ab1-" * 20,
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "Sy0_-" * 7,
        "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    ),
    "token": (
        "ghp_" + "aB3d" * 9,
        "github_pat_" + "11ABCDEFG0" * 3,
        "xoxb-123456789012-abcdefGHIJKL",
        "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
        "hf_" + "AbCdEfGhIj" * 4,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
        "123456789:" + "AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr",
    ),
    "card_number": ("4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005"),
    "private_key": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKCAQ==\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\\nMIIEow\\n-----END PRIVATE KEY-----",
    ),
}


@pytest.mark.parametrize(("kind", "secret"), [(kind, one) for kind, all_ in SECRETS.items() for one in all_])
def test_the_default_takes_secrets_out_and_says_of_which_kind(kind, secret):
    """Keys, tokens, private keys and card numbers are found inside a sentence, English or Chinese."""
    for text in (f"Use {secret}, please.", f"请用{secret}。", f'{{"key": "{secret}"}}'):
        clean, found = SecretRedactor().redact(text)
        assert clean == text.replace(secret, f"[{kind}]")
        assert found == {kind: 1}
        assert SecretRedactor()(clean) == clean


@pytest.mark.parametrize(
    "text",
    ["my password is hunter2!x", "API key: 0123456789abcdef", "密码是 abc12345", "password=hunter2!x"],
)
def test_what_is_named_a_password_is_one(text):
    """What follows the word for a password or key is taken out, the word stays."""
    clean, found = SecretRedactor().redact(text)
    assert found == {"password": 1}
    assert clean.endswith("[password]")
    assert not any(value in clean for value in ("hunter2", "0123456789", "abc12345"))
    assert SecretRedactor()(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "My order number is 4111 1111 1111 1112.",
        "Call +49 170 1234567 or 555-0199, on 2026-11-30 at 12:30.",
        "The commit is 3f2a9c1e5b7d4a60918273645546372819a0b1c2.",
        "3.14159265358979323846 is not a card.",
        "My id is 123e4567-e89b-12d3-a456-426614174000.",
        "She asked for a risk-assessment-of-everything-we-do-here.",
        "他的电话是13800138000。",
    ],
)
def test_what_is_no_secret_stays(text):
    """Phone numbers, dates, hashes, UUIDs and long words stay as they are."""
    assert SecretRedactor().redact(text) == (text, {})


def test_a_card_number_needs_its_check_digit():
    """Of all last digits exactly one makes a card number."""
    assert [is_card_number(f"411111111111111{digit}") for digit in range(10)].count(True) == 1
    assert not is_card_number("0" * 12)


def test_nothing_taken_out_reaches_a_file_or_an_embedder(tmp_path):
    """Records, documents, messages, notes, runs, titles, updates: the secret stands in no file."""
    watched = Watched()
    with careful(tmp_path / "m.db", embedder=watched) as memory:
        said = f"my key is {SECRET} ok"
        record = memory.add(said, scope=ALICE, tags=[SECRET], metadata={"a": [{"b": said}]})
        assert record.content == "my key is [api_key] ok"
        assert record.metadata == {"a": [{"b": "my key is [api_key] ok"}]}
        memory.add_many([NewMemory(content=said, id="x")], scope=ALICE, background=True)
        memory.update("x", scope=ALICE, content=f"new {said}", metadata={"k": said})
        memory.supersede("x", f"newer {said}", scope=ALICE)
        memory.documents(scope=ALICE).put([NewDocument(content=said, metadata={"k": said})])
        item = NewItem(
            namespace=("n", "4111 1111 1111 1111"), key="k", value={"k": [said]}, texts=[said, f"2 {said}"]
        )
        memory.items(scope=ALICE).put([item])
        # What names it is identity, and stays.
        assert memory.items(scope=ALICE).get(item.namespace, "k").value == {"k": ["my key is [api_key] ok"]}
        call = ToolCall(id="c", name="login", arguments=f'{{"key": "{SECRET}"}}')
        memory.sessions.append(
            [
                Message(role=Role.USER, text=said, payload={"content": said}, metadata={"k": said}),
                Message(role=Role.ASSISTANT, text=said, tool_calls=(call,)),
            ],
            scope=TALK,
        )
        memory.sessions.queue.append([Message(role=Role.USER, text=said)], scope=TALK)
        memory.sessions.update(scope=TALK, title=SECRET, metadata={"k": said})
        memory.summaries.update(scope=TALK, threshold=1, keep=1)
        memory.working.update(said, scope=ALICE)
        memory.runs.save("r", {"k": said}, scope=ALICE, status="open")
        memory.promote(memory.add(said, scope=TALK).id, scope=TALK, to=ALICE)
        assert memory.flush()
        assert [m.text for m in memory.sessions.read(scope=TALK)] == ["my key is [api_key] ok"] * 3
        assert memory.redacted["api_key"] > 10
    assert watched.texts
    assert not [text for text in watched.texts if SECRET in text]
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file


def test_an_import_is_redacted_with_its_history_and_vectors(tmp_path):
    """Rows from a store that kept all lose their secrets, earlier wordings too, and are embedded anew."""
    exported = io.StringIO()
    with Memory.open(tmp_path / "old.db", config=Config(disk_reserve=1)) as old:
        old.add(f"key {SECRET}", scope=ALICE, id="x")
        old.update("x", scope=ALICE, content=f"now {SECRET}")
        old.sessions.append([Message(role=Role.USER, text=SECRET)], scope=TALK)
        old.working.update(SECRET, scope=ALICE)
        assert old.flush()
        old.export_jsonl(exported, everything=True)
    with careful(tmp_path / "new.db") as memory:
        memory.import_jsonl(io.StringIO(exported.getvalue()))
        assert memory.get("x", scope=ALICE).content == "now [api_key]"
        assert memory.history("x", scope=ALICE)[1].before["content"] == "key [api_key]"
        assert memory.flush()
        seen = io.StringIO()
        memory.export_jsonl(seen, everything=True)
        assert SECRET not in seen.getvalue()
        # The vector that came along was that of the secret.
        memory.add("now [api_key]", scope=TALK, id="y")
        seen = io.StringIO()
        memory.export_jsonl(seen, everything=True)
        lines = [json.loads(line) for line in seen.getvalue().splitlines()]
        vectors = {line["id"]: line["vector"] for line in lines if line.get("space") == "memories"}
        assert vectors["x"] == vectors["y"]


def test_what_is_said_again_with_another_secret_is_one_memory():
    """Duplicates are found among what is stored."""
    with careful(":memory:") as memory:
        first = memory.add(f"my key is {SECRET}", scope=ALICE)
        second = memory.add(f"my key is {SECRET}9", scope=ALICE)
        assert (second.id, second.mentions) == (first.id, 2)


def test_a_function_of_ones_own_is_counted_by_the_texts_it_changed():
    """Any function from text to text will do; `redacted` counts and never quotes."""
    with Memory.open(":memory:", config=Config(redact=lambda text: text.replace("Bob", "[name]"))) as memory:
        assert memory.add("Bob is here", scope=ALICE).content == "[name] is here"
        memory.add("Nobody is here", scope=ALICE)
        assert memory.redacted == {"changed": 1}


def test_without_it_nothing_is_touched():
    """Redaction is off unless it is asked for."""
    with Memory.open(":memory:") as memory:
        assert memory.add(SECRET, scope=ALICE).content == SECRET
        assert memory.redacted == {}


def test_a_function_that_fails_stores_nothing_and_quotes_nothing():
    """A text that could not be looked at is not stored; the error does not tell it."""

    def broken(text):
        raise ValueError(text)

    for redact in (broken, lambda text: None):
        with Memory.open(":memory:", config=Config(redact=redact)) as memory:
            with pytest.raises(ConfigError, match=r"redact") as caught:
                memory.add(SECRET, scope=ALICE)
            assert SECRET not in str(caught.value)
            assert caught.value.__cause__ is None
            assert len(memory.list_records(scope=ALICE)) == 0


@pytest.mark.parametrize("redact", ["x", 1, SecretRedactor])
def test_what_cannot_redact_is_refused(redact):
    """`redact` is a function, not its class."""
    with pytest.raises(ConfigError, match="redact must be a function"):
        Config(redact=redact)


WITHOUT_TEXT = {
    RecordTable: {
        "get", "sweep", "history", "touch", "delete", "delete_space", "delete_scope", "delete_everything",
        "candidates", "fetch", "list", "ids", "counts", "standing", "archive_standing", "delete_standing",
    },
    MessageLog: {
        "idle", "read", "system_messages", "delete", "clear", "session", "sessions", "summary", "clear_summary",
        "counts",
    },
    ValueTable: {"get", "history", "delete", "list"},
    RecallTable: {"mark", "list", "last_change"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("port", "wrapper"),
    [
        (RecordTable, redacting._Records),
        (MessageLog, redacting._Log),
        (ValueTable, redacting._Values),
        (RecallTable, redacting._Recalls),
    ],
)
def test_every_method_that_writes_text_redacts(port, wrapper):
    """A port's method either takes no text to store, as listed here, or is redacted with the same signature."""
    methods = {name for name in vars(port) if not name.startswith("_")}
    redacted = {name for name in vars(wrapper) if not name.startswith("_")}
    assert methods - WITHOUT_TEXT[port] == redacted
    for name in redacted:
        assert inspect.signature(getattr(wrapper, name)) == inspect.signature(getattr(port, name))
