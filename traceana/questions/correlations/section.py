"""Correlations of runtime with requested resources, over rows and over group means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, MOST_NOT_ENDED, Cohort, form_cohort
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    result_table,
    small_multiples,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.correlations.analyze import (
    RESAMPLES,
    cohort_correlations,
    cut_correlations,
    group_correlations,
    published_means,
)
from traceana.questions.correlations.section_features import (
    ALPHA,
    FEATURE_NAMES,
    RUN,
    SIGNIFICANT,
    compare_methods,
    draw_forest,
    name_family,
    name_rows,
    requested,
    state_correlations,
)
from traceana.questions.correlations.tables import Correlations
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.stats.multiplicity import THRESHOLDS
from traceana.store import Trace
from traceana.tables.formatting import correlation

_OPENING: Final = (
    "Group means are the published PAI method: one point per distinct value, at its mean runtime. "
    "They hide how many rows a point has, so they do not apply to single rows. Their test "
    "permutes runtimes over rows, because the mean of a small group of skewed runtimes is mostly "
    'below those of large groups. "p, Student\'s t" is the published test, which ignores this.'
)
_SMALL: Final = THRESHOLDS["correlation"][0]
_MOST_STATUSES: Final = 2  # named in a sentence
_CLEAR: Final = 10  # n r^2 from which an untested correlation is stated: r is 3.2 standard errors
_CASE: Final = ("outcome", "feature", "method", "points")
_LIMITATIONS: Final = (
    "A correlation is no cause: users who request more may run other programs. Rows without a "
    "runtime or the feature are excluded and counted."
)


def build(traces: Sequence[Trace]) -> Content:
    """Show the correlations of each cohort, and the points that they are computed from."""
    return build_per_cohort(traces, _cohort, opening=_OPENING)


def _cohort(cohort: Cohort) -> Content:
    result = cohort.trace.once(cohort_correlations)
    definitions, method = (*cohort.definitions, cohort.independence), ""
    if result is None:
        return Content((), (Text("No feature or no outcome has values.", definitions),))
    if cohort.cluster is not None:
        method += (
            "Their intervals use the delete-one-cluster jackknife; more than "
            f"{RESAMPLES} clusters are combined at random into {RESAMPLES} groups (seed 1). Their "
            "p-values use the wild cluster bootstrap for Pearson's r and the jackknife for ranks "
            "over rows; ranks over group means are not tested."
        )
    if late := (cohort.rows["entry_s"] > 0).sum():
        method += f" {late:,} {cohort.noun} that started before the window are excluded."
    both = result.table.with_columns(below_s=pl.lit(None, pl.Float64))
    if (cut := cohort.trace.once(cut_correlations)) is not None:
        both = pl.concat([both, cut], how="diagonal")
    table = name_rows(result.table).sort("outcome", descending=True, maintain_order=True)
    ranks = table.filter(method="spearman", level="row")
    within = cohort.trace.once(group_correlations)
    by_pearson = cohort.trace.once(group_correlations, "pearson")
    by_group = [one for one in (by_pearson, within) if one is not None]
    lead: tuple[Block, ...] = (
        Gallery(tuple(draw_forest(cohort, "runtime", table, within))),
        *compare_methods(cohort, "runtime", table, by_group),
    )
    counts = ("n", "n_missing", "n_excluded", "n_groups", "n_effective", "n_clusters")
    effects = ("r", "ci_low", "ci_high", "pvalue", "pvalue_adjusted", "pvalue_t", *SIGNIFICANT)
    blocks: tuple[Block, ...] = (
        Text(method, definitions),
        _views(cohort, both),
        *_below_cutoffs(cohort, both),
        result_table(
            table,
            Correlations,
            columns=(*_CASE, *counts, *effects, "n_carrying", "r_without", "note"),
            headings={"points": "Level", **SIGNIFICANT},
            caption=f"All correlations; {name_family(result.n_tested)}. {cohort.title}",
            folded=True,
        ),
    )
    heading, strongest, rho = _heading(cohort, ranks)
    stated = []
    for outcome in sorted(("success", "failure"), key=lambda outcome: outcome != strongest):
        by_outcome = None if within is None else within.filter(outcome=outcome)
        who, of_outcome = _ended(cohort, outcome), ranks.filter(outcome=outcome)
        stated.append(state_correlations(cohort, who, RUN, of_outcome, by_outcome))
    missing = ""
    if (running := (~cohort.rows["observed"]).sum()) > MOST_NOT_ENDED * cohort.rows.height:
        missing = (
            f" Of these runtimes the longest are missing: {running:,} of the "
            f"{cohort.rows.height:,} {cohort.noun} still ran when last seen."
        )
    findings = tuple(f"{text}{missing}" for text in stated if text)
    if findings:
        is_weak = abs(rho) < THRESHOLDS["correlation"][1]
        untested = not ranks["pvalue_adjusted"].count()
        first = Finding(findings[0], heading=heading, is_null=is_weak, is_description=untested)
        findings = (first, *findings[1:])
    return Content((*findings, *contradictions(table, cohort.title)), blocks, lead, _LIMITATIONS)


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw Pearson's r over rows, overall and within the cohort's groups."""
    pictures: list[Drawing] = []
    for trace in traces:
        if result := trace.once(cohort_correlations):
            within, cohort = trace.once(group_correlations, "pearson"), form_cohort(trace)
            rows = name_rows(result.table).sort("outcome", descending=True, maintain_order=True)
            pictures += draw_forest(cohort, "runtime", rows, within, method="pearson")
    return pictures


