"""What was read, kept and rejected: the ledgers' accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.report.blocks import (
    Absent,
    Block,
    Column,
    Content,
    Heading,
    Table,
    Text,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.results.formatting import count, plural, size

if TYPE_CHECKING:
    from traceana.report.context import Context
    from traceana.store import Ledger

_ROWS = ("rows_read", "rows_kept", "rows_rejected", "rows_not_applicable")


def build(session: Context) -> Content:
    """Tell each table's rows, the rules that rejected any, the files, and what was not there."""
    ledgers = session.ledgers
    tables = pl.concat([ledger.tables for ledger in ledgers.values()])
    blocks: list[Block] = [
        Text(
            "Rows read are rows kept and rows rejected, for every table. Rows are not summed over "
            "traces: ElasticFlow's files list the jobs of the ITP files again. Rows that stand in "
            "a file but belong to another table are not applicable. Rejected rows are kept with "
            "file, row number and rule under `rejected/` in the trace's folder of the store."
        ),
        make_table(
            tables,
            [
                words("Trace", "trace"),
                words("Table", "table"),
                Column("Rows read", "rows_read", count),
                Column("Kept", "rows_kept", count),
                Column("Rejected", "rows_rejected", count),
                Column("Not applicable", "rows_not_applicable", count),
                Column("Whole rows repeated", "duplicate_rows", count),
                Column("Synthetic", "synthetic", _yes_or_no, numeric=False),
            ],
            caption="Rows by table",
        ),
        *_rejections(ledgers),
        *_unknown_words(ledgers),
        *_missing(session),
        Heading("Files"),
        _files(ledgers),
        *(_rows_by_file(trace, ledger) for trace, ledger in ledgers.items()),
    ]
    return Content(_findings(tables) + _altered(ledgers), tuple(blocks))


def _findings(tables: pl.DataFrame) -> tuple[str, ...]:
    traces = tables["trace"].n_unique()
    read = f"{plural(tables.height, 'table')} of {plural(traces, 'trace')} were read."
    rejected = tables.filter(pl.col("rows_rejected") > 0)
    if rejected.is_empty():
        return (f"{read} No row was rejected.",)
    told = "; ".join(
        f"{row['rows_rejected']:,} of {row['rows_read']:,} of `{row['table']}` ({row['trace']})"
        for row in rejected.iter_rows(named=True)
    )
    return (f"{read} Rejected rows: {told}. Every other row was kept.",)


def _altered(ledgers: dict[str, Ledger]) -> tuple[str, ...]:
    """Say which files are not the published ones, before any number that comes from them."""
    return tuple(
        f"Not as published, so that no number of {trace} is the published files': "
        f"{', '.join(f'`{name}`' for name in names)}."
        for trace, ledger in ledgers.items()
        if not ledger.synthetic
        and (
            names := ledger.files.filter(~pl.col("as_published"))["file"].unique().sort().to_list()
        )
    )


def _rejections(ledgers: dict[str, Ledger]) -> list[Block]:
    rejections = pl.concat([ledger.rejections for ledger in ledgers.values()])
    if rejections.is_empty():
        return [Text("No row was rejected.")]
    return [
        make_table(
            rejections,
            [
                words("Trace", "trace"),
                words("Table", "table"),
                words("Rule that the rows broke", "rule"),
                Column("Rows", "rows", count),
            ],
            caption="Rejected rows by rule",
        )
    ]


def _unknown_words(ledgers: dict[str, Ledger]) -> list[Block]:
    return [
        Text(
            f"`{entry.table}` of {entry.trace}: {rows:,} rows say {word!r} in `{column}`, which "
            "is no word that traceana knows; they count as unknown."
        )
        for ledger in ledgers.values()
        for entry in ledger.entries
        for column, found in entry.unknown_words.items()
        for word, rows in found.items()
    ]


def _missing(session: Context) -> list[Block]:
    blocks: list[Block] = []
    for trace, ledger in session.ledgers.items():
        names = ledger.missing["csv"].to_list()
        if names:
            blocks.append(
                Absent(
                    f"Not there when {trace} was ingested: {', '.join(names)}.",
                    (
                        f"traceana fetch {trace} --to files/{trace}",
                        f"traceana ingest files/{trace} {session.origin.option}",
                    ),
                )
            )
    return blocks


def _files(ledgers: dict[str, Ledger]) -> Table:
    files = pl.concat([ledger.files for ledger in ledgers.values()])
    synthetic = {trace for trace, ledger in ledgers.items() if ledger.synthetic}
    return make_table(
        files.select("trace", "file", "bytes", "sha256", "as_published")
        .unique(maintain_order=True)
        .with_columns(
            as_published=pl.when(pl.col("trace").is_in(synthetic))
            .then(pl.lit("synthetic"))
            .when("as_published")
            .then(pl.lit("yes"))
            .when(~pl.col("as_published"))
            .then(pl.lit("NO, it differs"))
            .otherwise(pl.lit("not known"))
        ),
        [
            words("File", "file"),
            words("Trace", "trace"),
            Column("Size", "bytes", size),
            words("As published", "as_published"),
            Column("sha256", "sha256", "`{}`".format, numeric=False),
        ],
        caption="Files, and whether they are as published (sha256 equal to the catalogue's)",
    )


def _rows_by_file(trace: str, ledger: Ledger) -> Table:
    files = ledger.files.with_columns(
        name=pl.when(pl.col("member").is_null())
        .then("file")
        .otherwise(pl.format("{}: {}", "file", "member"))
    ).sort("table", "name", maintain_order=True)
    return make_table(
        files,
        [
            words("File", "name"),
            words("Table", "table", null=""),
            Column("Rows read", "rows_read", count),
            Column("Kept", "rows_kept", count),
            Column("Rejected", "rows_rejected", count),
            Column("Not applicable", "rows_not_applicable", count),
        ],
        caption=f"Rows by file and table: {trace}",
        total=files.select(
            pl.lit("Sum").alias("name"), pl.lit(None).alias("table"), *map(pl.sum, _ROWS)
        ),
        folded=True,
    )


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


SECTION = Section("reading", "What was read, and what was rejected", 10, build)
