"""Correlations of runtime and failure with requested resources, over rows and over group means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

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
from traceana.questions.correlations.tables import Correlations
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.stats.multiplicity import INCONCLUSIVE, NEGLIGIBLE, THRESHOLDS, conclude
from traceana.store import Trace
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    correlation,
    correlation_range,
    in_sentence,
    interval,
    listed,
    p_equals,
)


class Answers(NamedTuple):
    """What rows do that request more, by the sign and size of a correlation."""

    rises: str
    falls: str
    unclear: str
    alike: str | None = None
    """None: a small correlation may be a large effect, as that of a rare outcome."""


RUN: Final = Answers("run longer", "run shorter", "may run longer or shorter", "run about as long")
FAIL: Final = Answers("fail more often", "fail less often", "may fail more or less often")
ALPHA: Final = 0.05
_ESTIMATED: Final = ("n", "r", "ci_low", "ci_high", "pvalue_adjusted")
SIGNIFICANT: Final = {"significant_t": "p < .05, published test", "significant": "Adjusted p < .05"}
_LEVELS: Final = {
    "row": "rows",
    "group_mean": "group means",
    "group_mean_weighted": "weighted group means",
}


def name_feature(column: str, /) -> str:
    """Return the name of a requested resource in a sentence."""
    return in_sentence(key_heading(column))


def name_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Add the names of feature and level, and what is significant at .05."""

    def below(p: str) -> pl.Expr:
        yes = pl.when(pl.col(p) < ALPHA).then(pl.lit("yes")).otherwise(pl.lit("no"))
        return pl.when(pl.col(p).is_not_null()).then(yes)

    return table.with_columns(
        feature=pl.col("x").replace_strict({x: name_feature(x) for x in table["x"].unique()}),
        points=pl.col("level").replace_strict(_LEVELS),
        significant_t=below("pvalue_t"),
        significant=below("pvalue_adjusted"),
    )


def name_family(n_tested: int, /) -> str:
    """Return over what the p-values of a table are adjusted."""
    if not n_tested:
        return "no correlation is tested"
    return f"p adjusted (Benjamini and Hochberg) over {n_tested} tests"


def draw_forest(
    cohort: Cohort,
    what: str,
    overall: pl.DataFrame,
    within: pl.DataFrame | None,
    /,
    *,
    method: str = "spearman",
) -> list[Drawing]:
    """Return the figure of correlations over rows, overall and by the cohort's groups."""
    named = overall.filter(method=method, level="row")
    frames = [named.with_columns(group=pl.lit(None, pl.String))]
    by = f", overall and by {in_sentence(key_heading(cohort.by))}" if cohort.by else ""
    if within is not None and cohort.by is not None:
        rows = name_rows(within.filter(method=method))
        frames.append(rows.with_columns(group=pl.col(cohort.by).cast(pl.String)))
    every = pl.concat(frames, how="diagonal")
    if "outcome" not in every.columns:
        every = every.with_columns(outcome=pl.lit(None, pl.String))
    features = pl.Enum(named["feature"].unique(maintain_order=True))
    shown = every.select("feature", "outcome", "group", "n", "r", "ci_low", "ci_high").sort(
        pl.col("feature").cast(features), "group", pl.col("outcome") != "success", nulls_last=False
    )
    if not shown["r"].count():
        return []
    ranked = method == "spearman"
    name = f"Rank correlation of {what} with" if ranked else f"Pearson's r of {what} and"
    kind = "" if ranked else "-pearson"
    key = f"{'failure-' * (what == 'failure')}correlations{kind}-{cohort.trace.id}"
    about = f"{name} the resources that {cohort.noun} request{by}"
    options = {"title": cohort.title, "x_label": "Spearman's rho" if ranked else "Pearson's r"}
    return [drawing("correlations", shown, cohort.trace, key, about, **options)]


