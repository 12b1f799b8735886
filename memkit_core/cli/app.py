"""The commands put together, and what every one of them shares: version, errors, exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from memkit_core import MemkitError, __version__
from memkit_core.cli.demo import demo
from memkit_core.cli.evaluation import evaluation
from memkit_core.cli.forgetting import forgetting
from memkit_core.cli.listing import listing
from memkit_core.cli.moving import backing_up, exporting, importing
from memkit_core.cli.output import drop_stdout, one_line, use_utf8
from memkit_core.cli.recalling import recalling
from memkit_core.cli.reembedding import reembedding
from memkit_core.cli.stats import counting
from memkit_core.cli.upkeep import examining, keeping_up, reindexing, repairing

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

# typer brings click along, under a name of its own in newer releases: this is UsageError in both.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="memkit",
    help="Long-term memory for LLM applications.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo)
app.command("recall")(recalling)
app.command("list")(listing)
app.command("eval")(evaluation)
app.command("repair")(repairing)
app.command("reindex")(reindexing)
app.command("stats")(counting)
app.command("doctor")(examining)
app.command("upkeep")(keeping_up)
app.command("forget")(forgetting)
app.command("reembed")(reembedding)
app.command("export")(exporting)
app.command("import")(importing)
app.command("backup")(backing_up)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        sys.stdout.write(f"memkit {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _memkit(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Long-term memory for LLM applications."""
    if context.invoked_subcommand is None:
        sys.stderr.write(context.get_help() + "\n")
        raise typer.Exit(WRONG_USAGE)


def run() -> int:
    """Run the command that the process was started with.

    What memkit or the system refuses is one line on stderr. When the reader of stdout has gone,
    the process ends quietly with 1, as typer and rich do where they notice it first.
    """
    use_utf8()
    try:
        code = typer.main.get_command(app).main(prog_name="memkit", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
        return FAILED
    except (MemkitError, OSError) as error:
        return _failed(str(error), FAILED)
    except _UsageError as error:
        return _failed(f"{_reason(error)} (see memkit --help)", WRONG_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _failed("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _reason(error: Exception) -> str:
    explain = getattr(error, "format_message", None)
    return str(explain()) if explain is not None else str(error)


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"memkit: {one_line(message)}\n")
    return code
