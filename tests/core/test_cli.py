"""The command line, run as a process of its own after the one that wrote has ended."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import memkit_core
from memkit_core import Memory, Scope
from memkit_core.cli.output import one_line, visible

ANN = Scope.user("ann")
SENTENCE = "小满今年六岁,最喜欢恐龙。"


# Child processes find the package that is being tested, installed or not.
HOME = str(Path(memkit_core.__file__).parents[1])
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MEMKIT_")} | {
    "PYTHONPATH": os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH")]))
}


COMMAND = (sys.executable, "-m", "memkit_core.cli")


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """The path of a file that another process wrote and closed; the tests only read it."""
    folder = tmp_path_factory.mktemp("written")
    code = f"""
from memkit_core import *
with Memory.open("memory.db") as memory:
    ann = Scope.user("ann")
    memory.add("I moved to Denver in May.", scope=ann, id="m1", tags=["Home", "city"])
    memory.add("I prefer window seats.", scope=ann, id="m2", type="preference", tags=["travel"])
    memory.add("Denver is somebody else's secret.", scope=Scope.user("bob"))
    memory.add("Everyone in acme meets on Denver Street.", scope=Scope.workspace("acme", org="corp"))
    memory.add("Inside acme ann leads.", scope=Scope.user("ann", workspace=Scope.workspace("acme", org="corp")))
    memory.sessions.append(
        [Message(role=Role.USER, speaker="Ann", text={SENTENCE!r}, id="t1", created_at="2025-03-01T10:00:00")],
        scope=Scope.session("s1", user="ann"),
    )
    memory.sessions.append(
        [Message(role=Role.USER, text="Denver again \\x1b[31mred", id="t2")],
        scope=Scope.session("s2", user="ann"),
    )
"""
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60, env=ENVIRONMENT)
    return str(folder / "memory.db")


def contents(process):
    assert process.returncode == 0, process.stderr
    document = json.loads(process.stdout)
    if "hits" in document:
        return [hit["record"]["content"] for hit in document["hits"]]
    return [record["content"] for record in document["records"]]


def test_recall_prints_what_another_process_remembered(memkit, db):
    """`memkit recall` shows text, score and time on stdout, and says what it did on stderr."""
    process = memkit("recall", "where did I move?", "--db", db, "--user", "ann", "--no-messages")

    assert process.returncode == 0
    first = process.stdout.splitlines()[0]
    assert first.split()[0] == "1"
    assert "I moved to Denver in May." in first
    assert "secret" not in process.stdout
    assert "2 found for user:ann" in process.stderr
    assert "\x1b" not in process.stdout


def test_recall_as_json(memkit, db):
    """`--json` prints one document: hits with score, signals and the record, times in ISO 8601."""
    process = memkit(
        "recall", "Denver", "--db", db, "--user", "ann", "--top-k", "1", "--no-messages", "--json"
    )

    document = json.loads(process.stdout)
    (hit,) = document["hits"]
    assert (hit["record"]["id"], hit["record"]["scope"]) == ("m1", {"user": "ann"})
    assert hit["record"]["tags"] == ["home", "city"]
    assert hit["record"]["created_at"].endswith("+00:00")
    assert 0 < hit["score"] <= 1
    assert hit["signals"]["keyword"] > 0
    assert document["missing"] == []
    assert document["milliseconds"] > 0


def test_scopes_are_never_widened(memkit, db):
    """User, session, workspace and org each name one scope and see only that one."""
    ask = ("recall", "Denver acme leads", "--db", db, "--json")

    assert "Denver again \x1b[31mred" in contents(memkit(*ask, "--user", "ann"))
    assert contents(memkit(*ask, "--user", "ann", "--session", "s2")) == ["Denver again \x1b[31mred"]
    assert contents(memkit(*ask, "--workspace", "acme", "--org", "corp")) == [
        "Everyone in acme meets on Denver Street."
    ]
    inside = ("--user", "ann", "--workspace", "acme", "--org", "corp")
    assert contents(memkit(*ask, *inside)) == ["Inside acme ann leads."]
    assert contents(memkit(*ask, "--workspace", "acme")) == []
    assert contents(memkit(*ask, "--org", "corp")) == []


def test_list_filters_and_pages(memkit, db):
    """`memkit list` shows newest first and takes tags, types, a space, a limit and a cursor."""
    ann = ("list", "--db", db, "--user", "ann", "--json")

    assert contents(memkit(*ann)) == ["I prefer window seats.", "I moved to Denver in May."]
    assert contents(memkit(*ann, "--tag", "home", "--tag", "city")) == ["I moved to Denver in May."]
    assert contents(memkit(*ann, "--type", "preference")) == ["I prefer window seats."]
    assert SENTENCE in contents(memkit(*ann, "--space", "messages"))
    page = json.loads(memkit(*ann, "--limit", "1").stdout)
    assert [record["id"] for record in page["records"]] == ["m2"]
    assert contents(memkit(*ann, "--cursor", page["cursor"])) == ["I moved to Denver in May."]
    shown = memkit("list", "--db", db, "--user", "ann")
    assert "#home #city" in shown.stdout
    assert "2 records of user:ann" in shown.stderr


def test_environment_variables_stand_for_options(memkit, db):
    """MEMKIT_DB and MEMKIT_USER are read at the command line, and nowhere deeper."""
    process = memkit("list", "--json", MEMKIT_DB=db, MEMKIT_USER="ann")

    assert len(contents(process)) == 2


def test_text_in_any_language_in_the_c_locale(memkit, db):
    """Chinese goes in and out where the locale knows only ASCII and UTF-8 mode is off."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    for form in ((), ("--json",)):
        process = memkit("recall", "喜欢恐龙", "--db", db, "--user", "ann", "-k", "1", *form, **plain)
        assert process.returncode == 0, process.stderr
        assert SENTENCE in process.stdout
        assert "\ufffd" not in process.stdout


