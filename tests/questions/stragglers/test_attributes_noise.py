"""Hosts that are slow among noise and spikes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import add_table, open_store, straggler_attributes
from traceana.page.blocks import Table
from traceana.questions.stragglers.section_variation import build_attributes


def samples(slow: float, spikes: float, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    value = 1 + 0.05 * rng.standard_normal((16, 200))
    value[8:12] *= slow
    value *= np.where(rng.random(value.shape) < spikes, 3, 1)
    worker, time = (axis.ravel() for axis in np.indices(value.shape))
    columns = {"job_id": "a", "worker_id": worker, "time_s": 10.0 * time, "host": worker // 4}
    return pl.DataFrame(columns | {"batch_time": value.ravel()})


@pytest.mark.parametrize("spikes", [0.0, 0.03])
def test_a_host_that_is_12_percent_slow_explains_what_lasts(spikes: float) -> None:
    found = straggler_attributes(samples(1.12, spikes, 1), attributes="host", resamples=199)
    host = found.attributes.filter(attribute="host").row(0, named=True)
    assert (host["group"], host["explains"]) == ("2", True)
    assert host["explained"] > 0.6
    assert host["explained_by_chance"] < 0.2
    # the rest is spikes and noise
    assert host["systematic"] < (0.3 if spikes else 0.95)
    assert host["pvalue"] <= 0.05


def test_identical_hosts_explain_nothing() -> None:
    found = straggler_attributes(samples(1.0, 0.03, 2), attributes="host", resamples=199)
    assert not found.attributes["explains"].any()


def test_few_steps_are_taken_as_they_are() -> None:
    rows = samples(1.5, 0.0, 3).filter(pl.col("time_s") < 100)
    found = straggler_attributes(rows, attributes="host", resamples=199).attributes
    assert found.filter("explains")["group"].to_list() == ["2"]
    assert found["systematic"].to_list() == [None, None]


def test_the_table_of_groups_has_none_that_chance_explains(tmp_path: Path) -> None:
    for name, slow in (("noise", 1.0), ("slow", 1.12)):
        rows = samples(slow, 0.03, 2).with_columns(pl.col("worker_id", "host").cast(pl.String))
        add_table(rows, trace=name, table="worker_samples", store=tmp_path)
    listed = {}
    for name in ("noise", "slow"):
        content = build_attributes([open_store(tmp_path).trace(name)])
        tables = [one for one in content.blocks if isinstance(one, Table)]
        of_groups = [one for one in tables if one.caption.startswith("Groups that explain")]
        listed[name] = [tuple(row[1:3]) for table in of_groups for row in table.rows]
    assert listed["noise"] == []
    assert ("host", "2") in listed["slow"]


def test_a_host_is_not_slow_because_one_worker_of_it_is() -> None:
    """Every worker of host 7 takes 8 % longer, and worker 5 of host 1 alone 15 %."""
    rng = np.random.default_rng(4)
    worker, time = (axis.ravel() for axis in np.indices((32, 400)))
    factor = np.select([worker // 4 == 7, worker == 5], [1.08, 1.15], 1.0)
    rows = pl.DataFrame({"job_id": "a", "worker_id": worker, "time_s": 10.0 * time}).with_columns(
        host=pl.Series(worker // 4), batch_time=factor * rng.lognormal(0, 0.02, time.size)
    )
    found = straggler_attributes(rows, attributes="host").attributes
    host = found.filter(attribute="host").row(0, named=True)
    assert host["pvalue"] <= 0.01
    assert host["explained"] == pytest.approx(found["explained"][0], abs=0.01)
    assert not found["explains"].any()
    assert not host["note"].startswith("its groups differ")
