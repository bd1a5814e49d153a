"""Hold DuckDB and Spark to the values of Polars, and write docs/explanation/engines.md.

    PYTHONPATH=. python docs/scripts/engine_parity.py STORE

STORE is a store of the publishers' files. Needs the extras test and spark, and Java; it takes some
minutes.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
from findings import as_table, write_measured
from pyspark.sql import SparkSession

from tests.generator import write_sample
from tests.spark.questions import ROW_QUESTIONS, TABLES, ask_of_ended
from tests.spark.test_session import OPTIONS
from tests.store.test_frames import ROWS
from traceana import open_store
from traceana.ingesters import ingest

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.store import Store

WORDS = pl.selectors.by_dtype(pl.Categorical, pl.Enum).cast(pl.String)


def pods_as_rows(store: Store) -> pl.DataFrame:
    """The pods of openb, numbered as ten workers where a question needs workers."""
    row = pl.int_range(pl.len())
    pods = store.scan("alibaba-openb-2023", "jobs").collect()
    return pods.select(
        pl.format("job_{}", row // 1000).alias("job_id"),
        (10.0 * (row % 1000 // 10)).alias("time_s"),
        (row % 10).cast(pl.String).alias("worker_id"),
        batch_time="runtime_s",
        row=row,
        cov=pl.col("cpus") / 64,
        cluster=pl.col("qos").cast(pl.String),
        size=pl.col("gpus").ceil().cast(pl.Int64),
        status=pl.col("status").cast(pl.String),
        submit_s="submit_s",
        runtime_s="runtime_s",
        gpus="gpus",
        start_s="start_s",
        end_s="end_s",
    )


def difference(there: pl.DataFrame, here: pl.DataFrame) -> float:
    """Return the largest relative difference of a number; all else must be equal."""
    floats = pl.selectors.float()
    there, here = there.with_columns(WORDS), here.with_columns(WORDS)
    if not there.select(~floats).equals(here.select(~floats)):
        raise AssertionError(f"not equal:\n{there}\n{here}")
    largest = 0.0
    for name in here.select(floats).columns:
        a, b = there[name], here[name]
        if not a.is_null().equals(b.is_null()):
            raise AssertionError(f"{name} is null elsewhere")
        apart = (a - b).abs() / pl.max_horizontal(a.abs(), b.abs())
        found = pl.select(apart).to_series().fill_nan(0).drop_nulls()
        largest = max([largest, *found.filter(found.is_finite())])
    return largest


def main() -> None:
    """Ask every question of every engine."""
    real = open_store(sys.argv[1])
    builder = SparkSession.builder.master("local[2]")
    for name, value in OPTIONS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    connection = duckdb.connect()
    engines: dict[str, tuple[Callable[[pl.DataFrame], Any], Callable[[str], Any]]] = {
        "DuckDB": (lambda rows: connection.from_arrow(rows.to_arrow()), connection.read_parquet),
        "Spark": (lambda rows: spark.createDataFrame(rows.to_arrow()), spark.read.parquet),
    }
    found: dict[str, dict[str, float | None]] = {}

    def note(question: str, origin: str, engine: str, apart: float) -> None:
        cell = found.setdefault(question.partition(",")[0], {})
        cell[f"{engine}, {origin}"] = max(apart, cell.get(f"{engine}, {origin}") or 0.0)

    for origin, rows in (("synthetic", ROWS), ("real", pods_as_rows(real))):
        for question, ask in ROW_QUESTIONS.items():
            stated = ask_of_ended(question, rows)
            here = ask(stated)
            for engine, (make, _) in engines.items():
                note(question, origin, engine, difference(ask(make(stated)), here))
            print(origin, question, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ingest(write_sample(place / "files", scale=0.005, seed=5), store=place / "store")
        for origin, store in (("synthetic", open_store(place / "store")), ("real", real)):
            for question, (tables, ask_tables) in TABLES.items():
                paths = [str(store.path.resolve() / f"{table}.parquet") for table in tables]
                if not all(Path(path).is_file() for path in paths):
                    continue
                here = ask_tables(*map(pl.scan_parquet, paths))
                for engine, (_, read) in engines.items():
                    there = ask_tables(*map(read, paths))
                    note(question, origin, engine, difference(there, here))
                print(origin, question, flush=True)
    columns = [f"{engine}, {origin}" for engine in engines for origin in ("synthetic", "real")]
    lines = [
        {"function": f"`{question}`"}
        | {name: "" if (one := cells.get(name)) is None else f"{one:.1g}" for name in columns}
        for question, cells in sorted(found.items())
        if any(cells.values())
    ]
    equal = ", ".join(
        f"`{question}`" for question in sorted(found) if not any(found[question].values())
    )
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("polars", "duckdb", "pyspark", "narwhals")
    )
    text = f"With {versions}:\n\n{as_table(pl.DataFrame(lines))}"
    write_measured("engines.md", f"{text}\nWithout any difference: {equal}.")


main()
