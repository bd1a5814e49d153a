"""The section on placement: its order of policies, and a small trace with what it needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.figures import plot_placement_allocated, plot_placement_fragment
from traceana.page.section import Context, DataSource
from traceana.questions.scheduling.section_what_if import PLACEMENT
from traceana.questions.scheduling.what_if import reversed_pairs
from traceana.simulate.placement.simulate import summarize_placement, sweep_placement

JOBS = pl.DataFrame(
    {"job_id": [f"j{i}" for i in range(40)], "gpus": [0.5, 1.0, 0.25, 2.0] * 10, "cpus": [4.0] * 40}
)
MACHINES = pl.DataFrame({"machine_id": ["a", "b", "c"], "gpus": [8, 2, 0], "cpus": [64, 16, 16]})


def open_context(path: Path) -> Context:
    source = DataSource(path, is_sample=False)
    return Context(traceana.open_store(path), data_source=source)


def summary(*rows: tuple[str, str, float]) -> pl.DataFrame:
    schema = ["ties", "policy", "allocated"]
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(arrived=pl.lit(100))


def test_pairs_whose_order_depends_on_ties() -> None:
    found = summary(
        ("name", "fgd", 95.2),
        ("name", "bestfit", 92.9),
        ("name", "dotprod", 90.6),
        ("random", "fgd", 89.6),
        ("random", "bestfit", 92.9),
        ("random", "dotprod", 90.0),
    )
    # dotprod is ahead of fgd by .4 points only, less than the noise of seeds
    assert reversed_pairs(found) == [("fgd", "bestfit")]


def test_sweep_and_summary_have_every_policy_and_seed() -> None:
    runs = sweep_placement(
        JOBS, MACHINES, policies={"fgd": "fgd", "random": "random"}, seeds=(1, 2, 3)
    )
    assert runs.height == 2 * 3 * 13
    of_fgd = runs.filter(policy="fgd", arrived=100)["allocated"]
    row = summarize_placement(runs).filter(policy="fgd", arrived=100).row(0, named=True)
    assert row["n"] == 3
    assert row["allocated"] == pytest.approx(of_fgd.mean())
    assert row["allocated_std"] == pytest.approx(of_fgd.std())


def test_section_of_a_users_trace(tmp_path: Path) -> None:
    for table, frame in (("jobs", JOBS), ("machines", MACHINES)):
        traceana.add_table(frame, trace="mine", table=table, store=tmp_path)
    context = open_context(tmp_path)
    [trace] = PLACEMENT.traces(context)
    content = PLACEMENT.build([trace])
    assert content.findings[0].startswith("mine: when jobs have requested as many GPUs")
    assert "(means of 2 seeds; n = 40 jobs, 10 GPUs)" in content.findings[0]


def test_section_states_how_many_jobs_fit_on_no_machine(tmp_path: Path) -> None:
    jobs = JOBS.with_columns(cpus=pl.when(gpus=2).then(65.0).otherwise("cpus"))
    for table, frame in (("jobs", jobs), ("machines", MACHINES)):
        traceana.add_table(frame, trace="mine", table=table, store=tmp_path)
    content = PLACEMENT.build(PLACEMENT.traces(open_context(tmp_path)))
    assert "10 jobs (25 %) fit on no machine, even if all are empty." in content.findings[0]


def test_no_section_where_no_machine_has_a_gpu(tmp_path: Path) -> None:
    machines = MACHINES.with_columns(gpus=pl.lit(0))
    for table, frame in (("jobs", JOBS), ("machines", machines)):
        traceana.add_table(frame, trace="mine", table=table, store=tmp_path)
    content = PLACEMENT.build(PLACEMENT.traces(open_context(tmp_path)))
    assert not content.findings
    assert not content.all_blocks


def test_figures_draw_one_line_per_policy() -> None:
    runs = sweep_placement(
        JOBS, MACHINES, policies={"fgd": "fgd", "bestfit": "bestfit"}, seeds=(1,)
    )
    for plot, quantity in (
        (plot_placement_allocated, "allocated"),
        (plot_placement_fragment, "fragment"),
    ):
        ax = plot(runs)
        first = runs.filter(policy="fgd")
        x, y = np.asarray(ax.lines[0].get_data())
        drawn = dict(zip(x, y, strict=True))
        rows = first.filter(pl.col("arrived") >= min(x)).select("arrived", quantity).rows()
        assert drawn == dict(rows)
        assert [line.get_label() for line in ax.lines[:2]] == ["fgd", "bestfit"]
