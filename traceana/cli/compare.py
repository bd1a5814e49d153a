"""``traceana compare TRACE TRACE...``: traces side by side."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from traceana.cli.limits import (
    SinceOption,
    UntilOption,
    WhereOption,
    WindowOption,
    limited_store,
)
from traceana.cli.options import JsonOption, OutOption, StoreOption

if TYPE_CHECKING:
    import polars as pl


def compare(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Ids of traces in the store.")
    ],
    *,
    store: StoreOption = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Compare one trace before and after this date or time.",
        ),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    window: WindowOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Compare headline numbers of traces.

    Numbers on runtime, size, queueing, failure, concentration and stragglers.
    """
    from traceana.cli.output import frame_writer, print_json
    from traceana.errors import DataError
    from traceana.exchange import select_jobs
    from traceana.questions.comparison.compare_traces import compare_traces
    from traceana.questions.comparison.tables import Comparison
    from traceana.store import open_store

    if (split is None) != (len(traces) > 1):
        raise DataError("name two traces or more, or one and --split TIME")
    write = frame_writer(out, Comparison)
    with (
        limited_store(store, since=since, until=until, where=where, window=window) as store_,
        TemporaryDirectory(prefix="traceana-") as scratch,
    ):
        place = store_
        if split is not None:
            [trace], place = traces, Path(scratch)
            traces = [f"{trace}-before", f"{trace}-after"]
            select_jobs(trace, out=place, store=store_, until=split, name=traces[0])
            select_jobs(trace, out=place, store=store_, since=split, name=traces[1])
        found = compare_traces([*map(open_store(place).trace, traces)])
    write(found)
    if json:
        print_json(found.rows(named=True))
    else:
        _show(found)


def _show(found: pl.DataFrame) -> None:
    """Print the measures that several traces have, and why the others are not compared."""
    import polars as pl
    from rich.table import Table

    from traceana.cli.output import print_table
    from traceana.cli.streams import terminal
    from traceana.questions.comparison.tables import Comparison, reasons
    from traceana.tables.display import cells_of

    compared = found.filter(pl.col("estimate").count().over("question") > 1)
    known = compared.drop_nulls("estimate")
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for heading in ("Estimate", "95 % CI", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    for (measure,), rows in known.group_by("measure", maintain_order=True):
        table.add_row(str(measure))
        rows = rows.sort("rank", maintain_order=True)  # noqa: PLW2901
        cells = cells_of(rows, Comparison, columns=["rank", "trace", "estimate", "ci_low",
                                                    "ci_high", "n"])  # fmt: skip
        for rank, trace, *numbers in cells.rows:
            table.add_row(f"  {rank}. {trace}", *numbers)
    if known.height:
        print_table(table)
    out = terminal()
    for heading, lines in (
        ("Not compared", reasons(found, answered=False)),
        ("Notes", reasons(compared, answered=True)),
    ):
        if lines:
            out.print(f"\n{heading}")
        for line in lines:
            text = fill(line, 98, initial_indent="- ", subsequent_indent="  ")
            out.print(text, soft_wrap=True)
