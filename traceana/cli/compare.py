"""``traceana compare TRACE TRACE...``: traces side by side."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from traceana.cli.options import JsonOption, OutOption, StoreOption


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
            help="Compare one trace before and after this date or time of submission.",
        ),
    ] = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Compare headline numbers of traces.

    Numbers on runtime, size, queueing, failure, concentration and stragglers.
    """
    from traceana.cli.output import frame_writer, print_cells, print_json
    from traceana.derived.comparison import compare_traces
    from traceana.errors import DataError
    from traceana.exchange import select_jobs
    from traceana.results.comparison import Comparison
    from traceana.results.display import cells_of
    from traceana.store import open_store
    from traceana.store.session import Session

    if (split is None) != (len(traces) > 1):
        raise DataError("name two traces or more, or one and --split TIME")
    write = frame_writer(out, Comparison)
    with TemporaryDirectory(prefix="traceana-") as scratch:
        place = store
        if split is not None:
            [trace], place = traces, Path(scratch)
            traces = [f"{trace}-before", f"{trace}-after"]
            select_jobs(trace, out=place, store=store, until=split, name=traces[0])
            select_jobs(trace, out=place, store=store, since=split, name=traces[1])
        found = compare_traces(Session(open_store(place)), traces)
    write(found)
    if json:
        print_json(found.rows(named=True))
    else:
        print_cells(cells_of(found, Comparison))
