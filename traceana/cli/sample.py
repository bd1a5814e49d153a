"""Write the synthetic sample traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import TaskID


def sample(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="New or empty folder, or an earlier sample's.")
    ],
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Rows relative to the real trace, up to 100.  [default: small]"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The same seed and scale give the same bytes.")
    ] = 1,
    trace: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Trace to write, may be repeated.  [default: all]"),
    ] = None,
) -> None:
    """Write synthetic traces in the publishers' own formats.

    No row of real data is in them.
    """
    import json
    import shlex

    from rich.progress import Progress
    from rich.table import Table

    from traceana.cli.output import print_table
    from traceana.cli.streams import terminal
    from traceana.samples import write_sample

    stderr = terminal(stderr=True)
    with Progress(console=stderr, transient=True, disable=not stderr.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def show(name: str, share: float) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=1)
            bars.update(tasks[name], completed=share)

        written = write_sample(folder, scale=scale, seed=seed, traces=trace, progress=show)
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
