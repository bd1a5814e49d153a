"""Select the cohort of a trace, its independent unit, and results over one or two units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain
from typing import Any, Final, TypeVar, cast

import numpy as np
import polars as pl

from traceana.cohorts.observation import Observation, observe
from traceana.cohorts.tasks import (
    instance_times,
    sample_jobs,
    sampled_rows,
    task_owners,
    task_times,
)
from traceana.schema import STATUSES
from traceana.stats.arrays import Floats, Integers
from traceana.stats.intervals import two_way_interval, two_way_pvalue
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.quantiles import woodruff_interval
from traceana.stats.time_blocks import MIN_BLOCKS, TimeBlocks, time_blocks
from traceana.store import Trace
from traceana.store.frames import column_names
from traceana.tables.formatting import duration, plural
from traceana.tables.result import Result

T = TypeVar("T")
MOST_GROUPS: Final = 20
"""A column with more values does not group; of its groups, the largest so many are shown."""


def count_users(trace: Trace, /) -> int:
    """Return the number of users of the jobs; 0 where they are not recorded."""
    if not trace.has("jobs", ("user",)):
        return 0
    users = pl.col("user").drop_nulls().n_unique()
    return int(trace.scan("jobs").select(users).collect().item())


COHORT_NEEDS: Final = (
    {"jobs": ("status", "runtime_s")},
    {"tasks": ("status",), "instances": ("start_s", "end_s")},
)
"""What a trace needs for a cohort: jobs with runtimes, or tasks and their instances."""
SEEN: Final[dict[str, Any]] = {"runtime": "duration_s", "entry": "entry_s", "observed": "observed"}
"""Columns of the rows of a cohort, as options of analyses of censored runtimes."""
BLOCK: Final = "time_block"
"""Column of the block of days in which a row was submitted, the unit of rows without a user."""
_UNUSED: Final = (
    "inst_id",
    "array_id",
    "exit_code",
    "restarts",
    "priority",
    "energy_j",
    "cpu_time_s",
    "memory_gib_used",
    "gpu_utilization",
)
"""Columns of jobs that no analysis of a cohort reads."""
GROUPINGS: Final = ("gpu_type", "qos", "queue", "cluster", "account")
"""Columns of few values by which rows are grouped, in the order of preference."""
_BESIDE: Final = 0.1
"""Variance over days, beside that over users, from which both are the units."""
_BOTH: Final = "unit_and_block"
_OWN_UNIT: Final = "job {}"
_MOST_NAMED: Final = 10_000
"""Independent units beyond which they are numbers, negative for a row that is its own unit."""
"""Unit of a row that has no value of the independent unit."""


@dataclass(frozen=True)
class Cohort:
    """Rows with status and runtime_s, and what a reader must know of them."""

    trace: Trace
    title: str
    """The trace, and its title with the fraction that was sampled, if any."""
    noun: str
    """What a row is, in the plural."""
    rows: pl.DataFrame
    """[status, runtime_s, duration_s, entry_s, observed, watched_s, gpus, cpus, ...]; watched_s is
    the time from the start to the window's end."""
    cluster: str | None
    """Column of the independent unit: users, else :data:`BLOCK`; None without users and times."""
    by: str | None
    """Column of few values by which rows are grouped first, such as the GPU type; None if there is
    none."""
    definitions: tuple[str, ...]
    """What the rows are, where their runtime is from, and what of them the window cuts off."""
    sampled: str = ""
    """The sample that they are, as a sentence; empty if they are all rows."""
    from_tasks: bool = False
    """Whether the rows are tasks whose runtimes are those of their instances."""
    observation: Observation | None = None
    """What the trace's window cuts off; None for tasks."""
    block_s: float | None = None
    """Length of the blocks of time, if they are the unit or one of two."""
    block_note: str | None = None
    """Why intervals over these blocks, or without them, are uncertain."""
    horizon_s: float | None = None
    """Runtime by which a row failed (status failed) or not (status completed)."""

    @property
    def unit_columns(self) -> tuple[str, ...]:
        """Columns of the independent units: none, one, or users and :data:`BLOCK`."""
        if self.cluster is None:
            return ()
        crossed = self.block_s is not None and self.cluster != BLOCK
        return (self.cluster, BLOCK) if crossed else (self.cluster,)

    def over_units(
        self,
        function: Callable[..., T],
        rows: pl.DataFrame,
        /,
        *args: Any,  # noqa: ANN401  as the function
        **options: Any,  # noqa: ANN401
    ) -> T:
        """Call a function of rows with the unit as `cluster`; two units are combined, two-way."""
        if len(self.unit_columns) < 2:
            return function(rows, *args, cluster=self.cluster, **options)
        user, day = (pl.col(name).rank("dense").cast(pl.Int64) for name in self.unit_columns)
        rows = rows.with_columns((user * (day.max() + 1) + day).alias(_BOTH))
        columns = (*self.unit_columns, _BOTH)
        return combine_units([function(rows, *args, cluster=name, **options) for name in columns])

    def median_interval(self, rows: pl.DataFrame, values: pl.Series, /) -> tuple[float, float]:
        """Return Woodruff's interval of the median of values of rows; NaN where there is none."""

        def interval(rows: pl.DataFrame, cluster: str | None) -> pl.DataFrame:
            codes = None if cluster is None else rows[cluster].rank("dense").to_numpy() - 1
            ends = woodruff_interval(values.to_numpy(), codes)
            return pl.DataFrame([ends], schema=["ci_low", "ci_high"], orient="row")

        low, high = self.over_units(interval, rows).fill_null(float("nan")).row(0)
        return low, high

    @property
    def fails(self) -> bool:
        """Whether a row has status failed."""
        return "failed" in self.rows["status"].cast(pl.String)

    @property
    def counted(self) -> str:
        """What a failure rate counts."""
        if self.horizon_s is None:
            return "failed among completed and failed"
        return f"failed within {duration(self.horizon_s)}"

    @property
    def events(self) -> tuple[str, ...]:
        """Statuses with which the rows end.

        A running job with a runtime was ended by its deletion if its trace counts that as a
        failure; a running task is observed until the end of the trace.
        """
        events = {"completed", "failed", "cancelled"}
        if not self.from_tasks:
            events |= {*self.trace.manifest.failure_statuses}
        with_runtime = pl.col("status").cast(pl.String).filter(pl.col("runtime_s").is_not_null())
        present = self.rows.select(with_runtime.unique()).to_series()
        return tuple(status for status in STATUSES if status in events and status in present)

    @property
    def doubt(self) -> str:
        """Why its intervals may be too narrow, as a sentence; empty if nothing is known."""
        why = self.block_note
        if self.cluster is None:
            why = "rows are treated as independent: intervals are likely too narrow"
        return f"{why[0].upper()}{why[1:].replace(': ', ', so ', 1)}." if why else ""

    @property
    def independence(self) -> str:
        """Which rows are treated as independent, as a sentence."""
        if self.cluster is None:
            return (
                "The trace has no user column, so rows are treated as independent. Confidence "
                "intervals are therefore likely too narrow."
            )
        units, note = self.units, ""
        if self.cluster == BLOCK:
            note = f" {self.doubt}" if self.doubt else ""
        elif self.block_s is not None:
            n = self.rows[BLOCK].n_unique()
            units += f", and the {n:,} blocks of {duration(self.block_s)} of submission,"
        return f"Confidence intervals treat the {units} as independent, not the rows.{note}"

    @property
    def units(self) -> str:
        """Number and kind of the independent units, such as 40 users."""
        if self.cluster is None:
            return f"{self.rows.height:,} {self.noun}"
        n = self.rows[self.cluster].n_unique()
        if self.cluster == BLOCK or "job_id" not in self.rows.columns:
            return self.name_units(n)
        unit = pl.col(self.cluster)
        is_own = unit.cast(pl.String) == pl.format(_OWN_UNIT, "job_id")
        if self.rows[self.cluster].dtype.is_integer():
            is_own = unit < 0
        without = self.rows.filter(is_own)[self.cluster].n_unique()
        named = self.name_units(n - without)
        return f"{named} and {plural(without, 'job')} without one" if without else named

    def name_units(self, n: int, /) -> str:
        """Name a number of the independent units, such as of those with both of two values."""
        if self.cluster == BLOCK and self.block_s is not None:
            return f"{n:,} blocks of {duration(self.block_s)} of submission"
        if self.cluster == "user":
            return plural(n, "user")
        return f"{n:,} value{'s' * (n != 1)} of `{self.cluster}`"


