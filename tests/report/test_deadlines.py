"""The section on deadlines against the functions it is made from."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana import (
    build_report,
    deadline_rules,
    deadline_tightness,
    iteration_rates,
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
    rows = read_table(part, "Rules of the plans")
    expected = deadline_rules(*tables)
    assert not [name for name in rows[0] if name.startswith("p")]
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
    assert not [name for name in rows[0] if "interval" in name]  # deadlines are drawn
    assert "CI" not in part.text
    assert not [one.text for one in part.all("li") if "could be met" in one.text]


def test_every_rate_is_listed(part: Element, tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    rows = read_table(part, "Throughput by model, batch size and GPUs")
    assert len(rows) == iteration_rates(*tables).height
    captions = [each.text for each in part.all("figcaption")]
    shown = [each.partition(". ")[2].split(".")[0] for each in captions]
    assert shown == ["Tightness of deadlines by cluster"]


def test_a_log_without_deadlines_has_no_section_of_them(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0.0, 60.0], "runtime_s": [600.0] * 2})
    page = build_report(jobs.with_columns(gpus=1), out=tmp_path, only="deadlines").read_text()
    assert "drawn" not in page.partition("<main")[2]
    assert 'id="deadlines"' not in page
