"""Runtimes: distributions, ratios to the mean of a group, missing ends, and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from traceana.cohorts.cohort import (
    COHORT_NEEDS,
    MOST_NOT_ENDED,
    Cohort,
    form_cohort,
    sample_note,
    task_title,
)
from traceana.cohorts.tables import CapacityCheck, MissingTimes, RuntimeRatioSummary
from traceana.cohorts.task_times import END_IMPUTATIONS
from traceana.errors import DataError
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Points,
    Table,
    Text,
    captioned,
    drawing,
    join_parts,
    picture_key,
    result_table,
    traces_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.distributions import empirical_distribution
from traceana.questions.runtimes.fit import (
    REFITS,
    SEED,
    RuntimeDistributions,
    analyze_runtime_distributions,
)
from traceana.questions.runtimes.ratio import (
    capacity,
    missing_times,
    predict_runtimes,
    ratio_tables,
    tables_with_runtimes,
)
from traceana.questions.runtimes.tables import (
    DistributionFits,
    FamilyRanking,
    RuntimePredictions,
    RuntimeSensitivity,
    TailIndex,
)
from traceana.store import Trace, distinct_traces
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    count,
    duration,
    duration_range,
    fraction_range,
    hours,
    in_sentence,
    interval,
    listed,
    p_equals,
    plain,
    plural,
    ratio,
    seconds,
    share,
    three_digits,
)

_ALPHA: Final = 0.05
_FITTED_LIMITATIONS: Final = (
    "With many values nearly every family is rejected: the best is a summary, not the law. "
    "Whole seconds are treated as continuous. Intervals are over users, or blocks of days, if the "
    "trace has them. Where rows of one day are alike beyond their users, p of a fit may be too "
    "small."
)
_FITTED_OPENING: Final = (
    "Six families are fitted by maximum likelihood and ordered by BIC. KS distance: the largest "
    f"difference between the fitted and the empirical distribution function. Its p, of the best "
    f"family only, allows for rounded runtimes and is from {REFITS} resamples of the independent "
    f"units (seed {SEED}), so at least {1 / (REFITS + 1):g}; censored or truncated rows in units "
    "have none. Mean log-likelihood "
    "ratio and adjusted p (Benjamini-Hochberg): Vuong's "
    "test against the best family, or a likelihood-ratio test if nested, which has no interval."
)
_TAIL: Final = (
    "The fraction of runtimes above x falls as x to the power of minus the tail index (Hill). "
    "Below 2 the variance is infinite, below 1 the mean. An index that changes with the number of "
    "largest runtimes contradicts a power law."
)
Fitted: TypeAlias = "dict[str, tuple[Cohort, RuntimeDistributions]]"


_FEWEST_ROWS = 50  # below, no family is named in a finding


def build_distributions(traces: Sequence[Trace]) -> Content:
    """Compare the distributions of runtimes of the traces."""
    distinct = distinct_traces(traces)
    fits: Fitted = {}
    for trace in distinct:
        cohort = form_cohort(trace)
        fits[f"{cohort.title}: {cohort.noun}"] = (cohort, trace.once(analyze_runtime_distributions))
    blocks: list[Block] = [Text(_FITTED_OPENING)]
    medians, first, further = list[Finding](), list[str](), list[str]()
    for name, (cohort, result) in fits.items():
        blocks += [Heading(name), *captioned(_details_of_fits(cohort, result), cohort.title)]
        medians += _median(cohort, result)
        if result.fits and result.fits.best and result.fits.table["n"][0] >= _FEWEST_ROWS:
            best, *others = _state_best(result.fits, result, cohort.title)
            first.append(best)
            further += others
    tails = {name: result.tail for name, (_, result) in fits.items() if result.tail is not None}
    if tails:
        caption = "Tail index of runtimes; threshold in s"
        blocks += [Heading("Tails of the distributions"), Text(_TAIL)]
        columns = [name for name in TailIndex.columns() if name not in ("n", "n_missing")]
        blocks += traces_table(tails, TailIndex, caption=caption, columns=columns)
    findings = (*medians, *first, *further)
    return Content(
        findings,
        tuple(blocks),
        lead=tuple(_draw_distributions(fits)),
        limitations=_FITTED_LIMITATIONS,
    )


def _draw_distributions(fits: Fitted) -> list[Block]:
    lines = [
        result.fits.quantiles.select(
            pl.lit(name).alias("trace"),
            pl.lit(result.n_timed).alias("n"),
            "fraction_below",
            *(pl.col(part).cast(pl.Float64) for part in ("value", "ci_low", "ci_high")),
        )
        for name, (_, result) in fits.items()
        if result.fits is not None and result.fits.quantiles is not None
    ]
    if not lines:
        return []
    key, about = "runtime-distribution", "Distribution of runtimes"
    look: dict[str, Any] = {"x_label": "Runtime", "heading": "Runtime", "durations": True}
    look["title"] = "; ".join(line["trace"][0] for line in lines if line.height)
    return [
        Gallery((drawing("empirical-distribution", pl.concat(lines), None, key, about, **look),))
    ]


def _median(cohort: Cohort, result: RuntimeDistributions) -> list[Finding]:
    median, low, high = result.median
    if result.fits is None or result.fits.quantiles is None or median is None:
        return []
    limits = interval({"ci_low": low, "ci_high": high}, duration_range)
    above = "" if result.bound is None else f" of runtimes of {duration(result.bound)} and more"
    heading = f"the median{above or ' runtime'} is {duration(median)}"
    text = f"{heading} ({limits}n = {result.n_timed:,} {cohort.noun})."
    return [Finding(text, heading=heading).of(cohort.title)]


def _details_of_fits(cohort: Cohort, result: RuntimeDistributions) -> Iterator[Block]:
    definitions = cohort.trace.manifest.tables["tasks" if cohort.from_tasks else "jobs"].notes
    if cohort.observation is not None:
        definitions = (*definitions, cohort.observation.describe(cohort.noun))
    about = f"n = {result.n_used:,} of {result.n:,} {cohort.noun}"
    if result.n_positive < result.n:
        about += f"; {result.n - result.n_positive:,} have no runtime or one of 0 s"
    if result.n_used < result.n_positive:
        about += f"; the others are not in the random sample (seed {SEED})"
    if result.bound is not None:
        smallest = f"The smallest runtime, {seconds(result.bound)} s"
        about += f". {smallest}, is the left-truncation bound of each fit"
    about += f".{cohort.sampled}"
    if result.fits is None:
        yield Text(f"{about} Fewer than two distinct runtimes: nothing to fit.", definitions)
        return
    yield Text(about, definitions)
    if result.fits.best is not None and result.fits.params(result.fits.best):
        key, what = f"fit-tail-{cohort.trace.id}", f"Runtimes of {cohort.noun} and fitted families"
        fit = ("distribution-fit", result.fits, cohort.trace, key, f"{what}: upper tail")
        yield Gallery((drawing(*fit, panel="tail", what="Runtime"),))
    yield _families(result.fits, result)
    if result.sensitivity is not None:
        yield result_table(
            result.sensitivity,
            RuntimeSensitivity,
            caption="Sensitivity to left-truncated and censored rows. The first row is the "
            "estimate; ignoring truncation and censoring is biased, and dropping the rows biases "
            "low. Mean: not estimable with truncated or censored rows",
            null={"mean_s": "not estimable"},
        )


def _families(fits: DistributionFits, result: RuntimeDistributions) -> Table:
    parameters = [
        ", ".join(f"{key} {three_digits(value)}" for key, value in fits.params(family).items())
        for family in fits.table["family"]
    ]
    compared = ("mean_ratio", "ci_low", "ci_high", "pvalue_adjusted")
    is_best = pl.col("family").eq_missing(pl.lit(fits.best, pl.String))
    table = fits.table.drop("note").with_columns(
        pl.Series("parameters", parameters),
        ks_pvalue=pl.when(is_best).then(pl.lit(result.pvalue, pl.Float64)),
    )
    shown = ("family", "parameters", "delta", "aic", "ks_statistic", "ks_pvalue")
    others = fits.comparisons.select("family", *compared)
    return result_table(
        table.join(others, on="family", how="left", maintain_order="left"),
        FamilyRanking,
        columns=[*shown, "fraction_above_bound", *compared],
        headings={"delta": "Delta BIC"},
        caption="Families fitted to runtimes (s), the best first",
    )


def _state_best(fits: DistributionFits, result: RuntimeDistributions, title: str) -> list[str]:
    """State the best family, and those not distinguished from it, or best otherwise."""
    first = fits.table.row(0, named=True)
    bound = "" if result.bound is None else f", left-truncated at {seconds(result.bound)} s"
    test = "not tested"
    if result.pvalue is not None:
        test = f"{p_equals(result.pvalue)}{': no family fits' * (result.pvalue < _ALPHA)}"
    best = (
        f"{title}: of {fits.table.height} families {fits.best} fits best by BIC (n = {first['n']:,}"
        f"{bound}). Its KS distance is {ratio(first['ks_statistic'])} ({test})."
    )
    close = fits.comparisons.filter(pl.col("pvalue_adjusted") >= _ALPHA)
    if close.is_empty():
        return [best]
    pairs = close.select("family", "pvalue_adjusted").rows()
    alike = listed(f"{family} (adjusted {p_equals(pvalue)})" for family, pvalue in pairs)
    return [best, f"{title}: Vuong's test does not distinguish {fits.best} from {alike}."]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the distribution of runtimes by group."""
    drawings = []
    for cohort in map(form_cohort, traces):
        if cohort.by is not None:
            curves = empirical_distribution(cohort.rows, "runtime_s", by=cohort.by)
            by, key = in_sentence(key_heading(cohort.by)), f"runtime-{cohort.by}-{cohort.trace.id}"
            look: dict[str, Any] = {"x_label": "Runtime", "heading": f"Runtime by {by}"}
            about = f"Runtime of {cohort.noun} by {by}"
            of = ("empirical-distribution", curves, cohort.trace, key, about)
            drawings.append(drawing(*of, title=cohort.title, durations=True, **look))
    return drawings


