"""Outcome analyses of a cohort."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from scipy.special import stdtrit

from traceana.cohorts.cohort import (
    MOST_GROUPS,
    SEEN,
    Cohort,
    form_cohort,
    outcome_cohort,
    with_adjusted,
)
from traceana.cohorts.ends import END_CLASS, OUTCOMES, with_end_class, without_numbers
from traceana.cohorts.observation import NODES, node_column
from traceana.errors import DataError
from traceana.questions.failures.association import (
    failure_odds,
    outcome_association,
    standardized_failure_rates,
)
from traceana.questions.failures.curves import incidence_and_survival, kaplan_meier
from traceana.questions.failures.events import CELLS, Columns, count_events
from traceana.questions.failures.hazards import outcome_by_horizon
from traceana.questions.failures.model import failure_model
from traceana.questions.failures.nodes import (
    SIGNIFICANT,
    STRATA,
    SlowNode,
    node_failures,
    slow_nodes,
)
from traceana.questions.failures.rates import failure_rates
from traceana.questions.failures.runtimes import compare_runtimes
from traceana.questions.failures.tables import FailureModel, GroupTests, RuntimeComparison
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    SurvivalCurves,
)
from traceana.stats.intervals import VarianceFraction, variance_fraction
from traceana.stats.multiplicity import conclude
from traceana.stats.survival import leave_out_cells
from traceana.stats.time_blocks import DAY_S
from traceana.store import Trace
from traceana.store.frames import collect
from traceana.tables.declare import declared, schema_of
from traceana.tables.display import key_heading
from traceana.tables.formatting import in_sentence, listed, sparkline

COMPARED: Final = ("completed", "failed")  # statuses whose runtimes are compared between groups
MODEL_ROWS: Final = 50_000  # a model is fitted to at most this number of rows
MODEL_SEED: Final = 1
_DOUBLED: Final = ("gpus", "cpus", "memory_gib", "n_instances")
"""Numbers of which the earlier one stays where one determines the other."""
_LEAST_COVERED: Final = 0.2
_FEWEST_OF_GROUP: Final = 30
_SAME_USER: Final = "stratum of the user"
_SAME_NAME: Final = "stratum of the name"
_DAY: Final = "day of the job"
_RELATED: Final = 0.8
"""Correlation of logarithms of GPUs and memory from which memory per GPU replaces memory."""
_SEEN: Final = Columns("status", "duration_s", "entry_s", "observed")
_MEASURES: Final = {"cramers_v": "Cramér's V", "epsilon_squared": "epsilon squared"}


@dataclass(frozen=True)
class Outcomes:
    """Runtimes and outcomes of a cohort by one column."""

    by: str | None
    strata: str | None
    """Column of the groups, and that of the strata within which they are compared; or None."""
    runtimes: SurvivalCurves
    """Of each status and group; of each group where outcomes are by a horizon."""
    rates: pl.DataFrame
    comparisons: dict[str, RuntimeComparison]  # by status
    standardized: tuple[str, pl.DataFrame] | None
    """What is held equal, and the standardized failure rates."""
    horizon: pl.DataFrame | None = None  # outcomes by the cohort's horizon; None without one


def grouping_columns(cohort: Cohort, /) -> list[tuple[str, str | None]]:
    """Return the columns by which a cohort is grouped, each with the column of its strata."""
    table = cohort.trace.manifest.tables["tasks" if cohort.from_tasks else "jobs"]
    strata = next((name for name in table.groups if name in cohort.rows.columns), None)
    by: list[tuple[str, str | None]] = [(cohort.by, None)] if cohort.by else []
    if (
        cohort.by != "gpu_type"
        and 2 <= cohort.rows["gpus_requested"].drop_nulls().n_unique() <= MOST_GROUPS
    ):
        by.append(("gpus_requested", strata))
    return by


def analyze_outcomes(trace: Trace) -> tuple[tuple[Outcomes, ...], pl.DataFrame, tuple[str, ...]]:
    """Return outcomes by each grouping, all tests between groups, and why some are not possible."""
    cohort = trace.once(outcome_cohort)
    groupings, tests, notes = list[Outcomes](), list[dict[str, Any]](), list[str]()
    columns: list[tuple[str | None, str | None]] = [*grouping_columns(cohort)]
    for by, strata in columns or [(None, None)]:
        outcomes = _outcomes(cohort, by, strata, notes)
        groupings.append(outcomes)
        if by is not None:
            tests += _tests(cohort, outcomes, by, notes)
    table = with_adjusted(pl.DataFrame(tests, schema=schema_of(GroupTests)))
    sizes = table.select("measure", "effect", "ci_low", "ci_high", "pvalue_adjusted").rows()
    conclusions = pl.Series([conclude(*size) for size in sizes], dtype=pl.String)
    table = table.with_columns(pl.col("measure").replace(_MEASURES), conclusion=conclusions)
    return tuple(groupings), declared(table, GroupTests), tuple(notes)


@contextmanager
def _noting(notes: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        notes.append(f"{what}: {error}.")


def _outcomes(cohort: Cohort, by: str | None, strata: str | None, notes: list[str]) -> Outcomes:
    rows, keys = cohort.rows, () if by is None else (by,)
    stated = rows if by is None else rows.filter(pl.col(by).is_not_null())
    whole, split, runtime, horizon = rows, ("status", *keys), "runtime_s", None
    if cohort.horizon_s is not None:  # the runtimes of ended rows are those of short ones
        running = form_cohort(cohort.trace, end_imputation="running")
        whole, split, runtime = running.rows, keys, "duration_s"
        by_then: dict[str, Any] = {"events": running.events, "horizon_s": cohort.horizon_s, **SEEN}
        horizon = cohort.over_units(outcome_by_horizon, whole, by=keys, **by_then)
        horizon = horizon.filter(event="failed")
    runtimes = cohort.over_units(
        kaplan_meier,
        whole.filter(pl.col("status").is_not_null()),
        by=split,
        status=None,
        runtime=runtime,
        entry="entry_s",
        observed="observed",
    )
    comparisons = {}
    present = {*stated["status"].cast(pl.String).unique()} if by and not cohort.horizon_s else ()
    for status in (status for status in COMPARED if status in present):
        ran = stated.filter(pl.col("entry_s") == 0, status=status)
        with _noting(notes, f"Runtimes of {status} {cohort.noun} are not compared"):
            comparisons[status] = cohort.over_units(compare_runtimes, ran, keys, adjust="holm")
    return Outcomes(
        by,
        strata,
        runtimes,
        cohort.over_units(failure_rates, rows, keys),
        comparisons,
        _standardized(cohort, stated, by),
        horizon,
    )


def _standardized(
    cohort: Cohort, rows: pl.DataFrame, by: str | None
) -> tuple[str, pl.DataFrame] | None:
    """Return rates at one composition of size and user, or of the one that enough rows share."""
    if by is None or not cohort.fails:
        return None
    # a small group would leave few strata that all groups have
    rows = rows.filter(pl.len().over(by) >= _FEWEST_OF_GROUP)
    if rows[by].n_unique() < 2:
        return None
    names = {}
    sized = "gpus" in rows.columns and rows["gpus"].n_unique() > 1
    if sized and by not in ("gpus", "gpus_requested"):
        rows = rows.with_columns(_log2(pl.col("gpus")).floor().alias("size_class"))
        names["size_class"] = "size (GPUs)"
    if by != "user" and "user" in rows.columns and rows["user"].count():
        names["user"] = "user"
    for strata in filter(None, ([*names], [*names][:1], [*names][1:])):
        try:
            rates = cohort.over_units(standardized_failure_rates, rows, by, strata=strata)
        except DataError:
            continue
        if (rates["fraction_covered"] >= _LEAST_COVERED).all():
            return " and ".join(names[column] for column in strata), rates
    return None


def rates_at_equal(
    trace: Trace, by: str, pair: tuple[object, object], limits: bool, /
) -> tuple[str, float, float] | None:
    """Return what is held equal, such as size and user, and the failure rates of two groups at it.

    Of completed and failed rows, without jobs on :func:`bad_nodes`. Without `limits`, jobs that
    reached a limit of their request count as completed.
    """
    cohort, rows = _compared(trace, by, pair, limits)
    held_rates = _standardized(cohort, rows, by)
    if held_rates is None:
        return None
    rates = dict(held_rates[1].select(by, "standardized").drop_nulls().iter_rows())
    return (held_rates[0], *(rates[each] for each in pair)) if {*pair} <= rates.keys() else None


def _compared(
    trace: Trace, by: str, pair: tuple[object, object], limits: bool
) -> tuple[Cohort, pl.DataFrame]:
    cohort = trace.once(outcome_cohort)
    rows = _off_bad_nodes(trace, cohort.rows).filter(pl.col(by).is_in([*pair]))
    return cohort, rows if limits else without_limits(rows)


def odds_at_equal(
    trace: Trace, by: str, pair: tuple[str, str], /
) -> tuple[str, float, float, float, float] | None:
    """Return what is held equal, the odds ratio of failure of two groups, its interval and p.

    GPU types are compared within users and sizes (Mantel and Haenszel), without ends at a limit.
    Users have one account mostly: an account is compared in the model of failure.
    """
    if of_type := by == "gpu_type":
        _, rows = _compared(trace, by, pair, limits=False)
        if "user" in rows.columns:
            return _within_users(rows, by, pair)
    model, _ = trace.once(fit_failure_model, *((None, False) if of_type else ()))
    if model is None:
        return None
    both = pl.col("level").is_in(pair) & pl.col("reference").is_in(pair)
    odds = model.odds_ratios.filter(both, feature=key_heading(by)).rename({"pvalue_adjusted": "p"})
    return _oriented("requested resources", odds, pair[0])


def _within_users(
    rows: pl.DataFrame, by: str, pair: tuple[str, str]
) -> tuple[str, float, float, float, float] | None:
    """Return the odds ratio over users, else over days, as where one user has most of the jobs."""
    days = pl.col("submit_s" if "submit_s" in rows.columns else "start_s") // DAY_S
    rows = rows.with_columns(pl.col("user").alias(_SAME_USER), days.alias(_DAY))
    strata, found, held = [_SAME_USER, *({"gpus"} & {*rows.columns})], None, "users and sizes"
    if "job_name" in rows.columns:
        # a user has several programs, often each of one GPU type: rare names are not compared
        full = pl.col("job_name").cast(pl.String)
        rare = pl.len().over("user", full) < _FEWEST_OF_GROUP
        name = pl.when(rare).then(without_numbers(full)[0]).otherwise(full)
        named = rows.with_columns(name.alias(_SAME_NAME)).drop_nulls(_SAME_NAME)
        named = named.filter(pl.len().over("user", _SAME_NAME) >= _FEWEST_OF_GROUP)
        if named.height:
            rows, strata, held = named, [*strata, _SAME_NAME], "users, names and sizes"
    is_dominated = rows.select(2 * pl.len().over("user").max() > pl.len()).item()
    units = (_DAY,) if is_dominated else ("user", _DAY)
    for unit in units if rows[by].n_unique() == len(pair) else ():
        with suppress(DataError):
            odds = failure_odds(rows.drop_nulls(unit), by, strata=strata, cluster=unit)
            odds = odds.rename({by: "level", "pvalue": "p"})
            found = found or _oriented(held, odds, pair[0])
    return found


def _oriented(
    held: str, odds: pl.DataFrame, first: str
) -> tuple[str, float, float, float, float] | None:
    rows = odds.select("odds_ratio", "ci_low", "ci_high", "p", "level").drop_nulls()
    if rows.is_empty():
        return None
    ratio, low, high, p, level = rows.row(0)
    ends = (ratio, low, high) if level == first else (1 / ratio, 1 / high, 1 / low)
    return held, *ends, p


def without_limits(rows: pl.DataFrame, /, status: str = "completed") -> pl.DataFrame:
    """Return the rows with another status for failed ones that reached a limit."""
    stated = pl.col("status").cast(pl.String)
    reached = (pl.col(END_CLASS) == "user limit") & (stated == "failed")
    return with_end_class(rows).with_columns(
        status=pl.when(reached).then(pl.lit(status)).otherwise(stated)
    )


def _tests(cohort: Cohort, outcomes: Outcomes, by: str, notes: list[str]) -> list[dict[str, Any]]:
    tests, group = list[dict[str, Any]](), in_sentence(key_heading(by))
    frame = outcomes.rates.filter(pl.col(by).is_not_null() & (pl.col("n") > 0))
    able = frame.filter(pl.col("failures") < pl.col("n"))
    question = f"failure of {cohort.noun} by {group}"
    if cohort.fails:
        # a class of jobs that never complete, such as services, differs by definition
        if 1 < able.height < frame.height:
            never = frame.join(able, on=by, how="anti")[by].cast(pl.String).to_list()
            notes.append(f"Not in the test of {question}, as every row failed: {listed(never)}.")
            frame = able
        rows = cohort.rows.filter(pl.col(by).is_in(frame[by].implode()))
        with _noting(notes, f"No test of {question}"):
            row = cohort.over_units(outcome_association, rows, by).row(0, named=True)
            tests.append(_test(row, question, "cramers_v", row["method"]))
    for status, compared in outcomes.comparisons.items():
        row = compared.test.row(0, named=True)
        method = "Brunner-Munzel" if row["n_groups"] == 2 else "rank ANOVA"
        question = f"runtime of {status} {cohort.noun} by {group}"
        tests.append(_test(row, question, "epsilon_squared", method))
    return tests


def _test(row: dict[str, Any], question: str, measure: str, method: str | None) -> dict[str, Any]:
    of_test = {name: row.get(name) for name in GroupTests.columns()}
    named = {"question": question, "measure": measure, "method": method}
    return of_test | named | {"effect": row[measure]}


def variance_between_units(trace: Trace, /) -> dict[str, VarianceFraction]:
    """Return the fraction of the variance of log runtime and failure between independent units."""
    cohort = form_cohort(trace)
    if cohort.cluster is None:
        return {}
    unit, status = pl.col(cohort.cluster).to_physical(), pl.col("status").cast(pl.String)
    ran = cohort.rows.filter(pl.col("runtime_s") > 0).select(unit, pl.col("runtime_s").log())
    outcomes = [*OUTCOMES["success"], *OUTCOMES["failure"]]
    ended = trace.once(outcome_cohort).rows.filter(status.is_in(outcomes))
    failed = status.is_in([*OUTCOMES["failure"]]).cast(pl.Float64)
    return {
        "log runtime": variance_fraction(*reversed(ran.get_columns())),
        "failure": variance_fraction(*ended.select(failed, unit).get_columns()),
    }


def fit_failure_model(
    trace: Trace, failure: tuple[str, ...] | None = None, limits: bool = True
) -> tuple[FailureModel | None, str]:
    """Fit a model of failure, of :func:`outcome_cohort` unless `failure` names other values.

    Jobs on :func:`bad_nodes` are left out: one bad node of a GPU type is no fault of the type.
    """
    cohort = trace.once(outcome_cohort) if failure is None else form_cohort(trace)
    rows = _off_bad_nodes(trace, cohort.rows)
    if not limits:
        rows = without_limits(rows)
    if failure is None and not cohort.fails:
        return None, f"No model of failure: none of the {cohort.noun} has status failed."
    if rows.height > MODEL_ROWS:
        rows = rows.sample(MODEL_ROWS, seed=MODEL_SEED)
    frame, features = _with_features(rows, [name for name, _ in grouping_columns(cohort)])
    definition = OUTCOMES if failure is None else OUTCOMES | {"failure": failure}
    try:
        model = cohort.over_units(
            failure_model, frame, features=features, curved=True, **definition
        )
    except DataError as error:
        return None, f"No model of failure: {error}."
    return model, ""


def _with_features(rows: pl.DataFrame, columns: list[str]) -> tuple[pl.DataFrame, list[str]]:
    """Add these columns as text and the logarithms of requested resources, by their headings."""
    left_out = {"gpus"} if "gpus_requested" in columns else set()
    features = {*rows.columns} - left_out
    doubled = [
        name for name in _DOUBLED if name in features and rows[name].drop_nulls().n_unique() > 1
    ]
    numbers = {f"{key_heading(name)} doubled": _log2(pl.col(name)) for name in doubled}
    gpus = next((name for name in ("gpus", "gpus_requested") if name in rows.columns), None)
    if gpus is not None and "memory_gib" in doubled:
        # default memory per GPU: more GPUs are more memory
        memory = numbers.pop(f"{key_heading('memory_gib')} doubled")
        both = rows.select(a=_log2(pl.col(gpus)), b=memory).drop_nulls()
        related = both.height > 2 and abs(both.select(pl.corr("a", "b")).item() or 0) >= _RELATED
        name = f"{key_heading('memory_gib')}{' per GPU' if related else ''} doubled"
        numbers[name] = memory - _log2(pl.col(gpus)) if related else memory
    texts = {key_heading(name): pl.col(name).cast(pl.String) for name in columns}
    return rows.with_columns(**texts, **numbers), [*texts, *numbers]


def _log2(column: pl.Expr) -> pl.Expr:
    number = column.cast(pl.Float64, strict=False)
    return pl.when(number > 0).then(number.log(2))


def estimate_competing_risks(
    trace: Trace, by: str | None
) -> tuple[CumulativeIncidence, SurvivalCurves]:
    """Estimate the cumulative incidence of each event and the time to any event."""
    cohort = form_cohort(trace, end_imputation="running")
    keys, events = () if by is None else (by,), cohort.events
    return cohort.over_units(incidence_and_survival, cohort.rows, keys, events, columns=_SEEN)


def incidence_difference(
    trace: Trace, by: str, pair: tuple[object, object], time_s: float, equal_size: bool, /
) -> tuple[float, float, float] | None:
    """Return the difference of the failures of two groups by a runtime, with its interval.

    By the jackknife over clusters, which have rows in both groups, without jobs on
    :func:`bad_nodes`. At equal size it is standardized over powers of two of GPUs; None if fewer
    than a fifth of the rows, or one stratum, has both.
    """
    cohort = form_cohort(trace, end_imputation="running")
    stratum = pl.lit(0.0)
    if equal_size:
        if "gpus" not in cohort.rows.columns or by in ("gpus", "gpus_requested"):
            return None
        stratum = pl.col("gpus").log(2).floor().clip(-10)
    seen = pl.col(by).is_in([*pair]), pl.col("duration_s").is_not_null()
    rows = _off_bad_nodes(trace, cohort.rows).filter(*seen)
    rows = rows.with_columns(stratum=stratum).drop_nulls("stratum")
    kept = rows.filter(pl.col(by).n_unique().over("stratum") == 2)
    if equal_size and (
        kept["stratum"].n_unique() < 2 or kept.height < _LEAST_COVERED * rows.height
    ):
        return None
    events = tuple(dict.fromkeys(("failed", *cohort.events)))
    options: dict[str, Any] = {"by": by, "first": pair[0], "time_s": time_s, "events": events}
    difference, low, high = cohort.over_units(_incidence_difference, kept, **options).row(0)
    return difference, low, high


def _incidence_difference(
    rows: pl.DataFrame,
    *,
    by: str,
    first: object,
    time_s: float,
    events: tuple[str, ...],
    cluster: str | None,
) -> pl.DataFrame:
    unit = pl.int_range(pl.len()) if cluster is None else pl.col(cluster).rank("dense")
    rows = rows.with_columns(cell=unit.cast(pl.Int64) % CELLS)
    keys = ("stratum", by)
    counts = count_events(rows, keys, events, columns=_SEEN, cluster="cell")
    difference = np.zeros(CELLS + 1)
    for (_, group), part in counts.group_by(keys, maintain_order=True):
        n = rows.filter(pl.col("stratum") == part["stratum"][0]).height
        place, ended = part["time_s"].rle_id(), part.select(events).to_numpy()
        curves = leave_out_cells(
            *(ended, part["n"] - ended.sum(axis=1), part["late"], place, part["cell"]), cells=CELLS
        )
        weight = (1 if group == first else -1) * n / rows.height
        if steps := place.filter(part["time_s"] <= time_s).n_unique():
            difference += weight * np.array([curve[0, steps - 1] for curve in curves])
    units = np.bincount(rows["cell"], minlength=CELLS)
    cells, effective = np.count_nonzero(units), units.sum() ** 2 / (units**2).sum()
    variance = (cells - 1) / cells * ((difference[1:] - difference[0]) ** 2).sum()
    half = float(stdtrit(effective - 1, 0.975)) * variance**0.5
    ends = {"ci_low": difference[0] - half, "ci_high": difference[0] + half}
    return pl.DataFrame({"difference": difference[0]} | ends)


_PARTS: Final = 16  # bars of a sparkline
_OF_NODES: Final = (*STRATA, "status", "end_reason", "gpus", "runtime_s", "start_s", "end_s")
"""Columns by which nodes are compared."""
NODES_NEED: Final = ({"jobs": ("status",)},)
"""What a trace needs; that its jobs have a node is seen in the rows."""


class NodesFound(NamedTuple):
    """Nodes compared, sparklines of their failures, ended jobs, those with a node, slow nodes."""

    nodes: pl.DataFrame
    trend: dict[str, str]
    ended: int
    placed: int
    slow: list[SlowNode]


def compare_nodes(trace: Trace, /) -> NodesFound | None:
    """Compare the nodes of a trace with comparable jobs; None where jobs have no node."""
    manifest, jobs = trace.manifest, trace.rows("jobs")
    name = node_column(manifest.tables["jobs"].columns)
    if name is None:
        name = NODES[-1]
        if not manifest.has("instances", (name,)):
            return None
        # the machine of the jobs whose instances all ran on one
        machine, instances = nw.col(name), trace.rows("instances").group_by("job_id")
        of_job = instances.agg(machine.min(), machine.max().alias("last"))
        alone = of_job.filter(machine == nw.col("last")).drop("last")
        jobs = jobs.join(alone, on="job_id", how="left")
    ended = jobs.filter(nw.col("status").cast(nw.String).is_in(["completed", "failed"]))
    has = {*ended.collect_schema().names()}
    rows = collect(ended.select([name for name in (name, *_OF_NODES) if name in has]))
    if not rows[name].count():
        return None
    trend = _trend(rows, name) if "end_s" in has else {}
    failures, placed = node_failures(rows, node=name), rows[name].count()
    return NodesFound(failures, trend, rows.height, placed, slow_nodes(rows, name))


def bad_nodes(trace: Trace, /) -> list[str]:
    """Return the nodes, in a column of the cohort, that fail more often than comparable jobs."""
    if node_column(form_cohort(trace).rows.columns) is None:
        return []
    compared = trace.once(compare_nodes)
    is_bad = pl.col("pvalue_adjusted") < SIGNIFICANT
    return [] if compared is None else compared.nodes.filter(is_bad)["node"].to_list()


def _off_bad_nodes(trace: Trace, rows: pl.DataFrame) -> pl.DataFrame:
    bad = trace.once(bad_nodes)
    if not bad:
        return rows
    name = node_column(rows.columns) or ""
    lists = rows.get_column(name).unique()  # of nodes, as text: most recur
    is_bad = lists.cast(pl.String).str.split(",").list.eval(pl.element().is_in(bad)).list.any()
    return rows.filter(~pl.col(name).is_in(lists.filter(is_bad).implode()).fill_null(value=False))


def _trend(ended: pl.DataFrame, node: str) -> dict[str, str]:
    """Return the failures of each node in equal parts of the time, as a sparkline."""
    time = pl.col("end_s")
    first, last = ended.select(time.min(), last=time.max()).row(0)
    if first is None or first == last:
        return {}
    part = ((time - first) / (last - first) * _PARTS).cast(pl.Int64).clip(0, _PARTS - 1)
    failed = ended.filter(pl.col("status").cast(pl.String) == "failed").select(node, "end_s")
    rows = failed.drop_nulls()
    of = rows.select(pl.col(node).cast(pl.String).str.split(","), part=part).explode(node)
    return {
        str(name): sparkline(np.bincount(parts["part"], minlength=_PARTS).tolist())
        for (name,), parts in of.group_by(node)
    }
