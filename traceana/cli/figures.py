"""``traceana figures``: list the figures, or write them as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from traceana.cli.options import StoreOption


def figures(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="Figures to write; none, and no --out, lists them."),
    ] = None,
    *,
    store: StoreOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the files; without an ID, every figure.  [default: figures]",
        ),
    ] = None,
) -> None:
    """List the figures, or write them as SVG, PDF and PNG.

    Every picture that the report has of a figure is written.
    """
    if not ids and out is None:
        _list_figures()
        return
    from traceana.cli.output import show_steps
    from traceana.report import check_figures, count_workers, find_origin, write_figures

    check_figures(ids or ())  # before anything is said of a store
    origin = find_origin(store)
    if origin.is_sample:
        sys.stderr.write(f"traceana: note: {origin.notice}\n")
    with show_steps("figures") as on_step:
        written = write_figures(
            ids or (), store=store, out=out or "figures", workers=count_workers(), on_step=on_step
        )
    for line in written.absent:
        sys.stderr.write(f"traceana: note: {line}\n")
    sys.stdout.write("".join(f"{path}\n" for path in written.paths))


def _list_figures() -> None:
    from rich.table import Table

    from traceana.cli.output import print_table
    from traceana.figures import figures as all_figures

    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    shown.add_column("figure", no_wrap=True)
    shown.add_column("what it shows, what it is drawn from, and which published one it is")
    for name, entry in all_figures().items():
        told = (entry.shows, f"from: {entry.result}", f"source: {entry.source}")
        shown.add_row(name, "\n".join(told))
    print_table(shown)
    sys.stdout.write("traceana figures ID... [--out DIR] writes them\n")
