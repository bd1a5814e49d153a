"""``traceana report``: one page on the traces of a store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any

import typer

from traceana.cli.limits import check_limits, limited_store
from traceana.cli.options import readable_traces
from traceana.cli.output import TYPED, show_steps, terminal
from traceana.errors import DataError, SourceError
from traceana.ingesters import ingest
from traceana.report import run
from traceana.report.build import build_report, check_sections, find_data_source, summarize
from traceana.store import Store
from traceana.store.cache import FOLDER
from traceana.tables.formatting import text as shortened


def report(
    context: typer.Context,
    paths: list[Path] | None = None,
    *,
    store: Path | None = None,
    mapping: Path | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: str | None = None,
    window: tuple[str, str] | None = None,
    gpus: int | None = None,
    anonymize: bool = False,
    compare: list[str] | None = None,
    out: Path = Path("reports/latest"),
    only: list[str] | None = None,
    formats: str = "html,md",
    engine: str = "polars",
    master: str | None = None,
) -> None:
    """Build a report: page, Markdown, figures and data."""
    check_sections(only or ())  # before the store is looked for
    check_limits(since, until, window)
    read = {"mapping": mapping, "reader": reader, "timezone": timezone}
    of_files = bool(paths) and store is None
    results: list[str] = []
    failed: list[str] = []
    limits: dict[str, Any] = {"since": since, "until": until, "where": where, "window": window}
    limits |= {"anonymize": anonymize, "compare": compare, "gpus": gpus}
    with _open_store(paths, store, **read) as opened:
        with limited_store(opened, **limits) as place, show_steps("report") as on_step:
            page = build_report(
                place,
                out=out,
                only=only or (),
                formats=formats,
                workers=run.count_workers(),
                engine=engine,
                master=master,
                command=None if place is opened and not of_files else context.meta[TYPED],
                on_step=on_step,
                on_results=results.extend,
                on_failure=failed.extend,
            )
        if of_files:
            sys.stderr.write(
                f"traceana: note: kept: the report in {out}; deleted: the tables of the files (to "
                "keep them: --store DIR)\n"
            )
        _print_results(results)
        sys.stdout.write(f"{page}\n{page.absolute().as_uri()}\n")
        if failed:
            sys.stderr.write(f"traceana: not computed: {', '.join(failed)}; the page states why\n")
            raise typer.Exit(1)


def summary(
    paths: list[Path] | None = None,
    *,
    store: Path | None = None,
    mapping: Path | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: str | None = None,
    window: tuple[str, str] | None = None,
) -> None:
    """Print the main results of a report."""
    check_limits(since, until, window)
    limits: dict[str, Any] = {"since": since, "until": until, "where": where, "window": window}
    with _open_store(paths, store, mapping=mapping, reader=reader, timezone=timezone) as opened:
        with limited_store(opened, **limits) as place, show_steps("summary") as on_step:
            results = summarize(place, workers=run.count_workers(), on_step=on_step)
        _print_results(results)
        if not results:
            sys.stdout.write("no result stands out; traceana report has all numbers\n")


def _print_results(results: list[str]) -> None:
    for number, result in enumerate(results, start=1):
        text = f"{number}. {shortened(result).replace('`', '')}"
        sys.stdout.write(fill(text, terminal().width, subsequent_indent="   ") + "\n")


@contextmanager
def _open_store(
    paths: list[Path] | None,
    store: Path | None,
    **read: Any,  # noqa: ANN401  options of ingest()
) -> Iterator[Store | None]:
    """Yield the store, or a temporary one of the files, whose results are not kept either."""
    if not paths and any(read.values()):
        raise DataError("--mapping, --reader and --timezone are for files: name them (PATH...)")
    if paths and store is None:
        with TemporaryDirectory(prefix="traceana-") as scratch:
            place = Path(scratch) / "store"
            ledger = ingest(paths, store=place, **read)
            sys.stderr.write(f"{ledger}\n")
            if not any(entry.rows_kept for entry in ledger.entries):
                named = ", ".join(map(str, paths))
                raise SourceError(f"{named}: no row; check the dates and filters of the export")
            earlier = os.environ.get(FOLDER)
            os.environ[FOLDER] = str(Path(scratch) / "cache")
            try:
                yield Store(place)
            finally:
                os.environ.pop(FOLDER)
                if earlier is not None:
                    os.environ[FOLDER] = earlier
        return
    if paths:
        ingest(paths, store=store, **read)
    data_source = find_data_source(store)
    if data_source.is_sample:
        sys.stderr.write(f"traceana: note: {data_source.notice}\n")
        yield None
        return
    with readable_traces(Store(data_source.path)) as readable:
        yield readable
