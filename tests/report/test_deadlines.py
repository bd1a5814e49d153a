"""The section on deadlines against the functions it is made from."""

from __future__ import annotations

import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana import (
    deadline_rules,
    deadline_tightness,
    iteration_rates,
    simulate_deadlines,
    synthesize_deadlines,
)
from traceana.store import Store


@pytest.fixture(scope="module")
def part(page: Element) -> Element:
    return section(page, "deadlines")


@pytest.fixture(scope="module")
def tables(store: Store) -> tuple[pl.DataFrame, pl.DataFrame]:
    plans, jobs = (
        store.scan("elasticflow-2023", table).collect() for table in ("training_plans", "jobs")
    )
    return plans, jobs


def test_rules_stand_with_their_evidence(
    part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    rows = read_table(part, "Tests of the rules")
    expected = deadline_rules(*tables)
    assert [row["Rule"] for row in rows] == expected["rule"].to_list()
    for row, value in zip(rows, expected["value"], strict=True):
        assert number(row["Value"]) == pytest.approx(value, rel=0.01)


def test_deadlines_met_by_cluster_and_over_all(
    part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]
) -> None:
    rows = read_table(part, "Deadlines that jobs without a wait would meet")
    expected = deadline_tightness(*tables, by="cluster")
    assert [row["Cluster"] for row in rows] == [*expected["cluster"], "All"]
    met = [number(row["Met"]) for row in rows]
    assert met[:-1] == expected["n_met"].to_list()
    assert met[-1] == sum(met[:-1])


def test_every_rate_is_listed(part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    rows = read_table(part, "Throughput by model, batch size and GPUs")
    assert len(rows) == iteration_rates(*tables).height
    compared = read_table(part, "Synthetic and published plans compared")
    assert compared[0]["Compared"] == "tightness"
    captions = [each.text for each in part.all("figcaption")]
    shown = [each.partition(". ")[2].split(".")[0] for each in captions]
    assert shown == ["Missed deadlines by cluster and policy"] * 2  # of two traces


def test_missed_deadlines_of_jobs_with_and_without_plans(
    part: Element, tables: tuple[pl.DataFrame, pl.DataFrame], store: Store
) -> None:
    plans, jobs = tables
    expected = simulate_deadlines(jobs, plans=plans)
    rows = read_table(part, "Missed deadlines by cluster")
    named = expected.drop_nulls("cluster")
    assert [number(row["Missed"]) for row in rows] == named["n_missed"].to_list()
    # a trace without deadlines has synthetic ones, and one without runtimes those of its instances
    requests = store.scan("alibaba-pai-2020", "tasks").select("job_id", "task_name", "gpus")
    held = (
        store.scan("alibaba-pai-2020", "instances")
        .filter(pl.col("start_s").is_not_null() & pl.col("end_s").is_not_null())
        .join(requests, on=["job_id", "task_name"])
        .group_by("job_id")
        .agg(
            runtime_s=pl.col("end_s").max() - pl.col("start_s").min(),
            gpu_s=((pl.col("end_s") - pl.col("start_s")) * pl.col("gpus")).sum(),
        )
    )
    submitted = store.scan("alibaba-pai-2020", "jobs").select("job_id", "submit_s")
    of_instances = (
        submitted.join(held, on="job_id", how="left", maintain_order="left")
        .with_columns(gpus=pl.col("gpu_s") / pl.col("runtime_s"))
        .collect()
    )
    simulated = simulate_deadlines(
        of_instances, plans=synthesize_deadlines(of_instances, rng=0), policies=["fifo"]
    )
    shown = read_table(part, "Missed deadlines, all clusters. PAI")
    assert number(shown[0]["Jobs"]) == simulated["n"].item() > 100
    assert number(shown[0]["Missed"]) == simulated["n_missed"].item()
    others = store.scan("alibaba-openb-2023", "jobs").collect()
    of_others = simulate_deadlines(others, plans=synthesize_deadlines(others, rng=0))
    shown = read_table(part, "Missed deadlines, all clusters. openb")
    missed = of_others.filter(pl.col("cluster").is_null() | (of_others["cluster"].n_unique() == 1))
    assert [number(row["Missed"]) for row in shown] == missed["n_missed"].to_list()
