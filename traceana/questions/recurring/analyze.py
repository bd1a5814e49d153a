"""Groups of recurring jobs of a trace, mapped to workloads and simulated; shared by claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana import simulate
from traceana.cohorts.tables import RecurringGroups, WorkloadMapping
from traceana.errors import DataError
from traceana.questions.energy import savings as energy
from traceana.questions.runtimes.fit import fit_distributions
from traceana.questions.runtimes.ratio import runtime_ratio
from traceana.questions.runtimes.tables import DistributionFits
from traceana.schema import TrainingDefaults
from traceana.simulate.recurring.policies import POLICIES
from traceana.simulate.recurring.read import read_tables
from traceana.simulate.recurring.simulate import read_jobs, sweep_jobs
from traceana.simulate.recurring.tables import PolicyVariants, RecurringGroupsResult
from traceana.stats.arguments import check_count
from traceana.stats.segments import kmeans_1d
from traceana.store import Trace
from traceana.store.frames import Names, as_names, collect, open_frame, reduce_frame
from traceana.tables.declare import declared, returns, schema_of

_SEEDS: Final = range(5)
_BETAS: Final = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
_PARTS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "early stopping": {"beta": math.inf},
    "pruning": {"policy": "zeus-no-pruning"},
    "profiling in the first epoch": {"policy": "zeus-no-profiling"},
}


def policy_variants(trace: Trace, gpu: str, /) -> pl.DataFrame:
    """Compare variants of the policy on a GPU (five seeds), and the policy on every GPU (ten)."""
    tables = read_tables(*energy.training_tables(trace), defaults=trace.once(energy.defaults))
    jobs = read_jobs(tables, gpu_types=gpu)

    def sweep(policy: str = "zeus", beta: float = 2.0) -> pl.DataFrame:
        return sweep_jobs(jobs, POLICIES[policy], _SEEDS, beta=beta)

    every = trace.once(energy.recurring_sweep)
    zeus = every.filter(pl.col("gpu") == gpu, pl.col("seed").is_in(_SEEDS))
    usual = zeus.select("dataset", "seed", usual_j="energy_j")
    compared = [("beta", f"{beta:g}", zeus if beta == 2 else sweep(beta=beta)) for beta in _BETAS]
    compared += [
        ("part left out", name, sweep(**options) if options else zeus)
        for name, options in _PARTS.items()
    ]
    rows = [
        (what, name, *_means(runs.join(usual, on=("dataset", "seed")), "energy_j", "usual_j"))
        for what, name, runs in compared
    ]
    by_gpu = every.with_columns(left=1 - pl.col("energy_saved"), one=1.0)
    rows += [
        ("GPU", str(name), *_means(runs, "left", "one"))
        for (name,), runs in by_gpu.group_by("gpu", maintain_order=True)
    ]
    table = pl.DataFrame(rows, schema=schema_of(PolicyVariants), orient="row")
    return declared(table, PolicyVariants)


def _means(runs: pl.DataFrame, value: str, reference: str) -> tuple[object, ...]:
    """Return the geometric mean over data sets, its range over seeds, data sets, missing runs."""
    table = runs.drop_nulls([value, reference])
    means = pl.col(value).mean() / pl.col(reference).mean()
    of_dataset = table.group_by("dataset").agg(ratio=means)
    mean = of_dataset.select(pl.col("ratio").log().mean().exp()).item()
    ratio = pl.col(value) / pl.col(reference)
    of_seed = table.group_by("seed").agg(ratio=ratio.log().mean().exp())["ratio"]
    present = runs.filter(pl.col("dataset").is_in(of_dataset["dataset"].implode()))
    return mean, of_seed.min(), of_seed.max(), of_dataset.height, present.height - table.height


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
    with_runtime = ~runtime.is_null()
    groups = reduce_frame(
        frame.with_columns(
            runtime.alias(" runtime"),
            nw.when(with_runtime).then(nw.col(start)).alias(" start"),
            nw.when(with_runtime).then(nw.col(end)).alias(" end"),
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
    cov = pl.when(mean > 0).then(pl.col("cov").fill_nan(None) / mean)
    table = groups.with_columns(cov=cov).filter(pl.col("recurrences") >= min_recurrences)
    return declared(table, RecurringGroups, by=keys)


def map_groups_to_workloads(
    jobs: IntoFrame,
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    by: str = "group",
    *,
    gpu: str,
    min_recurrences: int = 2,
    defaults: TrainingDefaults | None = None,
) -> WorkloadMapping:
    """Assign a training workload to each group of recurring jobs.

    k-means, solved exactly, divides the mean runtimes of the groups into as many clusters as there
    are data sets, and the shortest groups are matched to the data set with the shortest default
    run, the baseline of :func:`energy_savings` (Zeus, NSDI'23, on PAI's trace). If a few groups run
    very long, most groups fall into the shortest clusters, as in the published method.

    Parameters
    ----------
    jobs, min_recurrences
        As in :func:`recurring_groups`.
    training_runs, power_profiles
        The tables of those names.
    gpu
        GPU whose default runs order the data sets.
    by
        Column that recurrences share.
    defaults
        Defaults by data set, as for :func:`energy_savings`.

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
    groups = recurring_groups(jobs, by=by, min_recurrences=min_recurrences)
    distinct = groups["mean_s"].n_unique()
    if distinct < len(names):
        raise DataError(
            f"{groups.height} recurring group(s) with {distinct} distinct mean runtimes cannot be "
            f"assigned to {len(names)} data sets; lower min_recurrences or pass more jobs"
        )
    cluster = kmeans_1d(groups["mean_s"].to_numpy(), k=len(names))
    groups = groups.with_columns(dataset=names.gather(cluster))
    table = open_frame(jobs, keys=(by,), measures=("start_s", "end_s")).drop_nulls()
    runtime = pl.col("end_s") - pl.col("start_s")
    mapped = (
        collect(table)
        .join(groups.select(by, "dataset"), on=by)
        .select("dataset", pl.col(by).cast(pl.String).alias("group"), "start_s", "end_s")
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
    for counted in (of_groups, of_jobs):
        workloads = workloads.join(counted, on="dataset", how="left", maintain_order="left")
    columns = ("groups", "jobs", "mean_s", "group_mean_low_s", "group_mean_high_s")
    return WorkloadMapping(mapped, groups, workloads["dataset", "default_s", *columns, "note"])


def _default_runs(
    training_runs: IntoFrame, power_profiles: IntoFrame, gpu: str, defaults: TrainingDefaults | None
) -> pl.DataFrame:
    """Return [dataset, default_s, note] of a GPU, the shortest first, unknown ones last."""
    savings = energy.energy_savings(training_runs, power_profiles, defaults=defaults)
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


GROUP_NEEDS: Final = (
    {"recurring_jobs": ("group", "start_s", "end_s")},
    {"jobs": ("group", "start_s", "end_s")},
    {"jobs": ("group", "submit_s", "end_s")},
    {"jobs": ("inst_id", "submit_s", "end_s"), "job_tags": ("inst_id", "group")},
)
"""What a trace needs for groups of recurring jobs."""
MAX_JOBS: Final = 50_000
"""Jobs that the report simulates: those of the groups that start first."""
_MAX_FITTED: Final = 50_000
"""Runtime ratios that distributions are fitted to, drawn at random."""


def grouped_jobs(trace: Trace, /) -> pl.DataFrame:
    """Return the jobs of a trace that have a group, a start and an end: [group, start_s, end_s]."""
    manifest = trace.manifest
    columns = ["group", "start_s", "end_s"]
    recurring = manifest.has("recurring_jobs", tuple(columns))
    table, start = "recurring_jobs" if recurring else "jobs", nw.coalesce("start_s", "submit_s")
    rows = trace.rows(table)
    rows = rows if recurring else rows.with_columns(start.alias("start_s"))
    if manifest.has(table, ("status",)):
        rows = rows.filter(~nw.col("status").is_in(["failed", "cancelled"]).fill_null(value=False))
    if table == "jobs" and not manifest.has("jobs", ("group",)):
        jobs = rows.select("inst_id", "start_s", "end_s")
        tags = trace.rows("job_tags").group_by("inst_id").agg(nw.col("group").min())
        rows = jobs.join(tags, on="inst_id")
    names = rows.collect_schema().names()
    kept = [*columns, *(name for name in ("dataset", "runtime_ratio") if name in names)]
    frame = rows.select(kept).drop_nulls(columns).filter(nw.col("end_s") >= nw.col("start_s"))
    return trace.local(frame.to_native(), table).sort("start_s", "group", "end_s").collect()


def _grouped(trace: Trace) -> pl.DataFrame:
    return trace.cached(("grouped jobs",), lambda: grouped_jobs(trace), on_disk=False)


def has_any(trace: Trace, needs: Sequence[Mapping[str, tuple[str, ...]]], /) -> bool:
    """Return whether a trace has all tables and columns of one of the needs."""
    return any(all(map(trace.manifest.has, need, need.values())) for need in needs)


def workloads_of(trace: Trace, /) -> tuple[Trace | None, str]:
    """Return the trace whose workloads represent groups, itself if it has any, and its GPU."""
    for workloads in (trace, *map(trace.store.trace, trace.store.traces())):
        if has_any(workloads, energy.ENERGY_NEEDS):
            return workloads, energy.shown_gpu(workloads)
    return None, ""


def mapped_jobs(trace: Trace, workloads: Trace, gpu: str, /) -> pl.DataFrame:
    """Return the jobs with the workload of their group, in the form of recurring_jobs."""
    jobs = _grouped(trace)
    if "dataset" in jobs.columns:
        return jobs
    tables, settings = energy.training_tables(workloads), workloads.once(energy.defaults)
    return map_groups_to_workloads(jobs, *tables, gpu=gpu, defaults=settings).jobs


def first_groups(jobs: pl.DataFrame, most: int = MAX_JOBS, /) -> pl.DataFrame:
    """Return the jobs of the groups that start first, at most so many but one group at least."""
    groups = jobs.group_by("group").agg(pl.min("start_s"), n=pl.len()).sort("start_s", "group")
    kept = groups.filter((pl.col("n").cum_sum() <= most) | (pl.int_range(pl.len()) == 0))
    return jobs.join(kept, on="group", how="semi", maintain_order="left")


def group_simulation(trace: Trace, workloads: Trace, gpu: str, /) -> RecurringGroupsResult | str:
    """Return the groups that start first simulated with the workloads, or why none can be."""
    try:
        jobs = first_groups(trace.once(mapped_jobs, workloads, gpu))
        return simulate.simulate_recurring_groups(
            *energy.training_tables(workloads),
            jobs,
            gpu=gpu,
            defaults=workloads.once(energy.defaults),
        )
    except DataError as error:
        return str(error)


def ratio_stages(trace: Trace, workloads: Trace | None, gpu: str, /) -> pl.DataFrame:
    """Return [stage, runtime_ratio]: before mapping over the group's mean, after as mapped."""
    jobs = _grouped(trace)
    several = jobs.filter(pl.len().over("group") > 1)
    timed = several.select("group", runtime_s=pl.col("end_s") - pl.col("start_s"))
    stages = {"before mapping": runtime_ratio(timed, by="group")}
    if workloads:
        with suppress(DataError):  # too few groups; group_simulation states why
            stages["after mapping"] = trace.once(mapped_jobs, workloads, gpu)
    named = (rows.select("runtime_ratio", stage=pl.lit(stage)) for stage, rows in stages.items())
    return pl.concat(named).select("stage", "runtime_ratio").filter(pl.col("runtime_ratio") > 0)


def ratio_fits(trace: Trace, workloads: Trace | None, gpu: str, /) -> dict[str, DistributionFits]:
    """Return the distributions fitted to the runtime ratios of each stage."""
    ratios = trace.once(ratio_stages, workloads, gpu)
    return {
        str(stage): fit_distributions(
            rows["runtime_ratio"].sample(min(rows.height, _MAX_FITTED), seed=1), resamples=0
        )
        for (stage,), rows in ratios.group_by("stage", maintain_order=True)
        if rows["runtime_ratio"].n_unique() > 1
    }