DISTRIBUTIONS = Section(
    "distributions",
    "Distributions of runtimes",
    10,
    build_distributions,
    needs=({"jobs": ("runtime_s",)}, {"tasks": ("status",), "instances": ("start_s", "end_s")}),
    figures=("distribution-fit", "empirical-distribution"),
    shares="cohort",
    more=draw_more,
    part="Runtimes",
    question="Which distribution describes the runtimes?",
)


_MAX_GROUPS: Final = 20
_LABEL: Final = 28  # characters of a line of a label in the figure
_DISTRIBUTION: Final = ("cov", "p05", "p25", "median", "p75", "p95", "p99")
_ALIKE: Final = 0.9
"""CoV within groups over that of all rows from which the grouping predicts little."""
_LIMITATIONS: Final = (
    "Means and CoV of heavy-tailed runtimes depend on few rows. In a group of n no ratio exceeds "
    "n, so small groups appear less dispersed than they are."
)
_OPENING: Final = (
    "A runtime ratio is a runtime divided by the mean runtime of its group. CoV is the coefficient "
    "of variation of the ratios (ddof 1): if it is not smaller within groups than over all rows, "
    "the grouping predicts runtimes poorly."
)


class _Cohort(NamedTuple):
    trace: Trace
    table: str
    title: str
    noun: str
    name: str
    groupings: pl.DataFrame
    groups: pl.DataFrame | None
    cut: str  # what the window cuts off; empty for nothing
    is_cut_much: bool  # so that no finding is drawn


