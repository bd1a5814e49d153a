"""Batch-size controllers, from uniform batches to an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from traceana.errors import DataError
from traceana.simulate.batching.workers import (
    LARGEST,
    PUBLISHED,
    Speed,
    earliest,
    iteration_times,
    share,
    whole,
)
from traceana.stats.arguments import as_list, takes
from traceana.stats.arrays import Floats, Integers

_LARGEST: Final = 1e15
"""Largest integer number of samples in a float."""


@dataclass(frozen=True)
class Seen:
    """Observations of a controller; workers are on the last axis, runs on any axis before it."""

    batches: Integers
    """Samples of each worker in the last step."""
    times_s: Floats
    """Iteration times of the last step."""
    mean_times_s: Floats
    """Their means since the batches last changed."""
    n_steps: int
    """Steps done."""
    overhead_s: Floats
    samples_per_s: Floats
    """True values of the next step; only an oracle uses them."""
    global_batch: int
    min_batch: int
    max_batch: float
    """Samples of a step, and the bounds of a worker's batch size."""
    speed: Speed | None = None
    """Samples per second from (batches, samples_per_s); None: samples_per_s. As above, only an
    oracle uses it."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What a controller keeps from step to step of one simulation; empty at first."""


@runtime_checkable
class BatchController(Protocol):
    """Protocol of a batch-size controller.

    Batch sizes are integers in the shape of ``setting.overhead_s``: workers on the last axis, any
    axes before it are separate runs (of a sweep; one run has none).

    Examples
    --------
    >>> import numpy as np, traceana
    >>> class Swap:
    ...     name, settles = "swap", False
    ...     def first(self, setting):
    ...         return np.array([32, 96])
    ...     def adjust(self, seen):
    ...         return seen.batches[::-1]
    ...
    >>> traceana.simulate_batching([(0, 100), (0, 300)], controller=Swap(), steps=4).adjustments
    3
    """

    @property
    def name(self) -> str:
        """Name in results."""

    @property
    def settles(self) -> bool:
        """Whether its decision depends on batch sizes and times alone."""

    def first(self, setting: Seen, /) -> Integers:
        """Return the batches of the first step; the setting's times are not yet known (NaN)."""

    def adjust(self, seen: Seen, /) -> Integers:
        """Return the batches of the next step; the same ones to leave them."""


def rates(batches: Integers, times_s: Floats) -> Floats:
    """Return samples per second; 0 for a worker without samples."""
    return np.divide(batches, times_s, out=np.zeros(times_s.shape), where=times_s != 0)


def in_proportion(setting: Seen, weights: Floats) -> Integers:
    """Split the global batch in proportion to weights, within the bounds."""
    total, most = setting.global_batch, setting.max_batch
    split = share(total, weights, min_batch=setting.min_batch, max_batch=most)
    return whole(split, total, per_sample_s=1 / weights, max_batch=most)


def _at_mean_time(seen: Seen, times: Floats) -> Floats:
    """Return batches with which every worker would take the mean time; they drift in their sum."""
    return rates(seen.batches, times) * times.mean(-1, keepdims=True)


def _towards_mean(
    seen: Seen, times: Floats, max_batch: float | Floats, dead_band: float
) -> Integers:
    """Return batches that equalize times, or the old ones if none changes by the dead-band."""
    wanted = _at_mean_time(seen, times)
    split = share(seen.global_batch, wanted, min_batch=seen.min_batch, max_batch=max_batch)
    per_sample = times / np.maximum(seen.batches, 1)
    most = np.asarray(max_batch)[..., None]
    new = whole(split, seen.global_batch, per_sample_s=per_sample, max_batch=most)
    change = np.abs(new - seen.batches) / np.maximum(new, 1)
    return np.where((change >= dead_band).any(-1, keepdims=True), new, seen.batches)


class _StartsEvenly:
    def first(self, setting: Seen, /) -> Integers:
        """Split evenly; remaining samples go to the first workers."""
        return in_proportion(setting, np.ones(setting.overhead_s.shape))


class _Keeps:
    def adjust(self, seen: Seen, /) -> Integers:
        """Keep the batches."""
        return seen.batches


@dataclass(frozen=True)
class Uniform(_StartsEvenly, _Keeps):
    """Set equal batch sizes and never adjust them, as conventional training.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Uniform
    >>> result = traceana.simulate_batching([(0, 100), (0, 300)], controller=Uniform())
    >>> result.workers["batch_last"].to_list()
    [64, 64]
    """

    name: str = "uniform"
    settles: bool = True


