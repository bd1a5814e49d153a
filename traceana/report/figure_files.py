"""Figures as files: pictures of a store, chosen by figure, trace, job, GPU and so on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.page.blocks import Content, Drawing, Gallery
from traceana.page.context import Context, DataSource
from traceana.page.section import sections
from traceana.report.build import cannot_write, choose, open_context
from traceana.report.data_source import find_data_source
from traceana.report.figure_sources import DIRECT, Choice
from traceana.report.run import draw
from traceana.store.writer import write_bytes_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from matplotlib.axes import Axes

    from traceana.page.section import Section
    from traceana.store import Trace

FIGURE_FORMATS: Final = ("svg", "pdf", "png")
_MM: Final = {"mm": 1.0, "cm": 10.0, "in": 25.4, "": 1.0}
_WIDTHS_MM: Final = (20.0, 1000.0)
_DPIS: Final = (30, 2400)


@dataclass(frozen=True)
class WrittenFigures:
    """Files of figures, and the figures that could not be drawn.

    Attributes
    ----------
    paths
        Every file.
    absent
        One line per figure without data in the store: what is missing, and the remedy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from traceana.report import WrittenFigures
    >>> written = WrittenFigures(paths=(Path("figures/gpu-demand.svg"),), absent=())
    >>> [path.suffix for path in written.paths]
    ['.svg']
    """

    paths: tuple[Path, ...]
    absent: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.paths), *self.absent])


def write_figures(
    figures: str | Sequence[str] = (),
    /,
    *,
    store: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "figures",
    trace: str | None = None,
    job: str | None = None,
    gpu: str | None = None,
    dataset: str | None = None,
    feature: str | None = None,
    outcome: str | None = None,
    formats: str | Sequence[str] = FIGURE_FORMATS,
    dpi: int = 300,
    size: str | float | None = None,
    on_step: Callable[[int, int, str], None] | None = None,
) -> WrittenFigures:
    """Write the pictures of figures as SVG, PDF and PNG.

    By default these are the versions of each figure in the report, and some more; `trace` and the
    following parameters choose others. Captions are in ``<figure>.captions.md``; synthetic data is
    marked in both. The same data and versions give the same bytes.

    Parameters
    ----------
    figures
        Ids of figures; none means all.
    store, on_step
        As in :func:`build_report`.
    out
        Folder for the files; made if it does not exist.
    trace
        Id of a trace.
    job
        Id of a job.
    gpu, dataset
        Names of the GPU and the data set.
    feature
        Column of a feature, such as gpus.
    outcome
        Outcome, such as completed or failed.
    formats
        One or several of svg, pdf and png.
    dpi
        Resolution of PNG, and of images within a PDF.
    size
        Width, such as "84mm", "8.4cm" or "3.3in"; a number is in mm. None: 3.6 in. Text keeps its
        size.

    Raises
    ------
    DataError
        If the store has data for none of the figures.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0.0, 50.0], "start_s": [0.0, 60.0],
    ...                      "end_s": [3600.0, 7200.0], "gpus": [2, 4]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=folder)
    >>> written = traceana.write_figures("gpu-demand", store=folder, out=folder, formats="svg")
    >>> [path.name for path in written.paths]
    ['demand-mine.svg', 'gpu-demand.captions.md']
    """
    ids = check_figures(figures)
    suffixes = choose(formats, FIGURE_FORMATS, what="format")
    if not _DPIS[0] <= dpi <= _DPIS[1]:
        raise DataError(f"dpi must be from {_DPIS[0]} to {_DPIS[1]}; it is {dpi}")
    width_in = _parse_width(size)
    choice = Choice(job, gpu, dataset, feature, outcome)
    report_step = on_step or (lambda _done, _steps, _what: None)
    context = open_context(find_data_source(store))
    if trace is not None and trace not in context.ledgers:
        raise DataError(f"the store has no trace {trace!r}; it has {', '.join(context.ledgers)}")
    folder = Path(out)
    paths: list[Path] = []
    absent: list[str] = []
    kept: dict[str, tuple[Content, list[Drawing]]] = {}
    for done, name in enumerate(ids, start=1):
        try:
            drawings = _choose_drawings(context, name, trace, choice, kept)
        except DataError as error:
            absent.append(f"{name}: {error}")
            continue
        drawn = []
        for one in drawings:
            try:
                files, caption, described = draw(one, context, suffixes, dpi=dpi, width_in=width_in)
            except DataError as error:
                absent.append(f"{name}, {one.key}: {error}")
            else:
                mark = " SYNTHETIC data: no real system is shown."
                mark = mark if context.synthetic(one.trace) else ""
                drawn.append((one.key, files, f"{caption} {described}{mark}"))
        if drawn:
            paths += _write(folder, name, drawn)
        report_step(done, len(ids), name)
    if not paths:
        raise DataError("; ".join(absent))
    return WrittenFigures(tuple(paths), tuple(absent))


def plot_trace(trace: Trace, figure: str, /, *, ax: Axes | None = None, **options: object) -> Axes:
    """Draw a figure of a trace: the first of those in its report.

    Raises a DataError if the trace has not what the figure needs.

    Examples
    --------
    >>> import traceana
    >>> trace = traceana.open_sample().trace("microsoft-itp-2021")
    >>> trace.plot("concentration").get_ylabel()
    'Fraction of GPU-hours'
    """
    from traceana.figures import get_figure  # noqa: PLC0415  matplotlib is slow to load

    [name] = check_figures(figure)
    context = Context(trace.store, DataSource(trace.store.path, is_sample=False))
    first = _choose_drawings(context, name, trace.id, Choice(), {})[0]
    return get_figure(name).plot(first.result, ax=ax, **(first.options | options))


def check_figures(figures: str | Sequence[str], /) -> list[str]:
    """Return the ids of figures; none means all."""
    from traceana.figures import figures as all_figures  # noqa: PLC0415  matplotlib is slow to load

    return choose(figures, list(all_figures()), what="figure")


def _choose_drawings(
    context: Context,
    name: str,
    trace: str | None,
    choice: Choice,
    kept: dict[str, tuple[Content, list[Drawing]]],
) -> list[Drawing]:
    """Return the drawings of a figure that are chosen.

    Raises a DataError if there is none.
    """
    if name in DIRECT and choice.has(DIRECT[name].options):
        found, errors = _direct_drawings(context, name, trace, choice)
        if found:
            return found
        if errors:
            raise errors[0]
    own = [section for section in sections() if name in section.figures]
    for section in own:
        if section.id not in kept:
            kept[section.id] = _build(section, context, trace)
    contents = [kept[section.id] for section in own]
    drawings = [
        *(
            member
            for content, _ in contents
            for block in content.all_blocks
            if isinstance(block, Gallery)
            for picture in block.pictures
            if isinstance(picture, Drawing)
            for member in ((picture,) if picture.figure == name else picture.members)
        ),
        *(drawing for _, more in contents for drawing in more),
    ]
    known = list({one.key: one for one in drawings if one.figure == name}.values())
    if not known:
        raise DataError(_tell_absent(name, own))
    chosen = [drawing for drawing in known if choice.matches(drawing.key)]
    if not chosen:
        there = ", ".join(drawing.key for drawing in known)
        raise DataError(f"no figure has {choice}; available: {there}")
    return chosen


def _direct_drawings(
    context: Context, name: str, trace: str | None, choice: Choice
) -> tuple[list[Drawing], list[DataError]]:
    """Return the drawings of each trace, and the errors of those that have not what is chosen."""
    found, errors = [], []
    for one in DIRECT[name].traces(context):
        if trace in (None, one.id):
            try:
                drawings = DIRECT[name].drawings(one, choice)
            except DataError as error:
                errors.append(error)
            else:
                found += [drawing for drawing in drawings if drawing.figure == name]
    return found, errors


def _build(section: Section, context: Context, trace: str | None) -> tuple[Content, list[Drawing]]:
    """Return the content of a section and its further drawings, of one trace if one is named."""
    traces = [one for one in section.traces(context) if trace in (None, one.id)]
    more = section.more(traces) if section.more and traces else []
    if trace is None or not section.needs:
        return section.content(context), more
    return (section.build(traces) if traces else Content()), more


def _write(folder: Path, name: str, drawn: list[tuple[str, dict[str, bytes], str]]) -> list[Path]:
    """Write the pictures of a figure, and their captions."""
    from traceana.figures import get_figure  # noqa: PLC0415  as above

    captions = [f"# {name}", get_figure(name).reading]
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for key, files, caption in drawn:
            for suffix, content in files.items():
                paths.append(folder / f"{key}.{suffix}")
                write_bytes_whole(paths[-1], content)
            captions.append(f"**{key}**: {caption}")
        paths.append(folder / f"{name}.captions.md")
        write_bytes_whole(paths[-1], ("\n\n".join(captions) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder, "figures", error) from error
    return paths


def _parse_width(size: str | float | None) -> float | None:
    if size is None:
        return None
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(mm|cm|in|)\s*", str(size))
    width_mm = float(found[1]) * _MM[found[2]] if found else 0.0
    if not _WIDTHS_MM[0] <= width_mm <= _WIDTHS_MM[1]:
        raise DataError(
            f"size must be a width from 20 mm to 1,000 mm, such as 84mm, 8.4cm or 3.3in; it is "
            f"{size!r}"
        )
    return width_mm / _MM["in"]


def _tell_absent(name: str, own: list[Section]) -> str:
    """Return which tables a figure needs that its sections could not draw."""
    from traceana.figures import get_figure  # noqa: PLC0415  as above

    needed = " or ".join(dict.fromkeys(section.needed for section in own if section.needs))
    remedy = f"; it needs {needed}" if needed else ""
    return f"the store has nothing to draw it from ({get_figure(name).result}){remedy}"