def compare_methods(
    cohort: Cohort, what: str, overall: pl.DataFrame, within: Sequence[pl.DataFrame], /
) -> Table:
    """Return the table of Pearson's r and Spearman's rho, overall and by the cohort's groups."""
    frames = [overall.filter(level="row").with_columns(group=pl.lit("all"))]
    group, by = "Group", ""
    if cohort.by is not None:
        frames += [name_rows(table).with_columns(group=pl.col(cohort.by)) for table in within]
        group = key_heading(cohort.by)
        by = f", overall and within {in_sentence(group)}"
    outcome = ["outcome"] if "outcome" in overall.columns else []
    columns = [*outcome, "feature", "group", "method", *_ESTIMATED]
    first: list[pl.Expr] = [pl.col(name) != "success" for name in outcome]
    order = [*first, pl.col("feature"), pl.col("group") != "all"]
    return result_table(
        pl.concat([frame.select(columns) for frame in frames]).sort(*order, "group", "method"),
        Correlations,
        headings={"group": group},
        caption=f"Pearson's r and Spearman's rho of {what} and the resources that {cohort.noun} "
        f"request{by}. Each is adjusted in its own family of tests",
    )


def _conclusion(row: dict[str, Any], answers: Answers) -> str:
    """Return the conclusion on a correlation; "" if it has a sign."""
    r, p = row["r"], row["pvalue_adjusted"]
    size = conclude("correlation", r, row["ci_low"], row["ci_high"], p)
    if p is None:  # rows are fewer than they seem: what chance explains of all is unclear
        small = NEGLIGIBLE if abs(r) < THRESHOLDS["correlation"][0] else ""
        size = small if (row["pvalue_t"] or 0.0) < ALPHA else INCONCLUSIVE
    if size == NEGLIGIBLE and answers.alike is None:
        size = "" if p is not None and p < ALPHA else INCONCLUSIVE
    return size


def state_correlations(
    cohort: Cohort,
    who: str,
    answers: Answers,
    ranks: pl.DataFrame,
    within: pl.DataFrame | None,
    /,
    *,
    when: str = "",
) -> str:
    """Return a finding on rank correlations with requested resources, one sentence of each.

    What is clear is first, then by strength; `who` are the rows, and `when` follows the answer.
    """
    stated: list[tuple[bool, float, str, str, str]] = []
    table = ranks.drop_nulls("r")
    # resources that are requested in a fixed ratio have one correlation
    same = ("r", "ci_low", "ci_high", "pvalue_adjusted", "n")
    for _, alike in table.group_by(same, maintain_order=True):
        row = alike.row(0, named=True)
        size, p = _conclusion(row, answers), row["pvalue_adjusted"]
        unclear = {NEGLIGIBLE: answers.alike, INCONCLUSIVE: answers.unclear}.get(size)
        name = listed(alike["feature"].str.strip_suffix(" (GiB)"))
        if alike.height > 1:
            name += f", which rank the {cohort.noun} alike,"
        limits = interval(row, correlation_range, ", 95 % CI {}")
        tested = ", not tested" if p is None else f"; {p_equals(p)}"
        numbers = f"rho {correlation(row['r'])}{limits}{tested}"
        reverses = "" if unclear else _reversed(cohort, row, within)
        answer = unclear or (answers.rises if row["r"] > 0 else answers.falls)
        stated.append((unclear is not None, -abs(row["r"]), name, answer, numbers + reverses))
    if not stated:
        return ""
    stated.sort(key=lambda ranked: ranked[:2])
    (_, _, name, answer, numbers), *others = stated
    rows = " to ".join(f"{n:,}" for n in table["n"].unique().sort()[[0, -1]].unique())
    units = ""
    if cohort.cluster is not None:
        units = f", {cohort.name_units(max(table['n_clusters'].drop_nulls(), default=0))}"
    first = f"{who} that request more {name} {answer}{when}"
    sentences = [f"{first} (Spearman's {numbers}; n = {rows}{units})"]
    for _, _, name, answer, numbers in others:
        sentences.append(f"With more {name} they {answer} ({numbers})")
    return ". ".join(sentences) + "."


