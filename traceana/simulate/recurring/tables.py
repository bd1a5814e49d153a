"""Results of simulated recurring jobs: runs, recurrences, savings and regret."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

import dataframely as dy
import numpy as np
import polars as pl

from traceana.tables.declare import (
    ResultTable,
    clock,
    count,
    declared,
    flag,
    fraction,
    interval,
    joules,
    number,
    ratio,
    seconds,
    text,
)
from traceana.tables.result import Result

LAST: Final = 5
"""Recurrences at the end of a history that savings are computed from, as published."""


def _configuration(of: str = "") -> tuple[dy.Int64, dy.Float64]:
    """Declare the columns of a batch size and a power limit."""
    limit = number("Power limit (W)", of, display="plain", unit="W")
    return count("Batch size", of, unit="samples"), limit


def _spent(how: str = "") -> tuple[dy.Float64, dy.Float64, dy.Float64]:
    """Declare the columns of energy, time and cost."""
    return joules("Energy", how), seconds("Time", how), joules("Cost", how)


class Runs(ResultTable):
    """Runs of a recurring job, in order."""

    recurrence = count("Recurrence", "number of the recurrence, from 1")
    batch_size, power_limit_w = _configuration()
    energy_j, time_s, cost_j = _spent()
    reached = flag("Reached the target")
    epochs = count("Epochs", unit="epochs")
    profiled = flag("Profiled", "the first epoch covered all power limits")


class Recurrences(ResultTable):
    """Recurrences of a job: the sums of their runs."""

    policy = text("Policy", optional=True)
    recurrence = count("Recurrence")
    runs = count("Runs")
    batch_size, power_limit_w = _configuration("of the last run")
    energy_j, time_s, cost_j = _spent()
    regret_j = joules("Regret", "cost minus the expected cost of the oracle")
    cumulative_regret_j = joules("Cumulative regret")


class References(ResultTable):
    """Expected energy, time and cost of a recurrence with the default and with the oracle."""

    policy = text("Policy", "default or oracle")
    batch_size, power_limit_w = _configuration()
    energy_j, time_s, cost_j = _spent()
    note = text("Note", "why values are null")


class Totals(ResultTable):
    """Sums over all runs of a job; savings of the last five recurrences."""

    recurrences = count("Recurrences")
    runs = count("Runs")
    runs_missed = count("Missed", "runs that missed the target")
    points_missing = count("Points missing", "(batch size, power limit) without data")
    energy_j = joules("Energy")
    energy_saved = fraction("Energy saved")
    time_s = seconds("Time")
    time_saved = fraction("Time saved")
    cost_j = joules("Cost")
    cost_saved = fraction("Cost saved")
    regret_j = joules("Regret", "cost minus that of the oracle")
    regret_fraction = fraction("Relative regret", "regret over the cost of the oracle")


class _Job(ResultTable):
    gpu = text("GPU")
    dataset = text("Data set")


class _Seed(_Job):
    seed = count("Seed", unit="")


class Sweep(_Seed, Totals):
    """Totals of each GPU, data set and seed."""

    note = text("Note", "why values are null")


def _mean(heading: str) -> tuple[dy.Float64, dy.Float64, dy.Float64]:
    """Declare the columns of a mean over seeds and its interval."""
    bounds = interval(f"{heading.split(maxsplit=1)[0]}, 95 %", display="percent")
    return fraction(heading, "mean over the seeds"), *bounds


class PolicyVariants(ResultTable):
    """Energy of variants of a policy, geometric mean over data sets."""

    comparison = text("Comparison", "beta, part left out, or GPU")
    variant = text("Variant", "value of beta, the part, or the GPU")
    energy = ratio(
        "Relative energy",
        "energy of all recurrences over that of zeus (beta 2); by GPU of the last five over that "
        "of the default",
    )
    energy_low = ratio("Lowest", "the same of the seed with the least")
    energy_high = ratio("Highest", "the same of the seed with the most")
    datasets = count("Data sets", "in the geometric mean")
    missing = count("Missing", "replications that could not be simulated")


class SweepSummary(_Job):
    """Means over the seeds of a sweep with Student's t intervals."""

    seeds = count("Seeds", "seeds that could be simulated")
    seeds_failed = count("Seeds failed")
    points_missing = count("Points missing", "(batch size, power limit) without data")
    energy_saved, energy_saved_ci_low, energy_saved_ci_high = _mean("Energy saved")
    time_saved, time_saved_ci_low, time_saved_ci_high = _mean("Time saved")
    cost_saved, cost_saved_ci_low, cost_saved_ci_high = _mean("Cost saved")
    regret_fraction, regret_fraction_ci_low, regret_fraction_ci_high = _mean("Regret")
    note = text("Note", "why values are null")


