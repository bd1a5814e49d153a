"""Stragglers of synchronous jobs: result and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeVar

import polars as pl

from traceana.errors import DataError
from traceana.tables.declare import (
    ResultTable,
    any_key,
    clock,
    count,
    flag,
    fraction,
    interval,
    number,
    p_value,
    quantiles,
    ratio,
    text,
)
from traceana.tables.formatting import plural
from traceana.tables.result import Result


class Episodes(ResultTable):
    """Transient stragglers: periods in which a worker is slow."""

    worker_id = any_key("Worker", "worker")
    onset_s = number("Onset (s)", "first slow sample", unit="s", display="count")
    end_s = number("End (s)", "last slow sample", unit="s", display="count")
    duration_s = number("Duration (s)", "`end_s` minus `onset_s`", unit="s", display="count")
    n_samples = count("Samples", "samples of the worker in the episode")
    severity = ratio("Severity", "median ratio to the worker's usual value")
    ratio_to_peers = ratio("Ratio to peers", "median ratio to the median of the other workers")
    excess = ratio("Excess", "median ratio that the peers do not explain")
    n_reports = count("Reports", "reports in the episode; a repeated value is one report")
    n_at_once = count("At once", "most workers in an episode at one time, including this one")


class Levels(ResultTable):
    """Workers: how slow each is over the whole job."""

    worker_id = any_key("Worker", "worker")
    median = number("Median", "median of the worker's values without its episodes", display="plain")
    ratio_to_peers = ratio("Ratio to peers", "median over the median of the other workers' medians")
    is_slow = flag(
        "Persistent straggler",
        "whether `is_slower` and the ratio exceeds `slow_level`; null if the workers move as one",
    )
    is_slower = flag(
        "Slower", "whether the ratio is above 1 beyond noise, all along the job (`pvalue_adjusted`)"
    )
    ci_low, ci_high = interval(
        "95 % CI of the ratio", "interval of `ratio_to_peers`", display="ratio"
    )
    n_samples = count("Samples", "rows with a value")
    n_missing = count("Missing", "rows without a value")
    n_episodes = count("Episodes", "episodes of the worker")
    pvalue_adjusted = p_value("Adjusted p", "of a ratio of 1, Holm over the workers of the job")
    lost_fraction = fraction(
        "Waited for", "fraction of the job's waiting time in which it is slowest"
    )
    saved = fraction("Cost", "fraction of the job's time saved if it had its peers' level")
    last_s = number("Last time (s)", "its last value", unit="s", display="count")
    note = text("Note", "why values are missing, or why the worker is not persistently slow")


class StragglerJobs(ResultTable):
    """Jobs: what stragglers cost."""

    n_workers = count("Workers", "workers with a value")
    slowdown = ratio("Slowdown", "sum of the largest value over sum of the mean")
    slowdown_median = ratio("Slowdown (median)", "sum of the largest value over sum of the median")
    n_episodes = count("Episodes", "episodes of all workers; null if the workers move as one")
    n_slow_workers = count("Persistent stragglers", "workers with `is_slow`")
    max_at_once = count("Most at once", "most workers in an episode at one time")
    slowdown_noise = ratio(
        "Slowdown (noise)",
        "slowdown expected from random variation alone, with workers of one level",
    )
    slowdown_iterations = ratio(
        "Slowdown (iterations)",
        "times over the sum of mean / largest value: samples are spans of time, not iterations",
    )
    slowdown_excess = number("Excess", "`slowdown` minus `slowdown_noise`")
    slowdown_without_episodes = ratio(
        "Without episodes", "slowdown with each episode at its peers' median"
    )
    slowdown_without_either = ratio(
        "Without either", "slowdown also with slower workers at their peers' level"
    )
    episodes_fraction = fraction("Removed: episodes", "fraction of (slowdown - 1) without episodes")
    levels_fraction = fraction(
        "Removed: levels", "fraction of (slowdown - 1) with equal levels, after episodes"
    )
    n_missing = count("Missing", "rows without a value")
    note = text("Note", "why values are missing")


class PeerRatios(ResultTable):
    """Ratios to the peers: each sample over the median of the other workers at its time."""

    worker_id = any_key("Worker", "worker")
    time_s = number("Time (s)", "time of the sample", unit="s", display="count")
    ratio_to_peers = ratio("Ratio to peers", "null without a peer")


_Of = TypeVar("_Of", bound=Result)


def _of_job(result: _Of, job: object, keys: pl.DataFrame) -> _Of:
    """Return the rows of one job in every frame of a result."""
    key = job if isinstance(job, tuple) else (job,)
    if len(key) != keys.width:
        raise DataError(f"job= needs the values of {', '.join(keys.columns)}; it is {job!r}")
    is_job = [
        pl.col(n).eq_missing(pl.lit(value)) for n, value in zip(keys.columns, key, strict=True)
    ]
    if keys.filter(is_job).is_empty():
        first = ", ".join(map(str, keys.unique(maintain_order=True).head(5).rows()))
        raise DataError(f"job= is {job!r}; no job has this key; the first are {first}")
    return replace(result, **{name: getattr(result, name).filter(is_job) for name in result.tables})


@dataclass(frozen=True, repr=False, eq=False)
class StragglerResult(Result):
    """Result of :func:`traceana.detect_stragglers`.

    Every frame begins with the columns of `by`.

    Examples
    --------
    >>> import traceana
    >>> samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
    >>> result = traceana.detect_stragglers(samples)
    >>> result.episodes.height, result.jobs.height
    (9, 4)
    """

    jobs: Annotated[pl.DataFrame, StragglerJobs]
    """One row per job: what stragglers cost."""
    episodes: Annotated[pl.DataFrame, Episodes]
    """One row per transient straggler: a period in which a worker is slow compared with its own
    usual value and with its peers."""
    levels: Annotated[pl.DataFrame, Levels]
    """One row per worker: how slow it is over the whole job."""
    ratios: Annotated[pl.DataFrame, PeerRatios]
    """One row per sample, of the first jobs with two million together: its ratio to the peers."""
    drawn_by = "plot_straggler_map"

    def of_job(self, job: object, /) -> StragglerResult:
        """Return the result of one job, by its key; a tuple if several columns are its key."""
        return _of_job(self, job, self.jobs.select(self._by))

    def key(self) -> tuple[object, ...]:
        """Return the key of the first job: the values of the columns of `by`."""
        return self.jobs.select(self._by).row(0) if self._by else ()

    @property
    def _by(self) -> list[str]:
        return self.jobs.columns[: -len(StragglerJobs.columns())]

    def summary(self) -> str:
        """Return a short text on the result."""
        jobs, episodes, levels = self.jobs, self.episodes, self.levels
        n_jobs = plural(jobs.height, "job")
        about_episodes, slow = "none", "no persistent straggler"
        hit, with_slow = ((jobs[name] > 0).sum() for name in ("n_episodes", "n_slow_workers"))
        if episodes.height:
            severity = _middle_and_largest(episodes["severity"])
            about_episodes = (
                f"{episodes.height}, in {hit} of {n_jobs}; up to {episodes['n_at_once'].max()!s} "
            )
            about_episodes += f"at once; severity {severity}"
        if n_slow := int(levels["is_slow"].sum()):
            slow = f"{plural(n_slow, 'persistent straggler')}, in {with_slow} of {n_jobs}"
        if n_slower := levels.filter(pl.col("is_slower") & ~pl.col("is_slow")).height:
            slow += f"; {plural(n_slower, 'worker')} less slow than that, beyond noise"
        if jobs.height and jobs["n_episodes"].null_count() == jobs.height:
            about_episodes = slow = "cannot tell"
        lines = [
            f"{n_jobs}, {plural(levels.height, 'worker')}",
            f"episodes: {about_episodes}",
            f"levels:   {slow}",
        ]
        for name, column, what in (
            ("slowdown:", "slowdown", "sum of the slowest over sum of the mean"),
            ("noise:   ", "slowdown_noise", "slowdown without stragglers"),
        ):
            if jobs[column].count():
                lines.append(f"{name} {_middle_and_largest(jobs[column])} ({what})")
        notes = jobs["note"].value_counts(sort=True).drop_nulls().rows()
        lines += [f"note:     {plural(number, 'job')}: {note!s}" for note, number in notes]
        return "\n".join(lines)


def _middle_and_largest(numbers: pl.Series) -> str:
    middle: Any = numbers.median()
    largest: Any = numbers.max()
    return f"median {middle:.3g}, maximum {largest:.3g}"


_PERCENTS: Final = (5, 25, 50, 75, 95)


class IterationCov(ResultTable):
    """Coefficient of variation at each time step."""

    n_workers = count("Workers", "workers with a value at this time")
    mean = number("Mean", "mean over the workers, in the unit of the value")
    std = number("Standard deviation", "over the workers, in the unit of the value")
    cov = ratio("CoV", "`std` divided by `mean`; null where the mean is 0")


class CovSummary(ResultTable):
    """Distribution of the coefficient of variation over time steps."""

    n = count("Time steps", "time steps with a value")
    n_missing = count("Missing", "time steps without a value")
    mean = ratio("Mean")
    p05, p25, median, p75, p95 = quantiles("quantile", *_PERCENTS, display="ratio")
    max = ratio("Maximum")
    fraction_above_0_1 = fraction("Above 0.1", "fraction of values above 0.1")
    fraction_above_0_5 = fraction("Above 0.5", "fraction of values above 0.5")
    fraction_above_1 = fraction("Above 1", "fraction of values above 1")


class CovIntervals(CovSummary):
    """Distribution with confidence intervals of its quantiles."""

    p05_ci_low, p05_ci_high = interval("5 %, CI", "confidence limit", display="ratio")
    p25_ci_low, p25_ci_high = interval("25 %, CI", "confidence limit", display="ratio")
    median_ci_low, median_ci_high = interval("Median, CI", "confidence limit", display="ratio")
    p75_ci_low, p75_ci_high = interval("75 %, CI", "confidence limit", display="ratio")
    p95_ci_low, p95_ci_high = interval("95 %, CI", "confidence limit", display="ratio")


class CovSeries(CovIntervals):
    """Distribution of each job's coefficient of variation, with intervals for a time series."""

    right_truncated = flag("Truncated", "whether the job reaches `cut_at`; null without `cut_at`")
    autocorrelation = any_key("Autocorrelation", "list of the autocorrelations at lags 1 to `lags`")
    effective_n = number("Effective time steps", "effective sample size", display="count")
    note = text("Note", "why values are missing")


