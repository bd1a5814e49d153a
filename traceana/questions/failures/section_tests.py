"""Findings and tests of failure and runtime between groups, for the section on outcomes."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import Cohort
from traceana.page.blocks import Block, Table, result_table
from traceana.page.finding import Finding
from traceana.questions.failures.analyze import Outcomes, fit_failure_model
from traceana.questions.failures.hazards import overall_failure
from traceana.questions.failures.model import REVERSED
from traceana.questions.failures.tables import (
    FailureOdds,
    GroupTests,
    OddsRatios,
    RuntimePairs,
)
from traceana.stats.multiplicity import INCONCLUSIVE, NEGLIGIBLE, adjust_pvalues
from traceana.tables.declare import schema_of
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    duration,
    duration_range,
    fraction_range,
    in_sentence,
    interval,
    listed,
    p_equals,
    ratio,
    ratio_range,
    share,
    three_digits,
)

_ALPHA: Final = 0.05
_NOTICED: Final = 1.1
"""Rows of a group, ratio of failure rates, and its standard errors over rows, from which a
difference is stated."""
_MOST_NAMED: Final = 3
_NEARLY_ALL: Final = 0.95
"""Groups in a finding: those with the most rows, for any result."""


def tests_table(cohort: Cohort, tests: pl.DataFrame, /) -> Table:
    """Return the table of all tests between groups; no size of rates is called negligible."""
    of_rates = pl.col("question").str.starts_with("failure of")
    small = of_rates & (pl.col("conclusion") == NEGLIGIBLE)
    return result_table(
        tests.with_columns(conclusion=pl.when(~small).then("conclusion")),
        GroupTests,
        caption=f"Tests between groups of {cohort.noun}. {cohort.title}",
        null={"method": ""},
    )


def findings_of(cohort: Cohort, outcomes: Outcomes, tests: pl.DataFrame, /) -> list[str]:
    """Return the findings on failure and runtime by one column; groups are those with most rows."""
    by = outcomes.by
    if by is None:
        return []
    group = in_sentence(key_heading(by))
    rows = {row["question"]: row for row in tests.iter_rows(named=True)}
    findings: list[str] = []
    if (test := rows.get(f"failure of {cohort.noun} by {group}")) is not None:
        what = f"failure rate of {cohort.noun} ({cohort.counted})"
        if outcomes.horizon is None:
            named = [_rate(row, by, cohort) for row in _largest(outcomes.rates, by)]
            ratio_of_rates = _ratio_of_rates(outcomes.rates, by, cohort)
            rates = f"{'. '.join(named)}.{ratio_of_rates}{_standardized(outcomes, outcomes.rates)}"
            findings.append(f"{cohort.title}: failure rate of {cohort.noun}. {rates}")
        else:
            named = [incidence_of(row, by) for row in _largest(outcomes.horizon, by)]
            ratio_of_rates, what = "", f"fraction of {cohort.noun} that {cohort.counted}"
            equal = _standardized(outcomes, outcomes.horizon)
            findings.append(f"{cohort.title}: {what}. {'. '.join(named)}.{equal}")
        # Cohen's limits call rates negligible whose odds are not: the model has those
        verdict = test["conclusion"]
        decided = ratio_of_rates or (
            _odds(cohort).filter(pl.col("pvalue_adjusted") < _ALPHA, feature=key_heading(by)).height
        )
        if verdict != NEGLIGIBLE and not (decided and verdict == INCONCLUSIVE):
            findings += _tested(cohort, what, group, test)
    if outcomes.horizon is not None:
        named = [_median(row, by, cohort) for row in _largest(outcomes.runtimes.groups, by)]
        what = f"median runtime of {cohort.noun} until any end (Kaplan-Meier)"
        findings.append(f"{cohort.title}: {what}. {'. '.join(named)}.")
    for status in outcomes.comparisons:
        test = rows[f"runtime of {status} {cohort.noun} by {group}"]
        table = outcomes.runtimes.groups.filter(pl.col("status") == status)
        named = [_median(row, by, cohort) for row in _largest(table, by)]
        what = f"runtime of {status} {cohort.noun}"
        findings += _tested(cohort, what, group, test)
        findings.append(f"{cohort.title}: median {what}. {'. '.join(named)}.")
    return findings


def state_overall(cohort: Cohort, /) -> str:
    """Return the failure rate of all rows; first the incidence, where many have not ended."""
    result = cohort.trace.once(overall_failure)
    row = result.rate
    if not row["n"]:
        return ""
    excluded, bias = _excluded(cohort), result.bias
    limits = interval(row, fraction_range, shown=cohort.sampled)
    rate = (
        f"{share(row['rate'])} of the completed and failed {cohort.noun} failed "
        f"({limits}{row['failures']:,} of {row['n']:,}{f'; {bias}' if bias else ''}). "
        f"{excluded[0].upper()}{excluded[1:]}"
    )
    if not result.is_censored or result.incidence is None:
        failed = share(row["rate"]) if row["failures"] else "none"
        heading = f"{cohort.title}: {failed} of the {cohort.noun} failed"
        return Finding(f"{cohort.title}: {rate}", heading=heading, is_null=not row["failures"])
    by = result.incidence
    within = f"failed within {duration(by['horizon_s'])}"
    failed = share(by["fraction"]) if by["fraction"] else "none"
    return Finding(
        f"{cohort.title}: {failed} of the {cohort.noun} {within} of runtime "
        f"(cumulative incidence; {interval(by, fraction_range)}n = {by['n']:,}). {rate}",
        heading=f"{cohort.title}: {failed} of the {cohort.noun} {within} of runtime",
        is_null=not by["fraction"],
    )


def _largest(groups: pl.DataFrame, by: str) -> list[dict[str, Any]]:
    table = groups.filter(pl.col(by).is_not_null() & (pl.col("n") > 0))
    return table.sort("n", descending=True, maintain_order=True).head(_MOST_NAMED).to_dicts()


def _standardized(outcomes: Outcomes, crude: pl.DataFrame) -> str:
    """Return the rates that stand beside crude ones: at one composition of size and user."""
    if outcomes.standardized is None or outcomes.by is None:
        return ""
    held, table = outcomes.standardized
    rates = dict(table.select(outcomes.by, "standardized").drop_nulls().iter_rows())
    groups = [row[outcomes.by] for row in _largest(crude, outcomes.by)]
    parts = [f"{group} {share(rates[group])}" for group in groups if group in rates]
    covered = table["fraction_covered"][0]
    of_all = f" ({share(covered)} of the rows)" * (covered < _NEARLY_ALL)
    return f" With the same composition of {held}{of_all}: {listed(parts)}." * (len(parts) > 1)


def _ratio_of_rates(rates: pl.DataFrame, by: str, cohort: Cohort) -> str:
    """Return how many times as often the group with the highest rate fails, if it is clear."""
    noun = cohort.noun
    largest = [row for row in _largest(rates, by) if row["ci_low"] is not None and row["completed"]]
    if len(largest) < 2:
        return ""
    low, *_, high = sorted(largest, key=lambda row: float(row["rate"]))
    if not low["rate"] or high["rate"] < _NOTICED * low["rate"]:
        return ""
    if high["ci_low"] <= low["ci_high"]:
        return ""
    times = three_digits(high["rate"] / low["rate"])
    of = f"{in_sentence(key_heading(by))} "
    text = f" {noun.capitalize()} of {of}{high[by]} fail {times} times as often as of {of}{low[by]}"
    return f"{text}{_opposite(cohort, by, {high[by], low[by]})}."


def _odds(cohort: Cohort) -> pl.DataFrame:
    """Return the odds ratios of failure at equal features; empty without a model."""
    model, _ = cohort.trace.once(fit_failure_model)
    return pl.DataFrame(schema=schema_of(OddsRatios)) if model is None else model.odds_ratios


def _opposite(cohort: Cohort, by: str, pair: set[str]) -> str:
    """Return whether the order of two groups reverses at equal features (Simpson's paradox)."""
    odds, own = _odds(cohort), key_heading(by)
    both = pl.col("level").is_in(pair) & pl.col("reference").is_in(pair)
    names = odds["feature"].unique(maintain_order=True)
    others = [in_sentence(name.removesuffix(" doubled")) for name in names if name != own]
    reversed_ = odds.filter(both, feature=own, note=REVERSED).height
    return f", but less often with equal {listed(others)}" if reversed_ else ""


def _tested(cohort: Cohort, what: str, group: str, test: dict[str, Any]) -> list[str]:
    """Return what a test concludes about other users or another period; nothing without a test."""
    if test["effect"] is None or test["pvalue_adjusted"] is None:
        return []
    limits = interval(test, ratio_range, ", 95 % CI {}")
    size = (
        f"({test['measure']} {ratio(test['effect'])}{limits}; n = {test['n']:,}; adjusted "
        f"{p_equals(test['pvalue_adjusted'])})"
    )
    verdict, differs = test["conclusion"], f"differs by {group}. The difference is"
    if verdict == INCONCLUSIVE:
        differs = f"does not differ significantly by {group}. The effect is"
    elif verdict == NEGLIGIBLE:
        differs, verdict = "differs negligibly or not at all", f"by {group}"
    return [f"{cohort.title}: the {what} {differs} {verdict} {size}."]


def _rate(row: dict[str, Any], by: str, cohort: Cohort) -> str:
    limits = interval(row, fraction_range, shown=cohort.sampled)
    counts = f"{limits}{row['failures']:,} of {row['n']:,}"
    if not row["completed"]:
        counts += "; none is recorded as completed"
    return f"{row[by]}: {share(row['rate'])} ({counts})"


def _median(row: dict[str, Any], by: str, cohort: Cohort) -> str:
    if row["median_s"] is None:
        return f"{row[by]}: not reached (n = {row['n']:,})"
    limits = interval(row, duration_range, shown=cohort.sampled or row["n_censored"])
    return f"{row[by]}: {duration(row['median_s'])} ({limits}n = {row['n']:,})"


def incidence_of(row: dict[str, Any], by: str, name: str = "fraction", /) -> str:
    """Return a cumulative incidence with its interval, as part of a sentence."""
    return f"{row[by]}: {share(row[name])} ({interval(row, fraction_range)}n = {row['n']:,})"


def _excluded(cohort: Cohort) -> str:
    """Return the rows that are not in a failure rate, by status."""
    total = cohort.trace.once(overall_failure).rate
    parts = [
        f"{total[name]:,} {word}"
        for name, word in (
            ("cancelled", "cancelled"),
            ("running", "running"),
            ("pending", "pending"),
            ("unknown", "of unknown status"),
            ("n_missing", "without status"),
        )
        if total[name]
    ]
    if not parts:
        return f"all {cohort.noun} completed or failed."
    return f"{cohort.noun} not counted: {', '.join(parts)}."


def details(cohort: Cohort, outcomes: Outcomes, /) -> tuple[Block, ...]:
    """Return the pairwise comparisons of runtimes, and odds ratios within strata."""
    if outcomes.by is None:
        return ()
    heading, blocks = in_sentence(key_heading(outcomes.by)), list[Block]()
    if outcomes.comparisons:
        pairs = pl.concat(
            result.pairs.select(pl.lit(status).alias("status"), pl.all())
            for status, result in outcomes.comparisons.items()
        )
        blocks.append(
            result_table(
                pairs.drop("pvalue"),
                RuntimePairs,
                headings={f"{outcomes.by}_a": "First", f"{outcomes.by}_b": "Second"},
                caption=f"Pairs of groups by {heading}: probability that a runtime of the first is "
                "longer, and p of Brunner and Munzel's test, adjusted (Holm) over the pairs of a "
                f"status. Of rows that started in the observation window. {cohort.title}",
                folded=True,
            )
        )
    if outcomes.odds is not None and outcomes.strata is not None:
        within = in_sentence(key_heading(outcomes.strata))
        independent = "" if cohort.cluster else "; rows treated as independent"
        odds = outcomes.odds.drop("n_reference", "failures_reference")
        adjusted = adjust_pvalues(odds["pvalue"].to_numpy().astype(float), method="holm")
        blocks.append(
            result_table(
                odds.with_columns(pvalue=pl.Series(adjusted).fill_nan(None)),
                FailureOdds,
                headings={
                    f"{outcomes.by}_reference": "Reference",
                    "odds_ratio": f"Within {within}",
                    "pvalue": "Adjusted p",
                },
                caption=f"Odds ratios of failure of {cohort.noun} by {heading}: crude, and pooled "
                f"within {within} (Mantel-Haenszel){independent}. If the odds ratios of the strata "
                "differ (small p of homogeneity), the pooled ratio is not a summary of them. "
                f"p adjusted (Holm) over the tests of this table. {cohort.title}",
                folded=True,
            )
        )
    return tuple(blocks)
