"""Split a global batch over workers, within bounds and in whole samples.

Arrays have the workers on their last axis; any axes before it are separate runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Batches: TypeAlias = NDArray[np.int64]
    Reals: TypeAlias = NDArray[np.float64]

_MOST: Final = 10_000_000
"""Times computed for a split by a speed function."""


def share(
    total: int,
    weights: ArrayLike,
    /,
    *,
    offsets: ArrayLike = 0.0,
    min_batch: float,
    max_batch: float | Reals,
) -> Reals:
    r"""Return :math:`b_k = \min(\max(c w_k - o_k, min_batch), max_batch)` that add up to the total.

    Without offsets it splits in proportion to the weights. With throughputs x as weights and
    overhead times throughput as offsets, c is the time at which all workers finish at once, except
    those at a bound. The caller has checked that the bounds admit the total.
    """
    w = np.asarray(weights, dtype=float)
    o = np.broadcast_to(np.asarray(offsets, dtype=float), w.shape)
    level = (total + o.sum(-1, keepdims=True)) / w.sum(-1, keepdims=True)
    unbounded: Reals = level * w - o
    if unbounded.min() >= min_batch and (unbounded <= max_batch).all():
        return unbounded
    fixed = np.zeros(w.shape, dtype=bool)
    batches = np.zeros(w.shape)
    # each pass fixes at least one worker of an unfinished run
    for _ in range(w.shape[-1] + 1):
        left = total - np.where(fixed, batches, 0).sum(-1, keepdims=True)
        free = np.where(fixed, 0, w).sum(-1, keepdims=True)
        level = (left + np.where(fixed, 0, o).sum(-1, keepdims=True)) / np.where(free > 0, free, 1)
        batches = np.where(fixed, batches, level * w - o)
        below, above = np.maximum(min_batch - batches, 0), np.maximum(batches - max_batch, 0)
        if not (below.any() or above.any()):
            break
        # the side that violates its bounds by more stays at its bound
        low = below.sum(-1, keepdims=True) >= above.sum(-1, keepdims=True)
        now = np.where(low, below > 0, above > 0)
        batches = np.where(now, np.where(low, min_batch, max_batch), batches)
        fixed |= now
    return batches


def whole(
    batches: Reals,
    total: int,
    /,
    *,
    per_sample_s: Reals,
    fixed_s: ArrayLike = 0.0,
    max_batch: float | Reals,
) -> Batches:
    """Return whole batches that add up to the total.

    Each is rounded down; the remaining samples go, one by one, to the worker that would finish its
    batch with that sample first (the first of several).
    """
    result: Batches = np.floor(batches + 1e-9).astype(np.int64)
    left = total - result.sum(-1)
    most_left = int(left.max(initial=0))
    if most_left <= 0:
        return result
    # when each worker would finish its first, second, ... additional sample; the earliest win
    taken = result[..., None] + np.arange(1, most_left + 1)
    overhead = np.broadcast_to(np.asarray(fixed_s, dtype=float), result.shape)
    finish = overhead[..., None] + taken * per_sample_s[..., None]
    finish = np.where(taken <= max_batch, finish, np.inf).reshape(*left.shape, -1)
    order = finish.argsort(axis=-1, kind="stable")
    given = np.zeros(order.shape, dtype=np.int64)
    np.put_along_axis(given, order, np.arange(order.shape[-1]) < left[..., None], axis=-1)
    result += given.reshape(taken.shape).sum(-1)
    return result


def earliest(
    times_of: Callable[[Batches], Reals],
    total: int,
    shape: tuple[int, ...],
    /,
    *,
    min_batch: int,
    max_batch: float,
) -> Batches:
    """Return the whole batches whose slowest worker is done first, for times that never fall.

    Sample by sample goes to the worker that would finish it first. Where a larger batch takes less
    time, the batches need not be the best.
    """
    least = np.full(shape, min_batch, dtype=np.int64)
    left = total - min_batch * shape[-1]
    if left * least.size > _MOST:
        raise DataError(
            f"an oracle with a speed function needs {left * least.size:,} times for a step; a "
            f"smaller global batch has fewer than {_MOST:,}"
        )
    finish = (
        np.stack(
            [
                np.where(least + n <= max_batch, times_of(least + n), np.inf)
                for n in range(1, left + 1)
            ],
            axis=-1,
        )
        if left
        else np.empty((*shape, 0))
    )
    finish = np.maximum.accumulate(finish, axis=-1)
    order = finish.reshape(*shape[:-1], -1).argsort(axis=-1, kind="stable")[..., :left]
    worker = order // max(left, 1)
    for k in range(shape[-1]):
        least[..., k] += (worker == k).sum(-1)
    return least