class CovPooled(CovIntervals):
    """Distribution of the coefficient of variation over the time steps of all jobs."""

    n_jobs = count("Jobs", "jobs in the table")
    n_right_truncated = count("Truncated", "jobs that reach `cut_at`; null without `cut_at`")
    length_p25 = number("Length, 25 %", "Kaplan-Meier quantile of a job's number of time steps")
    length_median = number("Length, median", "Kaplan-Meier median", display="count")
    length_p75 = number("Length, 75 %", "Kaplan-Meier quantile")
    note = text("Note", "why values are missing")


class CovMatch(ResultTable):
    """Best match of a job among the rows of a CoV table."""

    job_id = text("Job", "job with worker samples")
    ddof = count("ddof", "of the standard deviation")
    cov_job_id = text("Best match", "job of the CoV table with the least mean square difference")
    first_sample = count("First sample", "sample of that job where the overlap begins")
    overlap = count("Samples compared", "samples that both have")
    max_abs_difference = number("Maximum difference", "largest absolute difference")
    median_abs_difference = number("Median difference", "median absolute difference")
    first_time_s = clock("First time", "time of the job where the overlap begins")
    fraction_within_rounding = number(
        "Within rounding",
        "fraction of differences that rounding explains; null if worker times are not integers",
        display="fine_fraction",
    )