class GroupRuns(ResultTable):
    """Runs of groups of recurring jobs, in the order in which they end."""

    group = text("Group")
    dataset = text("Data set")
    recurrence = count("Recurrence")
    batch_size, power_limit_w = _configuration()
    energy_j, time_s, cost_j = _spent("scaled by runtime_ratio")
    reached = flag("Reached the target")
    concurrent = flag("Concurrent", "began while others of its group ran")
    start_s = clock("Start", "on the clock of the trace")
    end_s = clock("End", "on the clock of the trace")
    runtime_ratio = number("Runtime ratio")


class Groups(ResultTable):
    """Groups of recurring jobs; savings over all runs of the group."""

    group = text("Group")
    dataset = text("Data set")
    recurrences = count("Recurrences")
    runs = count("Runs")
    runs_missed = count("Missed", "runs that missed the target")
    runs_concurrent = count("Concurrent", "runs that began while others of the group ran")
    energy_j = joules("Energy")
    time_s = seconds("Time")
    default_energy_j = joules("Default energy", "expected")
    default_time_s = seconds("Default time", "expected")
    energy_saved = fraction("Energy saved")
    time_saved = fraction("Time saved")
    note = text("Note", "why values are null")


class GroupsByDataset(ResultTable):
    """Simulated groups of recurring jobs, by the workload that represents them."""

    dataset = text("Data set")
    groups = count("Groups")
    failed = count("Not simulated", "groups that missed the target or have no workload")
    recurrences = count("Recurrences")
    runs = count("Runs")
    runs_missed = count("Missed", "runs that missed the target")
    concurrent = fraction("Concurrent", "fraction of runs that began while others of the group ran")
    energy_j = joules("Energy")
    energy_saved = fraction("Energy saved", "of all runs, relative to the default")
    time_saved = fraction("Time saved", "of all runs, relative to the default")


@dataclass(frozen=True, repr=False, eq=False)
class RecurringResult(Result):
    """Result of :func:`traceana.simulate.simulate_recurring`.

    Attributes
    ----------
    history, recurrences, totals
        Runs in order, including those that missed the target; sums by recurrence, and of all.
    references
        Expected energy, time and cost with the default and with the oracle.
    job
        The data of the job that the simulation uses.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> result = traceana.simulate_recurring(runs, power, gpu="v100", dataset="cifar100")
    >>> result.totals.select("recurrences", "runs", "runs_missed").rows()
    [(140, 143, 3)]
    """

    gpu: str
    dataset: str
    target: float
    policy: str
    eta: float
    beta: float
    rng: int | np.random.Generator
    history: Annotated[pl.DataFrame, Runs]
    recurrences: Annotated[pl.DataFrame, Recurrences]
    references: Annotated[pl.DataFrame, References]
    totals: Annotated[pl.DataFrame, Totals]
    job: Any = field(repr=False)

    drawn_by: ClassVar[str] = "plot_recurring_choices"

    def summary(self) -> str:
        """Return a short text on the result."""
        row = self.totals.row(0, named=True)
        seed = f"seed {self.rng}" if isinstance(self.rng, int) else "a generator"
        text = (
            f"{self.dataset} on {self.gpu} to {self.target:g}, policy {self.policy}, "
            f"eta {self.eta:g}, beta {self.beta:g}, {seed}\n"
            f"runs:    {row['runs']:,} in {row['recurrences']:,} recurrences, "
            f"{row['runs_missed']:,} missed the target\n"
            f"took:    {row['energy_j']:,.0f} J, {row['time_s']:,.0f} s"
        )
        lines = [text]
        if row["energy_saved"] is not None:
            measures = ("energy", "time", "cost")
            saved = ", ".join(f"{100 * row[f'{name}_saved']:.1f} % of {name}" for name in measures)
            last = min(LAST, row["recurrences"])
            lines.append(f"saved:   {saved} (last {last} recurrences, relative to the default)")
        if row["regret_j"] is not None:
            lines.append(
                f"regret:  {row['regret_j']:,.0f} J over the oracle, "
                f"{100 * row['regret_fraction']:.1f} % of its cost"
            )
        return "\n".join(lines)


