"""Slurm's accounting records (``sacct --parsable2``): jobs, with the usage of their steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile
from traceana.ingesters.readers.frames import LINE, SUBMISSION, FrameBlock, rows_of
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping
from traceana.ingesters.readers.sacct_fields import (
    FIELDS,
    REQUEUED,
    RULE,
    TIMES,
    TYPES,
    UNREAD,
    USAGE,
    derive,
    step_usage,
    total_usage,
)
from traceana.ingesters.readers.sacct_lines import COMMAND, Layout, find_layout

_JOB: Final = "\0job"
_STEP: Final = "\0step"
_AT: Final = "\0at"
_BEFORE: Final = "\0before"


def _usage(file: CsvFile, layout: Layout) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what the steps of each job used, by the line of the job, and requeued records."""
    jobs = [pl.DataFrame(schema={_JOB: pl.UInt64, LINE: pl.Int64})]
    requeued = [jobs[0].rename({LINE: _AT})]
    n_steps = 0
    schema = {**dict.fromkeys((_STEP, *USAGE), pl.String()), _AT: pl.Int64()}
    usage, strays = [total_usage(step_usage(pl.DataFrame(schema=schema), _STEP), _AT)], []
    before: tuple[str | None, int | None] = (None, None)
    for records, _, _ in layout.records(file, ("JobID", "State", *USAGE)):
        parts = pl.col("JobID").str.splitn(".", 2).struct
        of_job = pl.when(pl.col(_STEP).is_null())
        rows = records.with_columns(parts[0].alias(_JOB), parts[1].alias(_STEP)).with_columns(
            of_job.then(_JOB).forward_fill().fill_null(pl.lit(before[0])).alias(_BEFORE),
            of_job.then(LINE).forward_fill().fill_null(pl.lit(before[1], pl.Int64)).alias(_AT),
        )
        is_job = rows[_STEP].is_null()
        jobs.append(rows.filter(is_job).select(pl.col(_JOB).hash(), LINE))
        if "State" in rows.columns:
            again = rows.filter(is_job & rows["State"].str.starts_with("REQUEUED"))
            requeued.append(again.select(pl.col(_JOB).hash(), pl.col(LINE).alias(_AT)))
        n_steps += rows.height - jobs[-1].height
        if rows.height:
            before = rows[_BEFORE][-1], rows[_AT][-1]
        if not is_job.all():
            steps = step_usage(_with_fields(rows.filter(~is_job), USAGE), _STEP)
            follows = (pl.col(_JOB) == pl.col(_BEFORE)).fill_null(value=False)
            usage.append(total_usage(steps.filter(follows), _AT))
            strays.append(steps.filter(~follows).drop(_AT).with_columns(pl.col(_JOB).hash()))
    table = pl.concat(jobs)
    if n_steps and not table.height:
        raise SourceError(
            f"{file.where}: it has {n_steps:,} steps of jobs (JobID.STEP) and no job; make it with "
            f"{COMMAND}"
        )
    usage += [total_usage(_find_jobs(stray, table), _AT) for stray in strays if stray.height]
    return total_usage(pl.concat(usage), _AT).sort(_AT), pl.concat(requeued)


def _with_restarts(jobs: pl.DataFrame, requeued: pl.DataFrame) -> pl.DataFrame:
    """Add how many records of each job's id before it were requeued; null where none is listed."""
    if not requeued.height:
        return jobs.with_columns(pl.lit(None, pl.Float64).alias(REQUEUED))
    pairs = jobs.select(LINE, pl.col("JobID").hash().alias(_JOB)).join(requeued, on=_JOB)
    counts = pairs.filter(pl.col(_AT) < pl.col(LINE)).group_by(LINE).agg(pl.len().alias(REQUEUED))
    joined = jobs.join(counts, on=LINE, how="left", maintain_order="left")
    return joined.with_columns(pl.col(REQUEUED).fill_null(0).cast(pl.Float64))


def _find_jobs(steps: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Assign to steps the line of the last job with their id, else of the first after them."""
    jobs = jobs.with_columns(pl.col(LINE).alias(_AT))
    steps = steps.join_asof(jobs, on=LINE, by=_JOB, check_sortedness=False)
    steps = steps.join_asof(
        jobs, on=LINE, by=_JOB, strategy="forward", suffix="\0", check_sortedness=False
    )
    return steps.with_columns(pl.coalesce(_AT, f"{_AT}\0").alias(_AT)).drop_nulls(_AT)


def _blocks(
    file: CsvFile, layout: Layout, timezone: str, kinds: Mapping[str, Kind]
) -> Iterator[FrameBlock]:
    usage, requeued = _usage(file, layout)
    for records, strange, line in layout.records(file):
        is_step = pl.col("JobID").str.contains(".", literal=True).fill_null(value=False)
        jobs = records.filter(~is_step)
        used = usage.filter(pl.col(_AT).is_in(jobs[LINE].implode()))
        joined = jobs.join(used, left_on=LINE, right_on=_AT, how="left", maintain_order="left")
        block = FrameBlock(
            _with_restarts(joined, requeued),
            kinds,
            line,
            partial(_texts, layout, jobs),
            strange,
            layout.header,
            not_applicable=records.height - jobs.height,
        )
        yield as_jobs(block, timezone)


def as_jobs(block: FrameBlock, timezone: str) -> FrameBlock:
    """Derive the columns of jobs from their records and what their steps used."""
    rows = derive(_with_fields(block.frame, FIELDS), timezone)
    rows = rows.with_columns(pl.coalesce(*TIMES, pl.lit("")).alias(SUBMISSION))
    is_wrong = rows[RULE].is_not_null()
    wrong, rows = rows.filter(is_wrong), rows.filter(~is_wrong)
    bad = wrong.select(line=LINE, rule=RULE).with_columns(text=block.text_of(wrong[LINE]))
    marks = [name for name in rows.columns if name.startswith(UNREAD)]
    unread = {name.removeprefix(UNREAD): int(rows[name].sum() or 0) for name in marks}
    nulled = {(rule.partition("|")[0], rule): n for rule, n in unread.items() if n}
    return replace(block, frame=rows, bad=pl.concat([block.bad, bad]), nulled=nulled)


def _texts(layout: Layout, records: pl.DataFrame, lines: pl.Series) -> pl.Series:
    return layout.texts(rows_of(records, lines))


def _with_fields(records: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    missing = [name for name in names if name not in records.columns]
    return records.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)


def _detect(file: CsvFile) -> bool:
    try:
        return find_layout(file) is not None
    except SourceError:
        return True  # a table for the screen: opening it names the option to add


def _open(file: CsvFile, timezone: str) -> Rows:
    layout = find_layout(file)
    if layout is None:
        raise SourceError(
            f"{file.where}: its first line does not name sacct's fields, JobID among them; "
            f"make it with {COMMAND}"
        )
    columns = tuple(dict.fromkeys((*layout.columns, *FIELDS, *TYPES)))
    facts = {}
    if not layout.header and not file.columns:
        used = [name for name in layout.columns if not name.startswith(("column ", "\0"))]
        unread = [name for name in layout.columns if name.startswith("column ")]
        note = f"The file has no header. Columns found by their content: {', '.join(used)}"
        facts = {"notes": [f"{note}; not read: {', '.join(unread) or 'none'}."]}
    return Rows(columns, partial(_blocks, file, layout, timezone), TYPES, facts)


READER: Final = Reader("sacct", _detect, _open, (".txt", ".sacct"), own_mapping("sacct"))
"""Reader of Slurm's accounting records."""