class StragglerAttributes(ResultTable):
    """One row per job and attribute: its group that costs most."""

    attribute = text("Attribute", "attribute of the workers; `worker`: each worker by itself")
    n_groups = count("Groups", "groups with a value")
    group = text("Slowest group", "group whose slowness costs most")
    n_workers = count("Workers", "workers in that group")
    job = number("Job time", "mean over steps of the slowest worker", display="plain")
    without = number(
        "Without", "the same, if the group were as fast as the others", display="plain"
    )
    gain = fraction("Time gained", "fraction of the job's time gained")
    slowdown = ratio("Slowdown", "`job` over the mean over steps of the median")
    systematic = fraction(
        "Systematic", "fraction of the time above the median that lasts; null for few steps"
    )
    explained = fraction("Explained", "fraction of what lasts of that time that is gained")
    explained_by_chance = fraction(
        "By chance", "largest of 20 shuffles of times between the workers of each step"
    )
    variance_explained = fraction(
        "Of variance", "fraction of the variance between workers that is between groups"
    )
    pvalue = p_value("p", "permutation of workers between groups; null for single workers")
    explains = flag("Explains", "whether it is the attribute that explains the slowness")
    n_steps = count("Steps", "steps with at least two workers")
    n_missing = count("Missing", "rows without a value or a group")
    note = text("Note", "why values are missing, or why no attribute explains the slowness")


