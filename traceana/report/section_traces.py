"""Each trace: description, publisher, license, and stored tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.catalog import load_catalog
from traceana.page.blocks import Block, Content, Facts, Heading, Points, Quote, Text, result_table
from traceana.page.section import Section
from traceana.report.tables import StoredTables
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    from traceana.page.context import Context
    from traceana.store import Manifest


def build(context: Context) -> Content:
    """Describe each trace."""
    held = context.store.tables()
    blocks: list[Block] = [
        Text("Description, license and citation of each trace, and its tables in the store.")
    ]
    catalog = load_catalog()
    for trace in context.ledgers:
        manifest = context.store.trace(trace).manifest
        entry = catalog.get(trace)
        tables = entry.tables if entry else tuple(manifest.tables)
        blocks.append(Heading(manifest.title))
        blocks += [Text(manifest.description)] if manifest.description else []
        blocks += _about(manifest, entry.revision if entry else "")
        blocks.append(_tables(trace, tables, held.filter(trace=trace)))
    return Content((), tuple(blocks), _headline(context, held))


def _headline(context: Context, held: pl.DataFrame) -> str:
    """Count the traces in the store, and name public ones with missing tables."""
    catalog = load_catalog()
    parts = [
        f"{trace.label} ({held.filter(trace=trace.id).height} of "
        f"{plural(len(catalog[trace.id].tables), 'table')})"
        for trace in context.traces
        if trace.id in catalog
        and held.filter(trace=trace.id).height < len(catalog[trace.id].tables)
    ]
    text = f"The store contains {plural(len(context.traces), 'trace')}"
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
