"""`memkit recall`."""

from __future__ import annotations

import time
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
    as_typed,
    open_existing,
    scope_of,
)
from memkit_core.cli.output import hit_table, stderr, stdout, write_json


def recalling(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", callback=as_typed, help="What to look for, in plain words.")
    ],
    *,
    db: Database,
    user: User = None,
    session: Session = None,
    workspace: Workspace = None,
    org: Org = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="At most so many records.")] = 10,
    messages: Annotated[
        bool, typer.Option("--messages/--no-messages", help="Also search what was said in conversations.")
    ] = True,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> None:
    """Show what is remembered about QUERY, best first.

    A line has rank, score, time in UTC and text. Scores order one answer and are not comparable with others.
    """
    scope = scope_of(user=user, session=session, workspace=workspace, org=org)
    with open_existing(db, embedder, asks=True) as memory:
        began = time.perf_counter()
        result = memory.recall(query, scope=scope, top_k=top_k, include_messages=messages)
        milliseconds = round((time.perf_counter() - began) * 1000, 1)
    if as_json:
        write_json(
            {
                "query": query,
                "scope": scope,
                "hits": result.hits,
                "missing": result.missing,
                "truncated": result.truncated,
                "milliseconds": milliseconds,
            }
        )
        return
    if result.hits:
        stdout().print(hit_table(list(result.hits)))
    missing = f"; not in full: {', '.join(sorted(result.missing))}" if result.missing else ""
    stderr().print(f"{len(result)} found for {scope} in {milliseconds} ms{missing}")
