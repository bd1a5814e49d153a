"""Groups of jobs that recur, and the training workloads that may stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.energy.savings import energy_savings
from traceana.analysis.frames import Names, as_names, collect, open_frame, reduce_frame
from traceana.errors import DataError
from traceana.results.base import Result
from traceana.stats.kmeans import kmeans_1d

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_START, _END = nw.col("start_s"), nw.col("end_s")


@dataclass(frozen=True, repr=False)
class WorkloadMapping(Result):
    """Recurring groups with the workload that stands for each.

    Attributes
    ----------
    jobs
        [group, start_s, end_s, dataset, runtime_ratio], one row a job of a recurring group, by
        start: the form of the table recurring_jobs. runtime_ratio is the job's runtime over the
        mean runtime of all jobs with its data set.
    groups
        As :func:`recurring_groups`, with dataset.
    workloads
        [dataset, default_s, groups, jobs, mean_s, group_mean_low_s, group_mean_high_s, note], the
        shortest workload first: the time of its default run, the groups and jobs mapped to it,
        their mean runtime, and the least and largest mean runtime of its groups. A data set
        without a default run comes last, with nulls: note says why.
    """

    jobs: pl.DataFrame
    groups: pl.DataFrame
    workloads: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        lines = [f"{self.groups.height:,} groups with {self.jobs.height:,} jobs"]
        for row in self.workloads.iter_rows(named=True):
            if row["groups"] is None:
                lines.append(f"{row['dataset']}: none ({row['note']})")
                continue
            lines.append(
                f"{row['dataset']} (default run {row['default_s']:,.0f} s): {row['groups']:,} "
                f"groups with {row['jobs']:,} jobs, mean runtime {row['mean_s']:,.0f} s"
            )
        return "\n".join(lines)


def recurring_groups(
    jobs: IntoFrame, /, *, by: Names = "group", min_recurrences: int = 2
) -> pl.DataFrame:
    """Groups of jobs that recur, and how long their jobs ran.

    Parameters
    ----------
    jobs
        One row a job: [*by, start_s, end_s]; eager or lazy, of any listed engine.
    by
        What recurrences share: the publisher's tag, or columns such as user and workload. A job
        with a null in them is in no group.
    min_recurrences
        Fewest jobs with known start and end that make a group recurring.

    Returns
    -------
    DataFrame
        [*by, recurrences, mean_s, cov, first_start_s, last_end_s, n_missing], sorted by `by`.
        recurrences counts the jobs of which start and end are known, which all the rest is taken
        over; n_missing the others. mean_s and cov are of end minus start, cov its standard
        deviation (ddof 1) over its mean: null for one job, or where the mean is 0.

    Raises
    ------
    DataError
        If a column is missing, a time is not numeric, negative or infinite, a job ends before it
        starts, or `min_recurrences` is below 1.
    """
    if min_recurrences < 1:
        raise DataError(f"min_recurrences must be at least 1; it is {min_recurrences!r}")
    keys = as_names(by)
    if not keys:
        raise DataError("by names no column: groups need one that recurrences share")
    frame = open_frame(jobs, keys=keys, measures=("start_s", "end_s"))
    for key in keys:
        frame = frame.filter(~nw.col(key).is_null())
    known = ~(_END - _START).is_null()
    groups = reduce_frame(
        frame.with_columns(
            (_END - _START).alias("runtime"),
            nw.when(known).then(_START).alias("start"),
            nw.when(known).then(_END).alias("end"),
        ),
        keys,
        recurrences=nw.col("runtime").count(),
        mean_s=nw.col("runtime").mean(),
        cov=nw.col("runtime").std(ddof=1),
        first_start_s=nw.col("start").min(),
        last_end_s=nw.col("end").max(),
        n_missing=nw.len() - nw.col("runtime").count(),
        shortest=nw.col("runtime").min(),
    )
    if (groups["shortest"] < 0).any():
        raise DataError("a job ends before it starts: end_s is below start_s")
    mean = pl.col("mean_s")
    return (
        groups.drop("shortest")
        .with_columns(cov=pl.when(mean > 0).then(pl.col("cov").fill_nan(None) / mean))
        .filter(pl.col("recurrences") >= min_recurrences)
    )


def map_groups_to_workloads(
    jobs: IntoFrame,
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    by: str = "group",
    min_recurrences: int = 2,
) -> WorkloadMapping:
    """Let a training workload stand for each group of recurring jobs, as Zeus did with PAI's.

    The groups' mean runtimes (one point a group, however often it recurs) are parted by k-means
    into as many clusters as there are data sets, and clusters and data sets are matched in order:
    the groups with the shortest means to the data set with the shortest default run (Zeus,
    NSDI'23, where it simulates on PAI's trace). On a line the optimum of k-means is exact: nothing
    is drawn. The default run of a data set trains to its default target at the default batch size
    and the GPU's largest power limit: the baseline of :func:`energy_savings`. k-means on means in
    seconds leaves most groups in the shortest clusters where a few run very long; that is the
    published way.

    Parameters
    ----------
    jobs
        As in :func:`recurring_groups`.
    training_runs, power_profiles
        The tables of those names.
    gpu
        Whose default runs order the data sets.
    by
        The column that recurrences share.
    min_recurrences
        As in :func:`recurring_groups`.

    Returns
    -------
    WorkloadMapping
        Its `jobs` have the form of recurring_jobs, for whatever simulates these.

    Raises
    ------
    DataError
        As :func:`recurring_groups` and :func:`energy_savings`; or if the GPU is not there, no
        data set has a default run on it, the groups have fewer distinct mean runtimes than there
        are data sets, or every runtime of a cluster is 0.
    """
    workloads = _default_runs(training_runs, power_profiles, gpu)
    names = workloads.drop_nulls("default_s")["dataset"]
    groups = recurring_groups(jobs, by=by, min_recurrences=min_recurrences)
    distinct = groups["mean_s"].n_unique()
    if distinct < len(names):
        raise DataError(
            f"{groups.height} recurring group(s) with {distinct} distinct mean runtimes cannot be "
            f"mapped to {len(names)} data sets; lower min_recurrences or give more jobs"
        )
    cluster = kmeans_1d(groups["mean_s"].to_numpy(), k=len(names))
    groups = groups.with_columns(dataset=names.gather(cluster))
    known = open_frame(jobs, keys=(by,), measures=("start_s", "end_s")).filter(
        ~(_END - _START).is_null()
    )
    runtime = pl.col("end_s") - pl.col("start_s")
    mapped = (
        collect(known)
        .join(groups.select(by, "dataset"), on=by)
        .select(pl.col(by).cast(pl.String).alias("group"), "start_s", "end_s", "dataset")
        .with_columns(runtime_ratio=runtime / runtime.mean().over("dataset"))
        .sort("start_s", "group", "end_s")
    )
    still = mapped.filter(pl.col("runtime_ratio").is_nan())["dataset"]
    if len(still):
        raise DataError(f"every job mapped to {still[0]} has a runtime of 0; leave those jobs out")
    of_groups = groups.group_by("dataset").agg(
        groups=pl.len().cast(pl.Int64),
        group_mean_low_s=pl.col("mean_s").min(),
        group_mean_high_s=pl.col("mean_s").max(),
    )
    of_jobs = mapped.group_by("dataset").agg(jobs=pl.len().cast(pl.Int64), mean_s=runtime.mean())
    columns = ("groups", "jobs", "mean_s", "group_mean_low_s", "group_mean_high_s")
    return WorkloadMapping(
        mapped,
        groups,
        workloads.join(of_groups, on="dataset", how="left", maintain_order="left")
        .join(of_jobs, on="dataset", how="left", maintain_order="left")
        .select("dataset", "default_s", *columns, "note"),
    )


def _default_runs(training_runs: IntoFrame, power_profiles: IntoFrame, gpu: str) -> pl.DataFrame:
    """Return [dataset, default_s, note] of a GPU, the shortest first, unknown ones last."""
    savings = energy_savings(training_runs, power_profiles)
    gpus = savings["gpu"].unique().sort().to_list()
    if gpu not in gpus:
        raise DataError(f"gpu: {gpu!r} is unknown; there is {', '.join(gpus) or 'none'}")
    runs = (
        savings.filter(gpu=gpu, objective="energy", choice="baseline")
        .select("dataset", "note", default_s="tta_s")
        .sort("default_s", "dataset", nulls_last=True)
    )
    if not runs["default_s"].count():
        raise DataError(f"no data set has a default run on {gpu}")
    return runs
