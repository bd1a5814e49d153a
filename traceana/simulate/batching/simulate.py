"""One job under one controller, from its workers to what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.results.base import Result
from traceana.simulate.batching.controllers import Uniform, find_controller
from traceana.simulate.batching.run import check_setting, run_course
from traceana.simulate.batching.workers import Workers, read_workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.simulate.batching.controllers import BatchController
    from traceana.simulate.batching.run import Course

_STEPS = 100
_BATCH = 64


@dataclass(frozen=True, repr=False)
class BatchingResult(Result):
    """A job's course under a controller.

    Attributes
    ----------
    controller
        Its name.
    batches
        [step, worker_id, batch, gradient_weight, iteration_s], at step 0 and at every step whose
        batches differ from the last. gradient_weight is batch over the sum of batches: what the
        worker's mean gradient counts for. iteration_s is the time at that step.
    steps
        [step, step_s, idle_share, samples], one row a step. step_s is the slowest worker's time;
        idle_share is 1 - the mean of the workers' times / step_s.
    workers
        [worker_id, batch_first, batch_last, mean_iteration_s, busy_share]; busy_share is the
        worker's time at work over the job's time.
    time_s, samples
        The job's time and the samples trained.
    uniform_time_s
        The time of as many steps with equal batches, on the same workers.
    speedup
        Time per sample of uniform batching over time per sample of this.
    adjustments
        Steps at which batches changed.
    idle_share
        Share of the workers' time that is waited: 1 - sum of times / (K * time_s).
    note
        What went wrong, such as a negative batch; None where nothing did.
    """

    controller: str
    batches: pl.DataFrame
    steps: pl.DataFrame
    workers: pl.DataFrame
    time_s: float
    samples: int
    uniform_time_s: float
    speedup: float
    adjustments: int
    idle_share: float
    note: str | None

    def time_to_samples(self, samples: int, /) -> float | None:
        """Return the time at the end of the step that brings the job to so many samples.

        None where the simulated steps do not reach it.
        """
        reached = self.steps.select(
            pl.col("step_s").cum_sum().filter(pl.col("samples").cum_sum() >= samples).first()
        )
        time: float | None = reached.item()
        return time

    def summary(self) -> str:
        """Return a short text on the result."""
        lines = [
            f"{self.controller}: {self.samples:,} samples in {self.time_s:,.1f} s",
            f"{self.speedup:.3f} times as fast as uniform batches",
            f"{self.adjustments} adjustments; workers wait {self.idle_share:.1%} of their time",
        ]
        return "\n".join(lines if self.note is None else [*lines, self.note])


def simulate_batching(
    workers: Workers | pl.DataFrame | pl.LazyFrame | Sequence[tuple[float, float]],
    /,
    *,
    controller: str | BatchController,
    global_batch: int | None = None,
    steps: int | None = None,
    least: int = 1,
    most: float = float("inf"),
) -> BatchingResult:
    r"""Simulate synchronous training on heterogeneous workers under a batch-size controller.

    Worker k takes :math:`t_k = a_k + b_k / x_k` seconds for its :math:`b_k` samples; a step takes
    :math:`\max_k t_k`. Batches are whole samples and add up to the global batch: each worker's
    share is cut down, and the samples left over go one by one to the worker that would finish
    first. A controller sees a step's times after the step, and its batches count from the next.

    Parameters
    ----------
    workers
        :class:`Workers`, or (overhead_s, samples_per_s) pairs, or a frame [worker_id, overhead_s,
        samples_per_s], one row a worker.
    controller
        ``uniform``; ``measured`` (one adjustment, by the throughput of the first 10 steps);
        ``proportional`` (the slides', scaled to the global batch); ``damped`` (with a dead-band of
        0.2 and times averaged since the last adjustment); ``omnilearn``; ``oracle``; or an object
        with the methods of :class:`BatchController`, such as ``Static([48, 24, 24])``.
    global_batch
        Samples of a step; 64 a worker by default.
    steps
        Steps to run; by default 100, or as many as the workers' throughput has rows.
    least, most
        Bounds of a worker's batch (`omnilearn` has its own, and the slides' proportional controller
        as it is, ``Proportional(keeps_global_batch=False)``, has none).

    Returns
    -------
    BatchingResult

    Raises
    ------
    DataError
        If the workers cannot be (see :class:`Workers`), no controller has that name, the bounds do
        not admit the global batch, or more steps are asked for than the throughput has rows.

    References
    ----------
    Tyagi and Sharma, Taming Resource Heterogeneity in Distributed ML Training with Dynamic
    Batching (ACSOS'20).
    """
    crew = read_workers(workers)
    chosen = find_controller(controller)
    size = _BATCH * len(crew.worker_id) if global_batch is None else global_batch
    there = None if crew.is_constant else crew.samples_per_s.shape[0]
    run = steps if steps is not None else (there or _STEPS)
    if there is not None and run > there:
        raise DataError(f"{run} steps are asked for; the workers' throughput is known for {there}")
    check_setting(size, len(crew.worker_id), least, most, run)
    course, usual = (
        run_course(
            crew.overhead_s,
            crew.samples_per_s,
            decides,
            global_batch=size,
            steps=run,
            least=least,
            most=most,
        )
        for decides in (chosen, Uniform())
    )
    return _result(crew, chosen.name, course, uniform_time_s=float(usual.step_s.sum()), size=size)


def _result(
    crew: Workers, name: str, course: Course, *, uniform_time_s: float, size: int
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
            "iteration_s": (crew.overhead_s + course.batches / x).ravel(),
        }
    )
    return BatchingResult(
        controller=name,
        batches=batches,
        steps=pl.DataFrame(
            {
                "step": np.arange(steps),
                "step_s": course.step_s,
                "idle_share": course.idle_share,
                "samples": course.samples,
            }
        ),
        workers=pl.DataFrame(
            {
                "worker_id": crew.worker_id,
                "batch_first": course.batches[0],
                "batch_last": course.batches[-1],
                "mean_iteration_s": course.worker_s / steps,
                "busy_share": course.worker_s / time_s,
            }
        ),
        time_s=time_s,
        samples=samples,
        uniform_time_s=uniform_time_s,
        speedup=(uniform_time_s / (size * steps)) / (time_s / samples),
        adjustments=int(course.adjustments),
        idle_share=max(0.0, float(1 - course.worker_s.sum() / (workers * time_s))),
        note=f"a batch is negative in {negative} settings: no job could run it"
        if negative
        else None,
    )
