"""``traceana report``: one page from what a store holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from traceana.cli.options import StoreOption


def report(
    *,
    store: StoreOption = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the page; replaced where it exists.")
    ] = Path("reports/latest"),
) -> None:
    """Build a report: one self-contained page; from a synthetic sample where there is no store."""
    from rich.console import Console
    from rich.progress import Progress

    from traceana.report import build_report, find_origin

    origin = find_origin(store)
    if origin.is_sample:
        sys.stderr.write(f"traceana: note: {origin.notice}\n")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("report", total=None)

        def show(done: int, steps: int, what: str) -> None:
            progress.update(bar, completed=done, total=steps, description=what)

        page = build_report(store, out=out, on_step=show)
    sys.stdout.write(f"{page}\n")
