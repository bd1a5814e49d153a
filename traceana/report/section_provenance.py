"""Sections on the store: the traces, what was read of them, and where they are from."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from typing import Final

import polars as pl

from traceana.catalog import load_catalog
from traceana.cohorts.observation import NODES
from traceana.page.blocks import (
    Block,
    Content,
    Facts,
    Heading,
    Points,
    Quote,
    Table,
    Text,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Context, Section
from traceana.report.tables import Rejections, RowCounts, SourceFiles, UnknownValues
from traceana.stats.time_blocks import YEAR_S
from traceana.store import Ledger, Manifest, Trace
from traceana.store.manifest import SELECTED
from traceana.tables.declare import schema_of
from traceana.tables.formatting import duration, hours_text, plural

_LIBRARIES = ("polars", "numpy", "scipy", "matplotlib")
_TERMS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    files("traceana.report").joinpath("templates", "terms.toml").read_text(encoding="utf-8")
)
DEFINITIONS: Final = _TERMS["definitions"]
GLOSSARY: Final = _TERMS["glossary"]


def terms_of(context: Context, /) -> dict[str, str]:
    """Return terms and codes of the data with their meanings."""
    return GLOSSARY | {
        code: meaning for trace in context.traces for code, meaning in trace.manifest.terms.items()
    }


def build(context: Context) -> Content:
    """Define the statistics; state the store and the versions."""
    facts = [
        ("Data", _data(context)),
        ("Engine", _engine(context)),
        ("traceana", version("traceana")),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _LIBRARIES),
    ]
    if context.date:
        facts.append(("Date", f"{context.date} (SOURCE_DATE_EPOCH)"))
    blocks: tuple[Block, ...] = (
        Heading("Definitions"),
        Facts(tuple(DEFINITIONS.items())),
        Heading("Glossary"),
        Facts(tuple(sorted(terms_of(context).items(), key=lambda term: term[0].casefold()))),
        Heading("Provenance"),
        Facts(tuple(facts)),
    )
    return Content((), blocks)


def _engine(context: Context) -> str:
    if context.store.master is None:
        return "Polars"
    spark = f"Spark {version('pyspark')} on `{context.store.master}`"
    return f"{spark} reduced tables to one row per task or group; Polars computed the rest"


def _data(context: Context) -> str:
    if context.data_source.is_sample:
        return "the synthetic sample that `traceana sample` writes"
    if context.data_source.command:
        typed = context.data_source.reproduction.replace("`", "'")
        return f"a temporary store, which `{typed}` made and deleted; its source files are above"
    store = context.data_source.path.resolve().name  # a path would tell of the machine
    return f"store `{store}`; its source files are listed above with sha256"


SECTION = Section(
    "provenance",
    "Definitions and provenance",
    180,
    build,
    part="Appendix",
    question="How is each statistic defined, and what made this page?",
)


def build_traces(context: Context) -> Content:
    """Describe each trace."""
    held = context.store.tables()
    blocks: list[Block] = [Text("Description, license and citation of each trace.")]
    catalog = load_catalog()
    for trace in context.ledgers:
        manifest = context.store.trace(trace).manifest
        entry = catalog.get(trace)
        blocks.append(Heading(manifest.title))
        blocks += [Text(manifest.description)] if manifest.description else []
        blocks += _about(manifest, entry.revision if entry else "")
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


TRACES = Section(
    "traces",
    "Traces",
    20,
    build_traces,
    part="Appendix",
    question="What is the source of each trace?",
)


_ROWS: Final = ("rows_read", "rows_kept", "rows_rejected", "rows_not_applicable")


def build_data_quality(context: Context) -> Content:
    """Count the rows of each table, the rows that each rule rejected, and list the files."""
    ledgers = _by_label(context)
    tables = pl.concat([ledger.tables for ledger in ledgers.values()])
    rejections = pl.concat([ledger.rejections for ledger in ledgers.values()])
    unused = [] if tables["rows_replaced"].sum() else ["rows_replaced"]
    blocks: list[Block] = [
        Text(
            "Each row that was read is either kept or rejected. Rejected rows are stored with "
            "file, row number and rule in the folder `rejected/` of their trace. Rows that belong "
            "to another table are counted as not applicable. Rows are not summed over traces, "
            "since two traces may contain the same jobs."
        ),
        result_table(tables.drop("state", *unused), RowCounts, caption="Rows by table"),
    ]
    if not rejections.is_empty():
        blocks.append(result_table(rejections, Rejections, caption="Rejected rows by rule"))
    unknown = _unknown_values(ledgers)
    if unknown.height:
        caption = "Values that no mapping lists: they count as unknown"
        blocks.append(result_table(unknown, UnknownValues, caption=caption))
    for trace, ledger in ledgers.items():
        if names := ledger.missing["csv"].to_list():
            blocks.append(
                Text(f"Files that were missing when {trace} was ingested: {', '.join(names)}.")
            )
    blocks += [Heading("Files"), _files(ledgers)]
    blocks += [_rows_by_file(trace, ledger) for trace, ledger in ledgers.items()]
    selected = tuple(
        f"{trace.label}: {note}"
        for trace in context.traces
        for note in trace.manifest.notes
        if note.startswith(SELECTED)
    )
    doubts = tuple(
        finding for trace in context.traces for finding in (*_astray(trace), *_twice(trace))
    )
    findings = _findings(tables) + doubts + selected + _altered(ledgers) + _remarks(ledgers)
    return Content(findings, tuple(blocks))


def _by_label(context: Context) -> dict[str, Ledger]:
    """Return the ledgers by the labels of their traces, or by the id where two have one label."""
    labels = [trace.label for trace in context.traces]
    named = {}
    for trace in context.traces:
        name = trace.label if labels.count(trace.label) == 1 else trace.id
        entries = tuple(replace(entry, trace=name) for entry in trace.ledger.entries)
        named[name] = replace(trace.ledger, entries=entries)
    return named


def _findings(tables: pl.DataFrame) -> tuple[Finding, ...]:
    traces = tables["trace"].n_unique()
    verb = "was" if tables.height == 1 else "were"
    read = f"{plural(tables.height, 'table')} of {plural(traces, 'trace')} {verb} read."
    replaced = int(tables["rows_replaced"].sum())
    if replaced:
        read += f" {plural(replaced, 'row')} were replaced by newer records."
    rejected = tables.filter(pl.col("rows_rejected") > 0)
    if rejected.is_empty():
        return (Finding(f"{read} No row was rejected.", heading="No row was rejected"),)
    named = "; ".join(
        f"{row['rows_rejected']:,} of {row['rows_read']:,} in `{row['table']}` ({row['trace']})"
        for row in rejected.iter_rows(named=True)
    )
    n = int(rejected["rows_rejected"].sum())
    heading = f"{plural(n, 'row')} {'was' if n == 1 else 'were'} rejected"
    text = f"{read} Rejected rows: {named}. All other rows were kept."
    return (Finding(text, heading=heading),)


_FEW: Final = 0.005
_ASTRAY: Final = 10
"""Fraction of the jobs that may have a time astray, and by how many periods of the others it is."""


def _astray(trace: Trace) -> Iterator[Finding]:
    """State the jobs with a time far from those of nearly all others: they stretch the window."""
    stated = trace.manifest.tables["jobs"].columns if trace.has("jobs") else ()
    times = [name for name in ("submit_s", "start_s", "end_s") if name in stated]
    if not times:
        return
    jobs = trace.scan("jobs").select(times).collect()
    ends = [jobs[name].quantile(q) for name in times for q in (_FEW, 1 - _FEW)]
    known = [end for end in ends if end is not None]
    if not known:
        return
    first, last = min(known), max(known)
    reach = max(_ASTRAY * (last - first), YEAR_S)
    far = pl.any_horizontal(
        (pl.col(name) < first - reach) | (pl.col(name) > last + reach) for name in times
    )
    if not (n := jobs.filter(far).height):
        return
    period = duration(last - first)
    heading = f"{plural(n, 'job')} with a time far from those of all others"
    yield Finding(
        f"{trace.label}: {heading}: the period of nearly all is {period}. Rates by time, GPUs "
        "allocated and GPU-hours are wrong if the time is; correct it, or leave the job out.",
        n=n,
        cost_jobs=jobs.height,
        heading=heading,
        alert=f"{trace.label}: {heading}, whose period is {period}: numbers by time may be wrong",
    )


_SAME: Final = ("cluster", "user", "job_name", "queue", "status", "gpus", "cpus", *NODES)
_FEWEST_TWICE, _TWICE = 10, 0.005
"""Number and fraction of the jobs that equal another from which they are stated."""


def _twice(trace: Trace) -> Iterator[Finding]:
    """State the jobs, not of arrays, that equal another one in all but the id."""
    times = ("submit_s", "start_s", "end_s")
    if not trace.has("jobs", times):
        return
    stated = trace.manifest.tables["jobs"].columns
    rows = trace.scan("jobs").filter(pl.col("end_s") > pl.col("start_s"))
    if "array_id" in stated:
        rows = rows.filter(pl.col("array_id").is_null())
    hours = (pl.col("end_s") - pl.col("start_s")) / 3600
    gpus = pl.col("gpus").fill_null(0) if "gpus" in stated else 0.0
    same = pl.struct(*times, *(name for name in _SAME if name in stated)).hash()
    jobs = rows.select(same=same, hours=hours * gpus).collect()
    twice = jobs.filter(~pl.col("same").is_first_distinct())
    if twice.height < max(_FEWEST_TWICE, _TWICE * jobs.height):
        return
    used = float(twice["hours"].sum())
    cost = f" ({hours_text(used)} GPU-hours)" if used else ""
    heading = f"{twice.height:,} jobs equal another one in all but the id"
    yield Finding(
        f"{trace.label}: {heading}{cost}. If the log has them twice, all sums count them twice.",
        n=twice.height,
        cost_gpu_h=used,
        cost_jobs=twice.height,
        heading=heading,
        alert=f"{trace.label}: {heading}: the log may have them twice",
    )


def _altered(ledgers: dict[str, Ledger]) -> tuple[str, ...]:
    """Name the files that differ from the published ones, before any number from them."""
    return tuple(
        f"These files of {trace} differ from the published ones, and so may all its numbers: "
        f"{', '.join(f'`{name}`' for name in names)}."
        for trace, ledger in ledgers.items()
        if not ledger.synthetic
        and (
            names := ledger.files.filter(~pl.col("as_published"))["file"].unique().sort().to_list()
        )
    )


def _remarks(ledgers: dict[str, Ledger]) -> tuple[str, ...]:
    entries = [entry for ledger in ledgers.values() for entry in ledger.entries]
    nulled = [
        f"{plural(cells, 'cell')} by `{rule}` in `{entry.table}` ({entry.trace})"
        for entry in entries
        for rule, cells in entry.nulled.items()
    ]
    rows = [f"`{entry.table}` ({entry.trace})" for entry in entries if entry.ids_are_rows]
    remarks = (
        ("Cells that could not be read are missing values", nulled),
        ("No column identifies the rows, so the row number is the id", rows),
    )
    return tuple(f"{text}: {'; '.join(names)}." for text, names in remarks if names)


def _unknown_values(ledgers: dict[str, Ledger]) -> pl.DataFrame:
    rows = [
        (entry.trace, entry.table, column, value, number)
        for ledger in ledgers.values()
        for entry in ledger.entries
        for column, words in entry.unknown_words.items()
        for value, number in words.items()
    ]
    return pl.DataFrame(rows, schema=schema_of(UnknownValues), orient="row")


def _files(ledgers: dict[str, Ledger]) -> Table:
    files = pl.concat([ledger.files for ledger in ledgers.values()])
    synthetic = [trace for trace, ledger in ledgers.items() if ledger.synthetic]
    named = (
        files.select("file", "trace", "bytes", "as_published", "sha256")
        .unique(maintain_order=True)
        .with_columns(
            as_published=pl.when(pl.col("trace").is_in(synthetic))
            .then(pl.lit("synthetic"))
            .when("as_published")
            .then(pl.lit("yes"))
            .when(~pl.col("as_published"))
            .then(pl.lit("NO, it differs"))
            .otherwise(pl.lit("not known")),
            sha256=pl.format("`{}`", "sha256"),
        )
    )
    caption = "Files, and whether they are as published (sha256 equal to the catalog's)"
    return result_table(named, SourceFiles, caption=caption)


def _rows_by_file(trace: str, ledger: Ledger) -> Table:
    member = pl.col("member")
    files = ledger.files.select(
        "table",
        *_ROWS,
        file=pl.when(member.is_null()).then("file").otherwise(pl.format("{}: {}", "file", member)),
    ).sort("table", "file", maintain_order=True)
    return result_table(
        files,
        RowCounts,
        columns=("file", "table", *_ROWS),
        caption=f"{trace}: rows by file and table",
        null={"table": ""},
        total=files.select(*map(pl.sum, _ROWS), file=pl.lit("Sum"), table=pl.lit(None, pl.String)),
        folded=True,
    )


DATA_QUALITY = Section(
    "data-quality",
    "Data quality",
    10,
    build_data_quality,
    part="Appendix",
    question="How many rows were read, kept and rejected, and from which files?",
)
