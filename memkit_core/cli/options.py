"""Options that several commands share, and what they mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from memkit_core import Config, ConfigError, Memory, Scope
from memkit_core.embedders import resolve_embedder
from memkit_core.errors import shown
from memkit_core.stores.sqlite import look


def as_typed(value: str | None) -> str | None:
    """The text that was typed: UTF-8, whatever the locale made of its bytes.

    In the C locale without UTF-8 mode, Python hands over bytes above 127 as lone surrogates.
    """
    return None if value is None else os.fsencode(value).decode("utf-8", "replace") if _raw(value) else value


def all_as_typed(values: list[str] | None) -> list[str] | None:
    """`as_typed` of an option that can be repeated."""
    return None if values is None else [str(as_typed(value)) for value in values]


def _raw(value: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in value)


Database = Annotated[
    Path,
    typer.Option("--db", envvar="MEMKIT_DB", show_default=False, help="The file that holds the memory."),
]
User = Annotated[
    str | None,
    typer.Option("--user", envvar="MEMKIT_USER", callback=as_typed, help="Whose memory: a user's id."),
]
Session = Annotated[
    str | None, typer.Option("--session", callback=as_typed, help="Only this session of the user.")
]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", callback=as_typed, help="The user's workspace; alone, its own memory."),
]
Org = Annotated[
    str | None,
    typer.Option("--org", callback=as_typed, help="The org of user or workspace; alone, its own memory."),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="MEMKIT_EMBEDDER",
        help="The embedding model the file was made with, as provider:model, such as "
        "openai:text-embedding-3-small; none for words alone. [the built-in wordllama]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def scope_of(
    *, user: str | None, session: str | None = None, workspace: str | None = None, org: str | None = None
) -> Scope:
    """The narrowest scope that the options name, inside the broader ones.

    Raises:
        BadParameter: none is named, or a session without its user.
        ScopeError: an id that cannot be one.
    """
    if user is None:
        if session is not None:
            raise typer.BadParameter("--session needs its --user")
        if workspace is not None:
            return Scope.workspace(workspace, org=org)
        if org is not None:
            return Scope.org(org)
        raise typer.BadParameter("say whose memory: --user, --workspace or --org")
    within = None if workspace is None else Scope.workspace(workspace, org=org)
    owner = Scope.user(user, workspace=within, org=None if within else org)
    return owner if session is None else Scope.session(session, user=owner)


def open_existing(
    path: Path, embedder: str | None, *, asks: bool = False, config: Config | None = None
) -> Memory:
    """The memory in `path`, which must be there: reading makes no file and changes no other.

    Without `embedder` it is opened with the built-in model when its vectors are of that one, and else,
    unless it is to be asked something, with none.

    Raises:
        ConfigError: there is no such file, it is empty, or it has the vectors of a model that must be named.
        SchemaError: it is not memkit's.
    """
    found = look(path) if path.is_file() else None
    if found is None:
        raise ConfigError(f"there is no memory at {shown(str(path))}; give the file as --db or MEMKIT_DB")
    if embedder is None and found.space is not None:
        own = resolve_embedder(None)
        if (found.space.model, found.space.revision) != (own.model, own.revision):
            if asks:
                raise ConfigError(
                    f"{shown(str(path))} holds vectors of {found.space.model!r}; name that model as --embedder "
                    "provider:model, or give --embedder none to search by words alone"
                )
            embedder = "none"
    return Memory.open(path, embedder=embedder, config=config)