def build_ratios(traces: Sequence[Trace]) -> Content:
    """Show the dispersion of runtimes around the mean of their group, for each trace."""
    blocks: list[Block] = [Text(_OPENING)]
    findings, complete = list[str](), list[_Cohort]()
    for trace in distinct_traces(traces):
        for table in tables_with_runtimes(trace):
            cohort = _form(trace, table)
            blocks += [Heading(cohort.name), *captioned(_details(cohort), cohort.title)]
            findings += [finding.of(cohort.title) for finding in _findings(cohort)]
            complete += [] if cohort.is_cut_much else [cohort]
    return Content(tuple(findings), tuple(blocks), tuple(_lead(complete)), _LIMITATIONS)


def _form(trace: Trace, table: str) -> _Cohort:
    noun = trace.manifest.tables[table].unit_noun
    title = trace.label if table == "recurring_jobs" else task_title(trace)
    cut, much = "", False
    seen = (formed := form_cohort(trace)).observation if table == "jobs" else None
    if seen and seen.n_truncated + seen.n_censored:
        cut = seen.describe(noun)
        is_cut = (pl.col("entry_s") > 0) | ~pl.col("observed")
        runtime = pl.col("duration_s")
        parts = formed.rows.select(runtime.filter(is_cut).sum(), total=runtime.sum()).row(0)
        much = parts[0] > MOST_NOT_ENDED * parts[1]
    tables = trace.once(ratio_tables, table)
    return _Cohort(trace, table, title, noun, f"{title}: {noun}", *tables, cut, much)


