"""Write the synthetic sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def sample(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder: new, empty, or with an earlier sample.")
    ],
    trace: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Trace to write (repeatable).  [default: all]"),
    ] = None,
) -> None:
    """Write the synthetic sample in the publishers' own formats.

    It contains no real data.
    """
    import json
    import shlex

    from rich.table import Table

    from traceana.cli.output import print_table
    from traceana.cli.streams import terminal
    from traceana.samples import write_sample

    written = write_sample(folder, traces=trace)
    table = Table(box=None, pad_edge=False)
    table.add_column("trace", no_wrap=True)
    for name in ("scale", "rows", "MB"):
        table.add_column(name, justify="right")
    for marker in sorted(written.glob("*/SYNTHETIC.json")):
        about = json.loads(marker.read_text())
        size = sum(path.stat().st_size for path in marker.parent.iterdir())
        rows = sum(about["rows"].values())
        table.add_row(about["trace"], f"{about['scale']:g}", f"{rows:,}", f"{size / 1e6:.1f}")
    console = terminal()
    console.print("SYNTHETIC, no observed row in it")
    print_table(table)
    console.print(f"next: traceana ingest {shlex.quote(str(folder))}", soft_wrap=True)