@dataclass(frozen=True)
class Static(_Keeps):
    """Set batch sizes in proportion to an estimated throughput and never adjust them.

    The estimate is one number per worker, such as CPU cores or FLOPS (the workers are on its last
    axis if there are several runs).

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Static
    >>> controller = Static([1, 3])
    >>> result = traceana.simulate_batching([(0, 100), (0, 300)], controller=controller)
    >>> result.workers["batch_last"].to_list()
    [32, 96]
    """

    estimate: ArrayLike
    name: str = "static"
    settles: bool = True

    def first(self, setting: Seen, /) -> Integers:
        """Split in proportion to the estimate."""
        weights = np.asarray(self.estimate, dtype=float)
        shape = setting.overhead_s.shape
        fits = weights.shape in {shape[-1:], shape}
        if not fits or not ((weights >= 1 / LARGEST) & (weights <= LARGEST)).all():
            raise DataError(
                f"the static estimate must be {shape[-1]} finite numbers above 0 (from "
                f"{1 / LARGEST:g} to {LARGEST:g}), one per worker; it is {weights.tolist()}"
            )
        return in_proportion(setting, np.broadcast_to(weights, shape))


@dataclass(frozen=True)
class Measured(_StartsEvenly):
    """Adjust batch sizes once, in proportion to the throughput of the first steps.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Measured
    >>> result = traceana.simulate_batching([(0, 100), (0, 300)], controller=Measured(after=5))
    >>> result.workers["batch_last"].to_list()
    [32, 96]
    """

    after: int = 10
    name: str = "measured"
    settles: bool = False

    def __post_init__(self) -> None:
        if self.after < 1:
            raise DataError(f"after must be at least 1; it is {self.after}")

    def adjust(self, seen: Seen, /) -> Integers:
        """Split once in proportion to the throughput so far."""
        if seen.n_steps != self.after:
            return seen.batches
        return in_proportion(seen, seen.batches / seen.mean_times_s)


@dataclass(frozen=True)
class Proportional(_StartsEvenly):
    r"""Adjust batch sizes at each step by the deviation of the times, as published.

    The change is :math:`b_k \leftarrow b_k - (b_k / t_k)(t_k - \bar t) = b_k \bar t / t_k`. The sum
    differs from the global batch, and the result is scaled back to it, unless `keeps_global_batch`
    is false (as published: the global batch drifts, and bounds do not apply).

    Attributes
    ----------
    dead_band
        Keep all batch sizes if none would change by this fraction of its new value or more.
    averages
        Use the mean iteration times since the last adjustment, not the last step's.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Proportional
    >>> controller = Proportional(dead_band=0.1)
    >>> result = traceana.simulate_batching([(0, 100), (0, 300)], controller=controller)
    >>> result.workers["batch_last"].to_list()
    [32, 96]
    """

    dead_band: float = 0.0
    averages: bool = False
    keeps_global_batch: bool = True
    name: str = "proportional"
    settles: bool = True

    def __post_init__(self) -> None:
        _check_dead_band(self.dead_band)

    def adjust(self, seen: Seen, /) -> Integers:
        """Move every worker towards the mean iteration time."""
        times = seen.mean_times_s if self.averages else seen.times_s
        if self.keeps_global_batch:
            return _towards_mean(seen, times, seen.max_batch, self.dead_band)
        wanted = _at_mean_time(seen, times)
        _check_size(wanted)
        return np.rint(wanted).astype(np.int64)


@dataclass(frozen=True)
class Smoothed(_StartsEvenly):
    r"""Adjust batch sizes by smoothed times, with a dead-band and a learned upper bound.

    The controller of Tyagi and Sharma (ACSOS'20, section III-C): times are
    :math:`m \leftarrow w t + (1 - w) m`, restarted after each adjustment. If a worker's throughput
    falls by more than the dead-band after its batch grew, the earlier batch is its upper bound.

    Attributes
    ----------
    dead_band
        Keep all batch sizes if none would change by this fraction of its new value or more.
    weight
        Weight w of the last time, above 0 and at most 1. The paper's weight is not known here.

    Examples
    --------
    >>> import traceana
    >>> workers = [(0, 100), (0, 300)]
    >>> traceana.simulate_batching(workers, controller="smoothed").adjustments
    1
    """

    dead_band: float = PUBLISHED["dead_band"]
    weight: float = 0.5
    name: str = "smoothed"
    settles: bool = False

    def __post_init__(self) -> None:
        _check_dead_band(self.dead_band)
        if not 0 < self.weight <= 1:
            raise DataError(f"weight must be above 0 and at most 1; it is {self.weight}")

    def adjust(self, seen: Seen, /) -> Integers:
        """Move every worker towards the mean smoothed time, up to its learned bound."""
        kept = seen.memory
        before = kept.get("batches", seen.batches)
        last = kept.get("times", seen.times_s)
        moved = (before != seen.batches).any(-1, keepdims=True)
        times = np.where(moved, seen.times_s, self.weight * seen.times_s + (1 - self.weight) * last)
        slower = rates(seen.batches, times) < (1 - self.dead_band) * rates(before, last)
        bound = kept.get("bound", np.broadcast_to(seen.max_batch, times.shape))
        bound = np.where((seen.batches > before) & slower, np.minimum(bound, before), bound)
        # bounds that cannot take the global batch are not learned
        fits = np.floor(bound).sum(-1, keepdims=True) >= seen.global_batch
        bound = np.where(fits, bound, seen.max_batch)
        kept.update(batches=seen.batches, times=times, bound=bound)
        return _towards_mean(seen, times, bound, self.dead_band)