def _heading(cohort: Cohort, ranks: pl.DataFrame) -> tuple[str, str, float]:
    """State the strongest correlation of runtime with a requested resource; its outcome and rho."""
    rows = ranks.drop_nulls("r")
    tested = rows.drop_nulls("pvalue_adjusted")
    notable = pl.col("r").abs() >= _SMALL
    clear = tested.filter(notable, pl.col("pvalue_adjusted") < ALPHA)
    if tested.is_empty():  # of all jobs of a log, a correlation stands without a test
        clear = rows.filter(notable, pl.col("r") ** 2 * pl.col("n") > _CLEAR)
    if rows.is_empty():
        return "", "", 0.0
    if clear.is_empty():
        return f"{cohort.title}: no clear correlation of runtime with a requested resource", "", 0.0
    order = [pl.col("outcome") == "success", pl.col("r").abs()]
    row = clear.sort(order, descending=True).row(0, named=True)
    longer = "longer" if row["r"] > 0 else "shorter"
    feature = requested(str(row["feature"]))
    what = f"{_ended(cohort, row['outcome'])} that request more {feature} run {longer}"
    return f"{cohort.title}: {what} (rho {correlation(row['r'])})", row["outcome"], row["r"]


def _ended(cohort: Cohort, outcome: str) -> str:
    """Return the rows of an outcome by their statuses: failed or running pods."""
    failed = cohort.trace.manifest.failure_statuses
    statuses = ("completed",) if outcome == "success" else failed
    if len(statuses) > _MOST_STATUSES:
        return f"{cohort.noun} without completion"
    return f"{' or '.join(sorted(statuses))} {cohort.noun}"


def _below_cutoffs(cohort: Cohort, both: pl.DataFrame) -> list[Table]:
    """Return Pearson's r over the rows below each published cut-off, beside that over all rows."""
    cut = both.filter(pl.col("below_s").is_not_null())
    if cut.is_empty():
        return []
    table = both.filter(pl.col("level").is_in(cut["level"].unique().implode()), method="pearson")
    order = [pl.col("outcome") != "success", pl.col("x"), pl.col("level"), pl.col("below_s")]
    case = ("outcome", "feature", "points", "below_s", "n", "n_groups")
    tested = ("r", "ci_low", "ci_high", "pvalue_adjusted", "pvalue_t")
    return [
        result_table(
            name_rows(table.sort(order, nulls_last=False)),
            Correlations,
            columns=(*case, *tested, *SIGNIFICANT, "note"),
            headings={"points": "Level", "below_s": "Runtime below (s)", **SIGNIFICANT},
            null={"below_s": "all"},
            caption=f"Pearson's r of runtime over only those {cohort.noun} whose runtime is below "
            "a published cut-off, beside that over all. The rows are selected first, then grouped "
            "and correlated. A cut-off on the runtime selects on the outcome of the correlation, "
            "so it changes r also where the relation is the same. p adjusted (Benjamini and "
            f"Hochberg) over the {cut['pvalue'].count()} tests below all cut-offs; over all rows, "
            f"as in the table of all correlations. {cohort.title}",
            folded=True,
        )
    ]