class AttributeGroups(ResultTable):
    """One row per job, attribute and group."""

    attribute = text("Attribute")
    group = text("Group")
    n_workers = count("Workers", "workers in the group")
    ratio_to_others = ratio(
        "Ratio to others", "mean over the mean of the workers outside of the group"
    )
    gain = fraction("Time gained", "if the group were as fast as the others")
    explained = fraction("Explained", "fraction of what lasts of the time above the median")


@dataclass(frozen=True, repr=False, eq=False)
class AttributeResult(Result):
    """What explains the slowness of jobs, as :func:`traceana.straggler_attributes` finds.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> step = {"job_id": "a", "step": [0] * 6, "rank": range(6), "stage": [0, 0, 1, 1, 2, 2]}
    >>> samples = pl.DataFrame(step | {"compute_s": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]})
    >>> found = traceana.straggler_attributes(
    ...     samples, attributes="stage", time="step", worker="rank", value="compute_s"
    ... )
    >>> found.attributes.filter("explains").select("attribute", "gain").rows()
    [('stage', 0.5)]
    """

    drawn_by = "plot_straggler_attributes"

    attributes: Annotated[pl.DataFrame, StragglerAttributes]
    """One row per job and attribute."""
    groups: Annotated[pl.DataFrame, AttributeGroups]
    """One row per job, attribute and group."""

    def of_job(self, job: object, /) -> AttributeResult:
        """Return the result of one job, by its key; a tuple if several columns are its key."""
        by = self.attributes.columns[: self.attributes.columns.index("attribute")]
        return _of_job(self, job, self.attributes.select(by))

    def summary(self) -> str:
        """Return a line per job."""
        explained = self.attributes.filter("explains")
        by = explained.columns[: explained.columns.index("attribute")]
        lines = [
            f"{', '.join(map(str, (row[name] for name in by)))}: {row['attribute']} {row['group']} "
            f"explains {100 * row['explained']:.0f} % of the slowdown; without it the job would "
            f"take {100 * row['gain']:.0f} % less time"
            for row in explained.iter_rows(named=True)
        ]
        return "\n".join(lines) or "no attribute explains the slowness of a job"
