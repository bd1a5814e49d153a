"""Registry of the figures, each with its function, input and reading; several as panels of one."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Protocol, TypeVar, cast

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from traceana.drawing.labels import DurationLocator, shorten_legends
from traceana.drawing.style import WIDTH_IN, figure_of, follow_axes, use_style
from traceana.errors import DataError, TraceanaError, did_you_mean
from traceana.modules import import_named
from traceana.tables.formatting import plural

Plot = TypeVar("Plot", bound="Callable[..., Axes]")
_PARAMETERS: Final = re.compile(r"(Parameters\n-+\n\S+\n(?: {4}.*\n)+)((?:\S.*\n(?: {4}.*\n)+)*)")
_AX: Final = "ax\n    Axes to draw on; by default those of a new figure.\n"
_FUNCTIONS: Final = re.compile(r"(\w+(?: or \w+)?)((?: of | with |, ).*|)")
"""What a figure takes, if it is the result of functions, and which part of it."""
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

    Examples
    --------
    >>> from traceana.figures import get_figure
    >>> get_figure("energy-front").result
    'energy_to_accuracy'
    """

    plot: Callable[..., Axes]
    """Draws a result on axes and returns them."""
    result: str
    """What the figure takes: rows of a table, or the result of an analysis."""
    reading: str
    """How the figure is read."""
    counts: tuple[pl.Expr, str] | None = None
    """What n of the caption is: an expression over the input, and a noun."""

    @property
    def shows(self) -> str:
        """What the figure shows, from the first line of the docstring of `plot`."""
        return (self.plot.__doc__ or "").partition("\n")[0].removeprefix("Draw ").strip()

    def describe(self, result: Any, /) -> str:  # noqa: ANN401  whatever the figure takes
        """Return n of a result, or what ``describe_<figure>`` in the figure's module returns."""
        name = self.plot.__name__.replace("plot_", "describe_")
        described = getattr(sys.modules[self.plot.__module__], name, None)
        if described is not None or self.counts is None:
            return "" if described is None else described(result)
        expression, noun = self.counts
        frame = result
        if not isinstance(result, pl.DataFrame):
            frames = (getattr(result, name) for name in result.tables)
            needed = {*expression.meta.root_names()}
            frame = next(each for each in frames if each is not None and needed <= {*each.columns})
        return f"n = {plural(int(frame.select(expression).item()), noun)}."


def _documented(plot: Callable[..., Axes], result: str) -> str:
    """Return the docstring with what every figure has: its input, `ax`, Returns and Raises."""
    text = inspect.cleandoc(plot.__doc__ or "")
    first = next(iter(inspect.signature(plot).parameters))
    source = _FUNCTIONS.fullmatch(result)
    if source and f"\n{first}\n    " not in text:
        named = re.sub(r"\b(?!or\b)\w+", r"`\g<0>`", source[1])
        head = "Parameters\n----------\n"
        text = text if head in text else text.replace("Examples\n---", f"{head}\nExamples\n---", 1)
        text = text.replace(head, f"{head}{first}\n    What {named} returns{source[2]}.\n", 1)
    return _PARAMETERS.sub(rf"\1{_AX}\2{_RETURNS}", text, 1)


_LONGEST: Final = 300  # characters of an error
_ENTRIES: Final[dict[str, FigureEntry]] = {}


