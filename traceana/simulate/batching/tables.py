"""Dynamic batching: results and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import polars as pl

from traceana.tables import declare
from traceana.tables.declare import (
    ResultTable,
    count,
    flag,
    fraction,
    interval,
    number,
    quantiles,
    ratio,
    text,
)
from traceana.tables.formatting import plural
from traceana.tables.result import Result


class Batches(ResultTable):
    """Batch sizes at step 0 and at each step at which one changes."""

    step = count("Step", "step", unit="")
    worker_id = text("Worker", "worker")
    batch = count("Batch size", "samples of the worker", unit="samples")
    gradient_weight = number("Gradient weight", "batch size over the sum of batch sizes")
    iteration_s = number("Iteration (s)", "iteration time at this step", unit="s")


class Steps(ResultTable):
    """Steps of a simulated job."""

    step = count("Step", "step", unit="")
    step_s = number("Step (s)", "iteration time of the slowest worker", unit="s")
    idle_fraction = fraction("Idle", "1 - mean iteration time / `step_s`")
    samples = count("Samples", "samples trained in this step", unit="samples")


class Workers(ResultTable):
    """Workers of a simulated job."""

    worker_id = text("Worker", "worker")
    batch_first = count("First batch size", "at step 0", unit="samples")
    batch_last = count("Last batch size", "at the last step", unit="samples")
    mean_iteration_s = number("Iteration (s)", "mean iteration time", unit="s")
    busy_fraction = fraction("Busy", "fraction of the job's time at work")


class AsynchronousWorkers(ResultTable):
    """Workers that do not wait for each other, one row per worker."""

    worker_id = text("Worker", "worker")
    batch = count("Batch size", "at the last step", unit="samples")
    iteration_s = number("Iteration (s)", "at the last step", unit="s")
    samples_per_s = number("Samples/s", "batch size over iteration time")
    staleness = number("Staleness", "updates of the other workers during an iteration")


@dataclass(frozen=True, repr=False, eq=False)
class BatchingResult(Result):
    """A simulated job under one batch-size controller.

    Attributes
    ----------
    controller
        Name of the controller.
    batches, steps, workers
        Batch sizes where they change, steps and workers.
    time_s, samples
        Time of the job and samples trained.
    uniform_time_s
        Time of as many steps with equal batches on the same workers.
    speedup
        Time per sample with equal batches over time per sample with this controller.
    adjustments
        Steps at which batch sizes changed.
    idle_fraction
        Fraction of the workers' time spent waiting: 1 - sum of times / (K * time_s).
    note
        What to know of the result, such as a negative batch size or a dead-band that kept the
        controller from any adjustment; None otherwise.

    Examples
    --------
    >>> import traceana
    >>> result = traceana.simulate_batching([(0.1, 100), (0.1, 300)], controller="oracle", steps=50)
    >>> print(result)
    oracle: 6,400 samples in 21.0 s
    speedup over uniform batches: 1.762
    0 adjustments; workers wait 0.0 % of their time
    >>> result.batches.select("step", "worker_id", "batch").rows()
    [(0, '0', 32), (0, '1', 96)]
    """

    tables: ClassVar = {"workers": Workers, "batches": Batches, "steps": Steps}
    drawn_by: ClassVar[str] = "plot_batching_trajectory"

    controller: str
    batches: pl.DataFrame
    steps: pl.DataFrame
    workers: pl.DataFrame
    time_s: float
    samples: int
    uniform_time_s: float
    speedup: float
    adjustments: int
    idle_fraction: float
    note: str | None

    def _drawn(self) -> pl.DataFrame:
        return self.batches

    @property
    def asynchronous(self) -> pl.DataFrame:
        r"""The last batch sizes without a barrier: each worker updates the model on its own.

        One row per worker with the columns of `AsynchronousWorkers`. The staleness of worker k is
        :math:`t_k \sum_{j \ne k} 1 / t_j`; its mean over updates is K - 1, whatever the batches,
        and equal times make its maximum the least.
        """
        time_s = pl.col("iteration_s")
        last = self.batches.group_by("worker_id", maintain_order=True).last()
        return last.select(
            "worker_id",
            "batch",
            "iteration_s",
            samples_per_s=pl.col("batch") / time_s,
            staleness=time_s * ((1 / time_s).sum() - 1 / time_s),
        )

    def time_to_samples(self, samples: int, /) -> float | None:
        """Return the time at the end of the step in which the job reaches so many samples.

        None if the simulated steps do not reach it.
        """
        ended = pl.col("step_s").cum_sum().filter(pl.col("samples").cum_sum() >= samples)
        return self.steps.select(ended.first()).item()

    def summary(self) -> str:
        """Return a short text on the result."""
        note = "" if self.note is None else f"\n{self.note}"
        return (
            f"{self.controller}: {self.samples:,} samples in {self.time_s:,.1f} s\n"
            f"speedup over uniform batches: {self.speedup:.3f}\n"
            f"{plural(self.adjustments, 'adjustment')}; workers wait "
            f"{100 * self.idle_fraction:.1f} % of their time{note}"
        )


class _Replayed(ResultTable):
    job_id = text("Job", "job")
    controller = text("Controller", "controller")


class ReplayJobs(_Replayed):
    """Recorded jobs under each controller."""

    n_workers = count("Workers", "workers")
    n_steps = count("Steps", "times at which all workers have a sample")
    n_excluded = count("Excluded", "other times")
    time = number("Time", "sum of the slowest worker's times, in the unit of the samples")
    speedup = ratio("Speedup", "time with uniform batches over `time`")
    speedup_iterations = ratio(
        "Speedup (iterations)",
        "steps over the sum of relative step times: samples are spans of time, not iterations",
    )
    of_possible = fraction(
        "Of possible", "saving relative to the oracle's; null if the oracle saves nothing"
    )
    adjustments = count("Adjustments", "steps at which batch sizes changed")
    idle_fraction = fraction("Idle", "fraction of the workers' time spent waiting")
    note = text("Note", "why values are missing, or a dead-band kept all batch sizes")


class ReplaySteps(_Replayed):
    """Step times of recorded jobs under each controller."""

    time_s = number("Time (s)", "time in the trace", unit="s")
    step_time = number("Step time", "time of the slowest worker, in the unit of the samples")


class ReplayWorkers(_Replayed):
    """Workers of recorded jobs under each controller; quantiles over the steps."""

    worker_id = text("Worker", "worker")
    mean_batch = number("Mean batch size", "over the steps", unit="samples")
    p05, p25, median, p75, p95 = quantiles(
        "quantile of the iteration time, in the unit of the samples", 5, 25, 50, 75, 95
    )
    busy_fraction = fraction("Busy", "fraction of the job's time at work")


class ReplayEpisodes(ResultTable):
    """Straggler episodes of recorded jobs under each controller."""

    job_id = text("Job", "job")
    worker_id = text("Worker", "worker")
    onset_s = number("Onset (s)", "first slow sample", unit="s", display="count")
    end_s = number("End (s)", "last slow sample", unit="s", display="count")
    controller = text("Controller", "controller")
    n_steps = count("Steps", "steps in the episode")
    time = number("Time", "time of these steps, in the unit of the samples")
    cost = number("Cost", "`time` minus that with the worker at its usual time")
    cost_fraction = fraction("Relative cost", "`cost` over the time without it")
    cost_after = number("Cost after", "additional time of all later steps")
    ratio_to_oracle = ratio("Ratio to oracle", "`time` over the oracle's")
    fraction_within = fraction(
        "Near the oracle", "fraction of steps that take at most 1 + `within` times the oracle's"
    )
    recovery_steps = count(
        "Recovery (steps)",
        "steps until the first of three such steps in a row; null if the episode ends before",
    )
    recovery_s = number("Recovery (s)", "the same as time in the trace", unit="s")
    note = text("Note", "why values are missing")


@dataclass(frozen=True, repr=False, eq=False)
class BatchingReplay(Result):
    """Recorded jobs replayed under several batch-size controllers.

    Attributes
    ----------
    jobs
        One row per job and controller. A job without a time at which all of two or more workers
        have a sample has nulls and a note; it comes last and is in no other frame.
    steps
        One row per job, controller and step.
    workers
        One row per job, controller and worker.
    episodes
        One row per episode and controller; empty if no episodes were given.
    within
        Relative difference from the oracle's step up to which a step counts as recovered.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30, 60, 60],
    ...                         "worker_id": ["0", "1"] * 3, "batch_time": [1.0, 2.0] * 3})
    >>> replay = traceana.replay_batching(samples, controllers=["uniform", "oracle"])
    >>> replay.workers.select("controller", "worker_id", "mean_batch").rows()
    [('uniform', '0', 64.0), ('uniform', '1', 64.0), ('oracle', '0', 86.0), ('oracle', '1', 42.0)]
    """

    drawn_by: ClassVar[str] = "plot_batching_replay"

    def _drawn(self) -> pl.DataFrame:
        return self.steps

    jobs: Annotated[pl.DataFrame, ReplayJobs]
    steps: Annotated[pl.DataFrame, ReplaySteps]
    workers: Annotated[pl.DataFrame, ReplayWorkers]
    episodes: Annotated[pl.DataFrame, ReplayEpisodes]
    within: float

    def summary(self) -> str:
        """Return a short text on the result."""
        replayed = self.jobs.filter(self.jobs["note"].is_null())
        lines = ["speedup over uniform batches"]
        for (job,), rows in replayed.group_by("job_id", maintain_order=True):
            speedups = rows.select("controller", "speedup").rows()
            lines.append(
                f"{job}: {', '.join(f'{name} {speedup:.3f}' for name, speedup in speedups)}"
            )
        return "\n".join(lines)


class BatchingSetting(ResultTable):
    """Setting of a run of a sweep."""

    level = text("Cores", "cores of each worker")
    n_workers = count("Workers", "workers")
    mean_over_min = ratio("Mean / min", "mean over minimum cores: the maximum speedup")
    overhead_s = number("Overhead (s)", "overhead of an iteration", unit="s", display="plain")
    noise_cv = number("Noise (CoV)", "coefficient of variation of the noise", display="plain")


class BatchingSweep(BatchingSetting):
    """Runs of a sweep."""

    seed = count("Seed", "seed of the noise; null without noise", unit="")
    controller = text("Controller", "controller")
    time_s = number("Time (s)", "time of the job", unit="s")
    samples = count("Samples", "samples trained", unit="samples")
    step_s = number("Step (s)", "mean time of a step", unit="s")
    speedup = ratio("Speedup", "over uniform batches under the same noise")
    idle_fraction = fraction("Idle", "fraction of the workers' time spent waiting")
    adjustments = count("Adjustments", "steps at which batch sizes changed")
    time_to_samples_s = number(
        "Time to samples (s)", "time at which global_batch * steps samples are trained", unit="s"
    )
    note = text("Note", "a batch size was negative, or a dead-band kept all of them")


class BatchingSummary(BatchingSetting):
    """Runs of a sweep, averaged over the seeds."""

    controller = text("Controller", "controller")
    n = count("Seeds", "number of seeds")
    speedup = ratio("Speedup", "mean over the seeds")
    speedup_ci_low, speedup_ci_high = interval(
        "Speedup, CI", "Student's t; null for one seed", display="ratio"
    )
    step_s = number("Step (s)", "mean time of a step", unit="s")
    idle_fraction = fraction("Idle", "mean fraction of the workers' time waiting")
    adjustments = number("Adjustments", "mean number of adjustments")
    note = text("Note", "of the first run that has one")


class ClusterComparison(ResultTable):
    """Clusters under uniform, static and dynamic batch sizes, and published factors."""

    cluster = text("Cluster")
    workers = text("Workers", "homogeneous, heterogeneous, or published (a factor of the paper)")
    system = text("System", "uniform, static or dynamic; the model of a published factor")
    relative_time = ratio(
        "Relative time",
        "time over that of uniform batches on the homogeneous cluster; for a published speedup the "
        "time that it implies for dynamic batches, for a slowdown the time of uniform ones",
    )
    speedup = ratio("Speedup", "over uniform batches on the same workers; null for a slowdown")


class PublishedGains(ResultTable):
    """Published factors, the ratios that they imply, and the workers they were measured on."""

    id = text("Claim", "id of the claim")
    published = number("Published factor", "published speedup or slowdown", display="plain")
    devices = text("Workers", "cluster of the paper")
    ratio = declare.ratio("Implied ratio", "implied throughput ratio without overhead")
    ratio_overhead_10 = declare.ratio("10 % overhead", "with 10 % overhead; null: impossible")
    ratio_overhead_20 = declare.ratio("20 % overhead", "with 20 % overhead; null: impossible")
    flops_ratio = declare.ratio(
        "FLOPS ratio",
        "mean of the fast workers over the slow ones, in half-precision FLOPS or CPU cores",
    )
    largest_gain = declare.ratio("Maximum speedup", "mean(x) / min(x) of the workers")
    is_plausible = flag("Plausible", "whether the factor is at most `largest_gain`")
    note = text("Note", "explanation")
    overhead_at_flops = fraction(
        "Overhead at FLOPS",
        "overhead at which `flops_ratio` gives the published factor; null: impossible",
    )
    reached_by = text(
        "Device pairs that reach it",
        "pairs of known devices, fast and slow, whose FLOPS allow the published factor, in the "
        "numbers of the cluster; null for three unlike workers",
    )
