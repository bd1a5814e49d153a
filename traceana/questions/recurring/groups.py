"""Groups of recurring jobs, and their assignment to training workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.tables import RecurringGroups, WorkloadMapping
from traceana.errors import DataError
from traceana.questions.energy.savings import energy_savings
from traceana.stats.arguments import check_count
from traceana.stats.kmeans import kmeans_1d
from traceana.store.frames import Names, as_names, collect, open_frame, reduce_frame
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.schema import TrainingDefaults


@returns(RecurringGroups)
def recurring_groups(
    jobs: IntoFrame,
    /,
    by: Names = "group",
    *,
    start: str = "start_s",
    end: str = "end_s",
    min_recurrences: int = 2,
) -> pl.DataFrame:
    """Find the groups of recurring jobs and summarize their runtimes.

    Parameters
    ----------
    jobs
        One row per job: `by`, `start` and `end`; eager or lazy, of any supported engine.
    by
        Columns that recurrences share: a tag, or columns such as user and workload. Jobs with a
        null in them are excluded.
    start, end
        Columns of the start and the end: seconds or datetimes.
    min_recurrences
        Smallest number of jobs with start and end that makes a group recurring; at least 1.

    Returns
    -------
    DataFrame
        Sorted by `by`, with the columns of `by` and
        {columns}

        Jobs without a start or an end count in n_missing only.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "start_s": [0, 90, 0], "end_s": [60, 99, 9]})
    >>> traceana.recurring_groups(jobs).select("group", "recurrences", "mean_s").rows()
    [('a', 2, 34.5)]
    """
    check_count("min_recurrences", min_recurrences, most=10**12)
    keys = as_names(by)
    if not keys:
        raise DataError("by names no column; pass at least one that recurrences share")
    frame = open_frame(jobs, keys=keys, measures={"start": start, "end": end})
    for key in keys:
        frame = frame.filter(~nw.col(key).is_null())
    runtime = nw.col(end) - nw.col(start)
    known = ~runtime.is_null()
    groups = reduce_frame(
        frame.with_columns(
            runtime.alias(" runtime"),
            nw.when(known).then(nw.col(start)).alias(" start"),
            nw.when(known).then(nw.col(end)).alias(" end"),
        ),
        keys,
        recurrences=nw.col(" runtime").count(),
        mean_s=nw.col(" runtime").mean(),
        cov=nw.col(" runtime").std(ddof=1),
        first_start_s=nw.col(" start").min(),
        last_end_s=nw.col(" end").max(),
        n_missing=nw.len() - nw.col(" runtime").count(),
        shortest=nw.col(" runtime").min(),
    )
    if (groups["shortest"] < 0).any():
        raise DataError(f"a job ends before it starts: {end} is below {start}")
    mean = pl.col("mean_s")
    found = (
        groups.drop("shortest")
        .with_columns(cov=pl.when(mean > 0).then(pl.col("cov").fill_nan(None) / mean))
        .filter(pl.col("recurrences") >= min_recurrences)
    )
    return declared(found, RecurringGroups, by=keys)


def map_groups_to_workloads(
    jobs: IntoFrame,
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    by: str = "group",
    start: str = "start_s",
    end: str = "end_s",
    min_recurrences: int = 2,
    defaults: TrainingDefaults | None = None,
) -> WorkloadMapping:
    """Assign a training workload to each group of recurring jobs.

    k-means divides the mean runtimes of the groups (one point per group) into as many clusters as
    there are data sets. Clusters and data sets are matched in order: the shortest groups to the
    data set with the shortest default run (Zeus, NSDI'23, on PAI's trace). In one dimension
    k-means is solved exactly. The default run of a data set trains to its default target at the
    default batch size and the largest power limit of the GPU: the baseline of
    :func:`energy_savings`. If a few groups run very long, most groups fall into the shortest
    clusters, as in the published method.

    Parameters
    ----------
    jobs, start, end, min_recurrences
        As in :func:`recurring_groups`.
    training_runs, power_profiles
        The tables of those names.
    gpu
        GPU whose default runs order the data sets.
    by
        Column that recurrences share.
    defaults
        Defaults by data set, as for :func:`energy_savings`.

    Raises
    ------
    DataError
        If no data set has a default run on the GPU, the groups have fewer distinct mean runtimes
        than there are data sets, or every runtime of a cluster is 0.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> jobs = store.scan("zeus-2023", "recurring_jobs")
    >>> mapped = traceana.map_groups_to_workloads(jobs, runs, power, gpu="v100")
    >>> mapped.groups.select("recurrences", "mean_s", "dataset").row(1)
    (3, 435.0, 'movielens-1m')
    """
    workloads = _default_runs(training_runs, power_profiles, gpu, defaults)
    names = workloads.drop_nulls("default_s")["dataset"]
    groups = recurring_groups(jobs, by=by, start=start, end=end, min_recurrences=min_recurrences)
    distinct = groups["mean_s"].n_unique()
    if distinct < len(names):
        raise DataError(
            f"{groups.height} recurring group(s) with {distinct} distinct mean runtimes cannot be "
            f"assigned to {len(names)} data sets; lower min_recurrences or pass more jobs"
        )
    cluster = kmeans_1d(groups["mean_s"].to_numpy(), k=len(names))
    groups = groups.with_columns(dataset=names.gather(cluster))
    known = open_frame(jobs, keys=(by,), measures=(start, end)).filter(
        ~(nw.col(end) - nw.col(start)).is_null()
    )
    runtime = pl.col("end_s") - pl.col("start_s")
    mapped = (
        collect(known)
        .join(groups.select(by, "dataset"), on=by)
        .select("dataset", group=pl.col(by).cast(pl.String), start_s=start, end_s=end)
        .sort("start_s", "group", "end_s")
    )
    of_jobs = reduce_frame(mapped, ("dataset",), jobs=pl.len(), mean_s=runtime.mean())
    mapped = mapped.join(of_jobs, on="dataset", maintain_order="left").select(
        pl.col(mapped.columns), runtime_ratio=runtime / pl.col("mean_s")
    )
    still = mapped.filter(pl.col("runtime_ratio").is_nan())["dataset"]
    if len(still):
        raise DataError(f"every job assigned to {still[0]} has a runtime of 0; remove these jobs")
    of_groups = groups.group_by("dataset").agg(
        groups=pl.len().cast(pl.Int64),
        group_mean_low_s=pl.col("mean_s").min(),
        group_mean_high_s=pl.col("mean_s").max(),
    )
    columns = ("groups", "jobs", "mean_s", "group_mean_low_s", "group_mean_high_s")
    return WorkloadMapping(
        mapped,
        groups,
        workloads.join(of_groups, on="dataset", how="left", maintain_order="left")
        .join(of_jobs, on="dataset", how="left", maintain_order="left")
        .select("dataset", "default_s", *columns, "note"),
    )


def _default_runs(
    training_runs: IntoFrame, power_profiles: IntoFrame, gpu: str, defaults: TrainingDefaults | None
) -> pl.DataFrame:
    """Return [dataset, default_s, note] of a GPU, the shortest first, unknown ones last."""
    savings = energy_savings(training_runs, power_profiles, defaults=defaults)
    gpus = savings["gpu"].unique().sort().to_list()
    if gpu not in gpus:
        raise DataError(f"gpu: {gpu!r} is unknown; found {', '.join(gpus) or 'none'}")
    runs = (
        savings.filter(gpu=gpu, objective="energy", choice="baseline")
        .select("dataset", "note", default_s="tta_s")
        .sort("default_s", "dataset", nulls_last=True)
    )
    if not runs["default_s"].count():
        raise DataError(f"no data set has a default run on {gpu}")
    return runs
