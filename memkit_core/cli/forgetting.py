"""`memkit forget`."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit_core import ForgetPolicy
from memkit_core.cli.options import AsJson, Database, open_existing
from memkit_core.cli.output import one_line, stderr, stdout, write_json
from memkit_core.plurals import plural
from memkit_core.upkeep import Fading, Fate, Forgotten


def forgetting(
    *,
    db: Database,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without it only what would be done is shown.")
    ] = False,
    policy: Annotated[
        ForgetPolicy,
        typer.Option(
            "--policy",
            help="What counts: importance, which fades, or utility, which is recency, use and importance.",
        ),
    ] = ForgetPolicy.IMPORTANCE,
    delete_after_days: Annotated[
        float | None,
        typer.Option(
            "--delete-after-days", help="Also delete what has been archived for more days than this."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Archive what time has made unimportant.

    Nothing is changed without --apply. It looks at the memories of all users. Pinned ones stay, and memkit list shows no archived ones.
    """
    with open_existing(db, None) as memory, stderr().status("looking at every memory") as status:
        forgotten = memory.upkeep.forget(
            apply=apply,
            policy=policy,
            delete_after_days=delete_after_days,
            progress=lambda looked_at: status.update(
                f"looked at {looked_at:,} {plural(looked_at, 'memory')}"
            ),
        )
    if as_json:
        write_json(forgotten)
    else:
        _show(forgotten)


def _show(forgotten: Forgotten) -> None:
    for one in (*forgotten.archived, *forgotten.deleted):
        stdout().print(_line(one), soft_wrap=True)
    archived, deleted = f"{len(forgotten.archived):,}", f"{len(forgotten.deleted):,}"
    if forgotten.applied:
        done = f"{archived} archived, {deleted} deleted"
    else:
        done = f"{archived} to archive, {deleted} to delete"
        if forgotten.archived or forgotten.deleted:
            done += "; nothing is changed yet: give --apply to do it"
    looked_at = f"{forgotten.looked_at:,} {plural(forgotten.looked_at, 'memory')} looked at"
    stderr().print(f"{looked_at}, {done}", soft_wrap=True)


def _line(one: Fading) -> str:
    numbers = (
        f"importance {one.importance:.2f}, now {one.effective_importance:.3f}; utility {one.utility:.3f}; "
        f"idle {_days(one.idle_days)}, recalled {one.access_count} {plural(one.access_count, 'time')}"
    )
    if one.fate is Fate.DELETE:
        numbers = f"archived for {_days(one.archived_days)}"
    return f"{one.fate}  {one_line(str(one.scope))}  {one_line(one.id)}  {numbers}"


def _days(days: float | None) -> str:
    shown = f"{days or 0:.0f}"
    return f"{shown} {plural(int(shown), 'day')}"
