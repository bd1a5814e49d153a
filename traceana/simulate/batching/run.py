"""Step a job through time under a controller."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.errors import DataError
from traceana.simulate.batching.controllers import (
    BatchController,
    OmniLearn,
    Proportional,
    Seen,
    Smoothed,
)
from traceana.simulate.batching.workers import Speed, iteration_times
from traceana.stats.arguments import is_number
from traceana.stats.arrays import Integers

if TYPE_CHECKING:
    from traceana.simulate.batching.split import Batches, Reals

_MOST: Final = 10**12
"""Largest number of steps or samples."""
_BYTES: Final = 2**31
"""Memory that a simulation may take."""


@dataclass(frozen=True)
class Course:
    """Course of one run, or of several on the second axis.

    `batches` has the batch sizes of the steps in `changed`: the first, and those at which a batch
    size changed. `setting` is what is known before the first step.
    """

    step_s: Reals
    idle_fraction: Reals
    samples: Integers
    changed: Integers
    batches: Batches
    worker_s: Reals
    adjustments: Integers
    setting: Seen


def check_setting(
    global_batch: int, workers: int, min_batch: int, max_batch: float, steps: int
) -> None:
    """Refuse a setting that no split of the global batch satisfies."""
    for name, number in (("global_batch", global_batch), ("steps", steps)):
        if not is_number(number, whole=True) or not 1 <= number <= _MOST:
            raise DataError(f"{name} must be a whole number from 1 to {_MOST:,}; found {number}")
    possible = is_number(min_batch, whole=True) and is_number(max_batch)
    possible = possible and 1 <= min_batch <= max_batch
    possible = possible and min_batch <= _MOST and (max_batch <= _MOST or max_batch == math.inf)
    if not possible or (max_batch != math.inf and max_batch != math.floor(max_batch)):
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
    """Refuse steps whose times and batch sizes would not fit into memory.

    The estimate has three numbers per step of the controller and of uniform batches, a row of the
    result, and batch sizes that change at every step; and, for the last samples of a split, four
    numbers per pair of workers.
    """
    split, step = 32 * runs * workers**2, 8 * runs * (10 + 6 * workers)
    if split + steps * step > _BYTES:
        most = (_BYTES - split) // step
        raise DataError(
            f"{steps:,} steps of {runs:,} run(s) of {workers:,} workers may need "
            f"{(split + steps * step) / 2**30:,.1f} GiB of memory, more than {_BYTES >> 30} GiB; "
            f"pass {f'at most {most:,} steps' if most > 0 else 'fewer workers or runs'}"
        )


def run_course(
    overhead_s: Reals,
    samples_per_s: Reals,
    controller: BatchController,
    /,
    *,
    global_batch: int,
    steps: int,
    min_batch: int = 1,
    max_batch: float = np.inf,
    speed: Speed | None = None,
) -> Course:
    """Simulate steps; a step takes as long as its slowest worker.

    `overhead_s` is (..., K), `samples_per_s` the same, or (steps, ..., K) if it changes. If it
    does not, and a controller that `settles` changes nothing, the remaining steps equal the last.
    """
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
    return Course(
        step_s,
        idle,
        samples,
        np.array(changed),
        np.array(history),
        worker_s,
        adjustments,
        setting,
    )


def held_back(controller: BatchController, course: Course, /) -> list[str | None]:
    """Return a note for each run in which a dead-band kept a controller from any adjustment."""
    runs = len(course.adjustments.ravel())
    notes: list[str | None] = [None] * runs
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
        if not adjusted and change[run]:
            notes[run] = (
                f"the dead band of {controller.dead_band:g} kept all batch sizes; at the mean "
                f"times a batch size would change by up to {100 * change[run]:.0f} %"
            )
    return notes


def _checked(controller: BatchController, batches: Batches, overhead_s: Reals) -> Batches:
    if batches.shape != overhead_s.shape or batches.dtype.kind != "i":
        raise DataError(
            f"controller {controller.name} must return whole numbers in shape {overhead_s.shape}; "
            f"it returned {batches.dtype} in shape {batches.shape}"
        )
    return batches
