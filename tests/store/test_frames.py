"""Every listed engine gives the same values and the same refusals; any other is named."""

from __future__ import annotations

import itertools
import re
import sqlite3
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.questions.questions import assert_finite
from traceana import (
    arrival_rhythm,
    compare_distributions,
    compare_runtimes,
    concentration,
    correlate,
    cumulative_incidence,
    failure_model,
    failure_odds,
    failure_rates,
    gpu_demand,
    interarrival_curve,
    interarrivals,
    iteration_cov,
    job_quantiles,
    kaplan_meier,
    lorenz_curve,
    mean_by_value,
    outcome_association,
    outcome_rates,
    queueing_delay,
    recurring_groups,
    runtime_by,
    runtime_correlations,
    runtime_means,
    size_distribution,
    summarize_cov,
    summarize_cov_pooled,
    summarize_cov_series,
    summarize_runtime_ratio,
    variance_fraction,
    workload_summary,
)
from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.store import frames as gate

if TYPE_CHECKING:
    from collections.abc import Callable

N = 3000


def make_rows() -> pl.DataFrame:
    """Rows that have every column asked for, with nulls in measures, groups and statuses."""
    rng = np.random.default_rng(7)
    row = np.arange(N)
    return pl.DataFrame(
        {
            "job_id": [f"job_{i}" for i in row // 1000],
            "time_s": 10.0 * (row % 1000 // 10),
            "worker_id": [str(i) for i in row % 10],
            "batch_time": rng.gamma(4, 100, N),
            "row": row,
            "cov": rng.gamma(2, 0.2, N),
            "cluster": rng.choice(["c1", "c2", "c3"], N),
            "size": rng.integers(1, 4, N),
            "status": rng.choice(STATUSES, N),
            "submit_s": rng.uniform(0, 1e6, N),
            "runtime_s": rng.lognormal(7, 2, N),
            "gpus": rng.choice([0.25, 0.5, 1, 8], N),
            "start_s": rng.uniform(1e6, 2e6, N),
            "end_s": rng.uniform(2e6, 3e6, N),
        }
    ).with_columns(
        # a tenth of the values is missing, at other rows in each column
        *(
            pl.when(pl.Series(rng.random(N) > 0.1)).then(name)
            for name in ("batch_time", "cov", "cluster", "status", "submit_s", "runtime_s", "gpus")
        ),
        pl.when(pl.Series(rng.random(N) > 0.1)).then("start_s"),
        pl.when(pl.Series(rng.random(N) > 0.1)).then("end_s"),
    )


ROWS = make_rows()
CONNECTION = duckdb.connect()


def ibis_duckdb(rows: pl.DataFrame) -> Any:
    """Return the rows as a table of DuckDB, through Ibis."""
    ibis = pytest.importorskip("ibis", reason=NO_IBIS)
    name = f"rows{next(NUMBERS)}"
    CONNECTION.from_arrow(rows.to_arrow()).create(name)
    return ibis.duckdb.from_connection(CONNECTION).table(name)


def ibis_sqlite(rows: pl.DataFrame) -> Any:
    """Return the rows as a table of SQLite, through Ibis."""
    ibis = pytest.importorskip("ibis", reason=NO_IBIS)
    name, connection = f"rows{next(NUMBERS)}", sqlite3.connect(":memory:")
    kinds = {pl.String: "TEXT", pl.Int64: "INTEGER", pl.Binary: "BLOB", pl.Boolean: "BOOLEAN"}
    columns = [f'"{one}" {kinds.get(type(dtype), "REAL")}' for one, dtype in rows.schema.items()]
    connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    marks = ", ".join("?" * rows.width)
    connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows.rows())
    return ibis.sqlite.from_connection(connection).table(name)


NO_IBIS = "needs ibis-framework[duckdb,sqlite]"
NUMBERS = itertools.count()
ENGINES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda rows: rows,
    "polars lazy": lambda rows: rows.lazy(),
    "duckdb": lambda rows: CONNECTION.from_arrow(rows.to_arrow()),
    "pandas": lambda rows: pd.DataFrame(rows.to_dict(as_series=False)),
    "pyarrow": lambda rows: rows.to_arrow(),
}
OWN_PATHS = ("polars", "polars lazy", "duckdb")
"""Those that are asked everything; columns of the others become a Polars frame, or share code."""
OTHERS = {"ibis duckdb": ibis_duckdb, "ibis sqlite": ibis_sqlite}
"""Databases behind Ibis, which share the code of the others: not asked everything."""
ALL = ENGINES | OTHERS
pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # ibis
    pytest.mark.filterwarnings("ignore:The .future.infer_string:Warning"),  # ibis
    pytest.mark.filterwarnings("ignore:sqlite through Ibis lacks:UserWarning"),
]
QUESTIONS: dict[str, Callable[[Any], pl.DataFrame]] = {
    "iteration_cov, ddof 0": lambda rows: iteration_cov(rows, ddof=0),
    "iteration_cov, ddof 1": lambda rows: iteration_cov(rows, ddof=1, min_workers=9),
    "summarize_cov": lambda rows: summarize_cov(rows, by=("job_id", "cluster")),
    "summarize_cov, pooled": lambda rows: summarize_cov(rows, by=()),
    "summarize_cov_series": lambda rows: summarize_cov_series(rows, by="worker_id", time="row"),
    "summarize_cov_pooled": lambda rows: summarize_cov_pooled(rows, by="worker_id", time="row"),
    "workload_summary": workload_summary,
    "workload_summary, by": lambda rows: workload_summary(rows, by=["cluster", "size"]),
    "runtime_by": lambda rows: runtime_by(rows, ("cluster", "size")),
    "runtime_by, all": lambda rows: runtime_by(rows, (), confidence=0.9),
    "runtime_means": lambda rows: runtime_means(rows, by=("cluster", "size")),
    "runtime_means, clusters": lambda rows: runtime_means(rows, by="size", cluster="worker_id"),
    "variance_fraction": lambda rows: variance_fraction(
        rows, value="runtime_s", cluster="worker_id", by="cluster", log=True
    ),
    "variance_fraction, all": lambda rows: variance_fraction(
        rows, value="gpus", cluster="worker_id"
    ),
    "outcome_rates": lambda rows: outcome_rates(rows, "cluster"),
    "outcome_rates, wide": lambda rows: outcome_rates(
        rows, ("cluster", "size"), failure=("failed", "cancelled", "unknown")
    ),
    "failure_rates": lambda rows: failure_rates(rows, ("cluster", "size")),
    "failure_rates, all": lambda rows: failure_rates(rows, ()),
    "cumulative_incidence": lambda rows: cumulative_incidence(
        rows, by=("cluster", "size")
    ).groups.filter(event="failed"),
    "cumulative_incidence, all": lambda rows: cumulative_incidence(rows).groups,
    "kaplan_meier": lambda rows: kaplan_meier(rows, by=("cluster", "size")).groups,
    "kaplan_meier, all": lambda rows: kaplan_meier(rows, events="failed").curves,
    "arrival_rhythm": lambda rows: arrival_rhythm(rows, per="hour", by="cluster"),
    "arrival_rhythm, all": lambda rows: arrival_rhythm(rows, per="weekday", utc_offset_h=-3.5),
    "interarrivals": lambda rows: interarrivals(rows, by=("cluster", "size")),
    "interarrivals, all": interarrivals,
    "interarrival_curve": lambda rows: interarrival_curve(rows, by="cluster"),
    "interarrival_curve, all": lambda rows: interarrival_curve(rows, points=5),
    "job_quantiles": lambda rows: job_quantiles(rows, by="cluster"),
    "job_quantiles, all": job_quantiles,
    "size_distribution": lambda rows: size_distribution(rows, by="cluster"),
    "size_distribution, all": size_distribution,
    "concentration": lambda rows: concentration(rows, by=("cluster", "size")),
    "concentration, all": concentration,
    "lorenz_curve": lambda rows: lorenz_curve(rows, by="cluster"),
    "lorenz_curve, all": lambda rows: lorenz_curve(rows, points=5),
    "gpu_demand": lambda rows: gpu_demand(rows, by="cluster"),
    "gpu_demand, all": gpu_demand,
    "gpu_demand, runtime": lambda rows: gpu_demand(
        rows, by="cluster", start="submit_s", runtime="runtime_s"
    ),
    "summarize_runtime_ratio": lambda rows: summarize_runtime_ratio(rows, by=("cluster", "size")),
    "summarize_runtime_ratio, all": lambda rows: summarize_runtime_ratio(rows, by=()),
    "recurring_groups": lambda rows: recurring_groups(rows, by=("cluster", "size")),
    "queueing_delay": lambda rows: queueing_delay(rows, by=("cluster", "size")),
    "queueing_delay, all": queueing_delay,
    "correlate": lambda rows: (
        correlate(
            rows, ("gpus", "size"), "runtime_s", level=("row", "group_mean"), by="cluster"
        ).table
    ),
    "correlate, all": lambda rows: (
        correlate(
            rows,
            "gpus",
            "runtime_s",
            method=("pearson", "spearman", "kendall"),
            level=("row", "group_mean", "group_mean_weighted"),
            cluster="worker_id",
            resamples=100,
        ).table
    ),
    "runtime_by, clusters": lambda rows: runtime_by(rows, "size", cluster="worker_id"),
    "outcome_rates, clusters": lambda rows: outcome_rates(rows, "size", cluster="worker_id"),
    "failure_rates, clusters": lambda rows: failure_rates(rows, (), cluster="worker_id"),
    "cumulative_incidence, clusters": lambda rows: cumulative_incidence(
        rows, by="size", cluster="worker_id"
    ).groups.filter(event="failed"),
    "kaplan_meier, clusters": lambda rows: kaplan_meier(rows, cluster="worker_id").groups,
    "mean_by_value": lambda rows: mean_by_value(rows, "gpus", "runtime_s", by="cluster"),
    "mean_by_value, all": lambda rows: mean_by_value(rows, "gpus", "runtime_s"),
    "correlate, ranks": lambda rows: correlate(rows, "gpus", "runtime_s", method="spearman").table,
}


