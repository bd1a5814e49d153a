"""results.json beside the page: stable names for checks and dashboards."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.page.blocks import Content
from traceana.page.finding import Finding
from traceana.page.section import Context, DataSource, Section
from traceana.report.build import results_json
from traceana.report.page import Built


def test_names_numbers_and_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jobs = pl.DataFrame(
        {
            "job_id": [str(i) for i in range(99)],
            "runtime_s": [float(i + 1) for i in range(99)],
            "gpus": [1.0] * 99,
            "status": ["failed"] * 33 + ["completed"] * 66,
        }
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store", title="Mine")
    page = traceana.build_report(tmp_path / "store", out=tmp_path / "out", only="workload")
    found = json.loads((page.parent / "results.json").read_text(encoding="utf-8"))
    assert found["format"] == 1
    assert found["traces"] == {"mine": {"title": "Mine", "synthetic": False}}
    numbers = found["numbers"]["mine"]
    assert set(numbers) == {
        "runtime_s_median",
        "fraction_multi_gpu",
        "queueing_delay_s_median",
        "failure_rate",
        "failure_incidence",
        "fraction_gpu_hours_top_1_percent",
        "cov_median",
        "slowdown_median",
    }
    assert (numbers["runtime_s_median"]["estimate"], numbers["runtime_s_median"]["n"]) == (50, 99)
    assert numbers["failure_rate"]["estimate"] == pytest.approx(1 / 3)
    assert numbers["failure_rate"]["ci_low"] < 1 / 3 < numbers["failure_rate"]["ci_high"]
    assert numbers["queueing_delay_s_median"]["estimate"] is None
    assert [one["name"] for one in found["findings"]][:1] == ["workload.1"]
    assert found["findings"][0]["text"].startswith("99 jobs, ")


def test_a_finding_has_the_numbers_by_which_it_is_ranked(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "runtime_s": [60.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    section = Section("own", "Own", 1, lambda _: Content())
    finding = Finding("User a used 40 %.", effect=0.4, n=9, cost_gpu_h=7.0, heading="User a: 40 %")
    built = [Built(section, Content((finding, "A sentence alone.")))]
    context = Context(traceana.open_store(tmp_path), DataSource(tmp_path, is_sample=False))
    ranked, alone = json.loads(results_json(built, context))["findings"]
    assert ranked | {"heading": "User a: 40 %", "effect": 0.4, "n": 9, "cost_gpu_h": 7} == ranked
    assert ranked["certainty"] == "exact"
    assert "effect" not in alone