def _lead(cohorts: list[_Cohort], key: str = "runtime-ratio") -> list[Block]:
    """Draw the ratios of each trace without groups, and within its first grouping."""
    parts = []
    for cohort in cohorts:  # named once; the caption names the only trace
        named = fill(f"{cohort.name}, not grouped", _LABEL)
        whole = pl.when(grouping="none").then(
            pl.lit(named if cohorts[1:] else f"all {cohort.noun}")
        )
        name = whole.otherwise(pl.format("by {}", "grouping")).alias("cohort")
        table = cohort.groupings.head(2).filter(pl.col("p95") > 0)
        parts.append(table.select(name, "n", *_DISTRIBUTION))
    if not any(part.height for part in parts):
        return []
    shown, title = pl.concat(parts), "; ".join(cohort.name for cohort in cohorts)
    about = "Runtime ratios over all rows, and within groups"
    picture = drawing("runtime-ratio", shown, trace=None, title=title, key=key, about=about)
    return [Gallery((picture,))]


def _details(cohort: _Cohort) -> list[Block]:
    notes, definitions = "", (*cohort.trace.manifest.tables[cohort.table].notes, cohort.cut)
    if cohort.table == "tasks":
        definitions = (cohort.cut,)
        notes = (
            "Task runtimes exclude instances without an end (`drop`); user and group are those of "
            f"the job.{sample_note(cohort.trace)} "
        )
    if cohort.cut:
        notes += (
            "A mean with truncated or censored rows is not estimable, so ratios describe the "
            f"listed rows only{', and no finding is drawn from them' * cohort.is_cut_much}."
        )
    what = f"Runtime ratios of {cohort.noun}"
    spread = result_table(
        cohort.groupings,
        RuntimeRatioSummary,
        columns=("grouping", "groups", "n", "n_excluded", *_DISTRIBUTION),
        headings={"grouping": "Grouped by", "n_excluded": "Excluded: alone or no group"},
        caption=f"{what} by grouping",
    )
    figure = _lead([cohort], f"runtime-ratio-{cohort.trace.id}") if cohort.is_cut_much else []
    return [Text(notes, definitions), *figure, spread, *_groups(cohort, what)]


def _groups(cohort: _Cohort, what: str) -> list[Block]:
    groups = cohort.groups
    if groups is None:
        return []
    (by, *_) = groups.columns
    what = f"{what} by {cohort.groupings['grouping'][1]}"
    if groups.height > _MAX_GROUPS:
        what += f", the {_MAX_GROUPS} largest of {groups.height:,} groups"
        groups = groups.sort("n", descending=True, maintain_order=True).head(_MAX_GROUPS)
    table = result_table(
        groups,
        RuntimeRatioSummary,
        columns=(by, "n", "mean_s", *_DISTRIBUTION, "n_missing"),
        caption=what,
    )
    # as published: ratios of recurring jobs by group
    if cohort.table != "recurring_jobs" or not groups["p95"].count():
        return [table]
    key = picture_key("runtime-ratio-recurring", cohort.trace)
    picture = drawing("runtime-ratio", groups, cohort.trace, key, what)
    return [table, Gallery((picture,))]


def _findings(cohort: _Cohort) -> list[Finding]:
    if cohort.is_cut_much:
        heading = f"mean runtimes are not estimable while {cohort.noun} still run"
        return [Finding(f"{heading}. {cohort.cut}", heading=heading, certainty="cannot tell")]
    overall, *grouped = cohort.groupings.rows(named=True)
    if overall["cov"] is None or not grouped or grouped[0]["cov"] is None:
        return []
    first = grouped[0]
    half = share(first["median"])
    told = f"Half of them ran for at most {half} of the mean of their group."
    heading = f"half of the {cohort.noun} run for at most {half} of their group's mean"
    finding = (
        f"the CoV of the runtimes of {cohort.noun} is {three_digits(first['cov'])} "
        f"within groups of equal {first['grouping']}, and {three_digits(overall['cov'])} overall "
        f"({plural(first['groups'], 'group')}, n = {first['n']:,}). {told}"
    )
    alike = first["cov"] >= _ALIKE * overall["cov"]
    return [Finding(finding, heading=heading, is_null=alike, is_description=True)]


