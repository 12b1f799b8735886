"""`memkit chat`: a conversation in the terminal that is remembered."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from memkit_core import InvalidInputError, MemkitError, Memory, Message, ModelError, Role, Scope
from memkit_core.cli.chat_model import chat_model
from memkit_core.cli.options import (
    Database,
    Embedder,
    Org,
    User,
    Workspace,
    as_typed,
    open_existing,
    scope_of,
)
from memkit_core.cli.output import hit_table, one_line, stderr, stdout, visible
from memkit_core.connect import IN_MEMORY
from memkit_core.conversation.context import TurnContext
from memkit_core.degraded import lacking
from memkit_core.plurals import plural
from memkit_core.prompts import chat_system
from memkit_core.scope import ScopeKind
from memkit_core.times import utc_now

_PROMPT = "> "
_LONGEST_ERROR = 500
_MOST_TOKENS = 30_000
"""Of a prompt: fits into most models, so that a page that was pasted does not end the session."""
_MEND = "; what you said is kept: check --model, OPENAI_API_KEY and OPENAI_BASE_URL, and say it again"
_HELP = """\
/remember TEXT  keep TEXT as a memory of the user
/recall TEXT    show what is remembered about TEXT
/forget ID      delete the memory with this id, see /recall
/help           show this
/quit           end the chat; so do Ctrl-D and Ctrl-C
A line that begins with a space is said as it is, also with a / behind it."""


def chatting(
    *,
    db: Database,
    user: User = None,
    session: Annotated[
        str | None,
        typer.Option("--session", callback=as_typed, help="The session to go on with. [a new one]"),
    ] = None,
    workspace: Workspace = None,
    org: Org = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            callback=as_typed,
            help="What answers, such as openai:gpt-4o-mini (extra: openai). [none: only shows what is recalled]",
        ),
    ] = None,
    show_recalled: Annotated[
        bool, typer.Option("--show-recalled", help="Show the memories that the model gets, too.")
    ] = False,
    embedder: Embedder = None,
) -> None:
    """Chat, and remember what is said, in a file that may be new.

    Each line is a message, stored before it is answered. The model gets what was said last in the
    session and what is remembered about the message. It is asked with OPENAI_API_KEY at OpenAI, or at
    the server that OPENAI_BASE_URL names.
    """
    if user is None:
        raise typer.BadParameter("say who chats: --user")
    if str(db) == IN_MEMORY:
        raise typer.BadParameter(f"--db {IN_MEMORY} would forget everything at once; give a file")
    named = f"chat-{utc_now():%Y%m%d-%H%M%S}" if session is None else session
    scope = scope_of(user=user, session=named, workspace=workspace, org=org)
    # Before the file is made.
    answer = None if model is None else chat_model(model)
    with _opened(db, embedder) as memory:
        chat = _Chat(memory, scope, answer, show_recalled=show_recalled or answer is None)
        chat.greet()
        try:
            chat.run(_lines())
        except KeyboardInterrupt:
            _note("interrupted")
        chat.take_leave()


def _opened(path: Path, embedder: str | None) -> Memory:
    return open_existing(path, embedder, asks=True) if path.exists() else Memory.open(path, embedder=embedder)


def _lines() -> Iterator[str]:
    """What is typed or piped, line by line, up to its end; UTF-8, as all that is printed."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield from sys.stdin
        return
    with contextlib.suppress(ImportError):
        # Lets the line be edited, and earlier ones be fetched; not there on every system.
        import readline  # noqa: F401
    try:
        while True:
            yield input(_PROMPT)
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")


