"""Jobs as a window shows them, against what of each lies in it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import resource_usage
from traceana.cohorts.overlap import clip_jobs

DAY_S = 86_400.0


def _jobs(seed: int) -> pl.DataFrame:
    """Draw jobs that wait and run, some cancelled before they ran, some pending or running."""
    rng = np.random.default_rng(seed)
    n = 400
    submit = np.sort(rng.uniform(0, 30 * DAY_S, n))
    start = submit + rng.exponential(DAY_S / 4, n)
    runtime = rng.exponential(DAY_S, n)
    kind = rng.choice(["completed", "failed", "cancelled", "never", "pending", "running"], n)
    ran, ended = ~np.isin(kind, ["never", "pending"]), ~np.isin(kind, ["pending", "running"])
    export = 32 * DAY_S
    lasted = np.where(kind == "running", np.maximum(export - start, 0), runtime)
    jobs = pl.DataFrame(
        {
            "job_id": [str(one) for one in range(n)],
            "submit_s": submit,
            "gpus": rng.integers(1, 9, n),
        }
    )
    columns = {
        "start_s": (start, ran),
        "runtime_s": (lasted, ran),
        "end_s": (start + runtime, ended),
    }
    texts = ("end_reason", "exit_code")
    return jobs.with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in texts),
        status=pl.Series(["cancelled" if one == "never" else one for one in kind]),
        **{
            name: pl.Series([x if known else None for x, known in zip(*values, strict=True)])
            for name, values in columns.items()
        },
    )


@pytest.mark.parametrize(
    "window", [(0.0, 10 * DAY_S), (7 * DAY_S, 9.5 * DAY_S), (20.0, 25 * DAY_S)]
)
def test_hours_of_clipped_jobs_are_those_of_the_overlap(window: tuple[float, float]) -> None:
    for seed in range(3):
        jobs = _jobs(seed)
        ran = jobs.drop_nulls("start_s")
        start, runtime, gpus = (ran[one].to_numpy() for one in ("start_s", "runtime_s", "gpus"))
        held = np.minimum(start + runtime, window[1]) - np.maximum(start, window[0])
        clipped = clip_jobs(jobs.lazy(), window).collect()
        found = resource_usage(clipped, window=window)["gpu_hours"].item()
        assert found == pytest.approx(float(np.maximum(held, 0) @ gpus) / 3600)


def test_a_job_cancelled_after_the_window_while_it_waited_is_pending() -> None:
    job = {"submit_s": 5.0, "start_s": None, "end_s": 50.0, "runtime_s": None, "gpus": 2}
    other = {"status": "cancelled", "end_reason": "CANCELLED", "exit_code": "0:0"}
    types = {"start_s": pl.Float64, "runtime_s": pl.Float64}
    jobs = pl.DataFrame([job | other], schema_overrides=types).lazy()
    found = clip_jobs(jobs, (0.0, 20.0)).collect().row(0, named=True)
    assert (found["status"], found["runtime_s"], found["end_s"]) == ("pending", None, None)
    assert clip_jobs(jobs, (0.0, 60.0)).collect()["status"].item() == "cancelled"
