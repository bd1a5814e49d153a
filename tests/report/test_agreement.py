"""Numbers that several places print are the same: page, results.json, compare and functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import traceana
from tests.report.reader import number, read_page, read_table, section
from traceana.cohorts.observation import window_of
from traceana.questions.comparison.compare_traces import compare_traces
from traceana.questions.runtimes.fit import analyze_runtime_distributions
from traceana.questions.workload.analyze import describe_workload
from traceana.store import Store, open_store

TRACE = "planted"
DAY = 86_400.0


def planted(rng: np.random.Generator) -> pl.DataFrame:
    """Return jobs of a day and a half, of which a fifth fails, a fifth is cancelled, some run."""
    n = 900
    submit = np.sort(rng.uniform(0, 1.5 * DAY, n))
    start = submit + rng.exponential(300, n)
    runtime = rng.lognormal(8, 1.5, n)
    end = start + runtime
    status = rng.choice(["completed", "failed", "cancelled"], n, p=[0.6, 0.2, 0.2])
    open_ = end > 1.5 * DAY
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(n)],
            "submit_s": submit,
            "start_s": start,
            "end_s": np.where(open_, np.nan, end),
            "runtime_s": np.where(open_, np.nan, runtime),
            "status": np.where(open_, "running", status),
            "gpus": rng.choice([1.0, 2, 8], n),
            "user": rng.choice([f"u{user}" for user in range(12)], n),
        }
    ).with_columns(pl.col("end_s", "runtime_s").fill_nan(None))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Any, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("agreement")
    traceana.add_table(
        planted(np.random.default_rng(1)), trace=TRACE, table="jobs", store=folder / "store"
    )
    only = ("workload", "consumers", "outcomes", "competing-risks")
    path = traceana.build_report(folder / "store", out=folder / "out", only=only)
    numbers = json.loads((path.parent / "results.json").read_text(encoding="utf-8"))
    return open_store(folder / "store"), read_page(path.read_text(encoding="utf-8")), numbers


def test_one_store_has_one_failure_rate(places: tuple[Store, Any, dict[str, Any]]) -> None:
    store, page, results = places
    trace = store.trace(TRACE)
    [expected] = traceana.failure_rates(trace.jobs, ()).rows(named=True)
    by_hand = trace.jobs["status"].value_counts()
    counts = dict(by_hand.iter_rows())
    rate = counts["failed"] / (counts["failed"] + counts["completed"])
    assert expected["rate"] == pytest.approx(rate)
    assert results["numbers"][TRACE]["failure_rate"]["estimate"] == pytest.approx(rate)
    compared = compare_traces([trace]).filter(name="failure_rate")
    assert compared["estimate"].item() == pytest.approx(rate)
    text = section(page, "outcomes").text
    assert f"{100 * rate:.0f} % of the completed and failed jobs failed" in text
    # jobs that still run are said beside it, and the incidence is first
    running = 100 * counts["running"] / trace.jobs.height
    assert running > 5
    assert f"{running:.2g} % of all jobs reached no end state" in text
    incidence = results["numbers"][TRACE]["failure_incidence"]["estimate"]
    assert f"{100 * incidence:.0f} % of the jobs failed within" in text


def test_gpu_hours_demand_and_concentration_agree(
    places: tuple[Store, Any, dict[str, Any]],
) -> None:
    store, page, results = places
    trace = store.trace(TRACE)
    window = window_of(trace)
    hours = traceana.workload_summary(trace.jobs, window=window)["gpu_hours"].item()
    assert traceana.gpu_hours_by(trace.jobs, "status", window=window)["gpu_hours"].sum() == (
        pytest.approx(hours)
    )
    assert traceana.gpu_demand(trace.jobs, window=window)["gpus_mean"].sum() == pytest.approx(hours)
    concentrated = traceana.concentration(trace.jobs, window=window).row(0, named=True)
    assert concentrated["gpu_hours"] == pytest.approx(hours)
    [row] = read_table(section(page, "workload"), "Workload of each trace")
    assert number(row["GPU-hours"]) == pytest.approx(hours, abs=0.501)
    caption = "Resources, wait, failure, waste and efficiency by status"
    by_status = read_table(section(page, "consumers"), caption)
    assert sum(number(one["GPU-hours"]) for one in by_status) == pytest.approx(hours, abs=2.5)
    by_kind = traceana.goodput(trace.jobs, same=(), window=window)
    assert by_kind["gpu_hours"].sum() == pytest.approx(hours)
    assert traceana.trends(trace.jobs, window=window)["gpu_hours"].sum() == pytest.approx(hours)
    assert traceana.resource_usage(trace.jobs, window=window)["gpu_hours"].item() == (
        pytest.approx(hours)
    )
    allocated = traceana.cluster_utilization(trace.jobs, gpus=100, window=window).row(0, named=True)
    assert allocated["allocated"] * allocated["gpu_hours"] == pytest.approx(hours)
    each = traceana.job_quantiles(trace.jobs, window=window).filter(quantity="gpu_hours")
    assert (each["n"] * each["mean"]).item() == pytest.approx(
        traceana.gpu_hours_by(trace.jobs.drop_nulls("runtime_s"), (), window=window)[
            "gpu_hours"
        ].item()
        + traceana.gpu_hours_by(
            trace.jobs.filter(pl.col("runtime_s").is_null()), (), window=window
        )["gpu_hours"].item()
    )
    compared = traceana.compare(trace, trace).filter(measure="gpu_hours_per_day")
    days = (window[1] - window[0]) / DAY if window else 0.0
    assert compared["before"].item() * days == pytest.approx(hours)
    top = concentrated["fraction_of_top_1_percent"]
    found = results["numbers"][TRACE]["fraction_gpu_hours_top_1_percent"]["estimate"]
    assert found == pytest.approx(top)
    shown = number(row["Top 1 % of GPU jobs"].removesuffix("%"))
    assert shown == pytest.approx(100 * top, abs=0.051)


def test_one_median_runtime(places: tuple[Store, Any, dict[str, Any]]) -> None:
    _, page, results = places
    [row] = read_table(section(page, "workload"), "Workload of each trace")
    found = results["numbers"][TRACE]["runtime_s_median"]["estimate"]
    assert number(row["Median runtime"]) == pytest.approx(found, rel=6e-3)


def test_the_sample_has_one_rate_and_one_share(store: Store) -> None:
    trace = store.trace("alibaba-openb-2023")
    [rate] = traceana.failure_rates(trace.jobs, ()).rows(named=True)
    compared = compare_traces([trace])
    assert compared.filter(name="failure_rate")["estimate"].item() == pytest.approx(rate["rate"])
    top = traceana.concentration(trace.jobs, window=window_of(trace))
    assert compared.filter(name="fraction_gpu_hours_top_1_percent")["estimate"].item() == (
        pytest.approx(top["fraction_of_top_1_percent"].item())
    )


def test_the_median_of_tasks_is_one(store: Store) -> None:
    trace = store.trace("alibaba-pai-2020")
    row = compare_traces([trace]).filter(name="runtime_s_median").row(0, named=True)
    found = analyze_runtime_distributions(trace).median
    assert found == pytest.approx(tuple(row[name] for name in ("estimate", "ci_low", "ci_high")))


def test_the_share_of_the_largest_is_of_jobs_where_runtimes_are_of_tasks(store: Store) -> None:
    trace = store.trace("alibaba-pai-2020")
    split = describe_workload(trace).concentration
    assert split is not None
    row = compare_traces([trace]).filter(name="fraction_gpu_hours_top_1_percent")
    assert row["n"].item() == split.total["n"].item() < trace.table("tasks").height
    assert row["estimate"].item() == split.total["fraction_of_top_1_percent"].item()


def test_no_direction_is_stated_if_failures_come_when_completions_do(tmp_path: Path) -> None:
    jobs = planted(np.random.default_rng(2))
    ended = pl.col("end_s").is_not_null()
    jobs = jobs.with_columns(end_s=pl.when(ended).then(pl.col("start_s") + 3600.0)).drop(
        "runtime_s"
    )
    out = tmp_path / "out"
    page = traceana.build_report({"jobs": jobs}, out=out, only="outcomes", formats="md")
    text = page.read_text(encoding="utf-8")
    assert "the rate is biased, in an unknown direction" in text
    assert "likely too" not in text


def test_runtimes_of_0_s_count_in_every_median(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(5)],
            "submit_s": [0.0, 100, 200, 300, 400],
            "start_s": [0.0, 100, 200, 300, 400],
            "end_s": [0.0, 100, 207, 310, 420],
            "runtime_s": [0.0, 0, 7, 10, 20],
            "status": "completed",
        }
    )
    traceana.add_table(jobs, trace=TRACE, table="jobs", store=tmp_path)
    trace = open_store(tmp_path).trace(TRACE)
    found = analyze_runtime_distributions(trace)
    assert (found.median, found.n_timed, found.n_positive) == ((7.0, None, None), 5, 3)
    assert describe_workload(trace).summary["runtime_s_median"].item() == 7
