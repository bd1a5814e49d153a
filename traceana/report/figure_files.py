"""Figures as files: pictures of a store, chosen by figure, trace, job, GPU and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.page.section import Context, DataSource
from traceana.report.build import cannot_write, choose, open_given
from traceana.report.chosen_drawings import Choice, Kept, choose_drawings
from traceana.report.run import draw
from traceana.store import Store, Trace
from traceana.store.writer import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE_FORMATS: Final = ("svg", "pdf", "png")
FIGURE_STYLES: Final = ("page", "paper")
_MM: Final = {"mm": 1.0, "cm": 10.0, "in": 25.4, "": 1.0}
_WIDTHS_MM: Final = (20.0, 1000.0)
_DPIS: Final = (30, 2400)


@dataclass(frozen=True)
class WrittenFigures:
    """Files of figures, and the figures that could not be drawn.

    Examples
    --------
    >>> from pathlib import Path
    >>> from traceana.report import WrittenFigures
    >>> written = WrittenFigures(paths=(Path("figures/gpu-demand.svg"),), absent=())
    >>> [path.suffix for path in written.paths]
    ['.svg']
    """

    paths: tuple[Path, ...]
    """Every file."""
    absent: tuple[str, ...]
    """One line per figure without data in the store: what is missing, and the remedy."""

    def __str__(self) -> str:
        return "\n".join([*map(str, self.paths), *self.absent])


def write_figures(
    figures: str | Sequence[str] = (),
    /,
    *,
    store: str | PathLike[str] | Store | None = None,
    out: str | PathLike[str] = "figures",
    trace: str | Sequence[str] | None = None,
    job: str | None = None,
    gpu: str | None = None,
    dataset: str | None = None,
    feature: str | None = None,
    outcome: str | None = None,
    method: str | None = None,
    formats: str | Sequence[str] = FIGURE_FORMATS,
    dpi: int = 300,
    size: str | float | None = None,
    style: str = "page",
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
        Id of a trace, or several, of which those in the store are taken.
    job, gpu, dataset, feature, outcome
        Id of a job, name of a GPU or data set, column such as gpus, outcome such as failed.
    method
        Method of a correlation, pearson or spearman.
    formats
        One or several of svg, pdf and png.
    dpi
        Resolution of PNG, and of images within a PDF.
    size
        Width, such as "84mm", "8.4cm" or "3.3in"; a number is in mm. None: 3.6 in.
    style
        "page", or "paper": no title within a figure of one panel, and colors that differ when
        printed in gray, with a line style each.

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
    if method not in (None, "pearson", "spearman"):
        raise DataError(f"method must be pearson or spearman; it is {method!r}")
    suffixes = choose(formats, FIGURE_FORMATS, what="format")
    if not _DPIS[0] <= dpi <= _DPIS[1]:
        raise DataError(f"dpi must be from {_DPIS[0]} to {_DPIS[1]}; it is {dpi}")
    width_in = _parse_width(size)
    paper = choose(style, FIGURE_STYLES, what="style") == ["paper"]
    choice = Choice(job, gpu, dataset, feature, outcome, method)
    report_step = on_step or (lambda _done, _steps, _what: None)
    context = open_given(store)
    if isinstance(trace, str) and trace not in context.ledgers:
        raise DataError(f"the store has no trace {trace!r}; it has {', '.join(context.ledgers)}")
    of = (trace,) if isinstance(trace, str) else trace
    folder = Path(out)
    paths: list[Path] = []
    absent: list[str] = []
    kept: Kept = {}
    for done, name in enumerate(ids, start=1):
        try:
            drawings = choose_drawings(context, name, of, choice, kept)
        except DataError as error:
            absent.append(f"{name}: {error}")
            continue
        drawn = []
        for drawing in drawings:
            try:
                files, caption, described = draw(
                    drawing, context, suffixes, dpi=dpi, width_in=width_in, paper=paper
                )
            except DataError as error:
                absent.append(f"{name}, {drawing.key}: {error}")
            else:
                mark = " SYNTHETIC data: no real system is shown."
                mark = mark if context.synthetic(drawing.trace) else ""
                drawn.append((drawing.key, files, f"{caption} {described}{mark}"))
        if drawn:
            paths += _write(folder, name, drawn)
        report_step(done, len(ids), name)
    if not paths:
        raise DataError("; ".join(absent))
    return WrittenFigures(tuple(paths), tuple(absent))


def plot_trace(trace: Trace, figure: str, /, *, ax: Axes | None = None, **options: object) -> Axes:
    """Draw a figure of a trace: the first of those in its report."""
    from traceana.figures import get_figure  # noqa: PLC0415  matplotlib is slow to load

    [name] = check_figures(figure)
    context = Context(trace.store, DataSource(trace.store.path, is_sample=False))
    first = choose_drawings(context, name, (trace.id,), Choice(), {})[0]
    return get_figure(name).plot(first.result, ax=ax, **(first.options | options))


def check_figures(figures: str | Sequence[str], /) -> list[str]:
    """Return the ids of figures; none means all."""
    from traceana.figures import figures as all_figures  # noqa: PLC0415  matplotlib is slow to load

    return choose(figures, list(all_figures()), what="figure")


def _write(folder: Path, name: str, drawn: list[tuple[str, dict[str, bytes], str]]) -> list[Path]:
    from traceana.figures import get_figure  # noqa: PLC0415  as above

    listed = folder / f"{name}.captions.md"
    contents: dict[Path, bytes] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # pictures of an earlier call, such as other numbers of a paper, keep their captions
        earlier = listed.read_text("utf-8") if listed.is_file() else ""
        captions = dict(re.findall(r"^\*\*(.+?)\*\*: (.+)$", earlier, re.MULTILINE))
        for key, files, caption in drawn:
            for suffix, content in files.items():
                contents[folder / f"{key}.{suffix}"] = content
            captions[key] = caption
        lines = (f"**{key}**: {caption}" for key, caption in captions.items())
        text = "\n\n".join([f"# {name}", get_figure(name).reading, *lines])
        write_whole(contents | {listed: f"{text}\n".encode()})
    except OSError as error:
        raise cannot_write(folder, "figures", error) from error
    return [*contents, listed]


def _parse_width(size: str | float | None) -> float | None:
    if size is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(mm|cm|in|)\s*", str(size))
    width_mm = float(match[1]) * _MM[match[2]] if match else 0.0
    if not _WIDTHS_MM[0] <= width_mm <= _WIDTHS_MM[1]:
        raise DataError(
            f"size must be a width from 20 mm to 1,000 mm, such as 84mm, 8.4cm or 3.3in; it is "
            f"{size!r}"
        )
    return width_mm / _MM["in"]