@cache
def answer(engine: str, question: str) -> pl.DataFrame:
    return QUESTIONS[question](ALL[engine](ROWS))


@pytest.mark.parametrize(
    ("engine", "question"),
    [
        (engine, question)
        for engine in ALL
        for question in QUESTIONS
        # of the rest each function is asked once
        if engine != "polars" and (engine in OWN_PATHS or ", " not in question)
    ],
)
def test_every_engine_gives_the_same_values(engine: str, question: str) -> None:
    here = answer("polars", question)
    assert_frame_equal(answer(engine, question), here, rel_tol=1e-12, abs_tol=0)


# these refuse a frame without groups or outcomes to compare
COMPARISONS: dict[str, Callable[[Any], pl.DataFrame]] = {
    "compare_runtimes": lambda rows: compare_runtimes(rows, "cluster").test,
    "compare_runtimes, clusters": lambda rows: (
        compare_runtimes(rows, ("cluster", "size"), cluster="job_id").pairs
    ),
    "outcome_association": lambda rows: outcome_association(rows, "cluster"),
    "outcome_association, clusters": lambda rows: outcome_association(
        rows, "size", cluster="worker_id"
    ),
    "failure_odds": lambda rows: failure_odds(rows, "size", strata=("cluster", "job_id")),
    "failure_model": lambda rows: failure_model(rows, features=("cluster", "gpus")).odds_ratios,
}