def _views(cohort: Cohort, both: pl.DataFrame) -> Gallery:
    """Draw group means as published, if a cut-off is: uncut and cut, on both scales where cut."""
    pearson = both.filter(method="pearson").drop_nulls("r")
    case = ("outcome", "x", "below_s")
    tested = pearson.filter(level="group_mean").drop_nulls("pvalue_t")
    tests = {
        tuple(key): f"\nr = {r:z.2f} (p = {p:.2e})"
        for *key, r, p in tested.select(*case, "r", "pvalue_t").iter_rows()
    }
    for *key, r in pearson.filter(level="row").select(*case, "r").iter_rows():
        if tuple(key) in tests:
            tests[tuple(key)] += f"\nover rows r = {r:z.2f}"
    means = cohort.trace.once(published_means)
    cut = {(outcome, x): below_s for outcome, x, below_s in means if below_s is not None}
    panels = []
    every = [(outcome, x) for outcome, x, below_s in means if below_s is None]
    for outcome, x in sorted(every, key=cut.__contains__):
        name = FEATURE_NAMES[x][0]
        views: Iterable[tuple[float | None, bool]] = [(None, False)]
        if (outcome, x) in cut:
            views = product((None, cut[outcome, x]), (False, True))
        for below_s, log_x in views:
            closer = f", below {below_s:,.0f} s" if below_s else ""
            view = f"{outcome}-{x}{'-log' * log_x}{f'-{below_s:.0f}s' if below_s else ''}"
            scale = ", logarithmic x" * log_x
            about = f"Mean runtime of {cohort.noun} versus {name}, {outcome}{closer}{scale}"
            test = tests.get((outcome, x, below_s), "")
            panels.append(
                drawing(
                    "runtime-against",
                    means[outcome, x, below_s],
                    cohort.trace,
                    f"against-{view}-{cohort.trace.id}",
                    about,
                    title=cohort.title,
                    x_label=name,
                    log_x=log_x,
                    log_y=not cohort.from_tasks,
                    heading=f"{outcome.capitalize()}{closer.replace('below', '<')}{test}",
                )
            )
    what = f"Mean runtime of {cohort.noun} versus each feature, by outcome"
    about = f"{what}, uncut and below the published cut-offs"
    return small_multiples(panels, key=f"against-{cohort.trace.id}", about=about, columns=4)


def contradictions(table: pl.DataFrame, title: str, /) -> tuple[str, ...]:
    """State every Pearson's r over rows that few rows carry or that ranks contradict."""
    rows = table.filter(level="row").drop_nulls("r")
    both = rows.filter(method="pearson").join(
        rows.filter(method="spearman"), on=["outcome", "x"], suffix="_ranks"
    )
    significant = pl.col("pvalue_adjusted", "pvalue_adjusted_ranks") < ALPHA
    opposite = (pl.col("r") * pl.col("r_ranks") < 0) & pl.all_horizontal(significant)
    carried = pl.col("n_carrying").is_not_null() & (pl.col("pvalue_adjusted") < ALPHA)
    matters = (pl.col("r").abs() >= _SMALL) | (pl.col("r_ranks").abs() >= _SMALL)
    contradicting = both.filter(opposite | carried, matters)
    if contradicting.is_empty():
        return ()
    stated = []
    for row in contradicting.iter_rows(named=True):
        text = (
            f"{row['feature'][0].upper()}{row['feature'][1:]} ({row['outcome']}, n = {row['n']:,}) "
            f"{correlation(row['r'])}, Spearman's rho {correlation(row['r_ranks'])}"
        )
        if row["n_carrying"] is not None:
            text += f", r without {row['n_carrying']:,} rows {correlation(row['r_without'])}"
        stated.append(text)
    what = "Pearson's r rests on few rows or contradicts ranks"
    return (f"{title}: {what}. {'. '.join(stated)}.",)


SECTION = Section(
    "correlations",
    "Runtime versus requested resources",
    100,
    build,
    needs=COHORT_NEEDS,
    figures=("correlations", "small-multiples", "runtime-against"),
    more=draw_more,
    shares="cohort",
    part="Runtimes",
    question="Do jobs that request more resources run longer?",
)
