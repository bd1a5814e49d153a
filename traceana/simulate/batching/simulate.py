"""Simulate one job under one batch-size controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.controllers import BatchController, Uniform, find_controller
from traceana.simulate.batching.run import (
    Course,
    check_memory,
    check_setting,
    held_back,
    run_course,
)
from traceana.simulate.batching.tables import BatchingResult
from traceana.simulate.batching.workers import Workers, iteration_times, read_workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame


__all__ = ["BatchingResult", "simulate_batching"]

_STEPS = 100
_BATCH = 64


def simulate_batching(
    workers: Workers | IntoFrame | Sequence[tuple[float, float]],
    /,
    *,
    controller: str | BatchController,
    global_batch: int | None = None,
    steps: int | None = None,
    min_batch: int = 1,
    max_batch: float = float("inf"),
) -> BatchingResult:
    r"""Simulate synchronous training on heterogeneous workers under a batch-size controller.

    Worker k takes :math:`t_k = a_k + b_k / x_k` seconds for its :math:`b_k` samples, with
    :math:`x_k` a function of the batch size if the workers have a `speed`; a step takes
    :math:`\max_k t_k`. Batch sizes are integers and add up to the global batch. Each worker's part
    is rounded down, and the remaining samples go one by one to the worker that would finish first.
    A controller sees the times after a step; its batch sizes apply from the next step (Tyagi and
    Sharma, Taming Resource Heterogeneity in Distributed ML Training, ACSOS'20).

    Parameters
    ----------
    workers
        :class:`Workers`, or (overhead_s, samples_per_s) pairs, or a frame [worker_id, overhead_s,
        samples_per_s] of any supported engine, one row per worker.
    controller
        ``uniform``; ``measured`` (one adjustment to the throughput of the first 10 steps);
        ``proportional`` (as published, scaled to the global batch); ``smoothed`` (the controller of
        the paper: smoothed times, a dead-band of 5 % and a learned upper bound); ``damped`` (a
        dead-band of 0.2 and mean times); ``omnilearn`` (the authors' later code); ``oracle``; or an
        object
        with the methods of :class:`BatchController`, such as ``Static([48, 24, 24])``.
    global_batch
        Samples of a step; 64 per worker by default.
    steps
        Number of steps; by default 100, or as many as the workers' throughput has rows.
    min_batch, max_batch
        Bounds of a worker's batch size (`omnilearn` has its own, and the proportional controller
        as published, ``Proportional(keeps_global_batch=False)``, has none).

    Raises
    ------
    DataError
        If the bounds exclude the global batch, there are more steps than rows of throughput, or the
        steps would not fit into memory.

    Examples
    --------
    >>> import traceana
    >>> workers = [(0.1, 100), (0.1, 300)]
    >>> result = traceana.simulate_batching(workers, controller="proportional", steps=50)
    >>> result.workers.select("worker_id", "batch_first", "batch_last").rows()
    [('0', 64, 32), ('1', 64, 96)]
    """
    crew = read_workers(workers)
    chosen = find_controller(controller)
    size = _BATCH * len(crew.worker_id) if global_batch is None else global_batch
    n_samples = None if crew.is_constant else crew.samples_per_s.shape[0]
    run = steps if steps is not None else (n_samples or _STEPS)
    if n_samples is not None and run > n_samples:
        raise DataError(f"steps is {run}; the workers' throughput has {n_samples} rows")
    check_setting(size, len(crew.worker_id), min_batch, max_batch, run)
    check_memory(run, 1, len(crew.worker_id))
    course, usual = (
        run_course(
            crew.overhead_s,
            crew.samples_per_s,
            decides,
            global_batch=size,
            steps=run,
            min_batch=min_batch,
            max_batch=max_batch,
            speed=crew.speed,
        )
        for decides in (chosen, Uniform())
    )
    (note,) = held_back(chosen, course)
    spent_s = float(usual.step_s.sum())
    return _result(crew, chosen.name, course, uniform_time_s=spent_s, size=size, note=note)


def _result(
    crew: Workers, name: str, course: Course, *, uniform_time_s: float, size: int, note: str | None
) -> BatchingResult:
    workers, steps = len(crew.worker_id), len(course.step_s)
    time_s, samples = float(course.step_s.sum()), int(course.samples.sum())
    x = crew.samples_per_s if crew.is_constant else crew.samples_per_s[course.changed]
    negative = int((course.batches < 0).any(axis=-1).sum())
    batches = pl.DataFrame(
        {
            "step": np.repeat(course.changed, workers),
            "worker_id": list(crew.worker_id) * len(course.changed),
            "batch": course.batches.ravel(),
            "gradient_weight": (course.batches / course.batches.sum(-1, keepdims=True)).ravel(),
            "iteration_s": iteration_times(course.batches, crew.overhead_s, x, crew.speed).ravel(),
        }
    )
    return BatchingResult(
        controller=name,
        batches=batches,
        steps=pl.DataFrame(
            {
                "step": np.arange(steps),
                "step_s": course.step_s,
                "idle_fraction": course.idle_fraction,
                "samples": course.samples,
            }
        ),
        workers=pl.DataFrame(
            {
                "worker_id": crew.worker_id,
                "batch_first": course.batches[0],
                "batch_last": course.batches[-1],
                "mean_iteration_s": course.worker_s / steps,
                "busy_fraction": course.worker_s / time_s,
            }
        ),
        time_s=time_s,
        samples=samples,
        uniform_time_s=uniform_time_s,
        speedup=(uniform_time_s / (size * steps)) / (time_s / samples),
        adjustments=int(course.adjustments),
        idle_fraction=max(0.0, float(1 - course.worker_s.sum() / (workers * time_s))),
        note=f"a batch size is negative in {negative} settings; no job could run it"
        if negative
        else note,
    )
