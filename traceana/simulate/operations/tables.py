"""Results of the replay of operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import polars as pl

from traceana.stats.arrays import Floats
from traceana.tables.declare import ResultTable, count, flag, fraction, number, text
from traceana.tables.result import Result


class SlowdownBy(ResultTable):
    """Slowdown of groups of operations."""

    slowdown = number(
        "Slowdown", "step time with everything ideal but the group, over the ideal step time"
    )
    explained_removal = fraction(
        "Explained by removal",
        "fraction of the slowdown that vanishes if the group is ideal; null without a slowdown",
    )
    explained_addition = fraction(
        "Explained by addition",
        "fraction of the slowdown that appears if all but the group is ideal; null without one",
    )


class WorkerSlowdown(ResultTable):
    """Slowdown of each worker."""

    worker = text("Worker")
    dp_rank = count("Data-parallel rank", unit="")
    stage = count("Stage", unit="")
    slowdown = number("Slowdown", "the smaller one of its rank's and its stage's")
    is_slowest = flag("Slowest", "among the slowest 3 % of the workers")


class Explained(ResultTable):
    """What-ifs of the last stage and of the slowest workers."""

    group = text("Group", "last stage or slowest workers")
    t_removal_s = number("Step time if the group is ideal (s)", unit="s")
    t_addition_s = number("Step time if all but the group is ideal (s)", unit="s")
    explained_removal = fraction("Explained by removal")
    explained_addition = fraction("Explained by addition")


class ReplayedSteps(ResultTable):
    """Step times of a replayed job."""

    step = count("Step", unit="")
    measured_s = number("Measured (s)", unit="s")
    replayed_s = number("Replayed with launch delays (s)", unit="s")
    original_s = number("Replayed (s)", unit="s")
    ideal_s = number("Ideal (s)", unit="s")
    slowdown = number("Slowdown", "original_s over ideal_s")


class OperationTimeline(ResultTable):
    """Begin and end of operations."""

    scenario = text("Scenario", "measured, or ideal")
    step = count("Step", unit="")
    worker = text("Worker")
    dp_rank = count("Data-parallel rank", unit="")
    stage = count("Stage", unit="")
    kind = text("Kind")
    sequence = count("Sequence number", unit="")
    begin_s = number(
        "Begin (s)", "since the step began; of a transfer, without waiting for others", unit="s"
    )
    end_s = number("End (s)", "since the step began", unit="s")
    waiting_s = number("Waiting (s)", "for the last member of the group; null if ideal", unit="s")


class OperationJobs(ResultTable):
    """Replayed jobs: step times, slowdown and what explains it."""

    job_id = text("Job")
    steps = count("Steps")
    workers = count("Workers")
    t_measured_s = number("Measured (s)", "mean step time, first start to last end", unit="s")
    t_original_s = number("Replayed (s)", "mean step time without launch delays", unit="s")
    t_ideal_s = number("Ideal (s)", "mean step time with ideal durations", unit="s")
    slowdown = number("Slowdown", "t_original_s over t_ideal_s")
    m_s = fraction("Last stage explains (M_S)", "fraction that the last stage explains by removal")
    m_w = fraction(
        "Slowest workers explain (M_W)", "fraction that the slowest workers explain by removal"
    )
    slowest_workers = text("Slowest workers", "slowest 3 % of the workers")
    replay_error = number("Replay error", "largest relative error with launch delays")
    note = text("Note", "why a job was not replayed")


@dataclass(frozen=True, repr=False, eq=False)
class ReplayResult(Result):
    """Step times of a replayed job: as measured, as it was, and with ideal durations.

    Examples
    --------
    >>> import traceana
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.replay_operations(operations))
    job SYNTHETIC-job: 5 steps of 2.276 s; all operations ideal: 1.86 s (slowdown 1.224)
    ...
    """

    job: str
    policy: str
    """What is ideal."""
    steps: Annotated[pl.DataFrame, ReplayedSteps]

    @property
    def step_s_measured(self) -> Floats:
        """Return the measured time of each step: first start to last end."""
        return self.steps["measured_s"].to_numpy()

    @property
    def step_s_original(self) -> Floats:
        """Return the replayed time of each step, without launch delays."""
        return self.steps["original_s"].to_numpy()

    @property
    def step_s_ideal(self) -> Floats:
        """Return the replayed time of each step under the policy."""
        return self.steps["ideal_s"].to_numpy()

    @property
    def slowdown(self) -> float:
        """Return the mean original over the mean ideal step time."""
        ideal = float(self.step_s_ideal.mean())
        return float(self.step_s_original.mean()) / ideal if ideal else float("inf")

    @property
    def launch_slowdown(self) -> float:
        """Return the mean measured over the mean original step time."""
        return float(self.step_s_measured.mean() / self.step_s_original.mean())

    @property
    def replay_error(self) -> float:
        """Return the largest relative error of a step replayed with its launch delays."""
        replayed = self.steps["replayed_s"].to_numpy()
        return float(abs(replayed / self.step_s_measured - 1).max())

    def summary(self) -> str:
        """Return the mean step times, the slowdown and the error of the replay."""
        of = f"job {self.job}: " if self.job else ""
        return (
            f"{of}{len(self.step_s_ideal)} steps of {self.step_s_original.mean():.4g} s; "
            f"{self.policy}: {self.step_s_ideal.mean():.4g} s (slowdown {self.slowdown:.3f})\n"
            f"launch delays add {100 * (self.launch_slowdown - 1):.2g} %; replayed with them, step "
            f"times differ from the measured ones by at most {self.replay_error:.1g} (relative)"
        )


@dataclass(frozen=True, repr=False, eq=False)
class WorkerSlowdownResult(Result):
    """Slowdown of each worker, and what the last stage and the slowest workers explain.

    Examples
    --------
    >>> import traceana
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.worker_slowdown(operations))
    slowdown 1.224; explained by the last stage: -3.95 %, by the slowest workers (5): 112 %
    """

    m_s: float
    m_w: float
    t_original_s: float
    t_ideal_s: float
    workers: Annotated[pl.DataFrame, WorkerSlowdown]
    explained: Annotated[pl.DataFrame, Explained]

    drawn_by: ClassVar[str] = "plot_worker_slowdown"

    def summary(self) -> str:
        """Return the fractions that the last stage and the slowest workers explain."""
        slowest = ", ".join(self.workers.filter("is_slowest")["worker"])
        return (
            f"slowdown {self.t_original_s / self.t_ideal_s:.3f}; explained by the last stage: "
            f"{100 * self.m_s:.3g} %, by the slowest workers ({slowest}): {100 * self.m_w:.3g} %"
        )
