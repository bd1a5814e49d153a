"""Distributions of runtimes: fitted families, tails and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.cohorts import form_cohort
from traceana.derived.distributions import (
    REFITS,
    RESAMPLES,
    SEED,
    RuntimeDistributions,
    analyze_runtime_distributions,
)
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    join_parts,
    result_table,
)
from traceana.report.section import Section
from traceana.results.display import key_heading
from traceana.results.distributions import (
    BestFamilies,
    DistributionFits,
    DistributionPairs,
    FamilyRanking,
    RuntimeSensitivity,
    TailIndex,
)
from traceana.results.formatting import in_sentence, pvalue, seconds, share, three_digits

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.report.context import Context

_PANELS: Final = {
    "shares": "distribution function",
    "tail": "upper tail",
    "quantiles": "quantile-quantile plot",
}
_ALPHA: Final = 0.05
_OPENING: Final = (
    "Six families are fitted by maximum likelihood and ordered by BIC. The best family need not "
    "fit well: the KS distance is the largest difference between the fitted and the empirical "
    "distribution function, and its p-value is from re-fits to simulated samples. With many values "
    "every family is rejected. Vuong's test compares the best family with each other; its effect "
    "size is the mean log-likelihood ratio per value. Values are treated as independent, which "
    "jobs of one user are not, and whole seconds as continuous."
)


def build(session: Context, traces: list[str]) -> Content:
    """Build the distributions of runtimes of each trace."""
    parts, repeated = [], []
    for trace in traces:
        original = session.manifest(trace).repeats
        if original in traces:
            repeated.append(f"{session.title(trace)} repeats the jobs of {session.title(original)}")
            continue
        cohort = form_cohort(session, trace)
        parts.append((f"{cohort.title}: {cohort.noun}", _build(session, cohort)))
    content = join_parts(_OPENING, parts)
    if not repeated:
        return content
    omitted = Text(f"{'; '.join(repeated)}: its runtimes are not shown again.")
    return Content(content.findings, (*content.blocks, omitted))


def _build(session: Context, cohort: Cohort) -> Content:
    found = session.once(analyze_runtime_distributions, cohort.trace)
    manifest = session.manifest(cohort.trace)
    about = " ".join(manifest.tables["tasks" if cohort.from_tasks else "jobs"].notes)
    about += f" n = {found.n_used:,} of {found.n:,} {cohort.noun}"
    if found.n_positive < found.n:
        about += f"; {found.n - found.n_positive:,} have no runtime or one of 0 s"
    if found.n_used < found.n_positive:
        about += f"; the others are not in the random sample (seed {SEED})"
    if found.bound is not None:
        about += (
            f". The smallest runtime, {seconds(found.bound)} s, is the left-truncation bound of "
            "each fit"
        )
    about = f"{about.strip()}.{cohort.sampled}"
    if cohort.observation is not None:
        about += f" {cohort.observation.describe(cohort.noun)}"
    if found.fits is None or found.tail is None:
        return Content((), (Text(f"{about} Fewer than two distinct runtimes: nothing to fit."),))
    blocks: list[Block] = [
        Text(about),
        _families(found.fits, found, cohort.title),
        result_table(
            found.tail.drop("n", "n_missing"),
            TailIndex,
            caption="Tail index: the fraction of runtimes above x falls as x to the power of minus "
            "the index (Hill). Below 2 the variance is infinite, below 1 the mean. An index that "
            f"changes with the number of runtimes is not that of a power law. {cohort.title}",
        ),
        *_sensitivity(found, cohort.title),
        Gallery(tuple(_figures(found.fits, cohort))),
        *_groups(found, cohort),
    ]
    return Content(tuple(_findings(found.fits, found, cohort.title)), tuple(blocks))


def _sensitivity(found: RuntimeDistributions, title: str) -> tuple[Table, ...]:
    if found.sensitivity is None:
        return ()
    table = result_table(
        found.sensitivity,
        RuntimeSensitivity,
        caption="Sensitivity to left-truncated and censored rows. The first row is the estimate; "
        "ignoring truncation and censoring is biased, and dropping the rows biases low. Mean: not "
        f"estimable with truncated or censored rows. {title}",
        null={"mean_s": "not estimable"},
    )
    return (table,)


def _families(fits: DistributionFits, found: RuntimeDistributions, title: str) -> Table:
    parameters = [
        ", ".join(f"{key} {three_digits(value)}" for key, value in fits.params(family).items())
        for family in fits.table["family"]
    ]
    compared = fits.comparisons.select(
        "family", "mean_ratio", "ci_low", "ci_high", "pvalue_adjusted"
    )
    table = fits.table.drop("note").with_columns(
        pl.Series("parameters", parameters),
        ks_pvalue=pl.when(family=fits.best).then(pl.lit(found.pvalue, pl.Float64)),
    )
    bounded = () if found.bound is None else ("share_above_bound",)
    return result_table(
        table.join(compared, on="family", how="left", maintain_order="left"),
        FamilyRanking,
        columns=[
            *("family", "parameters", "delta", "aic", "ks_statistic", "ks_pvalue", *bounded),
            *("mean_ratio", "ci_low", "ci_high", "pvalue_adjusted"),
        ],
        headings={"delta": "Delta BIC"},
        caption=f"Families fitted to runtimes (s), the best first. p of the KS distance: best "
        f"family only, from {REFITS} re-fits (seed {SEED}), so at least {1 / (REFITS + 1):g}. Mean "
        "log-likelihood ratio and adjusted p (Benjamini-Hochberg): Vuong's test against the best, "
        f"or a likelihood-ratio test if nested, which has no interval. {title}",
    )


def _groups(found: RuntimeDistributions, cohort: Cohort) -> tuple[Table, ...]:
    if found.groups is None or found.pairs is None or cohort.by is None:
        return ()
    heading = in_sentence(key_heading(cohort.by))
    bound = "" if found.bound is None else ", with the left-truncation bound of all runtimes"
    return (
        result_table(
            found.groups,
            BestFamilies,
            null={"best": "none", "second": "none"},
            caption=f"Best family by {heading}{bound}. Adjusted p: Vuong's test of the best "
            f"against the second, over the families of the row. {cohort.title}",
        ),
        result_table(
            found.pairs.drop(
                *("n_missing", "n_missing_other", "cliffs_delta"),
                *("ks_pvalue", "superiority_pvalue"),
            ),
            DistributionPairs,
            headings={
                cohort.by: "First",
                f"{cohort.by}_other": "Second",
                "superiority": "P(first is longer)",
            },
            caption=f"Pairs of groups by {heading}: KS distance (interval of {RESAMPLES} bootstrap "
            f"samples, seed {SEED}), and probability that a runtime of the first is longer; p of "
            "the KS and of Brunner and Munzel's test, adjusted (Benjamini-Hochberg) over both "
            f"tests of all pairs. {cohort.title}",
            folded=True,
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
            key=f"fit-{panel}-{cohort.trace}",
            about=f"Runtimes of {cohort.noun} and fitted families: {about}",
            panel=panel,
            what="Runtime",
        )
        for panel, about in _PANELS.items()
    ]


def _findings(fits: DistributionFits, found: RuntimeDistributions, title: str) -> list[str]:
    if fits.best is None:
        return []
    first = fits.table.row(0, named=True)
    bound = "" if found.bound is None else f", left-truncated at {seconds(found.bound)} s"
    finding = (
        f"{title}: of {fits.table.height} families {fits.best} has the smallest BIC for the n = "
        f"{first['n']:,} runtimes{bound}; its distribution function differs from the "
        f"empirical one by at most {share(first['ks_statistic'])}"
    )
    if found.pvalue is not None:
        least = ", the smallest possible" if found.pvalue <= 1 / (REFITS + 1) else ""
        finding += f" (p = {pvalue(found.pvalue)}{least} with {REFITS} simulated samples)"
    return [f"{finding}.{_rivals(fits)}{_without_cut_rows(fits, found)}"]


def _rivals(fits: DistributionFits) -> str:
    """Return the families that Vuong's test does not tell from the best."""
    close = fits.comparisons.filter(pl.col("pvalue_adjusted") >= _ALPHA)
    if close.is_empty():
        return ""
    named = [
        f"{row['family']} (adjusted p = {pvalue(row['pvalue_adjusted'])})"
        for row in close.iter_rows(named=True)
    ]
    return f" Vuong's test cannot tell it from {' and '.join(named)}."


def _without_cut_rows(fits: DistributionFits, found: RuntimeDistributions) -> str:
    if found.sensitivity is None:
        return ""
    dropped = found.sensitivity.row(-1, named=True)
    if dropped["best"] == fits.best:
        return ""
    return (
        f" Without the left-truncated and censored rows, which biases low, {dropped['best']} "
        f"fits best (n = {dropped['n']:,})."
    )


SECTION = Section(
    "distributions",
    "Distributions of runtimes",
    110,
    build,
    needs=(
        {"jobs": ("runtime_s",)},
        {"tasks": ("status",), "instances": ("start_s", "end_s")},
    ),
    figures=("distribution-fit",),
    of_tasks=True,
    part="Runtimes",
    question="Which distribution describes the runtimes?",
)