def _reversed(cohort: Cohort, row: dict[str, Any], within: pl.DataFrame | None) -> str:
    """Return the groups in which a correlation is significant, if all have the opposite sign."""
    if within is None or cohort.by is None:
        return ""
    of_feature = within.filter(x=row["x"]).filter(pl.col("pvalue_adjusted") < ALPHA)
    if of_feature.is_empty() or not (of_feature["r"] * row["r"] < 0).all():
        return ""
    named = [f"{group} {correlation(r)}" for group, r in of_feature.select(cohort.by, "r").rows()]
    by = in_sentence(key_heading(cohort.by))
    return f"; of opposite sign within {by} {listed(named)}"


_OPENING: Final = (
    "Group means are the published PAI method: one point per distinct value, at its mean runtime. "
    "They hide how many rows a point has, so they do not apply to single rows. Their test "
    "permutes runtimes over rows, because the mean of a small group of skewed runtimes is mostly "
    'below those of large groups. "p, Student\'s t" is the published test, which ignores this. '
    f"Over units, intervals use the delete-one-cluster jackknife (more than {RESAMPLES} units are "
    f"combined at random into {RESAMPLES} groups, seed 1). Their p-values use the wild cluster "
    "bootstrap for Pearson's r and the jackknife for ranks over rows; ranks over group means are "
    "not tested."
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
    if late := (cohort.rows["entry_s"] > 0).sum():
        method = f"Excluded: {late:,} {cohort.noun} that started before the window."
    both = result.table.with_columns(below_s=pl.lit(None, pl.Float64))
    if (cut := cohort.trace.once(cut_correlations)) is not None:
        both = pl.concat([both, cut], how="diagonal")
    table = name_rows(result.table).sort("outcome", descending=True, maintain_order=True)
    ranks = table.filter(method="spearman", level="row")
    within = cohort.trace.once(group_correlations)
    by_pearson = cohort.trace.once(group_correlations, "pearson")
    by_group = [table for table in (by_pearson, within) if table is not None]
    lead: tuple[Block, ...] = (
        Gallery(tuple(draw_forest(cohort, "runtime", table, within))),
        compare_methods(cohort, "runtime", table, by_group),
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
            caption=f"All correlations; {name_family(result.n_tested)}",
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
    findings += contradictions(table)
    return Content(findings, blocks, lead, _LIMITATIONS)


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
        return "no clear correlation of runtime with a requested resource", "", 0.0
    order = [pl.col("outcome") == "success", pl.col("r").abs()]
    row = clear.sort(order, descending=True).row(0, named=True)
    longer = "longer" if row["r"] > 0 else "shorter"
    feature = str(row["feature"]).removesuffix(" (GiB)")
    what = f"{_ended(cohort, row['outcome'])} that request more {feature} run {longer}"
    return f"{what} (rho {correlation(row['r'])})", row["outcome"], row["r"]


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
            "as in the table of all correlations",
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
        name = name_feature(x)
        views: Iterable[tuple[float | None, bool]] = [(None, False)]
        if (outcome, x) in cut:
            views = product((None, cut[outcome, x]), (False, True))
        for below_s, log_x in views:
            closer = f", below {below_s:,.0f} s" if below_s else ""
            view = f"{outcome}-{x}{'-log' * log_x}{f'-{below_s:.0f}s' if below_s else ''}"
            scale = ", logarithmic x" * log_x
            about = f"Mean runtime of {cohort.noun} versus {name}, {outcome}{closer}{scale}"
            test = tests.get((outcome, x, below_s), "")
            heading = f"{outcome.capitalize()}{closer.replace('below', '<')}{test}"
            look: dict[str, Any] = {"x_label": name, "heading": heading}
            look |= {"log_x": log_x, "log_y": not cohort.from_tasks}
            of_view, rows = f"against-{view}-{cohort.trace.id}", means[outcome, x, below_s]
            panels.append(drawing("runtime-against", rows, cohort.trace, of_view, about, **look))
    what = f"Mean runtime of {cohort.noun} versus each feature, by outcome"
    about = f"{what}, uncut and below the published cut-offs"
    return small_multiples(panels, key=f"against-{cohort.trace.id}", about=about, columns=4)


def contradictions(table: pl.DataFrame, /) -> tuple[str, ...]:
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
    return (f"{what}. {'. '.join(stated)}.",)


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
