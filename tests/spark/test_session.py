"""Spark beside Polars and DuckDB: the same values, sections and refusals.

All that needs a session is in this file, so that of all processes that run tests one starts Java.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import traceana as analysis
from tests.generator import write_sample
from tests.spark.questions import (
    OWN,
    ROW_QUESTIONS,
    TABLES,
    ask_of_ended,
    frames_of,
    is_asked_here,
    own_jobs,
    own_samples,
)
from tests.store.test_frames import QUESTIONS, ROWS
from traceana import runtime_by
from traceana.cli import main
from traceana.cohorts import tasks as job_sample
from traceana.errors import DataError, TraceanaError
from traceana.ingesters import add_table, ingest
from traceana.page.blocks import Content, Gallery
from traceana.page.section import sections
from traceana.report import build_report
from traceana.report.arrange import content_of
from traceana.report.build import find_data_source, open_context
from traceana.store import Store, Trace, open_store
from traceana.store import spark as spark_engine
from traceana.store.spark import open_spark

MASTER = "local[2]"
ABSENT = "is not here: nothing is tested with Spark (pip install -e '.[spark]', and Java 17)"
# for many small queries: little is compiled, and nothing is planned anew while it runs
OPTIONS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason=f"PySpark {ABSENT}")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip(f"Java {ABSENT}")
    builder = sql.SparkSession.builder.master(MASTER)
    for name, value in OPTIONS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    return spark.createDataFrame(ROWS.to_arrow())


@pytest.fixture(scope="module")
def synthetic_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("spark")
    ingest(write_sample(folder / "files", scale=0.001, seed=5), store=folder / "store")
    return open_store(folder / "store")


def test_a_frame_of_spark_becomes_a_table(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 2.0), ("b", 4.0)], ["job_id", "gpus"])
    add_table(frame, trace="mine", table="jobs", store=tmp_path)
    jobs = open_store(tmp_path).scan("mine", "jobs").select("job_id", "gpus").collect()
    assert jobs.sort("job_id").rows() == [("a", 2.0), ("b", 4.0)]


@pytest.mark.parametrize("question", [*filter(is_asked_here, ROW_QUESTIONS)])
def test_spark_gives_the_same_values(rows: Any, question: str) -> None:
    here = ask_of_ended(question, ROWS)
    there = rows if here is ROWS else rows.dropna(subset="status")
    ask = ROW_QUESTIONS[question]
    assert_frame_equal(ask(there), ask(here), rel_tol=1e-12, abs_tol=0)


@pytest.mark.parametrize(
    "question", ["iteration_cov, ddof 1", "workload_summary, by", "kaplan_meier"]
)
@pytest.mark.parametrize("n", [0, 1])
def test_spark_gives_the_same_of_next_to_nothing(spark: Any, question: str, n: int) -> None:
    few, ask = ROWS.head(n), QUESTIONS[question]
    there = spark.createDataFrame(ROWS.to_arrow()).limit(n)
    assert_frame_equal(ask(there), ask(few), check_exact=True)


@pytest.mark.parametrize("engine", ["duckdb", "pyspark"])
@pytest.mark.parametrize("question", TABLES)
def test_tables_read_by_each_engine_give_the_same_values(
    synthetic_store: Store, engine: str, question: str, request: pytest.FixtureRequest
) -> None:
    tables, ask = TABLES[question]
    paths = [str(synthetic_store.path / f"{table}.parquet") for table in tables]
    if engine == "pyspark":
        frames = [request.getfixturevalue("spark").read.parquet(path) for path in paths]
    else:
        connection = duckdb.connect()
        frames = [connection.read_parquet(path) for path in paths]
    here = ask(*map(pl.scan_parquet, paths))
    # a category is text to another engine
    words = pl.selectors.by_dtype(pl.Categorical, pl.Enum).cast(pl.String)
    there = ask(*frames)
    assert here.height
    assert_frame_equal(
        there.with_columns(words), here.with_columns(words), rel_tol=1e-12, abs_tol=0
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("own") / "[1] {a,b} st*r?"  # no pattern
    add_table(own_jobs(), trace="own", table="jobs", store=folder)
    add_table(own_samples(), trace="own", table="worker_samples", store=folder)
    return open_store(folder)


@pytest.mark.parametrize("question", OWN)
@pytest.mark.usefixtures("spark")
def test_tables_of_a_user_are_reduced_by_spark_to_the_same_values(
    own: Store, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    frame = Trace.frame

    def note_and_read(trace: Trace, table: str) -> Any:
        found = frame(trace, table)
        read.append(type(found).__module__.partition(".")[0])
        return found

    monkeypatch.setattr(Trace, "frame", note_and_read)
    there = dict(frames_of(OWN[question](replace(own, master=MASTER).trace("own"))))
    assert {*read} == {"pyspark"}
    here = dict(frames_of(OWN[question](own.trace("own"))))
    assert there.keys() == here.keys()
    words = pl.selectors.by_dtype(pl.Categorical, pl.Enum).cast(pl.String)
    for place, one in here.items():
        other = there[place]
        if isinstance(one, pl.DataFrame) and isinstance(other, pl.DataFrame):
            both = (other.with_columns(words), one.with_columns(words))
            assert_frame_equal(*both, rel_tol=1e-12, abs_tol=0)
        elif isinstance(one, float):
            assert one == pytest.approx(other, rel=1e-12, abs=0), place
        else:
            assert one == other, place


def test_whatever_takes_a_frame_is_asked_of_spark() -> None:
    takes_a_frame = {
        name
        for name in vars(analysis)["__all__"]
        if inspect.isfunction(function := getattr(analysis, name))
        and function.__module__.startswith(("traceana.questions.", "traceana.cohorts."))
        and "IntoFrame" in str(inspect.signature(function))
    }
    asked = {question.partition(",")[0] for question in (*ROW_QUESTIONS, *TABLES)}
    # these collect their columns through the gate, which test_frames tries on each engine
    collected = {
        name for name in takes_a_frame - asked if name not in ROW_QUESTIONS and name != "correlate"
    }
    assert "training_defaults" in collected, "which returns no frame"
    assert len(asked & takes_a_frame) > 50


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT 1 AS gpus", "column runtime_s is missing; found gpus"),
        ("SELECT 1 AS `runtime_s`, 2 AS `a.b`", "column 'a.b' needs another name: Spark takes"),
        ("SELECT array(1) AS runtime_s", "column runtime_s holds List"),
        ("SELECT 'soon' AS runtime_s", "column runtime_s holds String; numbers are needed"),
        ("SELECT -1 AS runtime_s", "column runtime_s holds -1.0; its values must lie from 0"),
        ("SELECT double('Infinity') AS runtime_s", "column runtime_s holds inf; its values must"),
        ("SELECT int('x' || id) AS runtime_s FROM range(2)", r"the frame cannot be read: \[CAST"),
    ],
)
def test_what_spark_cannot_give_is_refused_in_one_line(spark: Any, query: str, text: str) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        runtime_by(spark.sql(query), "a.b" if "a.b" in query else ())
    assert "\n" not in str(refusal.value)


def told(content: Content) -> tuple[object, ...]:
    """Texts and tables of a section, and the names of its figures."""
    blocks = [block for block in content.all_blocks if not isinstance(block, Gallery)]
    galleries = [block for block in content.all_blocks if isinstance(block, Gallery)]
    keys = [picture.key for gallery in galleries for picture in gallery.pictures]
    return content.findings, blocks, keys


SHOWN = ("task-runtimes", "outcomes", "competing-risks", "runtime-ratio")


@pytest.mark.parametrize(
    "section", [part for part in sections() if part.id in SHOWN], ids=lambda part: part.id
)
def test_a_section_is_the_same_from_spark(
    section: Any, spark: Any, synthetic_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = open_context(find_data_source(synthetic_store.path))
    by_spark = replace(polars, store=replace(polars.store, master=MASTER))
    read: list[str] = []
    reader = type(spark.read)
    parquet = reader.parquet

    def note_and_read(self: Any, path: str) -> Any:
        read.append(path)
        return parquet(self, path)

    monkeypatch.setattr(reader, "parquet", note_and_read)
    assert told(content_of(section, by_spark)) == told(content_of(section, polars))
    assert read  # else Polars was held against itself


def test_a_sample_of_jobs_is_the_same_from_spark(
    spark: Any,  # noqa: ARG001  starts it
    synthetic_store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # results of the whole trace have the same names
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(job_sample, "MAX_TASKS", 1000)
    monkeypatch.setattr(job_sample, "SAMPLED_TASKS", 300)
    polars = open_context(find_data_source(synthetic_store.path))
    (section,) = (part for part in sections() if part.id == "task-runtimes")
    found = content_of(section, replace(polars, store=replace(polars.store, master=MASTER)))
    assert told(found) == told(content_of(section, polars))
    assert "a sample of" in found.findings[0]


def test_the_command_says_which_engine_ran(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    store = tmp_path / "store"
    add_table(own_samples(), trace="own", table="worker_samples", store=store)
    command = ["report", "--store", str(store), "--out", str(tmp_path)]
    only = ["--only", "variation,provenance"]
    by_spark = [*command, *only, "--engine", "spark", "--master", MASTER]
    monkeypatch.setattr(sys, "argv", ["traceana", *by_spark])
    with pytest.raises(SystemExit, match="0"):
        main()
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert f"- **Engine**: Spark {spark.version} on `{MASTER}` reduced tables" in text
    assert "ERROR" not in capfd.readouterr().err
    monkeypatch.setattr(sys, "argv", ["traceana", *command, *only])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "- **Engine**: Polars\n" in (tmp_path / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"engine": "dask"}, "no engine is called 'dask'; the engines are polars, spark"),
        ({"master": MASTER}, r"master 'local\[2\]' is for the engine spark; the engine is polars"),
    ],
)
def test_a_report_by_no_such_engine_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(DataError, match=text):
        build_report(**options)  # type: ignore[arg-type]


def test_without_pyspark_its_name_and_extra_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(TraceanaError, match=r"not installed: pip install 'traceana\[spark\]'"):
        build_report(engine="spark")


@pytest.mark.usefixtures("spark")
def test_a_process_has_one_master() -> None:
    with pytest.raises(TraceanaError, match=r"a Spark session on local\[2\] and cannot have one"):
        open_spark("local[7]")


@pytest.fixture
def no_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(spark), "getActiveSession", lambda: None)


def start_error(master: str, **variables: str) -> str:
    """Return what a process says that cannot start Spark."""
    pytest.importorskip("pyspark", reason=f"PySpark {ABSENT}")
    code = f"from traceana.store.spark import open_spark; open_spark({master!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()[-1]


def test_an_unknown_master_is_told() -> None:
    assert start_error("nonsense").startswith(
        "traceana.errors.TraceanaError: Spark cannot be started on nonsense: Master must "
    )


def test_an_older_java_is_told(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    # what Java 11 says of Spark's classes
    java.write_text(
        "#!/bin/sh\n"
        "echo 'Error: LinkageError occurred while loading main class org.apache.spark.Main' >&2\n"
        "echo 'java.lang.UnsupportedClassVersionError: class file version 61.0' >&2\n"
        "exit 1\n"
    )
    java.chmod(0o755)
    last = start_error("local", JAVA_HOME=str(tmp_path))
    assert last.startswith("traceana.errors.TraceanaError: Spark cannot be started on local: ")
    assert last.endswith("; Spark needs Java 17 or newer, on the PATH or under JAVA_HOME")


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://nowhere"])
def test_a_master_that_does_not_answer_is_told(master: str) -> None:
    with pytest.raises(TraceanaError, match=f"no Spark master answers at {master}: "):
        open_spark(master)


def test_a_master_without_workers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "_WORKER_S", 0)
    session = MagicMock()
    # the driver alone
    session.sparkContext._jsc.sc().getExecutorMemoryStatus().size.return_value = 1
    with pytest.raises(
        TraceanaError,
        match=r"no worker of spark://here:1 is free: start one, or wait for another's",
    ):
        spark_engine._await_worker(session, "spark://here:1")
    session.stop.assert_called_once_with()
