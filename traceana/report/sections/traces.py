"""Each trace of the catalogue: what it is, whose it is, and what the store holds of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.catalog import load_catalog
from traceana.report.blocks import (
    Absent,
    Block,
    Column,
    Content,
    Facts,
    Heading,
    Points,
    Quote,
    Text,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.results.formatting import count, plural, size

if TYPE_CHECKING:
    from traceana.catalog import Trace
    from traceana.report.context import Context


def build(session: Context) -> Content:
    """Introduce each trace; of one that is not in the store, say how to get it."""
    held = session.store.tables()
    blocks: list[Block] = [
        Text(
            "What each trace is, where it is published and under which licence, and which of its "
            "tables this report is made from."
        )
    ]
    for trace in load_catalog().values():
        there = trace.id in session.ledgers
        blocks += [Heading(session.title(trace.id)), Text(trace.what)]
        if there:
            blocks += [*_about(trace), _tables(trace, held.filter(trace=trace.id))]
        else:
            blocks.append(
                Absent(
                    "It is not in the store.",
                    (
                        f"traceana fetch {trace.id} --to files/{trace.id}",
                        f"traceana ingest files/{trace.id} {session.origin.option}",
                    ),
                )
            )
    return Content((), tuple(blocks), _headline(session, held))


def _headline(session: Context, held: pl.DataFrame) -> str:
    """Say of how many traces the store holds anything, and of which of them a part only."""
    catalog = load_catalog()
    there = {trace: held.filter(trace=trace).height for trace in catalog}
    known = sum(rows > 0 for rows in there.values())
    parts = [
        f"{session.title(trace)} ({tables} of {plural(len(catalog[trace].tables), 'table')})"
        for trace, tables in there.items()
        if 0 < tables < len(catalog[trace].tables)
    ]
    told = f"{known} of the {plural(len(catalog), 'trace')} that traceana knows are in the store"
    return f"{told}; in part: {', '.join(parts)}." if parts else f"{told}."


def _about(trace: Trace) -> list[Block]:
    return [
        Facts(
            (
                ("Id", f"`{trace.id}`"),
                ("Licence", trace.licence),
                ("Published at", trace.homepage),
                ("Revision", f"`{trace.revision}`"),
            )
        ),
        Points(
            f"What a reader of the files should know ({len(trace.quirks)} points)", trace.quirks
        ),
        Quote("Citation (BibTeX)", trace.citation),
    ]


def _tables(trace: Trace, held: pl.DataFrame) -> Block:
    every = pl.DataFrame({"table": trace.tables}, schema={"table": pl.String})
    return make_table(
        every.join(held, on="table", how="left", maintain_order="left"),
        [
            words("Table", "table"),
            Column("Rows", "rows", count, null="not in the store"),
            Column("Rejected", "rows_rejected", count),
            Column("Size as Parquet", "bytes", size),
        ],
        caption=f"Tables of {trace.id}",
    )


SECTION = Section("traces", "The traces", 20, build)
