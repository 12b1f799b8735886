"""The commands put together, and what every one of them shares: version, errors, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from memkit_core import MemkitError, __version__
from memkit_core.cli.chatting import chatting
from memkit_core.cli.demo import demo
from memkit_core.cli.evaluation import evaluation
from memkit_core.cli.forgetting import forgetting
from memkit_core.cli.listing import listing
from memkit_core.cli.moving import backing_up, exporting, importing
from memkit_core.cli.output import drop_stdout, one_line, use_utf8
from memkit_core.cli.recalling import recalling
from memkit_core.cli.reembedding import reembedding
from memkit_core.cli.showing import showing
from memkit_core.cli.stats import counting
from memkit_core.cli.upkeep import examining, keeping_up, reindexing, repairing
from memkit_core.cli.wording import as_command_line
from memkit_core.errors import shown

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


class _Refused(Exception):  # noqa: N818 - it is told, and never seen as an error
    """What memkit refused, in the words of the command line."""


class _Command(TyperCommand):
    """A command whose errors name its options."""

    def invoke(self, ctx: Any) -> Any:
        """Run it.

        Raises:
            _Refused: memkit raised an error.
        """
        try:
            return super().invoke(ctx)
        except MemkitError as error:
            names = [max(option.opts, key=len) for option in self.params if option.opts]
            options = [name for name in names if name.startswith("--")]
            raise _Refused(as_command_line(str(error), options)) from error


_COMMANDS: dict[str, Callable[..., object]] = {
    "demo": demo,
    "chat": chatting,
    "recall": recalling,
    "list": listing,
    "show": showing,
    "eval": evaluation,
    "stats": counting,
    "doctor": examining,
    "repair": repairing,
    "reindex": reindexing,
    "reembed": reembedding,
    "upkeep": keeping_up,
    "forget": forgetting,
    "export": exporting,
    "import": importing,
    "backup": backing_up,
}
for _name, _function in _COMMANDS.items():
    app.command(_name, cls=_Command)(_function)


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
    except _Refused as error:
        return _failed(str(error), FAILED)
    except OSError as error:
        return _failed(_of_the_system(error), FAILED)
    except _UsageError as error:
        return _failed(f"{_reason(error)} (see {_called(error)} --help)", WRONG_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _failed("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _reason(error: Exception) -> str:
    explain = getattr(error, "format_message", None)
    reason = str(explain()) if explain is not None else str(error)
    # Of several options together: no single value is to blame.
    return reason.removeprefix("Invalid value: ")


def _called(error: Exception) -> str:
    """The command that was used wrongly, as it is typed."""
    context = getattr(error, "ctx", None)
    return "memkit" if context is None else str(context.command_path)


def _of_the_system(error: OSError) -> str:
    """What went wrong with which file, without the number of the error."""
    if error.strerror is None or error.filename is None:
        return str(error)
    # A path is of no use when it is cut.
    named = isinstance(error.filename, str | bytes)
    return f"{error.strerror}: {repr(os.fsdecode(error.filename)) if named else shown(error.filename)}"


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"memkit: {one_line(message)}\n")
    return code
