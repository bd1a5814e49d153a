"""Replay recorded workers: what each controller would have made of their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.controllers import Measured, find_controller
from traceana.simulate.batching.run import check_setting, run_course

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.simulate.batching.controllers import BatchController

_CONTROLLERS = ("uniform", Measured(), "proportional", "damped", "oracle")
_COLUMNS = ("job_id", "worker_id", "time_s", "batch_time")


def replay_batching(
    samples: pl.DataFrame | pl.LazyFrame,
    /,
    *,
    controllers: Sequence[str | BatchController] = _CONTROLLERS,
    batch: int = 64,
) -> pl.DataFrame:
    """Replay the workers of each job as time-varying throughput under each controller.

    A recorded batch time t at an equal batch is a throughput of batch / t, overhead taken as 0:
    the trace cannot tell the two apart. Every tick at which all workers of the job reported is one
    step; the others are left out and counted. A controller sees a tick's times only after it, so
    it is one tick late at the least; the oracle splits each tick in hindsight.

    Parameters
    ----------
    samples
        [job_id, worker_id, time_s, batch_time], one row a worker and tick; eager or lazy.
        batch_time is in any unit of time, the result in the same. Rows with a null take no part.
    controllers
        Names or objects, as :func:`simulate_batching` takes them.
    batch
        Samples of a worker under equal batches: how finely a batch can be split.

    Returns
    -------
    DataFrame
        [job_id, controller, n_workers, n_ticks, n_ticks_left_out, time, speedup, of_possible,
        adjustments, idle_share], in the order of jobs and controllers. time is the sum over ticks
        of the slowest worker's time; speedup is uniform time over it; of_possible is the share of
        what the oracle saves that this controller saves (null where the oracle saves nothing or
        is not asked for).

    Raises
    ------
    DataError
        If a column is missing or not numeric, a batch time is not a finite number above 0, a
        worker reports twice at a tick, or a job has no tick with two workers or more.
    """
    table = _read(samples)
    chosen = [find_controller(controller) for controller in controllers]
    rows = []
    for (job,), group in table.group_by("job_id", maintain_order=True):
        wide = group.pivot("worker_id", index="time_s", values="batch_time").sort("time_s")
        complete = wide.drop_nulls()
        if complete.is_empty() or complete.width < 3:
            raise DataError(f"{job}: there is no tick at which two or more workers all reported")
        times = complete.drop("time_s").to_numpy()
        ticks, workers = times.shape
        check_setting(batch * workers, workers, 1, np.inf, ticks)
        courses = {
            controller.name: run_course(
                np.zeros(workers), batch / times, controller,
                global_batch=batch * workers, steps=ticks,
            )
            for controller in chosen
        }  # fmt: skip
        usual = float(times.max(axis=1).sum())
        best = courses["oracle"].step_s.sum() if "oracle" in courses else usual
        for name, course in courses.items():
            spent = float(course.step_s.sum())
            rows.append(
                {
                    "job_id": job,
                    "controller": name,
                    "n_workers": workers,
                    "n_ticks": ticks,
                    "n_ticks_left_out": wide.height - ticks,
                    "time": spent,
                    "speedup": usual / spent,
                    "of_possible": (usual - spent) / (usual - best) if best < usual else None,
                    "adjustments": int(course.adjustments),
                    "idle_share": max(0.0, float(1 - course.worker_s.sum() / (workers * spent))),
                }
            )
    return pl.DataFrame(rows)


def _read(samples: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    frame = samples.lazy()
    missing = [name for name in _COLUMNS if name not in frame.collect_schema().names()]
    if missing:
        raise DataError(f"samples: column {', '.join(missing)} is missing")
    try:
        table = (
            frame.select(
                pl.col("job_id", "worker_id").cast(pl.String),
                pl.col("time_s", "batch_time").cast(pl.Float64).fill_nan(None),
            )
            .drop_nulls()
            .sort("job_id", "worker_id", "time_s")
            .collect()
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"samples: {str(error).splitlines()[0]}") from None
    if not (table["batch_time"].is_finite() & (table["batch_time"] > 0)).all():
        raise DataError("samples: every batch_time must be a finite number above 0")
    if table.select("job_id", "worker_id", "time_s").is_duplicated().any():
        raise DataError("samples: a worker reports twice at a tick; keep one of the rows")
    return table
