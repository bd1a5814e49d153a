"""The newest record of each job, from a stored table and later exports of the same log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import polars as pl
import pyarrow.parquet as pq

from traceana.schema import get_key, get_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from traceana.store.writer import TableWriter

OCCASION: Final = "@occasion"
"""Column of a job's submission as text, where ids are used again; else null."""
SOURCE: Final = "@source"
"""Column of the number of a row's file, in the order of the files."""
UPDATE: Final[dict[str, pl.DataType]] = {OCCASION: pl.String(), SOURCE: pl.Float64()}
_STATES: Final = {"running": 1, "completed": 2, "failed": 2, "cancelled": 2}
_ENDED: Final = 2
_ROWS: Final = 1 << 16


def stored_kept(path: Path, table: str) -> dict[str, pl.DataType]:
    """Return the columns that a stored table carries along, with their types."""
    declared = get_table(table).column_names()
    schema = pl.scan_parquet(path, glob=False).collect_schema()
    return {name: dtype for name, dtype in schema.items() if name not in declared}


def merge_newest(
    parts: Sequence[Path], writer: TableWriter, table: str, keep: Mapping[str, pl.DataType]
) -> int:
    """Write the newest record of each key, and return how many others were replaced.

    The newest is in the latest state (ended, running, others), among them the last. `parts` are
    Parquet files in the order of their exports; the last has the columns of `UPDATE`. 64-bit hashes
    represent the keys.
    """
    scans = [pl.scan_parquet(path, glob=False) for path in parts]
    recurs = scans[-1].select(pl.col(OCCASION).is_not_null().any()).collect().item()
    index = pl.concat([_index(scan, table, recurs=recurs) for scan in scans]).with_row_index("at")
    newest = index.sort("state", "at").unique("record", keep="last")["at"]
    index = index.with_columns(is_kept=pl.col("at").is_in(newest.implode()))
    if recurs:
        index = _drop_outdated(index)
        frame = index.filter(pl.col("is_kept").any().over("record"))
        first = frame.sort("is_renamed", "at").unique("id", keep="first")["record"]
        index = index.with_columns(is_first=pl.col("record").is_in(first.implode()))
    schema = {**get_table(table).create_empty().schema, **keep}
    at = 0
    for path in parts:
        for batch in pq.ParquetFile(path).iter_batches(_ROWS):
            rows = cast("pl.DataFrame", pl.from_arrow(batch))
            marks = index[at : at + rows.height]
            at += rows.height
            if recurs and OCCASION in rows.columns:
                name = pl.col("job_id").str.replace("@.*$", "")  # id@submit, but the first of an id
                others = pl.concat_str(name, pl.lit("@"), OCCASION)
                is_first = pl.when(marks["is_first"])
                rows = rows.with_columns(job_id=is_first.then(name).otherwise(others))
            rows = rows.filter(marks["is_kept"])
            missing = [pl.lit(None).alias(name) for name in schema if name not in rows.columns]
            writer.keep(rows.with_columns(missing).select(*schema).cast(pl.Schema(schema)))
    return index.filter(~pl.col("is_kept")).height


def append_rejected(path: Path, writer: TableWriter) -> None:
    """Add the rejected rows of a file, if it is there."""
    if path.is_file():
        for batch in pq.ParquetFile(path).iter_batches(_ROWS):
            writer.reject(cast("pl.DataFrame", pl.from_arrow(batch)))


def _index(scan: pl.LazyFrame, table: str, *, recurs: bool) -> pl.DataFrame:
    """Return record (hash), state and source of each row; of jobs whose ids recur, more."""
    columns = scan.collect_schema().names()
    status = pl.col("status").cast(pl.String) if "status" in columns else pl.lit(None, pl.String)
    hashes = {
        "record": pl.struct(*get_key(table)).hash(),
        "state": status.replace_strict(_STATES, default=0, return_dtype=pl.UInt8),
        "source": pl.col(SOURCE) if SOURCE in columns else pl.lit(-1.0),
    }
    if recurs:
        name = pl.col("job_id").str.replace("@.*$", "")
        run = pl.col("job_id").str.extract("@.*@(.*)").alias("run")
        hashes |= {
            "record": pl.struct(name, pl.coalesce("submit_s", "start_s"), run).hash(),
            "id": name.hash(),
            "array": name.str.extract(r"^(\d+)_"),
            "is_range": name.str.contains("_[", literal=True),
            "is_renamed": pl.col("job_id").str.contains("@", literal=True),
        }
    return scan.select(**hashes).collect()


def _drop_outdated(index: pl.DataFrame) -> pl.DataFrame:
    """Drop outdated rows: pending or running jobs, and ranges of arrays, with later records.

    An id is used again only after its job has ended; a range of pending array tasks of an
    earlier export is listed as tasks, or a shorter range, in a later one.
    """
    last = pl.col("source").max()
    ranges = index.filter("is_range")["array"]
    arrays = index.filter(pl.col("array").is_in(ranges.implode()))
    old = arrays.filter(pl.col("is_range") & (last.over("record") < last.over("array")))["at"]
    stale = (pl.col("state") < _ENDED) & (last.over("record") < last.over("id"))
    return index.with_columns(
        is_kept=pl.col("is_kept") & ~stale & ~pl.col("at").is_in(old.implode())
    )
