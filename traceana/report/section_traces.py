"""Each trace: description, publisher, license, and stored tables."""

from __future__ import annotations

import polars as pl

from traceana.catalog import load_catalog
from traceana.page.blocks import Block, Content, Facts, Heading, Points, Quote, Text, result_table
from traceana.page.context import Context
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.report.tables import StoredTables
from traceana.store import Manifest
from traceana.tables.formatting import plural


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
        every = pl.DataFrame({"table": tables}, schema={"table": pl.String})
        of_trace = held.filter(trace=trace)
        blocks.append(
            result_table(
                every.join(of_trace, on="table", how="left", maintain_order="left"),
                StoredTables,
                columns=StoredTables.column_names(),
                caption=f"Tables of {trace}",
                null={"rows": "not in the store"},
            )
        )
    text = f"{plural(len(context.ledgers), 'trace')} with {plural(held.height, 'table')}"
    return Content((Finding(f"{text}.", heading=text),), tuple(blocks))


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


SECTION = Section(
    "traces",
    "Traces",
    20,
    build,
    part="Appendix",
    question="What is the source of each trace, and which tables are stored?",
)
