"""Write tables of a trace as Parquet, CSV or, for jobs, in the Standard Workload Format."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.store import open_store
from traceana.store.store import LEDGER
from traceana.store.writer import renamed_together
from traceana.tables.display import neutral

FORMATS: Final = ("parquet", "csv", "swf")
_ROW: Final = "row of the log"
_SWF_STATUS: Final = {"failed": 0, "completed": 1, "cancelled": 5}
_SWF_FIELDS: Final = (
    "job number, submit time [s], wait time [s], run time [s], processors used, CPU time used "
    "[s], memory used [KiB], processors requested, time requested [s], memory requested [KiB], "
    "status (1 completed, 0 failed, 5 cancelled), user, group (account), executable, queue, "
    "partition (cluster), preceding job, think time"
)


def export_tables(
    trace: str,
    /,
    *,
    out: str | PathLike[str],
    store: str | PathLike[str] | None = None,
    tables: Sequence[str] = (),
    file_format: str = "parquet",
) -> list[Path]:
    """Write tables of a trace to files that other tools read.

    Parameters
    ----------
    trace
        Id of the trace.
    out
        Folder of the files, ``<table>.<format>``; made if it does not exist.
    store
        Folder of the store; None: TRACEANA_STORE, else ``./data``.
    tables
        Names of the tables; none means all, or ``jobs`` in SWF.
    file_format
        ``parquet``; ``csv`` (text that a spreadsheet would take for a formula begins with an
        apostrophe); or ``swf``, for jobs only: the Standard Workload Format (Chapin et al., JSSPP
        1999, https://doi.org/10.1007/3-540-47954-6_4), 18 numbers per job in the order of
        submission, missing as -1. Names become numbers in the order of their first job; processors
        are CPU cores, and the memory is per processor. It has no field for GPUs.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [5.0], "runtime_s": [60.0], "cpus": [4]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=folder)
    >>> [path] = traceana.export_tables("mine", store=folder, out=folder, file_format="swf")
    >>> print(path.read_text().splitlines()[-1])
    1 0 -1 60 4 -1 -1 4 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
    """
    if file_format not in FORMATS:
        raise DataError(f"format {file_format!r} is unknown; use {', '.join(FORMATS)}")
    source = open_store(store)
    named = list(tables) or (
        ["jobs"] if file_format == "swf" else list(source.manifest(trace).tables)
    )
    if file_format == "swf" and named != ["jobs"]:
        raise DataError(f"SWF holds jobs alone, not {', '.join(named)}; leave tables= out")
    frames = {table: source.scan(trace, table) for table in named}
    folder = Path(out)
    if (folder / LEDGER).exists():  # the tables there would be replaced
        raise DataError(f"{folder}: a trace of a store; pass another folder (--out)")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{table}.{file_format}" for table in frames]
    try:
        with renamed_together() as beside:
            for path, frame in zip(paths, frames.values(), strict=True):
                written = beside(path)
                if file_format == "parquet":
                    frame.sink_parquet(written)
                elif file_format == "csv":
                    neutral(frame).sink_csv(written)
                else:
                    manifest = source.manifest(trace)
                    first_s = frame.select(pl.col("submit_s").min()).collect().item()
                    dated = manifest.absolute_times and first_s
                    start = f"; UnixStartTime: {first_s:.0f}\n" if dated else ""
                    title = " ".join(manifest.title.split())
                    with written.open("wb") as stream:
                        stream.write(f"; {title}\n{start}; Fields: {_SWF_FIELDS}\n".encode())
                        swf_jobs(frame).write_csv(stream, separator=" ", include_header=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be written ({str(error).splitlines()[0]})") from error
    return paths


def swf_jobs(jobs: pl.LazyFrame, /) -> pl.DataFrame:
    """Return the 18 fields of SWF, one row per job in the order of submission."""
    col = pl.col
    first_s = col("submit_s").min()
    cores = pl.when(col("cpus") > 0).then(col("cpus").ceil())
    kib = 1 << 20  # of a GiB
    fields = {
        "job": col(_ROW) + 1,
        "submit": col("submit_s") - first_s,
        "wait": col("start_s") - col("submit_s"),
        "runtime": col("runtime_s"),
        "used": cores,
        "cpu_time": col("cpu_time_s") / cores,
        "memory_used": col("memory_gib_used") * kib / cores,
        "requested": cores,
        "time_limit": col("time_limit_s"),
        "memory": col("memory_gib") * kib / cores,
        "status": col("status").replace_strict(_SWF_STATUS, default=None, return_dtype=pl.Int64),
        **{  # numbers from 1 in the order of the first rows
            name: pl.when(col(name).is_not_null()).then(col(_ROW).min().over(name)).rank("dense")
            for name in ("user", "account", "workload", "queue", "cluster")
        },
        "preceding": pl.lit(None, pl.Int64),
        "think": pl.lit(None, pl.Int64),
    }
    ordered = jobs.sort("submit_s", nulls_last=True, maintain_order=True).with_row_index(_ROW)
    return ordered.select(
        value.cast(pl.Float64).round().cast(pl.Int64).fill_null(-1).alias(name)
        for name, value in fields.items()
    ).collect()
