"""Waits of FIFO and EASY against those of the log, on logs whose scheduler is known."""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana import simulate_schedule
from traceana.simulate.schedule.capacity import calibrate


def _log(policy: str) -> pl.DataFrame:
    """Return a log that a policy made on 16 GPUs."""
    rng = np.random.default_rng(1)
    jobs = pl.DataFrame(
        {
            "job_id": np.arange(400),
            "submit_s": np.sort(rng.uniform(0, 100_000, 400)),
            "runtime_s": rng.exponential(1500, 400),
            "gpus": rng.choice([1, 2, 4, 8], 400),
        }
    )
    made = simulate_schedule(jobs, policy=policy, gpus=16).jobs
    return jobs.with_columns(made["start_s"])


def test_fifo_reproduces_the_median_wait_of_a_log_that_fifo_made() -> None:
    found = simulate_schedule(_log("fifo"), policy="fifo").groups
    assert found["capacity"].item() == "largest demand"
    assert found["gpus"].item() == 16
    assert found["wait_s_recorded"].item() == found["wait_s_median"].item() > 0
    easy = simulate_schedule(_log("fifo"), policy="easy").groups
    text = calibrate(pl.concat([found, easy]))
    assert text.count(" under fifo") == 1
    assert text.endswith(" recorded.")


def test_other_gpus_loads_and_logs_without_starts_are_not_compared() -> None:
    jobs = _log("fifo")
    assert calibrate(simulate_schedule(jobs, policy="fifo", gpus="+10%").groups) == ""
    assert calibrate(simulate_schedule(jobs, policy="sjf").groups) == ""
    twice = simulate_schedule(jobs, policy="fifo", scale_load=2).groups
    assert twice["wait_s_recorded"].item() is None
    without = simulate_schedule(jobs.drop("start_s"), policy="fifo")
    assert "no start times" in calibrate(without.groups)
    assert "Calibration" not in without.summary()


def test_many_groups_are_counted() -> None:
    jobs = pl.concat(
        _log(policy).with_columns(cluster=pl.lit(policy)) for policy in ("fifo", "sjf")
    )
    found = simulate_schedule(jobs, policy="fifo").groups
    close = found.filter(
        ((pl.col("wait_s_median") - pl.col("wait_s_recorded")).abs() <= 60)
        | (pl.col("wait_s_median") / pl.col("wait_s_recorded")).is_between(0.5, 2)
    )
    assert f"in {close.height} of 2 groups under fifo" in calibrate(found)