def form_cohort(trace: Trace, /, *, end_imputation: str = "drop") -> Cohort:
    """Return the cohort of a trace: its jobs if they have runtimes, else its tasks."""
    manifest = trace.manifest
    of_jobs, of_tasks = (
        all(manifest.has(*need) for need in needs.items()) for needs in COHORT_NEEDS
    )
    if of_jobs or not of_tasks:
        return trace.cached(("cohort of jobs",), lambda: _jobs(trace), on_disk=False)
    key = ("cohort of tasks", end_imputation)
    return trace.cached(key, lambda: _tasks(trace, end_imputation), on_disk=False)


def task_title(trace: Trace, /) -> str:
    """Return the title of a trace, with the fraction of its tasks or jobs that was sampled."""
    sample = trace.once(sample_jobs)
    title = trace.label
    if sample is None:
        return title
    return f"{title}, a sample of {100 * sample.fraction:.1f} % of its {sample.noun}"


def sample_note(trace: Trace, /) -> str:
    """Return a sentence on the sample of a trace's jobs; empty if all are analyzed."""
    sample = trace.once(sample_jobs)
    return "" if sample is None else f" All results are from a sample: {sample.description}."


def _tasks(trace: Trace, end_imputation: str) -> Cohort:
    tasks = task_times(trace, end_imputation)
    manifest = trace.manifest
    owners = trace.once(task_owners)
    unit = manifest.unit
    rows = tasks.hstack(owners.select(unit)) if unit in owners.columns else tasks
    rows, cluster = _with_unit(rows, unit)
    times = trace.once(instance_times)
    begun = pl.coalesce("first_s", "open_first_s", "task_start_s")
    start = times.tasks.lazy().select(begun).collect().to_series()
    rows, cluster, length, why = _with_blocks(rows, start, cluster)
    n_with_runtime = rows["runtime_s"].count()
    note = sample_note(trace)
    definition = (
        "The runtime of a task is the last end of its instances minus their first start; missing "
        f"ends are treated by `{end_imputation}` (see task runtimes): {n_with_runtime:,} of "
        f"{rows.height:,} tasks have one."
    )
    return Cohort(
        trace,
        task_title(trace),
        manifest.tables["tasks"].unit_noun,
        _with_requested(rows.drop("job_id")).with_columns(
            duration_s="runtime_s",
            entry_s=pl.lit(0.0),
            observed=pl.lit(value=True),
            watched_s=pl.lit(times.last_s, pl.Float64) - start,
        ),
        cluster,
        next((name for name in GROUPINGS if name != cluster and _groups(rows, name)), None),
        (definition, note[1:]),
        note,
        from_tasks=True,
        block_s=length,
        block_note=why,
    )