def test_control_characters_do_not_reach_the_terminal(memkit, db):
    """What is remembered cannot reprogram the terminal it is shown on."""
    process = memkit("list", "--db", db, "--user", "ann", "--space", "messages")

    assert "Denver again \ufffd[31mred" in process.stdout
    assert "\x1b" not in process.stdout
    assert visible("a\tb\nc\x07\x9b") == "a\tb\nc\ufffd\ufffd"
    assert one_line("a\n b\x1b") == "a b\ufffd"


@pytest.mark.parametrize("command", [("recall", "x"), ("list",)])
def test_a_path_that_is_not_there_is_an_error_and_makes_no_file(memkit, tmp_path, command):
    """Reading never creates a memory: one line on stderr, exit code 1, nothing on disk."""
    process = memkit(*command, "--db", "nope.db", "--user", "ann")

    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == "memkit: there is no memory at 'nope.db'; give the file as --db or MEMKIT_DB\n"
    assert list(tmp_path.iterdir()) == []


COMMANDS = [("recall", "x", "--user", "ann"), ("list", "--user", "ann"), ("repair",), ("repair", "--dry-run"), ("reindex",)]  # fmt: skip


def foreign(path, *, wal=False):
    """A file of another program, which has closed it."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        if wal:
            file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE theirs(x)")
        file.commit()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_that_is_no_memory_stays_as_it_is(memkit, tmp_path, command):
    """An empty file, or another program's, is an error of one line; no byte of it and nothing beside it changes."""
    (tmp_path / "empty.db").touch()
    foreign(tmp_path / "theirs.db", wal=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, reason in (("empty.db", "there is no memory"), ("theirs.db", "not a memkit store")):
        process = memkit(*command, "--db", name)
        assert (process.returncode, process.stdout, process.stderr.count("\n")) == (1, "", 1)
        assert reason in process.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class Letters:
    """An embedder object of one's own, which no command line can name."""

    model = "letters"

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [1.0, float(len(text))]


def test_a_file_with_the_vectors_of_another_model(memkit, tmp_path):
    """Only what asks by meaning needs the model, and says which one; all else works without it."""
    with Memory.open(tmp_path / "memory.db", embedder=Letters()) as memory:
        memory.add("The boat is green.", scope=ANN)
        memory.add("The shed is locked.", scope=ANN, background=True)
    there = ("--db", "memory.db")

    assert len(contents(memkit("list", *there, "--user", "ann", "--json"))) == 2
    assert memkit("repair", *there).returncode == 0
    assert json.loads(memkit("reindex", *there, "--json").stdout) == {"points": 2}
    ask = ("recall", "green", *there, "--user", "ann", "--json")
    for refused in (memkit(*ask), memkit(*ask, "--embedder", "wordllama")):
        assert refused.returncode == 1
        assert "'letters'" in refused.stderr
    assert "--embedder" in memkit(*ask).stderr
    answer = json.loads(memkit(*ask, "--embedder", "none").stdout)
    assert [hit["record"]["content"] for hit in answer["hits"]] == ["The boat is green."]
    assert answer["missing"] == ["dense"]
    with Memory.open(tmp_path / "memory.db", embedder=Letters()) as memory:
        assert memory.upkeep.verify().problems == ()


def test_errors_are_one_line_without_a_traceback(memkit, db, tmp_path):
    """What memkit refuses is said in one line with exit code 1."""
    (tmp_path / "text.db").write_text("no database " * 100)
    ann = ("--user", "ann")
    for arguments in (
        ("recall", "x", "--db", db, *ann, "--top-k", "0"),
        ("list", "--db", db, *ann, "--type", "rumour"),
        ("list", "--db", db, *ann, "--cursor", "nonsense"),
        ("recall", "x", "--db", "text.db", *ann),
        ("recall", "x", "--db", db, "--user", ""),
        ("eval", str(tmp_path)),
    ):
        process = memkit(*arguments)
        assert (process.returncode, process.stdout) == (1, ""), arguments
        assert process.stderr.startswith("memkit: "), arguments
        assert process.stderr.count("\n") == 1, process.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("recall",),
        ("recall", "x", "--db", "memory.db"),  # whose?
        ("recall", "x", "--user", "ann"),
        ("list", "--db", "memory.db", "--session", "s1"),
        ("eval", ".", "--k", "5,x"),
        ("eval", ".", "--k", "0"),
        ("eval", ".", "--k", "9" * 5000),
        ("teleport",),
        ("recall", "x", "--db", "memory.db", "--user", "ann", "--top-k", "many"),
    ],
)
def test_wrong_usage_is_one_line_with_exit_code_2(memkit, arguments):
    """A command that cannot be understood ends with 2 and a line that points to its own help."""
    process = memkit(*arguments)

    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("memkit: ")
    command = "" if arguments[0] == "teleport" else f" {arguments[0]}"
    assert process.stderr.endswith(f"(see memkit{command} --help)\n")
    assert process.stderr.count("\n") == 1


