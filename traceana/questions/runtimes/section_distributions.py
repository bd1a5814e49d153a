"""Distributions of runtimes: fitted families, tails and groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import polars as pl

from traceana.cohorts.cohort import Cohort, form_cohort
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Table,
    Text,
    captioned,
    drawing,
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
from traceana.questions.runtimes.tables import (
    DistributionFits,
    FamilyRanking,
    RuntimeSensitivity,
    TailIndex,
)
from traceana.store import Trace, distinct_traces
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    duration,
    duration_range,
    in_sentence,
    listed,
    p_equals,
    ratio,
    seconds,
    three_digits,
)

_ALPHA: Final = 0.05
_LIMITATIONS: Final = (
    "With many values nearly every family is rejected: the best is a summary, not the law. "
    "Whole seconds are treated as continuous. Intervals are over users, or blocks of days, if the "
    "trace has them. Where rows of one day are alike beyond their users, p of a fit may be too "
    "small."
)
_OPENING: Final = (
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


def build(traces: Sequence[Trace]) -> Content:
    """Compare the distributions of runtimes of the traces."""
    distinct = distinct_traces(traces)
    fits: Fitted = {}
    for trace in distinct:
        cohort = form_cohort(trace)
        fits[f"{cohort.title}: {cohort.noun}"] = (cohort, trace.once(analyze_runtime_distributions))
    blocks: list[Block] = [Text(_OPENING)]
    medians, first, further = list[Finding](), list[str](), list[str]()
    for name, (cohort, result) in fits.items():
        blocks += [Heading(name), *captioned(_details(cohort, result), cohort.title)]
        medians += _median(cohort, result)
        if result.fits and result.fits.best and result.fits.table["n"][0] >= _FEWEST_ROWS:
            best, others = _findings(result.fits, result, cohort.title)
            first.append(best)
            further += [others] if others else []
    tails = {name: result.tail for name, (_, result) in fits.items() if result.tail is not None}
    if tails:
        caption = "Tail index of runtimes; threshold in s"
        blocks += [Heading("Tails of the distributions"), Text(_TAIL)]
        columns = [name for name in TailIndex.columns() if name not in ("n", "n_missing")]
        blocks += traces_table(tails, TailIndex, caption=caption, columns=columns)
    findings = (*medians, *first, *further)
    return Content(findings, tuple(blocks), lead=tuple(_lead(fits)), limitations=_LIMITATIONS)


def _lead(fits: Fitted) -> list[Block]:
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
    interval = ""
    if low is not None and high is not None:
        interval = f"95 % CI {duration_range(low, high)}; "
    above = "" if result.bound is None else f" of runtimes of {duration(result.bound)} and more"
    heading = f"the median{above or ' runtime'} is {duration(median)}"
    finding = Finding(
        f"{heading} ({interval}n = {result.n_timed:,} {cohort.noun}).", heading=heading
    )
    return [finding.of(cohort.title)]


def _details(cohort: Cohort, result: RuntimeDistributions) -> Iterator[Block]:
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


def _findings(fits: DistributionFits, result: RuntimeDistributions, title: str) -> tuple[str, str]:
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
    others = ""
    if close := [
        f"{row['family']} (adjusted {p_equals(row['pvalue_adjusted'])})"
        for row in fits.comparisons.iter_rows(named=True)
        if row["pvalue_adjusted"] is not None and row["pvalue_adjusted"] >= _ALPHA
    ]:
        others = f" Vuong's test does not distinguish {fits.best} from {listed(close)}."
    return best, f"{title}:{others}" if others else ""


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the distribution of runtimes by group."""
    cohorts = (form_cohort(trace) for trace in traces)
    return [
        drawing(
            "empirical-distribution",
            empirical_distribution(cohort.rows, "runtime_s", by=cohort.by),
            trace=cohort.trace,
            title=cohort.title,
            key=f"runtime-{cohort.by}-{cohort.trace.id}",
            about=f"Runtime of {cohort.noun} by {in_sentence(key_heading(cohort.by))}",
            x_label="Runtime",
            heading=f"Runtime by {in_sentence(key_heading(cohort.by))}",
            durations=True,
        )
        for cohort in cohorts
        if cohort.by is not None
    ]


SECTION = Section(
    "distributions",
    "Distributions of runtimes",
    10,
    build,
    needs=({"jobs": ("runtime_s",)}, {"tasks": ("status",), "instances": ("start_s", "end_s")}),
    figures=("distribution-fit", "empirical-distribution"),
    shares="cohort",
    more=draw_more,
    part="Runtimes",
    question="Which distribution describes the runtimes?",
)