@dataclass(frozen=True, slots=True)
class _Chat:
    """One chat: what is said is stored in `session`; `answer` None recalls and says nothing."""

    memory: Memory
    session: Scope
    answer: Callable[[Sequence[Message]], str] | None
    show_recalled: bool

    @property
    def user(self) -> Scope:
        owner = self.session.parent
        assert owner is not None
        return owner

    @property
    def scopes(self) -> list[Scope]:
        """Whose memories are recalled: those that the command line names, the narrowest first."""
        scopes, scope = [self.session], self.session.parent
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        return scopes

    def greet(self) -> None:
        if self.answer is None:
            _note(
                "No model is named: what you say is stored, and what is recalled for it is shown. For answers "
                "give --model openai:gpt-4o-mini and set OPENAI_API_KEY."
            )
        known = self.memory.sessions.get(scope=self.session)
        told = "begins" if known is None else f"has {known.messages:,} {plural(known.messages, 'message')}"
        _note(f"{self.session} {told}; /help lists the commands")

    def take_leave(self) -> None:
        known = self.memory.sessions.get(scope=self.session)
        if known is not None:
            _note(
                f"{known.messages:,} {plural(known.messages, 'message')} kept; go on with --session "
                f"{shlex.quote(self.session.id)}"
            )

    def run(self, lines: Iterator[str]) -> None:
        """Do what each line says, up to the end or `/quit`; what cannot be done is told, and it goes on."""
        commands = {"/remember": self.remember, "/recall": self.recall, "/forget": self.forget}
        for line in lines:
            text = line.strip()
            command, _, rest = text.partition(" ")
            if not text:
                continue
            try:
                if not line.startswith("/"):
                    self.say(text)
                elif command == "/quit":
                    return
                elif command == "/help" or (command in commands and not rest.strip()):
                    _note(_HELP)
                elif command in commands:
                    commands[command](rest.strip())
                else:
                    _note(f"there is no command {command}; /help lists them")
            except ModelError as error:
                _failed(error, _MEND)
            except InvalidInputError as error:
                _failed(error)

    def say(self, text: str) -> None:
        """One turn: the message is stored first, so that a turn that fails still has it."""
        self.memory.sessions.append([Message(role=Role.USER, text=text)], scope=self.session)
        context = self.memory.turn_context(
            self.session,
            None,
            system=chat_system(utc_now().date()),
            scopes=self.scopes,
            include_messages=True,
            max_tokens=_MOST_TOKENS,
        )
        self._tell_recalled(context)
        if self.answer is None:
            return
        with stderr().status("thinking"):
            said = self.answer(context.messages).strip()
        self.memory.sessions.append([Message(role=Role.ASSISTANT, text=said)], scope=self.session)
        # Only a terminal is given lines of its width.
        stdout().print(visible(said), soft_wrap=not sys.stdout.isatty())

    def _tell_recalled(self, context: TurnContext) -> None:
        if context.hits and self.show_recalled:
            # Without a model it is the answer.
            console = stdout() if self.answer is None else stderr()
            console.print(hit_table(list(context.hits)), style=None if self.answer is None else "dim")
        parts = lacking(context.missing)
        missing = f"; not in full: {', '.join(parts)}" if parts else ""
        if context.hits or missing or self.answer is None:
            recalled = f"{len(context.hits)} {plural(len(context.hits), 'memory')} recalled"
            said = f"the newest {len(context.recent)} {plural(len(context.recent), 'message')} of the session"
            _note(f"{recalled}, beside {said}{missing}")

    def remember(self, text: str) -> None:
        record = self.memory.add(text, scope=self.user)
        _note(f"remembered for {self.user}: id {record.id}")

    def recall(self, text: str) -> None:
        result = self.memory.recall(text, scope=self.scopes, include_messages=True)
        if result.hits:
            stdout().print(hit_table(list(result.hits), ids=True))
        _note(f"{len(result)} found")

    def forget(self, record_id: str) -> None:
        # Not what others share: a workspace's or an org's.
        own = [scope for scope in self.scopes if scope.kind in (ScopeKind.SESSION, ScopeKind.USER)]
        gone = [scope for scope in own if self.memory.delete(record_id, scope=scope).records]
        _note(f"forgotten: {record_id}" if gone else f"{self.user} has no memory with the id {record_id}")


def _note(text: str) -> None:
    stderr().print(visible(text), style="dim", soft_wrap=True)


def _failed(error: MemkitError, mend: str = "") -> None:
    told = one_line(str(error))
    # A server may answer with a whole page.
    cut = told if len(told) <= _LONGEST_ERROR else f"{told[:_LONGEST_ERROR]}…"
    stderr().print(f"memkit: {cut}{mend}", soft_wrap=True)