RATIOS = Section(
    "runtime-ratio",
    "Runtime ratios",
    20,
    build_ratios,
    needs=({"jobs": ("runtime_s",)}, COHORT_NEEDS[1], {"recurring_jobs": ("start_s", "end_s")}),
    figures=("runtime-ratio",),
    shares="cohort",
    part="Runtimes",
    question="How far does a runtime deviate from the mean of its group?",
)


_IMPUTATIONS: Final = {
    "drop_task": "a task has no runtime if any of its instances lacks a start or an end.",
    "drop": "instances without a start or an end are excluded.",
    "task": "a missing end is the end of the task, unless that is before the start of an instance "
    "without an end.",
    "running": "a missing end is the end of the trace if the last status of the task is running; "
    "other instances without an end are excluded.",
    "trace_end": "a missing end is the end of the trace.",
}
_TIMES: Final = ("end_imputation", "tasks_with_runtime", "mean_s", "median_s", "instances_used")
_CHECKED: Final = (*_TIMES, "gpu_hours", "capacity_gpu_hours", "fraction_of_capacity")
_TASKS_OPENING: Final = (
    "The runtime of a task is the last end of its instances minus their first start; instances "
    "without a start are excluded. GPU-hours are the GPUs that each instance requests times its "
    "time; the capacity is the GPUs of all machines over the time span of the trace. GPU-hours of "
    "a sample are multiplied by all tasks over those drawn."
)
_TASKS_LIMITATIONS: Final = (
    "An imputation with more GPU-hours than the capacity is wrong for the trace as a whole; one "
    "with fewer may still miss lost ends. Runtime ratios and runtimes by outcome use `drop`; "
    "competing risks use `running`."
)


def build_tasks(traces: Sequence[Trace]) -> Content:
    """Compare the imputations of missing ends, for each trace with tasks and instances."""
    points = tuple(f"`{name}`: {_IMPUTATIONS[name]}" for name in END_IMPUTATIONS)
    blocks: list[Block] = [Text(_TASKS_OPENING), Points("The imputations", points)]
    findings, lead = list[Finding](), list[Block]()
    for trace in traces:
        title, check = task_title(trace), trace.once(capacity)
        findings.append(_finding(check).of(title))
        caption = "GPU-hours requested under each imputation, and the capacity"
        checked = result_table(check, CapacityCheck, columns=_CHECKED, caption=caption)
        lead += captioned([checked], title)
        missing = result_table(
            trace.once(missing_times),
            MissingTimes,
            caption="Missing starts and ends of instances, by status of the task",
            null={"status": "missing"},
        )
        noun = trace.manifest.tables["tasks"].unit_noun
        blocks += [Heading(f"{title}: {noun}"), *map(Text, filter(None, [sample_note(trace)]))]
        blocks += captioned([missing], title)
    return Content(tuple(findings), tuple(blocks), lead=tuple(lead), limitations=_TASKS_LIMITATIONS)


def _finding(check: pl.DataFrame) -> Finding:
    of = {row["end_imputation"]: row for row in check.rows(named=True)}
    low, high = of["drop"], of["trace_end"]
    least, most = (hours(row["gpu_hours"]) for row in (low, high))
    what, whole, wrong = "GPU-hours", "GPU-hours", list[str]()
    unknown = "; the capacity is not known"
    if low["fraction_of_capacity"] is not None:
        least, most = (share(row["fraction_of_capacity"]) for row in (low, high))
        wrong = [name for name in END_IMPUTATIONS if of[name]["fraction_of_capacity"] > 1]
        what = f"of the GPU-hours of the {plain(low['machine_gpus'])} GPUs of all machines"
        whole, unknown = "of the capacity", ""
    heading = f"tasks request {least} to {most} {whole}, depending on missing ends"
    if "trace_end" in wrong:
        most = f"{plain(round(high['fraction_of_capacity'], 1))} times these"
    text = f"tasks request {least} {what} if instances without an end are excluded, and {most} if "
    text += f"they run to the end of the trace{unknown}."
    text += f" Imputations that exceed the capacity: {', '.join(wrong)}." * bool(wrong)
    return Finding(text, heading=heading, certainty="cannot tell")


