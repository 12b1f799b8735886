"""`memkit show`: one memory, or one conversation, whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from memkit_core import Memory, MemoryRecord, Message, RecordChange, RecordNotFoundError, Scope
from memkit_core.cli.options import (
    AsJson,
    Database,
    Org,
    Session,
    User,
    Workspace,
    as_typed,
    open_existing,
    scope_of,
)
from memkit_core.cli.output import one_line, plain, stderr, stdout, visible, write_json
from memkit_core.errors import shown
from memkit_core.models import MEMORIES
from memkit_core.plurals import plural

_LINKS = ("supersedes", "superseded_by", "compacted_from_ids")
"""Fields that name memories of the same scope."""
_LONGEST_BEFORE = 200


def showing(
    record_id: Annotated[
        str | None,
        typer.Argument(metavar="ID", callback=as_typed, help="The id of a memory, see memkit list."),
    ] = None,
    *,
    db: Database,
    user: User = None,
    session: Session = None,
    workspace: Workspace = None,
    org: Org = None,
    space: Annotated[
        str,
        typer.Option(
            "--space", callback=as_typed, help="memories; messages; documents:<name>; or store:<name>."
        ),
    ] = MEMORIES,
    last: Annotated[
        int | None, typer.Option("--last", help="Of a conversation only so many messages, the newest.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show one memory with its history, or one conversation.

    A memory is shown whatever its status. With --session and no ID it is what was said in the session, in order. Times are in UTC.
    """
    scope = scope_of(user=user, session=session, workspace=workspace, org=org)
    if record_id is None and session is None:
        raise typer.BadParameter("give the id of a memory, or --session for a conversation")
    if record_id is not None and last is not None:
        raise typer.BadParameter("--last is for a conversation; leave it out, or the ID")
    with open_existing(db, None) as memory:
        if record_id is None:
            _conversation(memory, scope, last, as_json=as_json)
        else:
            _record(memory, record_id, scope, space, as_json=as_json)


def _record(memory: Memory, record_id: str, scope: Scope, space: str, *, as_json: bool) -> None:
    record = memory.get(record_id, scope=scope, space=space)
    if record is None:
        raise RecordNotFoundError(
            f"there is no {shown(record_id)} among the {space} of {scope}; memkit list shows what there is"
        )
    history = memory.history(record_id, scope=scope) if space == MEMORIES else []
    indexed = memory.upkeep.indexed(record_id, scope=scope, space=space)
    embedding, synced = (None, False) if indexed is None else (indexed.embedding, indexed.synced)
    if as_json:
        write_json(
            {"scope": scope, "record": record, "history": history, "embedding": embedding, "synced": synced}
        )
        return
    table = _grid()
    for name, value in record.telling().items():
        linked = _linked(memory, record, name) if name in _LINKS else _readable(value)
        table.add_row(name.replace("_", " "), Text(linked))
    table.add_row("embedding", Text(visible(embedding or "none: found by words only")))
    table.add_row("index", "has it" if synced else "not yet: it waits in the outbox")
    stdout().print(table)
    if history:
        stdout().print("\nhistory")
        stdout().print(_timeline(history))


def _linked(memory: Memory, record: MemoryRecord, name: str) -> str:
    """The ids of a field, and what the memories with these ids say."""
    named = getattr(record, name)
    ids = [named] if isinstance(named, str) else list(named)
    others = {one: memory.get(one, scope=record.scope) for one in ids}
    return "\n".join(
        one_line(one if other is None else f"{one}: {other.content}") for one, other in others.items()
    )


def _timeline(history: list[RecordChange]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for change in history:
        table.add_row(_readable(change.at), f"version {change.version}", Text("\n".join(_told(change))))
    return table


def _told(change: RecordChange) -> Iterator[str]:
    """What happened, and what was so before, a line each."""
    beside = f", with {', '.join(change.others)}" if change.others else ""
    yield one_line(f"{change.kind}{beside}{f': {change.reason}' if change.reason else ''}")
    for name, before in change.before.items():
        yield _cut(f"{name.replace('_', ' ')} was {_quoted(before)}")
    for name, dropped in change.dropped.items():
        yield _cut(f"not taken: {name.replace('_', ' ')} {_quoted(dropped)}")


def _cut(text: str) -> str:
    told = one_line(text)
    return told if len(told) <= _LONGEST_BEFORE else f"{told[:_LONGEST_BEFORE]}…"


def _quoted(value: object) -> str:
    if value is None:
        return "not set"
    return f"“{value}”" if isinstance(value, str) else _readable(value)


def _readable(value: object) -> str:
    """A value as people read it: times to the second, texts as they are, lists of them too, all else as JSON."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, Scope):
        return visible(str(value))
    simple = plain(value)
    if isinstance(simple, list) and all(isinstance(one, str) for one in simple):
        return visible(", ".join(simple))
    return visible(simple if isinstance(simple, str) else json.dumps(simple, ensure_ascii=False))


def _conversation(memory: Memory, scope: Scope, last: int | None, *, as_json: bool) -> None:
    session = memory.sessions.get(scope=scope)
    if session is None:
        raise RecordNotFoundError(f"there is no session {scope}; nothing was said in it")
    messages = memory.sessions.read(scope=scope, last=last)
    summary = memory.summaries.get(scope=scope)
    if as_json:
        write_json({"scope": scope, "session": session, "summary": summary, "messages": messages})
        return
    table = _grid()
    if session.title:
        table.add_row("title", Text(visible(session.title)))
    if session.metadata:
        table.add_row("metadata", Text(_readable(session.metadata)))
    if summary is not None:
        table.add_row("summary", Text(visible(summary.text)))
    if table.row_count:
        stdout().print(table)
        stdout().print()
    if messages:
        stdout().print(_transcript(messages))
    shown_of = f"{len(messages):,} of " if len(messages) < session.messages else ""
    stderr().print(
        f"{shown_of}{session.messages:,} {plural(session.messages, 'message')} of {scope}", soft_wrap=True
    )


def _transcript(messages: list[Message]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=20)
    table.add_column(overflow="fold")
    for message in messages:
        when = "" if message.created_at is None else f"{message.created_at:%Y-%m-%d %H:%M}"
        calls = [f"calls {call.name} with {call.arguments}" for call in message.tool_calls]
        said = "\n".join([*([message.text] if message.text else []), *calls])
        table.add_row(when, Text(one_line(message.speaker or message.role)), Text(visible(said)))
    return table


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
