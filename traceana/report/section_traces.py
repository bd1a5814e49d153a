"""Each trace: description, publisher, license, and stored tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.catalog import load_catalog
from traceana.page.blocks import (
    Absent,
    Block,
    Content,
    Facts,
    Heading,
    Points,
    Quote,
    Text,
    result_table,
)
from traceana.page.section import Section
from traceana.report.tables import StoredTables
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    from traceana.page.context import Context
    from traceana.store import Manifest


def build(context: Context) -> Content:
    """Describe each trace; state how to add a public one that is not in the store."""
    held = context.store.tables()
    blocks: list[Block] = [
        Text("Description, license and citation of each trace, and its tables in the store.")
    ]
    catalog = load_catalog()
    for trace in context.ledgers:
        manifest = context.manifest(trace)
        known = catalog.get(trace)
        tables = known.tables if known else tuple(manifest.tables)
        blocks.append(Heading(context.title(trace)))
        blocks += [Text(manifest.description)] if manifest.description else []
        blocks += _about(manifest, known.revision if known else "")
        blocks.append(_tables(trace, tables, held.filter(trace=trace)))
    missing = [trace for trace in catalog if trace not in context.ledgers]
    if missing:
        titles = "; ".join(catalog[trace].title for trace in missing)
        commands = [line for trace in missing for line in context.data_source.commands(trace)]
        blocks.append(Absent(f"Public traces not in the store: {titles}.", tuple(commands)))
    return Content((), tuple(blocks), _headline(context, held))


def _headline(context: Context, held: pl.DataFrame) -> str:
    """Count the traces in the store, and name those with missing tables."""
    catalog = load_catalog()
    there = {trace: held.filter(trace=trace).height for trace in catalog}
    known = sum(rows > 0 for rows in there.values())
    parts = [
        f"{context.title(trace)} ({tables} of {plural(len(catalog[trace].tables), 'table')})"
        for trace, tables in there.items()
        if 0 < tables < len(catalog[trace].tables)
    ]
    own = len(context.ledgers.keys() - catalog.keys())
    also = f", and {plural(own, 'other trace')}" if own else ""
    text = f"The store contains {known} of {plural(len(catalog), 'public trace')}{also}"
    return f"{text}; in part: {', '.join(parts)}." if parts else f"{text}."


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
    return result_table(
        every.join(held, on="table", how="left", maintain_order="left"),
        StoredTables,
        columns=StoredTables.column_names(),
        caption=f"Tables of {trace}",
        null={"rows": "not in the store"},
    )


SECTION = Section(
    "traces",
    "Traces",
    20,
    build,
    part="Appendix",
    question="What is the source of each trace, and which tables are stored?",
)
