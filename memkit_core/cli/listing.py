"""`memkit list`."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit_core.cli.options import (
    AsJson,
    Database,
    Embedder,
    Org,
    Session,
    User,
    Workspace,
    all_as_typed,
    open_existing,
    scope_of,
)
from memkit_core.cli.output import record_table, stderr, stdout, write_json
from memkit_core.models import MEMORIES
from memkit_core.plurals import plural


def listing(
    *,
    db: Database,
    user: User = None,
    session: Session = None,
    workspace: Workspace = None,
    org: Org = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="TAG",
            callback=all_as_typed,
            help="Only records with this tag; repeatable, then with all of them.",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only this type: fact, preference, profile, event, skill or summary; repeatable.",
        ),
    ] = None,
    space: Annotated[
        str,
        typer.Option(
            "--space", help="memories; messages for what was said; documents:<name>; or store:<name>."
        ),
    ] = MEMORIES,
    limit: Annotated[int, typer.Option("--limit", help="At most so many records, 1 to 10,000.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="Go on where the page with this cursor ended.")
    ] = None,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> None:
    """Show what is remembered, newest first.

    A record has time in UTC, type, text and tags, and its id below.
    """
    scope = scope_of(user=user, session=session, workspace=workspace, org=org)
    with open_existing(db, embedder) as memory:
        page = memory.list_records(
            scope=scope, tags=tag or (), types=kind or (), limit=limit, space=space, cursor=cursor
        )
    if as_json:
        write_json({"scope": scope, "records": page.records, "cursor": page.cursor})
        return
    if page.records:
        stdout().print(record_table(list(page.records)))
    more = f"; go on with --cursor {page.cursor}" if page.cursor else ""
    stderr().print(f"{len(page)} {plural(len(page), 'record')} of {scope}{more}", soft_wrap=True)
