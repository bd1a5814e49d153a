"""Registry of the figures: what draws each, what it takes, and how it is read."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traceana.drawing.labels import shorten_legends
from traceana.drawing.style import follow_axes, use_style
from traceana.errors import DataError, TraceanaError, did_you_mean
from traceana.modules import import_named

Plot = TypeVar("Plot", bound="Callable[..., Axes]")
_PARAMETERS: Final = re.compile(r"(Parameters\n-+\n\S+\n(?: {4}.*\n)+)((?:\S.*\n(?: {4}.*\n)+)*)")
_AX: Final = "ax\n    Axes to draw on; by default those of a new figure.\n"
_RETURNS: Final = """
Returns
-------
Axes
    The axes that were drawn on.

Raises
------
DataError
    If there is nothing to draw, or more groups than the figure has room for.
"""


@dataclass(frozen=True)
class FigureEntry:
    """A registered figure: its function, its input and how to read it.

    Attributes
    ----------
    plot
        Draws a result on axes and returns them.
    result
        What the figure takes: rows of a table, or the result of an analysis.
    reading
        How the figure is read.

    Examples
    --------
    >>> from traceana.figures import get_figure
    >>> get_figure("energy-front").result
    'energy_to_accuracy'
    """

    plot: Callable[..., Axes]
    result: str
    reading: str

    @property
    def shows(self) -> str:
        """What the figure shows, from the first line of the docstring of `plot`."""
        return (self.plot.__doc__ or "").partition("\n")[0].removeprefix("Draw ").strip()

    def describe(self, result: Any, /) -> str:  # noqa: ANN401  whatever the figure takes
        """Return one sentence on what the figure of a result shows, with n."""
        name = self.plot.__name__.replace("plot_", "describe_")
        text: str = getattr(sys.modules[self.plot.__module__], name)(result)
        return text


_LONGEST: Final = 300  # characters of an error
_ENTRIES: Final[dict[str, FigureEntry]] = {}


def figure(name: str, /, *, result: str, reading: str) -> Callable[[Plot], Plot]:
    """Register a function that draws a figure.

    The function draws in traceana's style, and its docstring describes `ax`, result and errors.
    `reading` states how the figure is read. ``describe_<figure>`` in the same module returns a
    sentence for the caption.

    Examples
    --------
    >>> from traceana.figures import figure
    >>> draws = figure("runtimes", result="jobs", reading="Bar: jobs of that runtime.")
    >>> @draws  # doctest: +SKIP
    ... def plot_runtimes(jobs, /, *, ax): ...
    """

    def register(plot: Plot) -> Plot:
        @wraps(plot)
        def styled(*args: object, **options: object) -> Axes:
            if "figsize" in options:
                raise DataError(
                    f"{name} has no figsize: pass ax= of a figure of that size, or call "
                    "get_figure().set_size_inches(...) of the axes that it returns"
                )
            with use_style(), follow_axes(cast("Axes | None", options.get("ax"))):
                try:
                    ax = plot(*args, **options)
                    shorten_legends(ax)
                except (TraceanaError, Warning, MemoryError):
                    raise
                except Exception as error:
                    said = (str(error).splitlines() or [type(error).__name__])[0]
                    raise DataError(
                        f"{name} cannot be drawn from this: pass what {result} returns, as a frame "
                        f"of Polars, and known options ({said[:_LONGEST]})"
                    ) from error
                return ax

        text = inspect.cleandoc(plot.__doc__ or "")
        styled.__doc__ = _PARAMETERS.sub(rf"\1{_AX}\2{_RETURNS}", text, 1)
        _ENTRIES[name] = FigureEntry(styled, result, reading)
        return cast("Plot", styled)

    return register


def figures() -> dict[str, FigureEntry]:
    """Return every registered figure by its id.

    Examples
    --------
    >>> from traceana.figures import figures
    >>> "gpu-demand" in figures()
    True
    """
    for _ in import_named("questions/*/figures*.py", "drawing/small_multiples.py"):
        pass  # each registers its figures
    return dict(sorted(_ENTRIES.items()))


def get_figure(name: str, /) -> FigureEntry:
    """Return a figure by its id.

    Examples
    --------
    >>> from traceana.figures import get_figure
    >>> get_figure("gpu-demand").plot.__name__
    'plot_gpu_demand'
    """
    by_name = figures()
    if name not in by_name:
        hint = did_you_mean(name, by_name)
        raise DataError(f"no figure is called {name!r}; the figures are {', '.join(by_name)}{hint}")
    return by_name[name]


def draw_figure(name: str, result: Any, /, **options: object) -> Figure:  # noqa: ANN401
    """Draw a result as a registered figure on new axes.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import draw_figure
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> figure = draw_figure("gpu-demand", traceana.gpu_demand(jobs))
    >>> figure.axes[0].get_ylabel()
    'Requested GPUs'
    """
    drawn = get_figure(name).plot(result, **options).get_figure(root=True)
    assert isinstance(drawn, Figure)  # noqa: S101  (new axes stand on a new figure)
    return drawn
