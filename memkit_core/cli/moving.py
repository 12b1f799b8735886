"""`memkit export`, `memkit import` and `memkit backup`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from memkit_core import Memory, Scope
from memkit_core.cli.options import (
    AsJson,
    Database,
    Org,
    Session,
    User,
    Workspace,
    all_as_typed,
    as_typed,
    open_existing,
    scope_of,
)
from memkit_core.cli.output import bar, stderr, visible, write_json
from memkit_core.cli.settling import settled
from memkit_core.connect import IN_MEMORY
from memkit_core.plurals import plural
from memkit_core.transfer import ExportReport, ImportReport, OnError
from memkit_core.transfer.files import Place

_SHOWN = 10
_ONE_OF = {"summaries": "summary"}
_STDOUT = Path("-")


def exporting(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, or - for stdout.")],
    *,
    db: Database,
    user: User = None,
    session: Session = None,
    workspace: Workspace = None,
    org: Org = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Only what was created then or later, such as 2025-03-01 (ISO 8601)."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only what was created before then.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only records of this type, see memkit list; repeatable."
        ),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            "--space",
            metavar="SPACE",
            callback=all_as_typed,
            help="Only memories, messages, documents:<name>, store:<name>, notes or runs; repeatable.",
        ),
    ] = None,
    watermark: Annotated[
        str | None, typer.Option("--watermark", help="Only what changed since the export that printed it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what all have, or one user or other scope, as JSONL.

    Prints the watermark with which a later export writes only what changed since.
    """
    named = (user, session, workspace, org) != (None,) * 4
    scope = scope_of(user=user, session=session, workspace=workspace, org=org) if named else None
    if to == _STDOUT and as_json:
        raise typer.BadParameter("--json prints to stdout; give a file for the export")
    with open_existing(db, None) as memory, bar("exporting") as progress:
        report = memory.transfer.export_jsonl(
            sys.stdout.buffer if to == _STDOUT else to,
            scope=scope,
            everything=scope is None,
            since=since,
            until=until,
            types=kind or (),
            spaces=space or (),
            watermark=watermark,
            progress=progress,
        )
    if as_json:
        write_json(report)
    else:
        _show_export(report, scope)


def _show_export(report: ExportReport, scope: Scope | None) -> None:
    whose = "everybody" if scope is None else scope
    stderr().print(f"{_counted(report.counts)} of {whose}: {report.bytes:,} bytes", soft_wrap=True)
    stderr().print(f"go on later with --watermark {report.watermark}", soft_wrap=True)


def importing(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The file to read, or - for stdin.")],
    *,
    db: Database,
    from_user: Annotated[
        str | None,
        typer.Option(
            "--from-user",
            callback=as_typed,
            help="The user of the file whose memory becomes that of --to-user.",
        ),
    ] = None,
    to_user: Annotated[
        str | None,
        typer.Option("--to-user", callback=as_typed, help="Who gets it. What other users have stays theirs."),
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option("--on-error", help="stop: a wrong line changes nothing; skip: leave such lines out."),
    ] = OnError.STOP,
    as_json: AsJson = False,
) -> int:
    """Take what export wrote into a memory, which may be new.

    Of what is there already the newer version holds. Exits with 1 when lines were skipped.
    """
    if (from_user is None) is not (to_user is None):
        raise typer.BadParameter("--from-user and --to-user go together")
    if str(db) == IN_MEMORY:
        raise typer.BadParameter(f"--db {IN_MEMORY} would forget everything at once; give a file")
    scopes = None if from_user is None or to_user is None else {Scope.user(from_user): Scope.user(to_user)}
    with _unrefused(source, db, scopes, on_error) as place, Memory.open(db) as memory:
        with bar("importing") as progress:
            report = memory.transfer.import_jsonl(place, scopes=scopes, on_error=on_error, progress=progress)
        left = settled(memory)
    if as_json:
        write_json({"report": report, "outbox": left.outbox, "no_index": left.no_index})
    else:
        _show(report)
        left.tell()
    return int(bool(report.skipped))


def _unrefused(
    source: Path, db: Path, scopes: dict[Scope, Scope] | None, on_error: OnError
) -> AbstractContextManager[Place]:
    """What to import; checked at once when there is no store yet, so that none is made for what is refused."""
    place = sys.stdin.buffer if source == _STDOUT else source
    if db.exists():
        return contextlib.nullcontext(place)
    # Here, because pydantic takes as long to import as all the rest of a memory.
    from memkit_core.transfer.importing import checked_source

    return checked_source(place, scopes=scopes, on_error=on_error)


def backing_up(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="The file to make.")],
    *,
    db: Database,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the file while it is in use.

    The copy is a memory of its own, and whole.
    """
    with open_existing(db, None) as memory, bar("copying") as progress:
        report = memory.transfer.backup(to, overwrite=overwrite, progress=progress)
    if as_json:
        write_json(report)
    else:
        stderr().print(f"{visible(report.path)}: {report.bytes:,} bytes", soft_wrap=True)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_kind(kind, count)}" for kind, count in counts.items()) or "nothing"


def _kind(kind: str, count: int) -> str:
    return plural(count, _ONE_OF.get(kind, kind.removesuffix("s")), kind)


def _show(report: ImportReport) -> None:
    for name in ("inserted", "updated", "unchanged"):
        if counts := getattr(report, name):
            stderr().print(f"{name}: {_counted(counts)}", soft_wrap=True)
    if report.deleted:
        stderr().print(f"deleted: {report.deleted:,}")
    if report.superseded:
        stderr().print(f"superseded by a newer value of their key: {report.superseded:,}", soft_wrap=True)
    if report.reembedded:
        stderr().print(f"embedded anew, because their vectors were of another model: {report.reembedded:,}")
    for line in report.skipped_lines[:_SHOWN]:
        stderr().print(f"skipped line {line.line}: {visible(line.reason)}", soft_wrap=True)
    if report.skipped > _SHOWN:
        stderr().print(f"skipped in all: {report.skipped:,}")
