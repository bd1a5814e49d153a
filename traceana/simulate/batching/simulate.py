"""Simulate one job step by step under one batch-size controller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.simulate.batching.controllers import (
    BatchController,
    OmniLearn,
    Proportional,
    Seen,
    Smoothed,
    Uniform,
    find_controller,
)
from traceana.simulate.batching.tables import BatchingResult
from traceana.simulate.batching.workers import Speed, Workers, iteration_times, read_workers
from traceana.stats.arguments import check_count, is_number
from traceana.stats.arrays import Floats, Integers

_MOST: Final = 10**12
"""Largest number of steps or samples."""
_BYTES: Final = 2**31
"""Memory that a simulation may take."""


@dataclass(frozen=True)
class Course:
    """Course of one run, or several on the second axis; `batches` are of the `changed` steps."""

    step_s: Floats
    idle_fraction: Floats
    samples: Integers
    changed: Integers
    batches: Integers
    worker_s: Floats
    adjustments: Integers
    setting: Seen

    @property
    def waiting(self) -> Floats:
        """Return the fraction of the workers' time spent waiting, of each run."""
        busy: Floats = self.worker_s.mean(-1) / self.step_s.sum(0)
        return np.maximum(0.0, 1 - busy)

    def speedup(self, usual: Course, /) -> Floats:
        """Return the time per sample of uniform batches over that of these, of each run."""
        usual_s, spent_s = (each.step_s.sum(0) / each.samples.sum(0) for each in (usual, self))
        return usual_s / spent_s


def check_setting(
    global_batch: int, workers: int, min_batch: int, max_batch: float, steps: int
) -> None:
    """Refuse a setting that no split of the global batch satisfies."""
    check_count("global_batch", global_batch, most=_MOST)
    check_count("steps", steps, most=_MOST)
    numbers = is_number(min_batch, whole=True) and is_number(max_batch)
    if not (
        numbers
        and 1 <= min_batch <= min(max_batch, _MOST)
        and (max_batch == math.inf or (max_batch <= _MOST and max_batch % 1 == 0))
    ):
        raise DataError(
            "bounds must be whole numbers with 1 <= min_batch <= max_batch (max_batch may be "
            f"infinite), {_MOST:,} at most; found {min_batch!r} and {max_batch!r}"
        )
    if not workers * min_batch <= global_batch <= workers * max_batch:
        can = f"{workers * min_batch}"
        can += " or more" if max_batch == math.inf else f" to {workers * max_batch:.0f}"
        raise DataError(
            f"a global batch of {global_batch} cannot be split over {workers} workers with "
            f"{min_batch} to {max_batch:g} samples each; {can} can"
        )


def check_memory(steps: int, runs: int, workers: int) -> None:
    """Refuse steps whose times and batch sizes, three numbers a step, would not fit into memory."""
    split, step = 32 * runs * workers**2, 8 * runs * (10 + 6 * workers)
    if split + steps * step > _BYTES:
        most = (_BYTES - split) // step
        raise DataError(
            f"{steps:,} steps of {runs:,} run(s) of {workers:,} workers may need "
            f"{(split + steps * step) / 2**30:,.1f} GiB of memory, more than {_BYTES >> 30} GiB; "
            f"pass {f'at most {most:,} steps' if most > 0 else 'fewer workers or runs'}"
        )


def run_course(
    overhead_s: Floats,
    samples_per_s: Floats,
    controller: BatchController,
    /,
    *,
    global_batch: int,
    steps: int,
    min_batch: int = 1,
    max_batch: float = np.inf,
    speed: Speed | None = None,
) -> Course:
    """Simulate steps with overhead_s (..., K) and samples_per_s, the same or (steps, ..., K)."""
    varies = samples_per_s.ndim > overhead_s.ndim
    now = samples_per_s[0] if varies else samples_per_s
    unknown = np.full(overhead_s.shape, np.nan)
    nothing = np.zeros(overhead_s.shape, dtype=np.int64)
    setting = seen = Seen(
        nothing, unknown, unknown, 0, overhead_s, now, global_batch, min_batch, max_batch, speed
    )
    batches = _checked(controller, controller.first(seen), overhead_s)
    runs = overhead_s.shape[:-1]
    step_s, idle = np.empty((steps, *runs)), np.empty((steps, *runs))
    samples = np.empty((steps, *runs), dtype=np.int64)
    changed, history = [0], [batches]
    worker_s, adjustments = np.zeros(overhead_s.shape), np.zeros(runs, dtype=np.int64)
    total_s, count = np.zeros(overhead_s.shape), np.zeros((*runs, 1))
    for step in range(steps):
        times = iteration_times(batches, overhead_s, now, speed)
        slowest = times.max(-1)
        step_s[step], samples[step] = slowest, batches.sum(-1)
        idle[step] = 1 - times.mean(-1) / slowest
        worker_s += times
        if step + 1 == steps:
            break
        total_s, count = total_s + times, count + 1
        now = samples_per_s[step + 1] if varies else now
        seen = replace(
            seen,
            batches=batches,
            times_s=times,
            mean_times_s=total_s / count,
            n_steps=step + 1,
            samples_per_s=now,
        )
        new = _checked(controller, controller.adjust(seen), overhead_s)
        moved = (new != batches).any(-1)
        if moved.any():
            batches = new
            adjustments += moved
            changed.append(step + 1)
            history.append(new)
            still = ~moved[..., None]
            total_s, count = total_s * still, count * still
        elif controller.settles and not varies:
            rest = slice(step + 1, None)
            step_s[rest], idle[rest], samples[rest] = step_s[step], idle[step], samples[step]
            worker_s += (steps - step - 1) * times
            break
    of_changes = (np.array(changed), np.array(history))
    return Course(step_s, idle, samples, *of_changes, worker_s, adjustments, setting)


