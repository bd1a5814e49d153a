"""``traceana compare TRACE TRACE...``: traces or files side by side."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, Final

import polars as pl
import typer
from rich.table import Table

from traceana.cli.limits import check_limits, limited_store
from traceana.cli.output import print_json, print_rows, print_table, terminal, write_frame
from traceana.errors import DataError
from traceana.exchange import select_jobs
from traceana.ingesters import ingest
from traceana.opening import compare as compare_two
from traceana.questions.comparison.compare_traces import (
    Changes,
    Comparison,
    check_condition,
    compare_traces,
    holds,
    reasons,
)
from traceana.store import open_store
from traceana.store.manifest import MANIFEST
from traceana.store.store import store_path
from traceana.tables.display import cells_of

_HEADINGS: Final = {"runtime_s_median": "Median runtime including running jobs (s)"}
"""What a measure is called beside the changes, where another is alike."""


def compare(
    traces: list[str],
    *,
    store: Path | None = None,
    mapping: Path | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    split: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: str | None = None,
    window: tuple[str, str] | None = None,
    fail_if: str | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Compare headline numbers of traces, or of one trace before and after a time."""
    if (split is None) != (len(traces) > 1):
        raise DataError("name two traces or more, or one and --split TIME")
    if fail_if is not None:
        check_condition(fail_if)
        if len(traces) > 2:
            raise DataError("--fail-if is for two traces, or one and --split TIME")
    check_limits(since, until, window)
    changes = None
    with (
        TemporaryDirectory(prefix="traceana-") as scratch,
        _with_files(traces, store, mapping=mapping, reader=reader, timezone=timezone) as (
            source,
            traces,  # noqa: PLR1704  files have ids from here on
        ),
        limited_store(
            open_store(source), since=since, until=until, where=where, window=window
        ) as place,
    ):
        if split is not None:
            [trace], of_parts = traces, Path(scratch)
            changes = compare_two(place.trace(trace), split=split)
            names = [f"{trace}-before", f"{trace}-after"]
            select_jobs(trace, out=of_parts, store=place.path, until=split, name=names[0])
            select_jobs(trace, out=of_parts, store=place.path, since=split, name=names[1])
            opened = [*map(open_store(of_parts).trace, names)]
        else:
            opened = [*map(place.trace, traces)]
            # traces without jobs have no changes
            with suppress(DataError) if fail_if is None else nullcontext():
                changes = compare_two(*opened) if len(opened) == 2 else None
        comparison = compare_traces(opened)
    write_frame(comparison, out, Comparison)
    if json:
        rows = comparison.rows(named=True)
        more = [] if changes is None else changes.rows(named=True)
        print_json([*rows, *({"question": "Change", **row} for row in more)])
    else:
        _show(comparison, ranked=split is None)
        if changes is not None:
            stated = {each.manifest.own_failures for each in opened} - {""}
            failures = f" Failures of the published definition: {' '.join(sorted(stated))}" * bool(
                stated
            )
            terminal().print(
                "\nChanges are exact; the interval of a ratio states what other days would give. "
                f"median_runtime_s is of jobs that ended.{failures}"
            )
            shown = ["measure", "before", "after", "difference", "ratio", "ci_low", "ci_high"]
            print_rows(changes, Changes, columns=shown)
    if fail_if is not None and changes is not None and holds(changes, fail_if):
        sys.stderr.write(f"traceana: --fail-if holds: {fail_if}\n")
        raise typer.Exit(1)


@contextmanager
def _with_files(
    names: list[str],
    store: Path | None,
    **read: Any,  # noqa: ANN401  options of ingest()
) -> Iterator[tuple[Path | None, list[str]]]:
    """Yield a store with the traces and those of the files among the names, and all ids."""
    given = store_path(store)
    files = [
        name for name in names if Path(name).exists() and not (given / name / MANIFEST).exists()
    ]
    if not files:
        if any(read.values()):
            raise DataError("--mapping, --reader and --timezone are for files: name them")
        yield store, names
        return
    with TemporaryDirectory(prefix="traceana-") as scratch:
        place, ids = Path(scratch) / "store", list[str]()
        place.mkdir()
        for name in names:
            if name not in files:
                (place / name).symlink_to((given / name).resolve())
                ids.append(name)
                continue
            stem = Path(name).resolve().name.partition(".")[0].lower()
            trace = re.sub(r"[^a-z0-9]+", "-", stem).strip("-") or "file"
            trace = trace if trace not in ids else f"{trace}-{len(ids) + 1}"
            sys.stderr.write(f"{ingest(name, trace=trace, store=place, **read)}\n")
            ids.append(trace)
        yield place, ids


def _show(frame: pl.DataFrame, *, ranked: bool) -> None:
    compared = frame.filter(pl.col("estimate").count().over("question") > 1)
    compared_rows = compared.drop_nulls("estimate")
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for heading in ("Estimate", "95 % CI", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    for (name, measure), rows in compared_rows.group_by("name", "measure", maintain_order=True):
        table.add_row(_HEADINGS.get(str(name), str(measure)))
        rows = rows.sort("rank", maintain_order=True) if ranked else rows  # noqa: PLW2901
        cells = cells_of(
            rows, Comparison, columns=["rank", "trace", "estimate", "ci_low", "ci_high", "n"]
        )
        for rank, trace, *numbers in cells.rows:
            table.add_row(f"  {rank}. {trace}" if ranked else f"  {trace}", *numbers)
    if compared_rows.height:
        print_table(table)
    out = terminal()
    for heading, lines in (
        ("Not compared", reasons(frame, answered=False)),
        ("Notes", reasons(compared, answered=True)),
    ):
        if lines:
            out.print(f"\n{heading}")
        for line in lines:
            text = fill(line, out.width, initial_indent="- ", subsequent_indent="  ")
            out.print(text, soft_wrap=True)