@dataclass(frozen=True)
class OmniLearn(_StartsEvenly):
    """Adjust batch sizes as the authors' later code, with equal corrections.

    Times are means since the last adjustment. A worker's batch changes only if the change is at
    least `dead_band` of its new value. The new values are clipped to the bounds, and the same
    number of samples is added to every worker to restore the global batch. Without bounds (0 and
    infinity), a batch can become negative, which no job could run.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import OmniLearn
    >>> controller = OmniLearn(bounds=(16, 96))
    >>> result = traceana.simulate_batching([(0, 100), (0, 300)], controller=controller)
    >>> result.workers["batch_last"].to_list()
    [37, 91]
    """

    dead_band: float = 0.2
    bounds: tuple[float, float] = (16, 96)
    name: str = "omnilearn"
    settles: bool = True

    def __post_init__(self) -> None:
        _check_dead_band(self.dead_band)
        if not 0 <= self.bounds[0] <= self.bounds[1]:
            raise DataError(f"bounds must be 0 <= min_batch <= max_batch; they are {self.bounds}")

    def adjust(self, seen: Seen, /) -> Integers:
        """Move the workers outside the dead-band, then restore the global batch equally."""
        times = seen.mean_times_s
        wanted = _at_mean_time(seen, times)
        can_run = (seen.batches >= 0).all(-1, keepdims=True)
        moves = can_run & (np.abs(wanted - seen.batches) >= self.dead_band * np.abs(wanted))
        _check_size(wanted * moves)
        moved = np.where(moves, np.clip(wanted, *self.bounds), seen.batches)
        excess = (moved.sum(-1, keepdims=True) - seen.global_batch) / moved.shape[-1]
        per_sample = times / np.maximum(seen.batches, 1)
        new = whole(moved - excess, seen.global_batch, per_sample_s=per_sample, max_batch=np.inf)
        return np.where(moves.any(-1, keepdims=True), new, seen.batches)


@dataclass(frozen=True)
class Oracle:
    """Minimize each step, with its throughput known in advance.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Oracle
    >>> result = traceana.simulate_batching([(0.1, 100), (0.1, 300)], controller=Oracle())
    >>> result.workers["batch_first"].to_list()
    [32, 96]
    """

    name: str = "oracle"
    settles: bool = True

    def first(self, setting: Seen, /) -> Integers:
        """Split by the true values of the first step."""
        return self.adjust(setting)

    def adjust(self, seen: Seen, /) -> Integers:
        """Split by the true values of the next step."""
        x, a, total = seen.samples_per_s, seen.overhead_s, seen.global_batch
        bounds: dict[str, Any] = {"min_batch": seen.min_batch, "max_batch": seen.max_batch}
        if seen.speed is not None:
            times_of = partial(iteration_times, overhead_s=a, samples_per_s=x, speed=seen.speed)
            return earliest(times_of, total, a.shape, **bounds)
        split = share(total, x, offsets=a * x, **bounds)
        return whole(split, total, per_sample_s=1 / x, fixed_s=a, max_batch=seen.max_batch)


CONTROLLERS: Final[dict[str, Callable[[], BatchController]]] = {
    "uniform": Uniform,
    "measured": Measured,
    "proportional": Proportional,
    "smoothed": Smoothed,
    "damped": lambda: Proportional(dead_band=0.2, averages=True, name="damped"),
    "omnilearn": OmniLearn,
    "oracle": Oracle,
}
"""Controllers by name; `static` needs an estimate and is not among them."""


def _check_dead_band(dead_band: float) -> None:
    if not dead_band >= 0:
        raise DataError(f"dead_band must be at least 0; it is {dead_band}")


def _check_size(wanted: Floats) -> None:
    if wanted.max() > _LARGEST:
        raise DataError(
            f"a worker would get {wanted.max():.3g} samples in a step; the workers are too unlike "
            "for a controller that does not scale batch sizes to the global batch"
        )


def find_controller(controller: Any, /) -> BatchController:  # noqa: ANN401
    """Return a controller by its name, or as it is."""
    if isinstance(controller, str) and controller in CONTROLLERS:
        return CONTROLLERS[controller]()
    methods = (getattr(controller, name, None) for name in ("first", "adjust"))
    named = hasattr(controller, "name") and hasattr(controller, "settles")
    if isinstance(controller, type) or not named or not all(takes(each, 1) for each in methods):
        raise DataError(
            f"no controller is called {controller!r}; there are {', '.join(CONTROLLERS)} (and "
            "static, given as Static(estimate), or an object, not a class, with name, settles, "
            "first(setting) and adjust(seen))"
        )
    return controller


def read_controllers(controllers: Sequence[str | BatchController], /) -> dict[str, Any]:
    """Return controllers by their different names."""
    chosen = [find_controller(each) for each in as_list("controllers", controllers)]
    names = [controller.name for controller in chosen]
    if not names or len(set(names)) < len(names):
        raise DataError(f"controllers must have different names; found {names}")
    return dict(zip(names, chosen, strict=True))