@pytest.mark.parametrize("question", COMPARISONS)
@pytest.mark.parametrize("engine", [name for name in ALL if name != "polars"])
def test_every_engine_is_compared_alike(engine: str, question: str) -> None:
    ask = COMPARISONS[question]
    result = ask(ALL[engine](ROWS))
    assert_frame_equal(result, ask(ROWS), rel_tol=1e-9)
    assert not any(column.is_nan().any() for column in result.select(pl.selectors.float()))


@pytest.mark.parametrize("engine", [name for name in ALL if name != "polars"])
def test_every_engine_gives_the_same_published_family(engine: str) -> None:
    ended = ROWS.drop_nulls("status").rename({"size": "n_instances"})  # a null status is refused
    options: dict[str, Any] = {"by": "cluster", "cluster": "worker_id", "resamples": 100}
    here, there = (
        runtime_correlations(rows, level=("row", "group_mean"), **options).table
        for rows in (ended, ALL[engine](ended))
    )
    assert here.height == 4 * 2 * 2 * 2 * 2
    assert_frame_equal(there, here, rel_tol=1e-9)


@pytest.mark.parametrize("engine", [name for name in ALL if name != "polars"])
def test_every_engine_gives_the_same_pairs(engine: str) -> None:
    here, there = (
        compare_distributions(rows, "runtime_s", ("cluster", "size"), resamples=9, rng=1)
        for rows in (ROWS, ALL[engine](ROWS))
    )
    assert here.height == 12 * 11 / 2
    assert_frame_equal(there, here, rel_tol=1e-12, abs_tol=0)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_result_holds_a_nan_and_rows_go_by_their_keys(question: str) -> None:
    # one row a group: no deviation, no interval
    few = (ROWS.head(1), ROWS.clear())
    others = [QUESTIONS[question](ENGINES[engine](rows)) for engine in OWN_PATHS for rows in few]
    # those of many rows are the same from every engine
    for result in (answer("polars", question), *others):
        assert_finite([result], but=result.columns)
        if keys := [name for name in result.columns if name in ROWS.columns and name != "cov"]:
            assert_frame_equal(result, result.sort(keys, nulls_last=True))


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize(
    ("change", "question", "text"),
    [
        (pl.col("runtime_s") / 0, "runtime_by", "column runtime_s holds inf; its values must li"),
        (-pl.col("gpus"), "workload_summary", "column gpus holds -8.0; its values must lie from"),
        (pl.lit("w").alias("worker_id"), "iteration_cov, ddof 0", "886 duplicate row"),
        (pl.lit("Done").alias("status"), "outcome_rates", "status 'Done' is found; statuses are"),
        (pl.lit("x").alias("cov"), "summarize_cov", "column cov holds String; numbers are needed"),
        (pl.lit(b"\xff").alias("status"), "outcome_rates", "column status holds Binary; text"),
        (pl.col("cov").alias("cov") > 0, "summarize_cov", "column cov holds Boolean; numbers are"),
    ],
)
def test_every_engine_is_refused_alike(
    engine: str, change: pl.Expr, question: str, text: str
) -> None:
    rows = ROWS.drop_nulls().with_columns(change)
    with pytest.raises(DataError, match=text) as refusal:
        QUESTIONS[question](ALL[engine](rows))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("engine", ALL)
