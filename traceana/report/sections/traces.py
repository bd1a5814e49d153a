"""Each trace: what it is, whose it is, and what the store holds of it."""

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
    from traceana.report.context import Context
    from traceana.store import Manifest


def build(session: Context) -> Content:
    """Introduce each trace; of one that is not in the store, say how to get it."""
    held = session.store.tables()
    blocks: list[Block] = [
        Text(
            "What each trace is, where it is published and under which license, and which of its "
            "tables this report is made from."
        )
    ]
    catalog = load_catalog()
    for trace in sorted(catalog.keys() | session.ledgers.keys()):
        blocks.append(Heading(session.title(trace)))
        if trace in session.ledgers:
            manifest = session.store.manifest(trace)
            known = catalog.get(trace)
            tables = known.tables if known else tuple(manifest.tables)
            blocks += [Text(manifest.description)] if manifest.description else []
            blocks += _about(manifest, known.revision if known else "")
            blocks.append(_tables(trace, tables, held.filter(trace=trace)))
        else:
            blocks += [
                Text(catalog[trace].description),
                Absent(
                    "It is not in the store.",
                    (
                        f"traceana fetch {trace} --to files/{trace}",
                        f"traceana ingest files/{trace} {session.origin.option}",
                    ),
                ),
            ]
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


def _about(manifest: Manifest, revision: str) -> list[Block]:
    facts = (
        ("Id", f"`{manifest.trace}`"),
        ("License", manifest.license),
        ("Published at", manifest.homepage),
        ("Revision", revision and f"`{revision}`"),
    )
    blocks: list[Block] = [Facts(tuple(fact for fact in facts if fact[1]))]
    if manifest.notes:
        heading = f"What a reader of the files should know ({len(manifest.notes)} points)"
        blocks.append(Points(heading, manifest.notes))
    if manifest.citation:
        blocks.append(Quote("Citation (BibTeX)", manifest.citation))
    return blocks


def _tables(trace: str, tables: tuple[str, ...], held: pl.DataFrame) -> Block:
    every = pl.DataFrame({"table": tables}, schema={"table": pl.String})
    return make_table(
        every.join(held, on="table", how="left", maintain_order="left"),
        [
            words("Table", "table"),
            Column("Rows", "rows", count, null="not in the store"),
            Column("Rejected", "rows_rejected", count),
            Column("Size as Parquet", "bytes", size),
        ],
        caption=f"Tables of {trace}",
    )


SECTION = Section("traces", "The traces", 20, build)