def _jobs(trace: Trace) -> Cohort:
    manifest = trace.manifest
    used = [name for name in trace.scan("jobs").collect_schema() if name not in _UNUSED]
    jobs = sampled_rows(trace, "jobs", *used).collect()
    rows, observation = observe(jobs, manifest)
    note = sample_note(trace)
    table = manifest.tables["jobs"]
    rows, cluster = _with_unit(rows, manifest.unit)
    start = "start_s" if "start_s" in rows.columns and rows["start_s"].count() else "submit_s"
    begun = pl.col(start) if start in rows.columns else pl.lit(None, pl.Float64)
    rows = rows.with_columns(watched_s=pl.lit(observation.end_s, pl.Float64) - begun)
    definition = manifest.own_failures
    definition = definition and f"Published definition, used where it is named: {definition}"
    times = [pl.col(name) for name in ("submit_s", "start_s") if name in rows.columns]
    first = rows.select(pl.coalesce(*times, pl.lit(None, pl.Float64))).to_series()
    if observation.start_s is not None:  # rows of before are seen because they lasted
        first = first.clip(observation.start_s)
    rows, cluster, length, why = _with_blocks(rows, first, cluster)
    return Cohort(
        trace,
        task_title(trace),
        table.unit_noun,
        _with_requested(rows),
        cluster,
        next((name for name in GROUPINGS if name != cluster and _groups(rows, name)), None),
        (*table.notes, definition, observation.describe(table.unit_noun), note[1:]),
        note,
        observation=observation,
        block_s=length,
        block_note=why,
    )


