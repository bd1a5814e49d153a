"""Step a job through time under a controller."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from traceana.errors import DataError
from traceana.simulate.batching.controllers import Seen
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.simulate.batching.controllers import BatchController
    from traceana.simulate.batching.split import Batches, Reals


@dataclass(frozen=True)
class Course:
    """Course of one run, or of several on the second axis.

    `batches` has the batch sizes of the steps in `changed`: the first, and those at which a batch
    size changed.
    """

    step_s: Reals
    idle_share: Reals
    samples: NDArray[np.int64]
    changed: NDArray[np.int64]
    batches: Batches
    worker_s: Reals
    adjustments: NDArray[np.int64]


def check_setting(
    global_batch: int, workers: int, min_batch: int, max_batch: float, steps: int
) -> None:
    """Refuse a setting that no split of the global batch meets."""
    for name, number in (("global_batch", global_batch), ("steps", steps)):
        if not is_number(number, whole=True) or number < 1:
            raise DataError(f"{name} must be a whole number, 1 or more; found {number}")
    possible = is_number(min_batch, whole=True) and 1 <= min_batch <= max_batch
    if not possible or (max_batch != math.inf and max_batch != math.floor(max_batch)):
        raise DataError(
            "bounds must be whole numbers with 1 <= min_batch <= max_batch (max_batch may be "
            f"infinite); found {min_batch} and {max_batch:g}"
        )
    if not workers * min_batch <= global_batch <= workers * max_batch:
        can = f"{workers * min_batch}"
        can += " or more" if max_batch == math.inf else f" to {workers * max_batch:.0f}"
        raise DataError(
            f"a global batch of {global_batch} cannot be split over {workers} workers with "
            f"{min_batch} to {max_batch:g} samples each; {can} can"
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
) -> Course:
    """Simulate steps; a step takes as long as its slowest worker.

    `overhead_s` is (..., K), `samples_per_s` the same, or (steps, ..., K) if it changes. If it
    does not, and a controller that `settles` changes nothing, the remaining steps equal the last.
    """
    varies = samples_per_s.ndim > overhead_s.ndim
    now = samples_per_s[0] if varies else samples_per_s
    unknown = np.full(overhead_s.shape, np.nan)
    nothing = np.zeros(overhead_s.shape, dtype=np.int64)
    seen = Seen(nothing, unknown, unknown, 0, overhead_s, now, global_batch, min_batch, max_batch)
    batches = _checked(controller, controller.first(seen), overhead_s)
    runs = overhead_s.shape[:-1]
    step_s, idle = np.empty((steps, *runs)), np.empty((steps, *runs))
    samples = np.empty((steps, *runs), dtype=np.int64)
    changed, history = [0], [batches]
    worker_s, adjustments = np.zeros(overhead_s.shape), np.zeros(runs, dtype=np.int64)
    total_s, count = np.zeros(overhead_s.shape), np.zeros((*runs, 1))
    for step in range(steps):
        times = overhead_s + batches / now
        slowest = times.max(-1)
        step_s[step], samples[step] = slowest, batches.sum(-1)
        idle[step] = 1 - times.mean(-1) / slowest
        worker_s += times
        if step + 1 == steps:
            break
        total_s, count = total_s + times, count + 1
        now = samples_per_s[step + 1] if varies else now
        seen = replace(
            seen, batches=batches, times_s=times, mean_times_s=total_s / count,
            n_steps=step + 1, samples_per_s=now,
        )  # fmt: skip
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
        step_s, idle, samples, np.array(changed), np.array(history), worker_s, adjustments
    )


def _checked(controller: BatchController, batches: Batches, overhead_s: Reals) -> Batches:
    if batches.shape != overhead_s.shape or batches.dtype.kind != "i":
        raise DataError(
            f"controller {controller.name} must return whole numbers in shape {overhead_s.shape}; "
            f"it returned {batches.dtype} in shape {batches.shape}"
        )
    return batches