@dataclass(frozen=True, repr=False, eq=False)
class RecurringGroupsResult(Result):
    """Result of :func:`traceana.simulate.simulate_recurring_groups`.

    Attributes
    ----------
    history
        Runs by group, in the order in which they end; energy, time and cost scaled by
        runtime_ratio, start and end of the trace.
    groups
        One row per group. Savings are over all runs, against the expected default.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> jobs = store.scan("zeus-2023", "recurring_jobs").head(20)
    >>> result = traceana.simulate_recurring_groups(runs, power, jobs, gpu="v100")
    >>> result.by_dataset().select("dataset", "groups").rows()
    [('librispeech', 1), ('movielens-1m', 2), ('squad', 1), (None, 4)]
    """

    gpu: str
    policy: str
    eta: float
    beta: float
    history: Annotated[pl.DataFrame, GroupRuns]
    groups: Annotated[pl.DataFrame, Groups]

    def by_dataset(self) -> pl.DataFrame:
        """Sum the groups of each data set, and of all (data set null) if there are several.

        Savings compare the groups whose default is known.
        """
        present = pl.col("default_energy_j").is_not_null()
        energy, time = (pl.col(name).filter(present).sum() for name in ("energy_j", "time_s"))
        sums = [
            pl.len().cast(pl.Int64).alias("groups"),
            pl.col("runs").is_null().sum().cast(pl.Int64).alias("failed"),
            pl.col("recurrences", "runs", "runs_missed", "energy_j").sum(),
            (pl.col("runs_concurrent").sum() / pl.col("runs").sum()).alias("concurrent"),
            (1 - energy / pl.col("default_energy_j").sum()).alias("energy_saved"),
            (1 - time / pl.col("default_time_s").sum()).alias("time_saved"),
        ]
        table = self.groups.group_by("dataset").agg(sums).sort("dataset")
        if table.height > 1:
            together = self.groups.select(pl.lit(None, pl.String).alias("dataset"), *sums)
            table = pl.concat([table, together])
        fractions = pl.col("concurrent", "energy_saved", "time_saved").fill_nan(None)
        return declared(table.with_columns(fractions), GroupsByDataset)

    def summary(self) -> str:
        """Return a short text on the result."""
        row = self.by_dataset().row(-1, named=True)
        concurrent = self.history["concurrent"].sum()
        text = (
            f"{self.groups.height:,} groups on {self.gpu}, policy {self.policy}, "
            f"eta {self.eta:g}, beta {self.beta:g}\n"
            f"runs:   {self.history.height:,} in {row['recurrences']:,} recurrences, "
            f"{row['runs_missed']:,} missed the target, "
            f"{concurrent:,} began while others of their group ran"
        )
        saved = {"energy:": row["energy_saved"], "time:": row["time_saved"]}
        lines = [text] + [
            f"{name:7} {100 * of_all:.1f} % saved relative to the default"
            for name, of_all in saved.items()
            if of_all is not None
        ]
        notes = self.groups["note"].value_counts(sort=True).drop_nulls().rows()
        lines += [f"note:   {number:,} groups: {note!s}" for note, number in notes]
        return "\n".join(lines)
