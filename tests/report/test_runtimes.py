"""Task runtimes, capacity and runtime ratios on the page against pandas and numpy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana.store import Store
from traceana.tables.display import DASH

PAI, OPENB, ITP = "alibaba-pai-2020", "alibaba-openb-2023", "microsoft-itp-2021"


def frame(store: Store, trace: str, table: str) -> pd.DataFrame:
    return pd.read_parquet(store.path / trace / f"{table}.parquet")


@pytest.fixture(scope="module")
def runtimes(store: Store) -> pd.DataFrame:
    """Tasks with their runtime under the policy `drop`, by pandas."""
    tasks = frame(store, PAI, "tasks")[["job_id", "task_name", "status", "gpu_type", "gpus"]]
    whole = frame(store, PAI, "instances").dropna(subset=["start_s", "end_s"])
    whole["own"] = whole["end_s"] - whole["start_s"]
    ends = whole.groupby(["job_id", "task_name"]).agg(
        first=("start_s", "min"), last=("end_s", "max"), own=("own", "sum"), n=("own", "size")
    )
    joined = tasks.merge(ends, on=["job_id", "task_name"], how="left")
    joined["runtime_s"] = joined["last"] - joined["first"]
    return joined


def test_capacity_of_drop_is_pandas(store: Store, page: Element, runtimes: pd.DataFrame) -> None:
    rows = read_table(section(page, "task-runtimes"), "GPU-hours requested under each imputation")
    by = {row["End imputation"]: row for row in rows}
    assert list(by) == ["drop_task", "drop", "task", "running", "trace_end"]
    drop = by["drop"]
    assert number(drop["Tasks with a runtime"]) == runtimes["runtime_s"].count()
    assert number(drop["Instances used"]) == runtimes["n"].sum()
    assert number(drop["Mean"]) == pytest.approx(runtimes["runtime_s"].mean(), rel=6e-3)
    asked = (runtimes["gpus"] * runtimes["own"]).sum() / 3600
    assert number(drop["GPU-hours"]) == pytest.approx(asked, abs=0.501)
    times = pd.concat(
        [frame(store, PAI, table)[["start_s", "end_s"]] for table in ("tasks", "instances")]
    )
    span_h = (np.nanmax(times) - np.nanmin(times)) / 3600
    capacity = frame(store, PAI, "machines")["gpus"].sum() * span_h
    assert number(drop["Capacity (GPU-hours)"]) == pytest.approx(capacity, abs=0.501)
    assert number(drop["Fraction of capacity"]) == pytest.approx(100 * asked / capacity, abs=0.501)
    assert (
        number(by["trace_end"]["Fraction of capacity"]) > 100 > number(drop["Fraction of capacity"])
    )


def test_the_finding_says_that_running_to_the_end_cannot_be(page: Element) -> None:
    (told,) = (
        item.text
        for item in section(page, "task-runtimes").all("li")
        if "tasks request" in item.text
    )
    assert told.startswith("PAI: ")
    assert "Imputations that exceed the capacity: trace_end." in told


def test_lost_ends_are_counted_by_status(store: Store, page: Element) -> None:
    rows = read_table(section(page, "task-runtimes"), "Missing starts and ends of instances")
    tasks, instances = (frame(store, PAI, table) for table in ("tasks", "instances"))
    status = tasks[["job_id", "task_name", "status"]]
    joined = instances.drop(columns="status").merge(status, on=["job_id", "task_name"])
    assert sum(number(row["Tasks"]) for row in rows) == len(tasks)
    for row in rows:
        own = joined[joined["status"] == row["Status of the task"]]
        assert number(row["Instances"]) == len(own)
        assert number(row["End missing"]) == pytest.approx(
            100 * own["end_s"].isna().mean(), abs=0.501
        )


@pytest.mark.parametrize(
    ("trace", "title", "by"), [(ITP, "ITP", "cluster"), (OPENB, "openb", "qos")]
)
def test_ratios_are_numpys(store: Store, page: Element, trace: str, title: str, by: str) -> None:
    part = section(page, "runtime-ratio")
    jobs = frame(store, trace, "jobs").dropna(subset="runtime_s")
    groups = jobs.groupby(by)["runtime_s"]
    column = {"cluster": "Cluster", "qos": "QoS class"}[by]
    captions = [caption.text for caption in part.all("caption") if title in caption.text]
    (of_groups,) = (text for text in captions if f" by {column}.".lower() in text.lower())
    rows = [row for row in read_table(part, of_groups) if number(row["Runtimes"])]
    assert len(rows) == groups.ngroups
    for row in rows:
        values = groups.get_group(row[column]).to_numpy()
        assert number(row["Runtimes"]) == len(values)
        if len(values) > 1:
            cov = values.std(ddof=1) / values.mean()
            assert number(row["CoV"]) == pytest.approx(cov, rel=6e-3)
        if len(values) < 20:  # a 95 % quantile would be the largest value
            assert row.get("95 %", DASH) == DASH  # a column without values is not there
            continue
        assert number(row["95 %"]) == pytest.approx(
            np.quantile(values, 0.95) / values.mean(), rel=6e-3
        )
    (spread,) = (text for text in captions if " by grouping. " in text)
    overall, within, *_ = read_table(part, spread)
    everything = jobs["runtime_s"].to_numpy()
    assert number(overall["CoV"]) == pytest.approx(
        everything.std(ddof=1) / everything.mean(), rel=6e-3
    )
    several = jobs[groups.transform("size") > 1]
    ratios = several["runtime_s"] / several.groupby(by)["runtime_s"].transform("mean")
    assert number(within["CoV"]) == pytest.approx(ratios.std(ddof=1), rel=6e-3)
    assert number(within["Excluded: alone or no group"]) == len(jobs) - len(several)


def test_groups_of_recurring_jobs_are_those_of_the_tags(
    store: Store, page: Element, runtimes: pd.DataFrame
) -> None:
    part = section(page, "runtime-ratio")
    rows = {
        row["Grouped by"]: row for row in read_table(part, "Runtime ratios of tasks by grouping")
    }
    tags = store.scan(PAI, "job_tags").unique("inst_id").select("inst_id", "group").collect()
    jobs = store.scan(PAI, "jobs").select("job_id", "inst_id").collect().join(tags, on="inst_id")
    known = pl.from_pandas(runtimes[["job_id", "runtime_s"]]).filter(pl.col("runtime_s") >= 0)
    sizes = known.join(jobs, on="job_id")["group"].value_counts().filter(pl.col("count") > 1)
    row = rows["group"]
    assert number(row["Groups"]) == sizes.height
    assert number(row["Runtimes"]) == sizes["count"].sum()
    # recurrences of one group are more alike than tasks at large: so the sample is drawn
    assert number(row["CoV"]) < number(rows["none"]["CoV"])
