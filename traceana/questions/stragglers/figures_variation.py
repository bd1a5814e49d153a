"""Coefficients of variation, mini-batch times, and time gained by attribute."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from traceana.drawing.labels import (
    Percent,
    find_clock,
    format_axis,
    legend_above,
    name_group,
    name_lines,
    name_tick,
    natural_order,
    small_size,
    use_log_axis,
    write_beside,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import check_groups, color_of, shade, start_axes
from traceana.errors import DataError
from traceana.questions.stragglers.tables import AttributeResult
from traceana.tables.formatting import three_digits

_MOST_NAMED: Final = 7  # number of colors; more jobs are drawn gray and without names
_MOST_STEPS: Final = 101
_DECADE: Final = 5.0  # ratio of high to low CoVs from which their axis is logarithmic


@figure(
    "cov",
    result="iteration_cov",
    reading="CoV: standard deviation across workers divided by their mean, at one time.",
)
def plot_cov(
    cov: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    ddof: int | None = None,
    time: str | None = None,
) -> Axes:
    """Draw CoV against time, one line per job.

    Parameters
    ----------
    cov
        What `iteration_cov` returns, or rows of `cov_samples`. A null CoV breaks the line.
    ddof
        The ddof of these CoVs, for the label; None if the publisher computed them.
    time
        Column of the time; by default time_s, step or sample.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_cov
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": [0, 1, 0, 1], "batch_time": [1.0, 1.0, 1.0, 3.0]})
    >>> plot_cov(traceana.iteration_cov(samples, ddof=0), ddof=0).get_title(loc="left")
    'CoV across workers, a'
    """
    if cov.is_empty():
        raise DataError("plot_cov has nothing to draw: there is no time step")
    clock, label = find_clock(cov, time)
    cov = cov.with_columns(pl.col("job_id").cast(pl.String))
    ax = start_axes(ax)
    lines = []
    for job in natural_order(cov["job_id"].unique()):
        of_job = cov.filter(pl.col("job_id") == job).sort(clock)
        times, covs = of_job[clock].to_numpy(), of_job["cov"].cast(pl.Float64).to_numpy()
        above = 2 + 1 / (1 + of_job.height)  # short jobs on top of long ones
        (line,) = ax.plot(times, covs, drawstyle="steps-post", zorder=above, gid=f"cov-{job}")
        lines.append((job, line))
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.set(xlabel=label, ylabel=label_cov(ddof))
    format_axis(ax.xaxis, bins=5)
    ax.set_title(f"CoV across workers{f', {lines[0][0]}' if len(lines) == 1 else ''}")
    if len(lines) > 1:
        name_lines(ax, lines, heading="job")
    return ax


def label_cov(ddof: int | None) -> str:
    """Return the axis label of a CoV with its ddof."""
    return "CoV (as published)" if ddof is None else f"CoV (ddof {ddof})"


def describe_cov(cov: pl.DataFrame) -> str:
    """Return one sentence on the CoVs shown."""
    covs = cov["cov"].drop_nulls().to_numpy()
    if not covs.size:
        return f"{cov.height:,} time steps, none with a CoV."
    left_out = f"; {cov['cov'].null_count():,} without one" if cov["cov"].null_count() else ""
    over = ""
    if "n_workers" in cov.columns:
        workers = cov.drop_nulls("cov")["n_workers"]
        fewest, most = min(workers), max(workers)
        over = f", over {most} workers" if fewest == most else f", over {fewest} to {most} workers"
    ends = " to ".join(three_digits(value) for value in (covs.min(), covs.max()))
    return f"{len(covs):,} CoVs from {ends}{over}{left_out}."


@figure(
    "cov-ecdf",
    result="iteration_cov",
    reading="Empirical distribution function: fraction of a job's time steps with a CoV of at most "
    "x. Time steps without a CoV are excluded.",
    counts=(pl.count("cov"), "CoV"),
)
def plot_cov_ecdf(
    cov: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    ddof: int | None = None,
    published: pl.DataFrame | None = None,
) -> Axes:
    """Draw the empirical distribution function of CoV, one line per job.

    Up to seven jobs are named in a legend; more are drawn thin and gray, with the distribution over
    the time steps of all jobs on top.

    Parameters
    ----------
    cov
        What `iteration_cov` returns, or rows of `cov_samples`. Null CoVs are excluded.
    ddof
        The ddof of these CoVs, for the label; None if the publisher computed them.
    published
        [job_id, cov] of other jobs, as published: drawn thin and gray behind.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": [0, 1, 0, 1], "batch_time": [1.0, 1.0, 1.0, 3.0]})
    >>> traceana.figures.plot_cov_ecdf(traceana.iteration_cov(samples, ddof=0), ddof=0).get_ylabel()
    'Fraction of time steps'
    """
    table = cov.select(pl.col("job_id").cast(pl.String), "cov").drop_nulls("cov")
    if table.is_empty():
        raise DataError("plot_cov_ecdf needs a CoV; every value is null")
    jobs = natural_order(table["job_id"].unique())
    ax = start_axes(ax)
    if published is not None:
        _draw_gray(ax, published.drop_nulls("cov"), label="published jobs")
    if len(jobs) <= _MOST_NAMED:
        for job in jobs:
            _draw_ecdf(ax, table.filter(pl.col("job_id") == job)["cov"], label=name_group([job]))
    else:
        _draw_gray(ax, table, label="one job")
        look = {"color": color_of(0), "linewidth": 1.8, "linestyle": "-"}
        _draw_ecdf(ax, table["cov"], label="all time steps", **look)
    positive = table["cov"].filter(table["cov"] > 0).to_numpy()
    low, high = np.quantile(positive, (0.05, 0.95)) if positive.size else (1.0, 1.0)
    if high > _DECADE * low:
        use_log_axis(ax, "x", positive)
    else:
        ax.set_xlim(left=0)
    ax.set_ylim(0, 1)
    ax.set_xlabel(f"{label_cov(ddof)}{', logarithmic' if ax.get_xscale() == 'log' else ''}")
    n_names = len(ax.get_legend_handles_labels()[1])
    ax.set_title("Distribution of CoV by job", pad=8 + 13 * math.ceil(n_names / 3))
    legend_above(ax, ncols=3)
    ax.set_ylabel("Fraction of time steps")
    ax.yaxis.set_major_formatter(Percent())
    return ax


def _draw_gray(ax: Axes, cov: pl.DataFrame, /, *, label: str) -> None:
    look = {"color": shade(ax, 0.45), "linewidth": 0.4, "linestyle": "-"}
    for _, of_job in cov.group_by("job_id", maintain_order=True):
        _draw_ecdf(ax, of_job["cov"], label=label, **look)
        label = "_"


def _draw_ecdf(ax: Axes, values: pl.Series, **look: object) -> None:
    drawn = values.to_numpy()
    if len(drawn) > _MOST_STEPS:  # finer steps than these cannot be seen
        drawn = np.quantile(drawn, np.linspace(0, 1, _MOST_STEPS), method="inverted_cdf")
    ax.ecdf(drawn, **look)  # type: ignore[arg-type]


@figure(
    "batch-time-ecdf",
    result="worker_samples",
    reading="Empirical distribution function: fraction of a job's samples, of all its workers, "
    "with a mini-batch time of at most x.",
    counts=(pl.count("batch_time"), "sample"),
)
def plot_batch_time_ecdf(
    samples: pl.DataFrame, /, *, ax: Axes | None = None, unit: str = "s"
) -> Axes:
    """Draw the empirical distribution function of mini-batch time, one line per job.

    Parameters
    ----------
    samples
        Rows of `worker_samples`. Null times are excluded.
    unit
        Unit of the times, for the label.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": ["a"] * 3 + ["b"] * 3,
    ...                         "batch_time": [1.0, 1.2, 1.1, 2.0, 2.1, 3.0]})
    >>> traceana.figures.plot_batch_time_ecdf(samples).get_xlabel()
    'Mini-batch time (s)'
    """
    table = samples.select(pl.col("job_id").cast(pl.String), "batch_time").drop_nulls("batch_time")
    if table.is_empty():
        raise DataError("plot_batch_time_ecdf needs a mini-batch time; every value is null")
    jobs = natural_order(table["job_id"].unique())
    check_groups(len(jobs))
    ax = start_axes(ax)
    for job in jobs:
        times = table.filter(pl.col("job_id") == job)["batch_time"]
        ax.ecdf(times.to_numpy(), label=name_group([job]), gid=f"ecdf-{job}")
    ax.legend(loc="best")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 1)
    ax.set(xlabel=f"Mini-batch time ({unit})", ylabel="Fraction of samples")
    ax.set_title("Distribution of mini-batch time by job")
    format_axis(ax.xaxis)
    ax.yaxis.set_major_formatter(Percent())
    return ax


@figure(
    "straggler-attributes",
    result="straggler_attributes of one job",
    reading="Dot: time gained if one group of the attribute were as fast as the other workers. "
    "Label: the group that gains most, and the number of its workers. Filled: the attribute that "
    "explains the slowness.",
    counts=(pl.n_unique("attribute"), "attribute"),
)
def plot_straggler_attributes(
    result: AttributeResult, /, *, ax: Axes | None = None, job: object = None
) -> Axes:
    """Draw the job time that each group of workers costs, one row per attribute.

    Parameters
    ----------
    job
        Key of the job to draw; not needed if the result has one job.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> step = {"job_id": "a", "step": [0] * 6, "rank": range(6), "stage": [0, 0, 1, 1, 2, 2]}
    >>> samples = pl.DataFrame(step | {"compute_s": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]})
    >>> found = traceana.straggler_attributes(
    ...     samples, attributes="stage", time="step", worker="rank", value="compute_s"
    ... )
    >>> found.plot().get_xlabel()
    'Job time gained'
    """
    result = _one_job(result, job)
    names = result.attributes["attribute"].to_list()
    ax = start_axes(ax, height_in=0.9 + 0.3 * len(names))
    for row, entry in enumerate(result.attributes.iter_rows(named=True)):
        gains = result.groups.filter(attribute=entry["attribute"])["gain"].fill_null(0.0)
        color, filled = color_of(1 if entry["explains"] else 0), entry["explains"]
        look: dict[str, Any] = {"edgecolors": color, "facecolors": color if filled else "none"}
        look |= {"s": 18, "linewidths": 1.0, "clip_on": False, "gid": f"attribute-{row}"}
        ax.scatter(gains, [row] * len(gains), **look)
        write_beside(ax, _name(entry), (gains.to_numpy().max(), row), (6, 0), fontsize=small_size())
    ax.set_yticks(range(len(names)), [name_tick(name.replace("_", " ")) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, max(0.1, 1.3 * result.groups["gain"].fill_null(0.0).to_numpy().max()))
    ax.xaxis.set_major_formatter(Percent())
    ax.set(xlabel="Job time gained", ylabel="Attribute")
    return ax


def _name(values: dict[str, Any]) -> str:
    """Return the group that gains most, with its number of workers if it has several."""
    name = name_group([f"{values['attribute'].replace('_', ' ')} {values['group']}"])
    return name if values["n_workers"] == 1 else f"{name} ({values['n_workers']} workers)"


def _one_job(result: AttributeResult, job: object) -> AttributeResult:
    result = result if job is None else result.of_job(job)
    if result.groups.is_empty() or result.attributes["attribute"].is_duplicated().any():
        n_workers = result.attributes.filter(pl.col("attribute") == "worker").height
        raise DataError(f"one job with two workers is needed; found {n_workers} jobs; pass job=")
    return result
