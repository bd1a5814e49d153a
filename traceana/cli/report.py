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
        Path, typer.Option(metavar="DIR", help="Folder for the report; replaced where it exists.")
    ] = Path("reports/latest"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECTION",
            help="Section to build, may be repeated; a wrong name lists them.  [default: every "
            "section]",
        ),
    ] = None,
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="Title of the report.")
    ] = "traceana report",
    formats: Annotated[
        str, typer.Option("--format", metavar="html,md", help="What to write.")
    ] = "html,md",
    engine: Annotated[
        str,
        typer.Option(
            metavar="polars|spark", help="What reduces the largest tables, those of Alibaba's PAI."
        ),
    ] = "polars",
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark's master: local[2], spark://host:7077.  [default: local[*]]"
        ),
    ] = None,
) -> None:
    """Build a report: one self-contained page, and Markdown.

    It is made from a synthetic sample where there is no store.
    """
    from traceana.cli.output import show_steps
    from traceana.report import build_report, check_sections, count_workers, find_origin

    check_sections(only or ())  # before anything is said of a store
    origin = find_origin(store)
    if origin.is_sample:
        sys.stderr.write(f"traceana: note: {origin.notice}\n")
    with show_steps("report") as on_step:
        page = build_report(
            store,
            out=out,
            only=only or (),
            title=title,
            formats=formats,
            workers=count_workers(),
            engine=engine,
            master=master,
            on_step=on_step,
        )
    sys.stdout.write(f"{page}\n")