def notes_of(controller: BatchController, course: Course, /) -> list[str | None]:
    """Return a note for each run with a negative batch, or without an adjustment by a dead-band."""
    negative = (course.batches < 0).any(axis=-1).sum(axis=0).ravel()
    notes = [
        f"a batch size is negative in {number} settings; no job could run it" if number else None
        for number in negative
    ]
    if not isinstance(controller, Proportional | OmniLearn | Smoothed) or not controller.dead_band:
        return notes
    mean_s = course.worker_s / len(course.step_s)
    batches = course.batches[0]
    last = replace(
        course.setting, batches=batches, times_s=mean_s, mean_times_s=mean_s, n_steps=1, memory={}
    )
    wanted = replace(controller, dead_band=0.0).adjust(last)
    change = (np.abs(wanted - batches) / np.maximum(wanted, 1)).max(-1).ravel()
    for run, adjusted in enumerate(course.adjustments.ravel()):
        if not (adjusted or notes[run]) and change[run]:
            notes[run] = (
                f"the dead band of {controller.dead_band:g} kept all batch sizes; at the mean "
                f"times a batch size would change by up to {100 * change[run]:.0f} %"
            )
    return notes


def _checked(controller: BatchController, batches: Integers, overhead_s: Floats) -> Integers:
    if batches.shape != overhead_s.shape or batches.dtype.kind != "i":
        raise DataError(
            f"controller {controller.name} must return whole numbers in shape {overhead_s.shape}; "
            f"it returned {batches.dtype} in shape {batches.shape}"
        )
    return batches


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
    :math:`\max_k t_k`. Batch sizes are rounded down, and the remaining samples of the global batch
    go one by one to the worker that would finish first. A controller sees the times after a step
    (Tyagi and Sharma, Taming Resource Heterogeneity in Distributed ML Training, ACSOS'20).

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
    count = len(crew.worker_id)
    size = 64 * count if global_batch is None else global_batch
    rows = 100 if crew.is_constant else len(crew.samples_per_s)
    run = rows if steps is None else steps
    check_setting(size, count, min_batch, max_batch, run)
    if run > rows and not crew.is_constant:
        raise DataError(f"steps is {run}; the workers' throughput has {rows} rows")
    check_memory(run, 1, count)
    simulate = partial(
        run_course,
        crew.overhead_s,
        crew.samples_per_s,
        global_batch=size,
        steps=run,
        min_batch=min_batch,
        max_batch=max_batch,
        speed=crew.speed,
    )
    course, usual = simulate(chosen), simulate(Uniform())
    time_s = float(course.step_s.sum())
    (note,) = notes_of(chosen, course)
    x = crew.samples_per_s if crew.is_constant else crew.samples_per_s[course.changed]
    changed_s = iteration_times(course.batches, crew.overhead_s, x, crew.speed)
    return BatchingResult(
        controller=chosen.name,
        batches=pl.DataFrame(
            {
                "step": np.repeat(course.changed, count),
                "worker_id": list(crew.worker_id) * len(course.changed),
                "batch": course.batches.ravel(),
                "gradient_weight": (course.batches / course.batches.sum(-1, keepdims=True)).ravel(),
                "iteration_s": changed_s.ravel(),
            }
        ),
        steps=pl.DataFrame(
            {
                "step": np.arange(run),
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
                "mean_iteration_s": course.worker_s / run,
                "busy_fraction": course.worker_s / time_s,
            }
        ),
        time_s=time_s,
        samples=int(course.samples.sum()),
        uniform_time_s=float(usual.step_s.sum()),
        speedup=float(course.speedup(usual)),
        adjustments=int(course.adjustments),
        idle_fraction=float(course.waiting),
        note=note,
    )