def test_version_and_help(memkit):
    """`--version` and `--help` go to stdout; no command at all shows the help on stderr."""
    from memkit_core import __version__

    assert memkit("--version").stdout == f"memkit {__version__}\n"
    assert "recall" in memkit("--help").stdout
    nothing = memkit()
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "Commands:" in nothing.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_closed_pipe_ends_quietly(tmp_path, form):
    """When the reader goes away there is no traceback, only exit code 1."""
    with Memory.open(tmp_path / "big.db") as memory:
        memory.add_many(["words " * 200 + str(n) for n in range(300)], scope=ANN, background=True)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "memkit_core.cli",
            "list",
            "--db",
            "big.db",
            "--user",
            "ann",
            "--limit",
            "300",
            *form,
        ],
        cwd=tmp_path,
        # Unbuffered, Python takes a write that was cut short for a whole one.
        env={name: value for name, value in ENVIRONMENT.items() if name != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline()
    process.stdout.close()
    stderr = process.stderr.read().decode()
    process.stderr.close()

    assert process.wait(timeout=60) == 1
    assert stderr == ""


def test_eval_prints_one_json_document(memkit, tmp_path):
    """`memkit eval --json` has one JSON document on stdout, with every k that was asked for."""
    turns = [
        {"conversation_id": "c", "session_id": "s", "turn_id": f"t{n}", "text": text, "role": "user"}
        for n, text in enumerate(["The boat is green.", "The shed is locked.", "Tea is at five."])
    ]
    asked = {"question_id": "q", "conversation_id": "c", "question": "What colour is the boat?"}
    (tmp_path / "conversations.jsonl").write_text("".join(json.dumps(t) + "\n" for t in turns))
    (tmp_path / "questions.jsonl").write_text(json.dumps(asked | {"evidence_turn_ids": ["t0"]}) + "\n")

    process = memkit("eval", ".", "--k", "1,2", "--k", "3", "--json")

    assert process.returncode == 0, process.stderr
    numbers = json.loads(process.stdout)
    assert numbers["k"] == [1, 2, 3]
    assert numbers["overall"]["hybrid"]["recall@1"] == 1.0
    assert numbers["counts"]["turns"] == 3
    table = memkit("eval", ".", "--k", "1")
    assert "recall@1" in table.stdout
    assert "asking" in table.stderr
    unknown = memkit("eval", ".", "--embedder", "nonsense", "--json")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "unknown embedder 'nonsense'" in unknown.stderr
    assert "Traceback" not in unknown.stderr


# ------------------------------------------------------------------------------- moving house


def test_export_and_import(memkit, db, tmp_path):
    """What `export` writes `import` takes into a new file; running it again changes nothing."""
    process = memkit("export", "out.jsonl", "--db", db, "--json")
    report = json.loads(process.stdout)
    assert report["counts"]["records"] == 5
    process = memkit("import", "out.jsonl", "--db", "new.db", "--json")
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    document = json.loads(process.stdout)
    assert document["report"]["inserted"] == report["counts"]
    assert document["outbox"] == 0
    assert contents(memkit("list", "--db", "new.db", "--user", "ann", "--json")) == contents(
        memkit("list", "--db", db, "--user", "ann", "--json")
    )
    again = memkit("import", "out.jsonl", "--db", "new.db")
    assert again.returncode == 0
    assert "inserted" not in again.stderr
    assert "unchanged: 2 sessions" in again.stderr


def test_increments_on_the_command_line(memkit, db):
    """`export` prints the watermark that the next one begins at."""
    process = memkit("export", "-", "--db", db, "--user", "ann", "--space", "memories")
    assert [json.loads(line).get("id") for line in process.stdout.splitlines()] == [None, "m1", "m2", None]
    assert "2 records" in process.stderr
    watermark = process.stderr.split()[-1]
    process = memkit("export", "-", "--db", db, "--watermark", watermark)
    assert len(process.stdout.splitlines()) == 2
    assert "nothing" in process.stderr


def test_import_for_another_user_and_from_stdin(memkit, db, tmp_path):
    """`--from-user` and `--to-user` name whose rows become whose; `-` reads stdin."""
    memkit("export", "out.jsonl", "--db", db)
    process = subprocess.run(
        [*COMMAND, "import", "-", "--db", "n.db", "--from-user", "ann", "--to-user", "小满"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        input=(tmp_path / "out.jsonl").read_bytes(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert len(contents(memkit("list", "--db", "n.db", "--user", "小满", "--json"))) == 2
    assert contents(memkit("list", "--db", "n.db", "--user", "ann", "--json")) == []


def test_import_of_a_broken_file(memkit, db, tmp_path):
    """A broken file is one line on stderr and 1; with `--on-error skip` what is left out is named, and 1."""
    memkit("export", "out.jsonl", "--db", db)
    broken = tmp_path / "out.jsonl"
    broken.write_bytes(broken.read_bytes()[:-40])
    process = memkit("import", "out.jsonl", "--db", "n.db")
    assert process.returncode == 1
    assert process.stderr.startswith("memkit: import: ")
    assert len(process.stderr.splitlines()) == 1
    process = memkit("import", "out.jsonl", "--db", "n.db", "--on-error", "skip")
    assert process.returncode == 1
    assert "cut off" in process.stderr
    assert memkit("import", "out.jsonl", "--db", "n.db", "--to-user", "x").returncode == 2


def test_backup_on_the_command_line(memkit, db):
    """`backup` makes a file that opens, says where it is, and does not replace one."""
    process = memkit("backup", "copy.db", "--db", db, "--json")
    assert json.loads(process.stdout)["bytes"] > 0
    assert contents(memkit("list", "--db", "copy.db", "--user", "ann", "--json"))
    process = memkit("backup", "copy.db", "--db", db)
    assert process.returncode == 1
    assert process.stderr.endswith("is there already; give another path, or --overwrite\n")
    assert memkit("backup", "copy.db", "--db", db, "--overwrite").returncode == 0
