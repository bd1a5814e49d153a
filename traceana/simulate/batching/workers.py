"""Workers of a synchronous job, published devices, and splits of a global batch over workers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, TypeAlias, cast

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import ArrayLike

from traceana.errors import DataError
from traceana.simulate.frames import read_columns
from traceana.stats.arguments import as_list, is_number
from traceana.stats.arrays import Floats, Integers

PUBLISHED: Final[dict[str, Any]] = tomllib.loads(
    files("traceana.simulate.batching").joinpath("published.toml").read_text(encoding="utf-8")
)
"""Numbers of Tyagi and Sharma (ACSOS'20): dead_band, devices, splits, later, clusters, gains."""

SPLITS: Final[dict[str, tuple[int, ...]]] = {
    name: tuple(split) for name, split in PUBLISHED["splits"].items()
}
"""CPU cores of three workers, by the name of the split in the paper."""

LEVELS: Final = {
    "/".join(map(str, split)): tuple(split)
    for split in (*PUBLISHED["later"].values(), *PUBLISHED["splits"].values())
    if sum(split) in (39, 48)
}
"""CPU cores of a job's workers: 48 for four (authors' later code), 39 for three (the paper)."""


_MOST: Final = 10_000_000
"""Times computed for a split by a speed function."""


def share(
    total: int,
    weights: ArrayLike,
    /,
    *,
    offsets: ArrayLike = 0.0,
    min_batch: float,
    max_batch: float | Floats,
) -> Floats:
    r"""Return :math:`b_k = \min(\max(c w_k - o_k, min_batch), max_batch)` that add up to the total.

    With throughputs as weights and overhead times throughput as offsets, all finish at time c.
    """
    w = np.asarray(weights, dtype=float)
    o = np.broadcast_to(np.asarray(offsets, dtype=float), w.shape)
    level = (total + o.sum(-1, keepdims=True)) / w.sum(-1, keepdims=True)
    unbounded: Floats = level * w - o
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
    batches: Floats,
    total: int,
    /,
    *,
    per_sample_s: Floats,
    fixed_s: ArrayLike = 0.0,
    max_batch: float | Floats,
) -> Integers:
    """Return whole batches that add up to the total; the rest goes to who finishes first."""
    result: Integers = np.floor(batches + 1e-9).astype(np.int64)
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
    times_of: Callable[[Integers], Floats],
    total: int,
    shape: tuple[int, ...],
    /,
    *,
    min_batch: int,
    max_batch: float,
) -> Integers:
    """Return the whole batches whose slowest worker is done first, for times that never fall."""
    least = np.full(shape, min_batch, dtype=np.int64)
    left = total - min_batch * shape[-1]
    if left * least.size > _MOST:
        raise DataError(
            f"an oracle with a speed function needs {left * least.size:,} times for a step; a "
            f"smaller global batch has fewer than {_MOST:,}"
        )
    if not left:
        return least
    finish = np.stack(
        [np.where(least + n <= max_batch, times_of(least + n), np.inf) for n in range(1, left + 1)],
        axis=-1,
    )
    finish = np.maximum.accumulate(finish, axis=-1)
    order = finish.reshape(*shape[:-1], -1).argsort(axis=-1, kind="stable")[..., :left]
    for k in range(shape[-1]):
        least[..., k] += (order // left == k).sum(-1)
    return least


Speed: TypeAlias = Callable[[Integers, Floats], Floats]
"""Samples per second from batch sizes and the workers' throughputs, in the same shape."""

_COLUMNS = {"worker_id": pl.String, "overhead_s": pl.Float64, "samples_per_s": pl.Float64}
LARGEST: Final = 1e12
"""Upper limit of a number, and inverse lower limit, so that products do not overflow."""


@dataclass(frozen=True)
class Saturating:
    r"""Speed that grows with the batch size: :math:`x b / (b + h)`.

    Attributes
    ----------
    half_batch
        Batch size h at which a worker has half of its throughput x.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Saturating, Workers
    >>> workers = Workers(0.0, [100, 300], speed=Saturating(half_batch=16))
    >>> result = traceana.simulate_batching(workers, controller="oracle")
    >>> result.workers["batch_last"].to_list()
    [24, 104]
    """

    half_batch: float

    def __post_init__(self) -> None:
        if not 0 <= self.half_batch <= LARGEST:
            raise DataError(f"half_batch must be from 0 to {LARGEST:g}; it is {self.half_batch}")

    def __call__(self, batches: Integers, samples_per_s: Floats) -> Floats:
        """Return samples per second."""
        return samples_per_s * batches / (batches + self.half_batch)


@dataclass(frozen=True, init=False)
class Workers:
    """Overhead and throughput of the K workers of a job.

    Worker k takes overhead_s[k] + b / samples_per_s[k] seconds for b samples.

    Attributes
    ----------
    overhead_s
        K times of an iteration that do not depend on its samples, or one for all.
    samples_per_s
        K throughputs if they are constant, (steps, K) if they change from step to step.
    worker_id
        K names; by default 0, 1, 2, ...
    speed
        Samples per second from (batch sizes, throughputs), such as :class:`Saturating` or a
        function; None: the throughputs, whatever the batch size.

    Examples
    --------
    >>> from traceana.simulate import Workers
    >>> Workers(0.1, [100, 300]).worker_id
    ('0', '1')
    """

    overhead_s: Floats
    samples_per_s: Floats
    worker_id: tuple[str, ...]
    speed: Speed | None

    def __init__(
        self,
        overhead_s: ArrayLike,
        samples_per_s: ArrayLike,
        worker_id: Sequence[str] = (),
        *,
        speed: Speed | None = None,
    ) -> None:
        try:
            a, x = (np.asarray(each, dtype=float) for each in (overhead_s, samples_per_s))
        except (TypeError, ValueError):
            raise DataError(
                "overhead_s and samples_per_s must be numbers, in rows of equal length"
            ) from None
        if x.ndim not in {1, 2} or not x.size:
            raise DataError("throughput must have shape (workers,) or (steps, workers)")
        count = x.shape[-1]
        a = np.full(count, a) if a.ndim == 0 else a
        names = tuple(map(str, worker_id)) or tuple(map(str, range(count)))
        if a.shape != (count,) or len(names) != count:
            raise DataError(
                f"there are {count} workers in the throughput, {a.size} in the overhead and "
                f"{len(names)} names; the numbers must agree"
            )
        if len(set(names)) < count:
            raise DataError(f"worker_id must be unique; it is {', '.join(names)}")
        for what, unit, numbers, least in (
            ("throughput", "samples/s above 0", x, 1 / LARGEST),
            ("overhead", "seconds", a, 0),
        ):
            outside = numbers[~((numbers >= least) & (numbers <= LARGEST))]
            if outside.size:
                raise DataError(
                    f"every {what} must be a number of {unit}, from {least:g} to {LARGEST:g}; "
                    f"found {outside[0]:g}"
                )
        if not (speed is None or callable(speed)):
            raise DataError(f"speed must be a function of (batches, samples_per_s): {speed!r}")
        values = {"overhead_s": a, "samples_per_s": x, "worker_id": names, "speed": speed}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_constant(self) -> bool:
        """Whether throughput does not change."""
        return self.samples_per_s.ndim == 1


def iteration_times(
    batches: Integers, /, overhead_s: Floats, samples_per_s: Floats, speed: Speed | None
) -> Floats:
    """Return the times that batches take."""
    if speed is None:
        return overhead_s + batches / samples_per_s
    some = batches != 0
    speeds = np.broadcast_to(np.asarray(speed(batches, samples_per_s), dtype=float), batches.shape)
    if not ((speeds[some] >= 1 / LARGEST) & (speeds[some] <= LARGEST)).all():
        raise DataError(
            f"speed must return samples/s from {1 / LARGEST:g} to {LARGEST:g} for each batch; at "
            f"batch sizes {batches.ravel()[:8].tolist()} it returned {speeds.ravel()[:8].tolist()}"
        )
    return overhead_s + np.divide(batches, speeds, out=np.zeros(speeds.shape), where=some)


def read_throughputs(given: object, kind: str, of: str, /) -> dict[str, list[float]]:
    """Return the throughputs of workers by name: one finite number above 0 for each."""
    if not isinstance(given, Mapping) or not given:
        raise DataError(f"{kind}s must be one or more, each with the {of} of its workers")
    named = {str(name): as_list(f"{kind} {name}", numbers) for name, numbers in given.items()}
    for name, numbers in named.items():
        if not numbers or not all(is_number(x) and 1 / LARGEST <= x <= LARGEST for x in numbers):
            raise DataError(
                f"{kind} {name}: {of} must be finite numbers above 0, one per worker; found "
                f"{numbers}"
            )
    return named


def read_workers(workers: Workers | IntoFrame | Sequence[tuple[float, float]], /) -> Workers:
    """Return workers from (overhead_s, samples_per_s) pairs, or from a frame with these columns."""
    if isinstance(workers, Workers):
        return workers
    if not isinstance(workers, list | tuple | np.ndarray):
        table = read_columns(cast("IntoFrame", workers), _COLUMNS, "workers").fill_null(np.nan)
        a, x = (table[name].to_numpy() for name in ("overhead_s", "samples_per_s"))
        return Workers(a, x, table["worker_id"].to_list())
    try:
        pairs = np.array([tuple(pair) for pair in workers], dtype=float).reshape(-1, 2)
    except (TypeError, ValueError):
        raise DataError("workers must be pairs of (overhead_s, samples_per_s)") from None
    return Workers(pairs[:, 0], pairs[:, 1])
