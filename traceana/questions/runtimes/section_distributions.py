"""Distributions of runtimes: fitted families, tails and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

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
    drawing,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.analyze import (
    REFITS,
    SEED,
    RuntimeDistributions,
    analyze_runtime_distributions,
    median_above,
)
from traceana.questions.runtimes.distributions import empirical_distribution
from traceana.questions.runtimes.tables import (
    BestFamilies,
    DistributionFits,
    FamilyRanking,
    RuntimeOverview,
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
    "trace has them."
)
_OPENING: Final = (
    "Six families are fitted by maximum likelihood and ordered by BIC. KS distance: the largest "
    f"difference between the fitted and the empirical distribution function; its p, of the best "
    f"family only, is from {REFITS} resamples of the independent units (seed {SEED}), so at least "
    f"{1 / (REFITS + 1):g}; censored or truncated rows in units have none. Mean log-likelihood "
    "ratio and adjusted p (Benjamini-Hochberg): Vuong's "
    "test against the best family, or a likelihood-ratio test if nested, which has no interval."
)
_TAIL: Final = (
    "The fraction of runtimes above x falls as x to the power of minus the tail index (Hill). "
    "Below 2 the variance is infinite, below 1 the mean. An index that changes with the number of "
    "largest runtimes contradicts a power law."
)
Found: TypeAlias = "dict[str, tuple[Cohort, RuntimeDistributions]]"


_FEWEST_ROWS = 50  # below, no family is named in a finding


def build(traces: Sequence[Trace]) -> Content:
    """Compare the distributions of runtimes of the traces."""
    distinct = distinct_traces(traces)
    fits: Found = {}
    for trace in distinct:
        cohort = form_cohort(trace)
        analyzed = trace.once(analyze_runtime_distributions)
        fits[f"{cohort.title}: {cohort.noun}"] = (cohort, analyzed)
    blocks: list[Block] = [Text(_OPENING)]
    fitted = []
    for name, (cohort, fit) in fits.items():
        blocks += [Heading(name), *_details(cohort, fit)]
        if fit.fits and fit.fits.best and fit.fits.table["n"][0] >= _FEWEST_ROWS:
            fitted.append(_findings(fit.fits, fit, cohort.title))
    tails = _tails(fits)
    if tails:
        blocks += [Heading("Tails of the distributions"), Text(_TAIL), *tails]
    if repeated := [fit.label for fit in traces if fit not in distinct]:
        blocks.append(Text(f"Repeats another trace and is not shown: {'; '.join(repeated)}."))
    median = _median_finding(fits)
    findings = [*(best for best, *_ in fitted), *(text for _, *more in fitted for text in more)]
    return Content(
        (*([median] if median else []), *findings),
        tuple(blocks),
        median,
        lead=tuple(_lead(fits)),
        limitations=_LIMITATIONS,
    )


def _lead(fits: Found) -> list[Block]:
    lines = []
    rows = []
    for name, (_, fit) in fits.items():
        if fit.fits is None or fit.fits.quantiles is None:
            continue
        n = fit.n_positive
        lines.append(
            fit.fits.quantiles.select(
                pl.lit(name).alias("trace"),
                pl.lit(n).alias("n"),
                "fraction_below",
                *(pl.col(part).cast(pl.Float64) for part in ("value", "ci_low", "ci_high")),
            )
        )
        median = dict(zip(("median_s", "ci_low", "ci_high"), fit.median, strict=True))
        rows.append({"trace": name, "n": n} | median | _best(fit))
    if not lines:
        return []
    figure = drawing(
        "empirical-distribution",
        pl.concat(lines),
        trace=None,
        key="runtime-distribution",
        about="Distribution of runtimes",
        title="; ".join(str(row["trace"]) for row in rows),
        x_label="Runtime",
        heading="Runtime",
        durations=True,
    )
    table = result_table(
        pl.DataFrame(rows, infer_schema_length=None),
        RuntimeOverview,
        caption="Runtimes of each trace; the median of a complete log is exact",
    )
    return [Gallery((figure,)), table]


def _best(distributions: RuntimeDistributions) -> dict[str, object]:
    assert distributions.fits is not None  # noqa: S101  the caller has them
    first = distributions.fits.table.row(0, named=True)
    return {
        "best": distributions.fits.best,
        "ks_statistic": first["ks_statistic"] if distributions.fits.best else None,
        "tail_index": None if distributions.tail is None else distributions.tail["tail_index"][0],
    }


def _median_finding(fits: Found) -> str:
    texts, short = [], []
    for cohort, fit in fits.values():
        if fit.fits is None or fit.fits.quantiles is None:
            continue
        median, low, high = fit.median
        if median is None:
            continue
        interval = ""
        if low is not None and high is not None:
            interval = f"95 % CI {duration_range(low, high)}; "
        above = "" if fit.bound is None else f" of {duration(fit.bound)} and more"
        short.append(f"{duration(median)} ({cohort.trace.label})")
        texts.append(
            f"{duration(median)} in {cohort.title} ({interval}n = {fit.n_positive:,} {cohort.noun}"
            f"{above})"
        )
    if not texts:
        return ""
    first = f"The median runtime is {texts[0]}."
    if len(texts) > 1:
        first = f"Median runtimes: {'; '.join(texts)}."
    heading = f"The median runtime is {listed(short)}"
    bounds = {fit.bound for _, fit in fits.values()} - {None}
    if len(texts) > 1 and bounds:  # a log without its short jobs has a longer median
        bound = max(known for known in bounds if known is not None)
        longer = [(cohort, *median_above(cohort, bound)) for cohort, _ in fits.values()]
        known = [(cohort, value, n) for cohort, value, n in longer if value is not None]
        texts = [f"{duration(value)} in {cohort.title} (n = {n:,})" for cohort, value, n in known]
        above = f"Medians of the runtimes of {duration(bound)} and more: {'; '.join(texts)}."
        first = f"{above} {first.replace('Median runtimes', 'Of all runtimes', 1)}"
        short = [f"{duration(value)} ({cohort.trace.label})" for cohort, value, _ in known]
        heading = f"The median of runtimes of {duration(bound)} and more is {listed(short)}"
    return Finding(first, heading=heading)


def _details(cohort: Cohort, distributions: RuntimeDistributions) -> list[Block]:
    manifest = cohort.trace.manifest
    definitions = manifest.tables["tasks" if cohort.from_tasks else "jobs"].notes
    if cohort.observation is not None:
        definitions = (*definitions, cohort.observation.describe(cohort.noun))
    about = f"n = {distributions.n_used:,} of {distributions.n:,} {cohort.noun}"
    if distributions.n_positive < distributions.n:
        about += f"; {distributions.n - distributions.n_positive:,} have no runtime or one of 0 s"
    if distributions.n_used < distributions.n_positive:
        about += f"; the others are not in the random sample (seed {SEED})"
    if distributions.bound is not None:
        about += (
            f". The smallest runtime, {seconds(distributions.bound)} s, is the left-truncation "
            "bound of each fit"
        )
    about += f".{cohort.sampled}"
    if distributions.fits is None:
        about += " Fewer than two distinct runtimes: nothing to fit."
        return [Text(about, definitions)]
    return [
        Text(about, definitions),
        Gallery(tuple(_figures(distributions.fits, cohort))),
        _families(distributions.fits, distributions, cohort.title),
        *_sensitivity(distributions, cohort.title),
        *_groups(distributions, cohort),
    ]


def _tails(fits: Found) -> list[Block]:
    parts = [
        fit.tail.select(pl.lit(name).alias("trace"), pl.exclude("n", "n_missing"))
        for name, (_, fit) in fits.items()
        if fit.tail is not None
    ]
    if not parts:
        return []
    return [
        result_table(pl.concat(parts), TailIndex, caption="Tail index of runtimes; threshold in s")
    ]


def _sensitivity(distributions: RuntimeDistributions, title: str) -> tuple[Table, ...]:
    if distributions.sensitivity is None:
        return ()
    table = result_table(
        distributions.sensitivity,
        RuntimeSensitivity,
        caption="Sensitivity to left-truncated and censored rows. The first row is the estimate; "
        "ignoring truncation and censoring is biased, and dropping the rows biases low. Mean: not "
        f"estimable with truncated or censored rows. {title}",
        null={"mean_s": "not estimable"},
    )
    return (table,)


def _families(fits: DistributionFits, distributions: RuntimeDistributions, title: str) -> Table:
    parameters = [
        ", ".join(f"{key} {three_digits(value)}" for key, value in fits.params(family).items())
        for family in fits.table["family"]
    ]
    compared = fits.comparisons.select(
        "family", "mean_ratio", "ci_low", "ci_high", "pvalue_adjusted"
    )
    table = fits.table.drop("note").with_columns(
        pl.Series("parameters", parameters),
        ks_pvalue=pl.when(pl.col("family").eq_missing(pl.lit(fits.best, pl.String))).then(
            pl.lit(distributions.pvalue, pl.Float64)
        ),
    )
    bounded = () if distributions.bound is None else ("fraction_above_bound",)
    return result_table(
        table.join(compared, on="family", how="left", maintain_order="left"),
        FamilyRanking,
        columns=[
            *("family", "parameters", "delta", "aic", "ks_statistic", "ks_pvalue", *bounded),
            "mean_ratio",
            "ci_low",
            "ci_high",
            "pvalue_adjusted",
        ],
        headings={"delta": "Delta BIC"},
        caption=f"Families fitted to runtimes (s), the best first. {title}",
    )


def _groups(distributions: RuntimeDistributions, cohort: Cohort) -> tuple[Table, ...]:
    if distributions.groups is None or cohort.by is None:
        return ()
    heading = in_sentence(key_heading(cohort.by))
    bound = (
        "" if distributions.bound is None else ", with the left-truncation bound of all runtimes"
    )
    return (
        result_table(
            distributions.groups,
            BestFamilies,
            null={"best": "none", "second": "none"},
            caption=f"Best family by {heading}{bound}. Adjusted p: Vuong's test of the best "
            f"against the second, over the families of the row. {cohort.title}",
        ),
    )


def _figures(fits: DistributionFits, cohort: Cohort) -> list[Drawing]:
    if fits.best is None or not fits.params(fits.best):
        return []
    return [
        drawing(
            "distribution-fit",
            fits,
            trace=cohort.trace,
            title=cohort.title,
            key=f"fit-tail-{cohort.trace.id}",
            about=f"Runtimes of {cohort.noun} and fitted families: upper tail",
            panel="tail",
            what="Runtime",
        )
    ]


def _findings(fits: DistributionFits, distributions: RuntimeDistributions, title: str) -> list[str]:
    first = fits.table.row(0, named=True)
    bound = (
        ""
        if distributions.bound is None
        else f", left-truncated at {seconds(distributions.bound)} s"
    )
    finding = (
        f"{title}: of {fits.table.height} families {fits.best} fits best by BIC (n = {first['n']:,}"
        f"{bound}). Its KS distance is {ratio(first['ks_statistic'])}"
    )
    if distributions.pvalue is not None:
        none = "" if distributions.pvalue >= _ALPHA else ": no family fits"
        finding += f" ({p_equals(distributions.pvalue)}{none})"
    else:
        finding += " (not tested)"
    others = f"{_rivals(fits)}{_without_cut_rows(fits, distributions)}"
    return [f"{finding}.", *([f"{title}:{others}"] if others else [])]


def _rivals(fits: DistributionFits) -> str:
    """Return the families that Vuong's test does not distinguish from the best."""
    close = fits.comparisons.filter(pl.col("pvalue_adjusted") >= _ALPHA)
    if close.is_empty():
        return ""
    named = [
        f"{row['family']} (adjusted {p_equals(row['pvalue_adjusted'])})"
        for row in close.iter_rows(named=True)
    ]
    return f" Vuong's test does not distinguish {fits.best} from {listed(named)}."


def _without_cut_rows(fits: DistributionFits, distributions: RuntimeDistributions) -> str:
    if distributions.sensitivity is None:
        return ""
    dropped = distributions.sensitivity.row(-1, named=True)
    if dropped["best"] == fits.best:
        return ""
    return (
        f" {dropped['best'].capitalize()} fits best without the left-truncated and censored rows, "
        f"which biases low (n = {dropped['n']:,})."
    )


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