TASKS = Section(
    "task-runtimes",
    "Task runtimes",
    30,
    build_tasks,
    needs=({"tasks": ("status",), "instances": ("start_s", "end_s")},),
    shares="cohort",
    part="Runtimes",
    question="How much do runtimes and GPU-hours depend on ends that are missing?",
)


_PREDICTION_OPENING: Final = (
    "Jobs of the second half are predicted from what was known when they were submitted: the runs "
    "of the same user and job name that had ended. A job without one has the prediction of all: "
    "the quantile of the runtimes that had ended at the split. The score is the pinball loss; the "
    "skill is its reduction compared with the prediction of all. The quantile regression uses the "
    "runs of the same user and name, and the requested resources and time limit."
)
_PREDICTION_LIMITATIONS: Final = (
    "The mean loss is determined by long jobs. Jobs that still run are excluded, which makes "
    "predictions too short where many of them are long."
)
_COLUMNS: Final = ("submit_s", "end_s", "runtime_s", "user", "job_name")
_NAMED: Final = {
    "all": "quantile of all earlier jobs",
    "last": "last runtime of the same user and name",
    "mean": "mean of the same user and name",
    "quantile": "quantile of the same user and name",
    "model": "quantile regression",
}
_MOST: Final = 200_000  # latest jobs that are used
_NOTICED: Final = 0.1  # skill below which a prediction is no main result


def build_predictions(traces: Sequence[Trace]) -> Content:
    """Show the scores of each trace."""
    return join_parts(_PREDICTION_OPENING, ((trace.label, _trace(trace)) for trace in traces))


def score_predictions(trace: Trace) -> pl.DataFrame | None:
    """Score predictions on the latest jobs; None where there are too few."""
    sizes = [column for column in ("gpus", "cpus", "time_limit_s") if trace.has("jobs", (column,))]
    jobs = trace.scan("jobs").select(*_COLUMNS, *sizes)
    submitted = pl.col("submit_s")
    since = jobs.select(submitted.top_k(_MOST).min()).collect().item()  # all are not to be sorted
    late = jobs.filter(submitted >= since).collect()  # and those of the same second
    latest = late.sort(submitted, maintain_order=True).tail(_MOST)
    try:
        return predict_runtimes(latest, cluster=None if latest["user"].has_nulls() else "user")
    except DataError:
        return None


def _trace(trace: Trace) -> Content:
    result = trace.once(score_predictions)
    if result is None:
        return Content()
    medians = result.filter(quantile=0.5)
    names = _NAMED | {"quantile": "median of the same user and name"}
    better = medians.filter(pl.col("ci_low") > 0).sort("skill")
    if better.height:
        best = better.row(-1, named=True)
        article = "a" if best["predictor"] == "model" else "the"
        predictor, limits = names[best["predictor"]], interval(best, fraction_range)
        change = f"{article} {predictor} predicts runtimes {share(best['skill'])} better"
    else:
        change, limits = "earlier runs of the same user and name predict runtimes no better", ""
    heading = f"{change} than the median of all earlier jobs"
    if not (better.height or medians["with_history"].sum()):
        heading = "no later job has an earlier run of the same user and name"
    finding = Finding(
        f"{heading} (mean absolute error; {limits}n = {count(medians['n'][0])} later jobs).",
        heading=heading,
        is_null=better.is_empty() or better["skill"][-1] < _NOTICED,
    )
    table = result_table(
        result.with_columns(pl.col("predictor").replace(_NAMED)),
        RuntimePredictions,
        caption="Predicted runtimes of jobs; skill: reduction of the loss compared with the same "
        "quantile of all earlier jobs",
    )
    return Content((finding,), (), (table,), _PREDICTION_LIMITATIONS).of(trace.label)


PREDICTIONS = Section(
    "runtime-prediction",
    "Prediction of runtimes",
    110,
    build_predictions,
    needs=({"jobs": _COLUMNS},),
    part="Runtimes",
    question="How well do earlier runs of a job predict its runtime?",
)
