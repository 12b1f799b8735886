"""A picture of an evaluation: recall@k of each configuration with its interval (extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memkit_core.errors import InvalidInputError, MissingDependencyError, shown
from memkit_core.evaluation.comparison import mapping
from memkit_core.jsonvalues import JsonValue
from memkit_core.text.clean import storable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMATS = (".png", ".svg", ".pdf")
_SPREAD = 0.6
"""Of the distance between two ks, what the points of all configurations take."""


def check_plot(file: str | Path) -> None:
    """Refuse what `save_plot` could not do, before minutes are spent on numbers.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        InvalidInputError: `file` does not end in .png, .svg or .pdf, its folder does not exist, or it is one.
    """
    path = Path(file)
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInputError(f"a plot is written as {', '.join(_FORMATS)}, got {shown(str(file))}")
    if path.is_dir():
        raise InvalidInputError(f"{shown(str(file))} is a folder")
    if not path.parent.is_dir():
        raise InvalidInputError(f"the folder of {shown(str(file))} does not exist")
    try:
        import matplotlib as mpl  # noqa: F401 - only asked whether it is there
    except ImportError as error:
        raise MissingDependencyError("matplotlib", extra="plot") from error


def save_plot(measured: Sequence[Mapping[str, JsonValue]], file: str | Path) -> None:
    """Draw what `summary` returned, one panel a data set, and write it to `file`, replacing it.

    Turns where they can be scored, else sessions; bars are 95 % intervals. Nothing global of
    matplotlib is read or changed but its defaults: no window, no pyplot, no backend is chosen.

    Raises:
        MissingDependencyError, InvalidInputError: see `check_plot`.
        OSError: `file` cannot be written.
    """
    check_plot(file)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * max(len(measured), 1), 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    for place, numbers in enumerate(measured, 1):
        _draw(figure.add_subplot(1, len(measured), place), numbers)
    # Without a date in the file, so that the same numbers make the same bytes.
    suffix = Path(file).suffix.lower()
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    figure.savefig(file, metadata=undated)


def _draw(axes: Axes, numbers: Mapping[str, JsonValue]) -> None:
    intervals, ks = mapping(numbers["intervals"]), numbers["k"]
    assert isinstance(ks, list)
    part = "overall" if intervals["overall"] else "session"
    found = mapping(intervals[part])
    for place, (name, metrics) in enumerate(found.items()):
        spread = [_interval(mapping(metrics)[f"recall@{k}"]) for k in ks]
        # Side by side, or the bars would hide one another.
        shift = _SPREAD * ((place + 0.5) / len(found) - 0.5)
        axes.errorbar(
            [at + shift for at in range(len(ks))],
            [mean for mean, _, _ in spread],
            yerr=[[mean - low for mean, low, _ in spread], [high - mean for mean, _, high in spread]],
            marker="o",
            linestyle="none",
            capsize=3,
            label=_plain(name),
        )
    axes.set_xticks(range(len(ks)), [str(k) for k in ks])
    axes.set_xlabel("k")
    axes.set_ylabel(f"recall@k, {numbers['scored'] if part == 'overall' else 'sessions'}")
    axes.set_ylim(0, 1.05)
    axes.set_title(_plain(str(numbers["dataset"])))
    if found:
        axes.legend()


def _interval(value: JsonValue) -> tuple[float, float, float]:
    assert isinstance(value, list)
    mean, low, high = (float(end) for end in value if isinstance(end, int | float))
    return mean, low, high


def _plain(text: str) -> str:
    """The text as itself: matplotlib reads `$` as mathematics and hides a label that begins with `_`.

    Lone surrogates, which the name of a file may hold, it cannot draw.
    """
    escaped = storable(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
