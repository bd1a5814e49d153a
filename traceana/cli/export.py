"""``traceana export TRACE --out DIR``: tables as files for other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from traceana.cli.options import StoreOption


def export(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Id of the trace.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the files.")],
    store: StoreOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Table (repeatable).  [default: all]"),
    ] = None,
    file_format: Annotated[
        str, typer.Option("--format", metavar="parquet|csv|swf", help="Format of the files.")
    ] = "parquet",
) -> None:
    """Export tables as Parquet, CSV or SWF.

    SWF is the Standard Workload Format; it has only jobs.
    """
    from traceana.exchange import export_tables

    paths = export_tables(trace, out=out, store=store, tables=table or (), file_format=file_format)
    sys.stdout.writelines(f"{path}\n" for path in paths)
