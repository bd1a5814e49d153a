"""``traceana figures``: list the figures, or write them as files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

from rich.table import Table

from traceana.claims.papers import PublishedFigure, figures_of, numbered, options_of, traces_of
from traceana.cli.options import readable_traces
from traceana.cli.output import print_table, show_steps
from traceana.errors import DataError
from traceana.figures import figures as all_figures
from traceana.report.build import find_data_source
from traceana.report.figure_files import WrittenFigures, check_figures, write_figures
from traceana.store import Store


def figures(
    ids: list[str] | None = None,
    *,
    store: Path | None = None,
    out: Path | None = None,
    paper: str | None = None,
    number: str | None = None,
    trace: str | None = None,
    job: str | None = None,
    gpu: str | None = None,
    dataset: str | None = None,
    feature: str | None = None,
    outcome: str | None = None,
    method: str | None = None,
    formats: str = "svg,pdf,png",
    dpi: int = 300,
    size: str | None = None,
    style: str = "page",
) -> None:
    """List the figures, or write them as SVG, PDF and PNG."""
    if number is not None and (paper is None or ids):
        raise DataError("--number needs --paper, and no ID; write --paper zeus --number 7a")
    if not ids and out is None and number is None:
        _list_figures(paper)
        return
    chosen = {"trace": trace, "job": job, "gpu": gpu, "dataset": dataset}
    chosen |= {"feature": feature, "outcome": outcome, "method": method}
    files = {"out": out or "figures", "formats": formats, "dpi": dpi, "size": size}
    given = {name: value for name, value in chosen.items() if value is not None}
    wanted = _wanted(ids, paper, number)  # wrong ids are named before the store is read
    data_source = find_data_source(store)
    if data_source.is_sample:
        sys.stderr.write(f"traceana: note: {data_source.notice}\n")
    stored = nullcontext() if data_source.is_sample else readable_traces(Store(data_source.path))
    with stored as opened:
        with show_steps("figures") as on_step:
            options = files | given | {"store": opened, "style": style, "on_step": on_step}
            written = [*_write(wanted, options, paper)]
        _print_written(written)


def _print_written(written: list[WrittenFigures]) -> None:
    for line in dict.fromkeys(chain.from_iterable(files.absent for files in written)):
        sys.stderr.write(f"traceana: note: {line}\n")
    for path in dict.fromkeys(chain.from_iterable(files.paths for files in written)):
        sys.stdout.write(f"{path}\n")


def _wanted(
    ids: list[str] | None, paper: str | None, number: str | None
) -> list[tuple[list[str], dict[str, Any], PublishedFigure | None]]:
    """Return ids of figures, with the options that choose their versions, and the published one."""
    if paper is None or ids:
        check_figures(ids or [])
        return [(ids or [], {}, None)]
    published = figures_of(paper) if number is None else numbered(paper, number)
    if not any(entry.figure for entry in published):
        raise DataError(f"figure {number} of {paper} is {published[0].answer}")
    traces: dict[str, Any] = {"trace": traces_of(paper) or None}
    drawn = {(entry.figure, entry.options): entry for entry in published if entry.figure}
    return [([entry.figure], options_of(entry) | traces, entry) for entry in drawn.values()]


def _write(
    wanted: list[tuple[list[str], dict[str, Any], PublishedFigure | None]],
    options: dict[str, Any],
    paper: str | None,
) -> Iterator[WrittenFigures]:
    for names, versions, entry in wanted:
        try:
            yield write_figures(names, **(versions | options))
        except DataError as error:
            text = str(error)
            if entry is not None:
                if entry.needs:
                    text = f"the store lacks {entry.needs}"
                elif versions.get("trace"):  # which of its tables is a long list
                    lacks = f"; it needs further tables of {' or '.join(versions['trace'])}"
                    text = text.partition("; it needs")[0] + lacks
                number = f"figure {entry.number}" if entry.number else "a figure"
                text = f"{number} of {paper}, {entry.shows}: {text}"
            if len(wanted) == 1:
                raise DataError(text) from None
            sys.stderr.write(f"traceana: note: {text}\n")


def _list_figures(paper: str | None) -> None:
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    if paper is not None:
        for heading in ("number", "published figure", "command, or why there is none"):
            shown.add_column(heading)
        for published in figures_of(paper):
            shown.add_row(published.number, published.shows, published.answer)
        print_table(shown)
        return
    shown.add_column("figure", no_wrap=True)
    shown.add_column("what it shows, and what it is drawn from")
    for name, entry in all_figures().items():
        shown.add_row(name, f"{entry.shows}\nfrom: {entry.result}")
    print_table(shown)
    sys.stdout.write("traceana figures ID... [--out DIR] writes them\n")