def _with_unit(rows: pl.DataFrame, unit: str) -> tuple[pl.DataFrame, str | None]:
    """Fill missing values of the independent unit with the job; None if it has no values."""
    if unit not in rows.columns or not rows[unit].count():
        return rows, None
    filled = pl.col(unit).cast(pl.String)
    if rows[unit].null_count():
        filled = pl.coalesce(filled, pl.format(_OWN_UNIT, "job_id"))
    named = rows.select(filled.alias(unit))[unit]
    # numbers are ranked and grouped far faster than text; in the order of the rows, so that what is
    # drawn at random does not depend on the names
    units = named.unique(maintain_order=True)
    codes = named.cast(pl.Enum(units))
    if units.len() > _MOST_NAMED:  # each look at a schema hashes the names of all categories
        number = codes.to_physical().cast(pl.Int64)
        codes = rows.select(
            pl.when(pl.col(unit).is_null()).then(~number).otherwise(number).alias(unit)
        )[unit]
    return rows.with_columns(codes), unit


def _with_blocks(
    rows: pl.DataFrame, times: pl.Series, cluster: str | None
) -> tuple[pl.DataFrame, str | None, float | None, str | None]:
    """Add blocks of time where they are a unit; return rows, unit, length of a block and a note."""
    if not times.count():
        return rows, cluster, None, None
    failed = rows["status"].cast(pl.String) == "failed"
    length = "duration_s" if "duration_s" in rows.columns else "runtime_s"
    at = times.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    outcomes = [outcome.cast(pl.Float64).to_numpy() for outcome in (rows[length].rank(), failed)]
    both = [time_blocks(at, outcome) for outcome in outcomes]
    if cluster is not None:
        unit = (rows[cluster].rank("dense") - 1).to_numpy().astype(np.int64)
        parts = zip(outcomes, both, strict=True)
        if not any(_differ_by_day(outcome, unit, blocks) for outcome, blocks in parts):
            return rows, cluster, None, None
    longest = max(both, key=lambda outcome: outcome.length_s)
    note = longest.note or next((outcome.note for outcome in both if outcome.note), None)
    if longest.n_blocks < MIN_BLOCKS:
        return rows, cluster, None, note
    # a row without a time is a block of its own
    code = pl.Series(longest.code)
    row_blocks = pl.select(pl.int_range(rows.height, dtype=pl.Int64) + longest.n_blocks).to_series()
    blocks = row_blocks.zip_with(code < 0, code).alias(BLOCK)
    return rows.with_columns(blocks), cluster or BLOCK, longest.length_s, note


def _differ_by_day(values: Floats, unit: Integers, blocks: TimeBlocks) -> bool:
    """Return whether variances over units and blocks, two-way, are well above that over units."""
    used = (blocks.code >= 0) & ~np.isnan(values)
    if blocks.n_blocks < MIN_BLOCKS or not used.any():
        return False
    rest, of, day = values[used] - values[used].mean(), unit[used], blocks.code[used]
    codes = (of, day, np.unique(of * blocks.n_blocks + day, return_inverse=True)[1])
    units, days, both = (float((np.bincount(code, rest) ** 2).sum()) for code in codes)
    return days - both > _BESIDE * units