def figure(
    name: str, /, *, result: str, reading: str, counts: tuple[pl.Expr, str] | None = None
) -> Callable[[Plot], Plot]:
    """Register a function that draws a figure.

    The function draws in traceana's style, and its docstring describes `ax`, its input unless it
    does so itself, what it returns and errors.

    Parameters
    ----------
    name
        Id of the figure, such as ``"gpu-demand"``.
    result
        What the function draws, for the list of figures.
    reading
        How the figure is read.
    counts
        n in the caption: an expression over the input and a noun. None: the caption has the
        sentence that ``describe_<figure>`` in the same module returns.

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
            if (
                isinstance(args[0] if args else None, pl.DataFrame)
                and cast("Any", args[0]).is_empty()
            ):
                raise DataError(f"{plot.__name__} has nothing to draw: there is no row")
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

        styled.__doc__ = _documented(plot, result)
        _ENTRIES[name] = FigureEntry(styled, result, reading, counts)
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
    for _ in import_named("questions/*/figures*.py"):
        pass  # each registers its figures
    return dict(sorted(_ENTRIES.items()))


def get_figure(name: str, /) -> FigureEntry:
    """Return a figure by its id.

    Parameters
    ----------
    name
        Id of the figure; one that does not exist is an error that lists them all.

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

    Parameters
    ----------
    name
        Id of the figure.
    result
        What it takes.
    options
        Options of the function that draws it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> figure = traceana.figures.draw_figure("gpu-demand", traceana.gpu_demand(jobs))
    >>> figure.axes[0].get_ylabel()
    'Requested GPUs'
    """
    return figure_of(get_figure(name).plot(result, **options))


class Panel(Protocol):
    """What one panel shows: the id of its figure, what that takes, and its options."""

    @property
    def figure(self) -> str:
        """Id of the figure."""

    @property
    def result(self) -> Any:  # noqa: ANN401  whatever the figure takes
        """What it takes."""

    @property
    def options(self) -> dict[str, Any]:
        """Its options."""


@figure(
    "small-multiples",
    result="several results, each for one panel",
    reading="Each panel is read as the figure of its kind.",
)
def plot_small_multiples(
    panels: Sequence[Panel],
    /,
    *,
    ax: Axes | None = None,
    columns: int = 1,
    heights_in: Sequence[float] = (),
    share_x: bool = False,
) -> Axes:
    """Draw several figures as panels of one.

    Returned are the axes of the first panel; the others are in its figure.

    Parameters
    ----------
    panels
        Each with the id of a figure, its result and its options.
    columns
        Panels in a row.
    heights_in
        Height of each row in inches; by default 2.
    share_x
        Whether all panels have the horizontal axis of the widest, labeled at the bottom only.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from types import SimpleNamespace
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> demand = traceana.gpu_demand(jobs)
    >>> panel = SimpleNamespace(figure="gpu-demand", result=demand, options={})
    >>> len(traceana.figures.plot_small_multiples([panel, panel], columns=2).figure.axes)
    2
    """
    if not panels or ax is not None:
        raise DataError("small multiples need at least one panel and a figure of their own")
    rows = math.ceil(len(panels) / columns)
    heights = list(heights_in) or [2.0] * rows
    drawn = Figure(figsize=(WIDTH_IN * max(1.0, 0.62 * columns), sum(heights)))
    grid = drawn.add_gridspec(rows, columns, height_ratios=heights)
    axes = []
    for place, panel in enumerate(panels):
        axes.append(drawn.add_subplot(grid[divmod(place, columns)]))
        get_figure(panel.figure).plot(panel.result, ax=axes[-1], **panel.options)
        for artist in axes[-1].findobj(lambda each: each.get_gid() is not None) if place else ():
            artist.set_gid(f"{artist.get_gid()}-{place + 1}")  # ids within an SVG are unique
    for each in axes:
        if each.get_ylabel() == each.get_title(loc="left"):
            each.set_ylabel("")
    if share_x:
        low, high = (
            min(each.get_xlim()[0] for each in axes),
            max(each.get_xlim()[1] for each in axes),
        )
        widest = max(
            axes, key=lambda each: np.ptp(each.xaxis.get_transform().transform(each.get_xlim()))
        )
        ticks = FixedLocator([*widest.get_xticks()])  # of a narrower panel they would overlap
        if isinstance(chosen := widest.xaxis.get_major_locator(), DurationLocator):
            ticks = chosen.between(low, high)
        for place, each in enumerate(axes):
            each.set_xlim(low, high)
            each.xaxis.set_major_locator(ticks)
            if place + columns < len(axes):
                each.set_xlabel("")
    return axes[0]


def describe_small_multiples(panels: Sequence[Panel]) -> str:
    """Return what the first panel shows, and how many panels there are."""
    first = get_figure(panels[0].figure).describe(panels[0].result)
    return first if len(panels) == 1 else f"{len(panels)} panels. First panel: {first}"