def test_a_missing_column_is_named_beside_those_there_are(engine: str) -> None:
    frame = ALL[engine](ROWS.select("cluster", "size", "gpus"))
    with pytest.raises(
        DataError, match="column job_id, runtime_s is missing; found cluster, size, gpus"
    ):
        runtime_by(frame, "job_id")


@pytest.mark.parametrize("engine", ALL)
def test_a_column_without_any_value_is_missing_throughout(engine: str) -> None:
    rows = pl.DataFrame({"cluster": ["a", "a"], "runtime_s": [None, None], "status": [None, None]})
    frame = ALL[engine](rows)
    assert runtime_by(frame, "cluster").rows() == [("a", 0, *[None] * 5, 2, None, None)]
    assert outcome_rates(frame, "cluster").rows() == [("a", 0, 0, None, None, None, 2)]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float32, pl.Decimal(10, 2)])
@pytest.mark.parametrize("engine", ["polars", "duckdb", "pyarrow"])
def test_any_number_is_a_number(engine: str, dtype: Any) -> None:
    rows = pl.DataFrame({"runtime_s": [1, 2, 6]}).cast(dtype)
    result = runtime_by(ENGINES[engine](rows), ())
    assert result.select("n", "mean_s", "median_s").rows() == [(3, 3.0, 2.0)]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("engine", ENGINES)
def test_times_are_accepted_as_datetimes_and_durations(engine: str, zone: str | None) -> None:
    at = pl.Series([datetime(2024, 3, 31, 1, 59, 30), datetime(2024, 3, 31, 3, 0, 30)])  # noqa: DTZ001
    at = at.dt.replace_time_zone(zone)
    rows = pl.DataFrame({"submit_s": at.head(1), "start_s": at.tail(1)})
    # clocks in Berlin skip the hour from 2
    assert queueing_delay(ENGINES[engine](rows))["mean_s"].item() == (60 if zone else 3660)
    took = pl.DataFrame({"runtime_s": [timedelta(minutes=1.5)]})
    if engine != "spark":
        assert runtime_by(ENGINES[engine](took), ())["mean_s"].item() == 90