def _groups(rows: pl.DataFrame, name: str) -> bool:
    return name in rows.columns and 2 <= rows[name].drop_nulls().n_unique() <= MOST_GROUPS


def _with_requested(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the GPUs requested as categories, all fractions of one GPU taken together."""
    gpus = pl.col("gpus")
    name = (
        pl.when((gpus > 0) & (gpus < 1))
        .then(pl.lit("fraction of one"))
        .otherwise(gpus.cast(pl.String).str.strip_suffix(".0"))
    )
    named = rows.with_columns(gpus_requested=name)
    distinct = named.select("gpus", "gpus_requested").drop_nulls("gpus").unique().sort("gpus")
    order = distinct["gpus_requested"].unique(maintain_order=True)
    return named.with_columns(pl.col("gpus_requested").cast(pl.Enum(order)))


MOST_NOT_ENDED: Final = 0.05
"""Fraction of rows that have not ended above which outcomes are those by a runtime."""
MOST_UNTIMED: Final = 0.05
"""Fraction of failed rows without a runtime above which no outcome is by a runtime."""
_HORIZONS_S: Final = (86_400.0, 21_600.0, 3600.0, 600.0)
_WATCHED: Final = 1 / 3
_FEWEST: Final = 10


def count_cut(rows: pl.DataFrame, /) -> int:
    """Return how many rows of a cohort are truncated or censored."""
    return rows.filter((pl.col("entry_s") > 0) | ~pl.col("observed")).height


def count_not_ended(cohort: Cohort, /) -> int:
    """Return the rows that run or wait; a row of unknown status is none of them."""
    open_ = cohort.rows["status"].cast(pl.String).is_in(["running", "pending"])
    return int(open_.sum() or 0)


def is_censored(cohort: Cohort, /) -> bool:
    """Return whether many rows have not ended, and the runtimes of the failed ones are known."""
    failed = cohort.rows.filter(pl.col("status").cast(pl.String) == "failed")
    untimed = failed["duration_s"].null_count()
    return (
        count_not_ended(cohort) > MOST_NOT_ENDED * cohort.rows.height
        and not failed.is_empty()
        and untimed <= MOST_UNTIMED * failed.height
    )


def outcome_cohort(trace: Trace, /) -> Cohort:
    """Return the cohort whose failures are compared.

    If more than 5 % of the rows have not ended, and the failed ones have runtimes, the outcome is
    that by a runtime: of the rows watched for `horizon_s`, those that failed by then have status
    failed, all others completed. It is the longest of 1 day, 6 hours, 1 hour and 10 minutes for
    which a third of the started rows, and 10 failures, remain.
    """
    cohort = form_cohort(trace)
    if not is_censored(cohort):
        return cohort
    watched = form_cohort(trace, end_imputation="running")
    started = watched.rows.filter(pl.col("watched_s").is_not_null())
    for horizon_s in _HORIZONS_S:
        table = started.filter(
            pl.col("watched_s") >= horizon_s,
            pl.col("duration_s").is_not_null(),
            pl.col("entry_s") == 0,
        )
        failed = (pl.col("status").cast(pl.String) == "failed").fill_null(value=False) & (
            pl.col("duration_s") <= horizon_s
        )
        rows = table.with_columns(
            status=pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")),
            runtime_s=pl.lit(None, pl.Float64),
        )
        enough = table.height >= _WATCHED * started.height
        if enough and (rows["status"] == "failed").sum() >= _FEWEST:
            excluded = cohort.rows.height - rows.height
            by_then = duration(horizon_s)
            definition = (
                f"{count_not_ended(cohort):,} of the {cohort.rows.height:,} "
                f"{cohort.noun} have no end state, so a rate among ended ones would depend on how "
                f"long the others were watched. Tests and models use failure within {by_then} of "
                f"runtime among the {rows.height:,} {cohort.noun} that started in the window and "
                f"at least {by_then} before its end; {excluded:,} are excluded."
            )
            definitions = (*watched.definitions, definition)
            return replace(watched, rows=rows, horizon_s=horizon_s, definitions=definitions)
    return cohort


def with_adjusted(table: pl.DataFrame, /, *, method: str = "holm") -> pl.DataFrame:
    """Add `pvalue_adjusted`, over all p-values of a table; a null is no part of the family."""
    tested = table["pvalue"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    adjusted = pl.Series(adjust_pvalues(tested, method=method), dtype=pl.Float64)
    return table.with_columns(pvalue_adjusted=adjusted.fill_nan(None))


Combined = TypeVar("Combined")


def combine_units(results: Sequence[Combined], /) -> Combined:
    """Combine intervals, p and errors over either unit and the combinations of both."""
    first = results[0]
    if isinstance(first, tuple):
        return cast("Combined", tuple(combine_units(parts) for parts in zip(*results, strict=True)))
    if isinstance(first, Result):
        # predictions are of held-out units: each unit has its own
        names = {name for name in first.tables if getattr(first, name) is not None} - {
            "calibration"
        }
        frames = {name: _combined([getattr(result, name) for result in results]) for name in names}
        return cast("Combined", replace(cast("Any", first), **frames))
    return cast("Combined", _combined(cast("Sequence[pl.DataFrame]", results)))


def _combined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    first, second, both = frames
    if not first.height == second.height == both.height:
        return first
    columns: dict[str, Any] = {}

    def values(name: str) -> np.ndarray:
        return np.stack([frame[name].cast(pl.Float64).to_numpy() for frame in frames])

    for low in (name for name in first.columns if "ci_low" in name):
        high = low.replace("ci_low", "ci_high")
        ends = np.stack([values(low), values(high)], axis=1)
        columns |= zip((low, high), two_way_interval(ends), strict=True)
    columns |= {name: two_way_pvalue(values(name)) for name in first.columns if "pvalue" in name}
    if "std_error" in first.columns:
        squares = values("std_error") ** 2
        total = np.maximum(squares[0] + squares[1] - squares[2], squares[:2].max(axis=0))
        columns["std_error"] = np.sqrt(total)
    combined = first.with_columns(
        pl.Series(name, column).fill_nan(None) for name, column in columns.items()
    )
    if "note" in first.columns:
        combined = combined.with_columns(note=first["note"].fill_null(second["note"]))
    return combined


Function = TypeVar("Function", bound="Callable[..., Any]")
UNIT_NOTE: Final = (
    "rows are treated as independent although the frame has a column user: intervals are likely "
    'too narrow; pass cluster="user"'
)


def notes_unit(function: Function) -> Function:
    """Note in the result that no cluster was named although the frame has a column user.

    Notes that are not null stay. Nothing is noted where the column user is a group or a variable.
    """

    @wraps(function)
    def noted(*args: Any, **options: Any) -> Any:  # noqa: ANN401  as the function
        result = function(*args, **options)
        named = [[value] if isinstance(value, str) else value for value in options.values()]
        named += [[value] if isinstance(value, str) else value for value in args[1:]]
        lists = (value for value in named if isinstance(value, list | tuple))
        if "cluster" in options and options["cluster"] is not None:
            return result
        if "user" in chain.from_iterable(lists) or "user" not in column_names(args[0]):
            return result
        if isinstance(args[0], pl.DataFrame) and args[0]["user"].is_null().all():
            return result
        return _note(result)

    return cast("Function", noted)


def _note(table: pl.DataFrame | Result) -> pl.DataFrame | Result:
    if isinstance(table, Result):
        frames = {name: getattr(table, name) for name in table.tables}
        changed = {
            name: _note(frame)
            for name, frame in frames.items()
            if frame is not None and "note" in frame.columns
        }
        return replace(cast("Any", table), **changed) if changed else table
    note = pl.col("note") if "note" in table.columns else pl.lit(None, pl.String)
    return table.with_columns(note=note.fill_null(pl.lit(UNIT_NOTE)))
