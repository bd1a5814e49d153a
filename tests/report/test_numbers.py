"""Numbers on the page against the ledger, and against computations of another kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight

from tests.report.reader import Element, number, read_page, read_table, section
from traceana import task_runtimes
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store

MINIBATCH = "alibaba-minibatch-2020"


def frame(store: Store, trace: str, table: str) -> pd.DataFrame:
    return pd.read_parquet(store.path / trace / f"{table}.parquet")


def test_rows_by_table_are_the_ledgers(store: Store, page: Element) -> None:
    rows = read_table(section(page, "data-quality"), "Rows by table")
    expected = [entry for trace in store.traces() for entry in store.ledger(trace).entries]
    labels = {trace: store.trace(trace).label for trace in store.traces()}
    stated = [(labels[entry.trace], entry.table) for entry in expected]
    assert [(row["Trace"], row["Table"]) for row in rows] == stated
    for row, entry in zip(rows, expected, strict=True):
        assert number(row["Rows read"]) == entry.rows_read
        assert number(row["Kept"]) == entry.rows_kept
        assert number(row["Rejected"]) == entry.rows_rejected
        assert number(row["Not applicable"]) == entry.rows_not_applicable
        assert number(row["Kept"]) == len(frame(store, entry.trace, entry.table))
        assert row["Synthetic"] == "yes"


def test_rows_by_file_sum_up_to_the_tables(store: Store, page: Element) -> None:
    part = section(page, "data-quality")
    for trace in store.traces():
        *rows, total = read_table(part, f"{store.trace(trace).label}: rows by file and table")
        sums: dict[str, int] = defaultdict(int)
        for row in rows:
            sums[row["Table"]] += int(number(row["Rows read"]))
        ledger = store.ledger(trace)
        assert sums == {entry.table: entry.rows_read for entry in ledger.entries}
        assert total["File"] == "Sum"
        assert number(total["Kept"]) == sum(entry.rows_kept for entry in ledger.entries)
        assert number(total["Rows read"]) == number(total["Kept"]) + number(total["Rejected"])


def test_rejections_and_files_are_the_ledgers(store: Store, page: Element) -> None:
    part = section(page, "data-quality")
    rejected = read_table(part, "Rejected rows by rule")
    assert [(row["Rule"], row["Rows"]) for row in rejected] == [("duplicate_key", "1")]
    files = {row["File"]: row for row in read_table(part, "Files, and whether")}
    expected = {
        f.file: f.sha256 for t in store.traces() for e in store.ledger(t).entries for f in e.files
    }
    assert {name: row["sha256"] for name, row in files.items()} == expected
    assert {row["As published"] for row in files.values()} == {"synthetic"}


def test_cov_by_job_is_numpys(store: Store, page: Element) -> None:
    rows = read_table(section(page, "variation"), "CoV of mini-batch time")
    samples = frame(store, MINIBATCH, "worker_samples")
    assert len(rows) == 2 * samples["job_id"].nunique()
    for row in rows:
        own = samples[samples["job_id"] == row["Job"]].groupby("time_s")["batch_time"]
        covs = np.array(
            [np.std(x, ddof=int(row["ddof"])) / np.mean(x) for _, x in own if len(x) > 1]
        )
        assert number(row["Time steps"]) == len(covs)
        for heading, expected in {
            "Mean": covs.mean(),
            "Median": np.median(covs),
            "95 %": np.quantile(covs, 0.95),
            "Maximum": covs.max(),
        }.items():
            assert number(row[heading]) == pytest.approx(expected, abs=5.01e-4)
        assert number(row["Above 0.1"]) == pytest.approx(100 * (covs > 0.1).mean(), abs=0.501)


def test_published_cov_by_job_is_the_tables(store: Store, page: Element) -> None:
    part = section(page, "variation")
    covs = frame(store, MINIBATCH, "cov_samples")
    (overall,) = read_table(part, "Published CoV, each time step")
    assert number(overall["Time steps"]) == len(covs)
    assert number(overall["Above 0.5"]) == pytest.approx(
        100 * (covs["cov"] > 0.5).mean(), abs=0.501
    )
    by_job = covs.groupby("job_id")["cov"].median()
    rows = read_table(part, "Published CoV by job")
    assert [row["Job"] for row in rows] == sorted(by_job.index)
    for row in rows:
        assert number(row["Median"]) == pytest.approx(by_job[row["Job"]], abs=5.01e-4)
    for row in [overall, *(row for row in rows if " to " in row["Median, CI"])]:
        low, high = map(number, row["Median, CI"].split(" to "))
        assert low <= number(row["Median"]) <= high
    cut = covs.groupby("job_id")["sample"].max() == 1999
    assert [row["Truncated"] == "yes" for row in rows] == cut.tolist()
    assert f"{cut.sum()} of {len(cut)} jobs reach the last column" in part.text


def _median_runtime(jobs: pd.DataFrame) -> float:
    """Median, by statsmodels where jobs are left-truncated or censored."""
    ends, running = jobs["start_s"] + jobs["runtime_s"], jobs["status"] == "running"
    if not running.any():
        return float(jobs["runtime_s"].median())
    entry = (ends.min() - jobs["start_s"]).clip(lower=0, upper=jobs["runtime_s"] - 1e-6)
    ended = ~(running & (ends >= ends.max()))
    curve = SurvfuncRight(jobs["runtime_s"], ended.astype(int), entry=entry)
    return float(curve.surv_times[curve.surv_prob <= 0.5 + 1e-12][0])


def test_workload_is_summed_within_each_trace_alone(store: Store, page: Element) -> None:
    part = section(page, "workload")
    for trace, caption in {
        "microsoft-itp-2021": "Workload by cluster. ITP",
        "alibaba-openb-2023": "Workload by QoS class. openb",
    }.items():
        *clusters, total = read_table(part, caption)
        jobs = frame(store, trace, "jobs")
        known = jobs.dropna(subset=["gpus", "runtime_s"])
        hours = (known["gpus"] * known["runtime_s"]).sum() / 3600
        assert number(total["Jobs"]) == len(jobs)
        assert number(total["GPU-hours"]) == pytest.approx(hours, abs=0.501)
        assert number(total["Without GPU-hours"]) == len(jobs) - len(known)
        assert number(total["Runtime: median"]) == pytest.approx(_median_runtime(known), rel=6e-3)
        by = "qos" if trace == "alibaba-openb-2023" else "cluster"
        assert [next(iter(row.values())) for row in clusters] == sorted(jobs[by].unique())
        assert sum(number(row["Jobs"]) for row in clusters) == len(jobs)


def test_runtime_and_rates_by_gpu_type_are_scipys(store: Store, page: Element) -> None:
    part = section(page, "outcomes")
    scans = (store.scan("alibaba-pai-2020", table) for table in ("tasks", "instances"))
    tasks = pd.DataFrame(task_runtimes(*scans).to_dict(as_series=False))
    tasks["gpu_type"] = tasks["gpu_type"].fillna("not stated")
    runtimes = tasks["runtime_s"].dropna()
    rows = read_table(part, "Runtime of tasks by GPU type and status")
    assert sum(number(row["Runtimes"]) for row in rows) == len(runtimes)
    assert sum(number(row["Without runtime"]) for row in rows) == len(tasks) - len(runtimes)
    for row in rows:
        group = (tasks["status"] == row["Status"]) & (tasks["gpu_type"] == row["GPU type"])
        own = runtimes[group[runtimes.index]]
        assert number(row["Runtimes"]) == len(own)
        if len(own):
            # Kaplan-Meier without censoring: the smallest runtime with at least half at or below
            median = own.sort_values().iloc[(len(own) - 1) // 2]
            assert number(row["Median"]) == pytest.approx(median, rel=6e-3)
            restricted = own.clip(upper=7 * 86_400).mean()  # none is censored
            assert number(row["7 d restricted mean"]) == pytest.approx(restricted, rel=6e-3)
    rates = read_table(part, "Failure rate of tasks by GPU type")
    assert len(rates) == tasks["gpu_type"].nunique()
    for row in rates:
        own = tasks[tasks["gpu_type"] == row["GPU type"]]["status"]
        counts = {status: (own == status).sum() for status in own.unique()}
        for status in ("completed", "failed", "cancelled", "running", "pending", "unknown"):
            assert number(row.get(status.capitalize(), "0")) == counts.get(status, 0)
        ended = counts.get("completed", 0) + counts.get("failed", 0)
        assert number(row["Completed or failed"]) == ended
        rate = 100 * counts.get("failed", 0) / ended
        assert number(row["Failure rate"].removesuffix("%")) == pytest.approx(rate, abs=0.501)


def test_pods_by_gpus_requested_are_watched_for_a_day(store: Store, page: Element) -> None:
    jobs = frame(store, "alibaba-openb-2023", "jobs")
    rows = read_table(section(page, "outcomes"), "Failure rate of pods by GPUs requested")
    start = jobs["start_s"]
    ended = jobs["start_s"] + jobs["runtime_s"]
    last = max(ended.max(), jobs["end_s"].max())
    watched = jobs[(start >= ended.min()) & (last - start >= 86_400) & jobs["runtime_s"].notna()]
    counted = {row["GPUs requested"]: number(row["Watched"]) for row in rows}
    assert sum(counted.values()) == len(watched)
    assert counted["1"] == (watched["gpus"] == 1).sum()
    assert counted["fraction of one"] == ((watched["gpus"] > 0) & (watched["gpus"] < 1)).sum()


def test_the_published_traces(real_store: Store, tmp_path: Path) -> None:
    told = ("data-quality", "workload", "outcomes")
    path = build_report(real_store.path, out=tmp_path, only=told, formats="html")
    text = path.read_text(encoding="utf-8")
    page = read_page(text)
    assert page.all("title")[0].text == "traceana report"
    assert "SYNTHETIC" not in text
    part = section(page, "workload")
    *clusters, total = read_table(part, "Workload by cluster. ITP")
    assert len(clusters) == 10
    # as published: 69,351 jobs, 1,632,719.7 GPU-hours
    assert (total["Jobs"], total["GPU-hours"]) == ("69,351", "1,632,720")
    files = read_table(section(page, "data-quality"), "Files, and whether")
    assert {row["As published"] for row in files} == {"yes"}
    kept = {
        (row["Trace"], row["Table"]): number(row["Kept"])
        for row in read_table(section(page, "data-quality"), "Rows by table")
    }
    assert kept == {
        (real_store.trace(row["trace"]).label, row["table"]): row["rows"]
        for row in real_store.tables().to_dicts()
    }
    assert "traceana fetch" not in text, "one's own page advertises nothing"