def test_nan_is_no_group_beside_null() -> None:
    rows = pl.DataFrame({"limit": [float("nan"), None, 2.0], "runtime_s": [1, 3, 5]})
    assert runtime_by(rows, "limit").select("limit", "n").rows() == [(2.0, 1), (None, 2)]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ([{"runtime_s": 1}], "list (a path? use traceana.read)"),
        ("jobs.parquet", "str (a path? use traceana.read)"),
        ({"runtime_s": [1]}, "dict"),
        (np.ones(3), "numpy ndarray"),
        (pl.Series("runtime_s", [1]), "polars Series"),
        (pd.Series([1], name="runtime_s"), "pandas Series"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_frame_is_refused_by_name_with_the_list(frame: Any, kind: str) -> None:
    expected = "expected a Polars, pandas, pyarrow, DuckDB, PySpark or Ibis frame, got "
    with pytest.raises(DataError, match=f"^{re.escape(expected + kind)}$"):
        runtime_by(frame, ())


def test_an_engine_that_is_not_listed_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {engine: name for engine, name in gate.ENGINES.items() if "pandas" not in name}
    monkeypatch.setattr(gate, "ENGINES", listed)
    with pytest.raises(DataError, match=r"or Ibis frame, got pandas DataFrame$"):
        runtime_by(ENGINES["pandas"](ROWS), ())


def test_an_aggregate_that_a_database_lacks_is_computed_here_or_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = ibis_sqlite(ROWS)
    with pytest.warns(UserWarning, match=r"sqlite .* 'Quantile' .*; 3,000 rows are read into mem"):
        found = runtime_by(frame, "cluster")
    assert_frame_equal(found, runtime_by(ROWS, "cluster"), rel_tol=1e-12)
    monkeypatch.setattr(gate, "MOST_ROWS_HERE", 10)
    with pytest.raises(DataError, match=r"its 3,000 rows are more than the 10 that are read into"):
        runtime_by(frame, "cluster")


@pytest.mark.parametrize(
    ("by", "text"),
    [
        ("n", "by cannot name n: the result has a column of that name"),
        ("runtime_s", "column runtime_s is named for more than one part"),
        (("cluster", "cluster"), "column cluster is named for more than one part"),
        (None, "a list of names, got NoneType"),
        ((1,), "a list of names, got "),
    ],
)
def test_a_grouping_that_cannot_be_is_refused(by: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        runtime_by(ROWS.rename({"job_id": "n"}), by)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (pd.DataFrame([[1, 2]], columns=["runtime_s", "runtime_s"]), "two columns of the frame"),
        (pd.DataFrame({"runtime_s": ["soon", 3.0]}), "a column has mixed types"),
    ],
)
def test_pandas_odd_columns_are_refused_in_one_line(frame: Any, text: str) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        runtime_by(frame, ())
    assert "\n" not in str(refusal.value)


def test_the_clock_of_datetimes_begins_in_1970() -> None:
    # a Thursday
    rows = pl.DataFrame({"submit_s": [datetime(1970, 1, 1, 7), datetime(1970, 1, 2, 7)]})  # noqa: DTZ001
    found = arrival_rhythm(rows, per="weekday").filter(pl.col("jobs") > 0)
    assert found["weekday"].to_list() == [4, 5]


@pytest.mark.parametrize("largest", [1e150, 1.1e150])
def test_numbers_from_0_to_the_largest_are_taken(largest: float) -> None:
    rows = pl.DataFrame({"runtime_s": [0.0, largest]})
    if largest == gate.LARGEST:
        assert runtime_by(rows, ())["median_s"].item() == largest / 2
    else:
        with pytest.raises(DataError, match="column runtime_s holds"):
            runtime_by(rows, ())


def test_a_missing_column_is_asked_for_by_its_own_parameter_alone() -> None:
    rows = pl.DataFrame({"job_id": ["a"], "step": [1], "worker_id": ["w"], "batch_time": [1.0]})
    with pytest.raises(DataError) as no:
        iteration_cov(rows, ddof=1)
    assert str(no.value) == (
        "column time_s is missing; found job_id, step, worker_id, batch_time; pass time='step'"
    )
