"""Nodes on which jobs run longer are found as planted, and of logs without one none is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import add_table, open_store
from traceana.page.finding import Finding
from traceana.questions.failures.nodes import slow_nodes
from traceana.questions.failures.section import build_nodes

DAY = 86_400


def jobs_of(seed: int, *, slow: float = 1.0, only: str = "", since: float = 0.0) -> pl.DataFrame:
    """4,000 jobs of 20 users and three names on 20 nodes, of which n07 is slow."""
    draw, n = np.random.default_rng(seed), 4000
    user = draw.choice(20, n, p=(weight := 1 / np.arange(1, 21)) / weight.sum())
    name, node = draw.choice(3, n, p=[0.2, 0.2, 0.6]), draw.integers(0, 20, n)
    start = np.sort(draw.uniform(0, 42 * DAY, n))
    mean, spread = draw.normal(8, 1, (20, 3)), draw.uniform(0.3, 1.3, (20, 3))
    names = np.array(["train", "eval", "prep"])[name]
    is_slow = (node == 7) & (start >= since) & ((names == only) | (not only))
    logs = draw.normal(mean[user, name], spread[user, name]) + np.log(slow) * is_slow
    return pl.DataFrame(
        {
            "job_id": [f"{row}" for row in range(n)],
            "user": [f"u{one}" for one in user],
            "job_name": names,
            "gpus": 2.0,
            "submit_s": start,
            "start_s": start,
            "runtime_s": np.exp(logs),
            "end_s": start + np.exp(logs),
            "status": "completed",
            "node": [f"n{one:02d}" for one in node],
        }
    )


@pytest.mark.parametrize("n_nodes", [1, 2])
def test_a_slow_node_is_found_with_its_ratio(n_nodes: int) -> None:
    jobs = jobs_of(1, slow=1.6)
    if n_nodes == 2:  # each job also ran on another node: these are not slow
        other = pl.format("m{}", pl.int_range(pl.len()) % 9)
        jobs = jobs.with_columns(pl.concat_str("node", other, separator=","))
    [node] = slow_nodes(jobs, "node")
    assert node.node == "n07"
    assert node.ci_low < 1.6 < node.ci_high
    own = jobs.filter(pl.col("node").str.starts_with("n07"))
    hours = own.select(pl.col("runtime_s").sum()).item() * 2 / 3600
    assert node.lost_gpu_hours == pytest.approx(hours * (1 - 1 / node.ratio), rel=0.02)


def test_a_node_that_is_slow_for_one_name_is_stated_so(tmp_path: Path) -> None:
    jobs = jobs_of(10, slow=3, only="prep")
    named = "\n".join(f'{name} = "{name}"' for name in jobs.columns if name != "node")
    mapping = f'[trace]\nkeep = ["node"]\n[jobs]\n{named}\n'
    add_table(jobs, trace="mine", table="jobs", store=tmp_path, mapping=mapping)
    [_, text] = build_nodes([open_store(tmp_path).trace("mine")]).findings
    assert isinstance(text, Finding)
    assert text.alert.startswith("mine: node n07: completed jobs ran ")
    [node] = slow_nodes(jobs, "node")
    assert node.of_name is not None
    assert node.of_name[0] == "prep"
    assert node.of_name[1:] == pytest.approx((3, 1), rel=0.2)
    assert f"Those named prep ran {node.of_name[1]:.2f} times as long, others " in text


@pytest.mark.parametrize("seed", range(4, 10))
def test_a_log_without_a_slow_node_has_none(seed: int) -> None:
    assert slow_nodes(jobs_of(seed), "node") == []
    assert slow_nodes(jobs_of(seed).drop("start_s"), "node") == []


def test_sweeps_of_one_user_on_one_node_do_not_make_it_slow() -> None:
    """A user's jobs of a day run on one node and have a common factor."""
    draw, jobs = np.random.default_rng(11), jobs_of(10)
    day = (jobs["start_s"] // DAY).cast(pl.Int64).to_numpy()
    user = jobs["user"].str.slice(1).cast(pl.Int64).to_numpy()
    factor, node = draw.lognormal(0, 0.6, (20, 42)), draw.integers(0, 20, (20, 42))
    jobs = jobs.with_columns(
        pl.col("runtime_s") * pl.Series(factor[user, day]),
        node=pl.Series([f"n{one:02d}" for one in node[user, day]]),
    )
    assert slow_nodes(jobs, "node") == []
