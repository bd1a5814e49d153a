"""Failure and runtime between groups: findings and tests, and several features in one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, Cohort, outcome_cohort
from traceana.cohorts.ends import END_CLASS, with_end_class
from traceana.page.blocks import Block, Content, Gallery, Table, Text, drawing, result_table
from traceana.page.finding import Certainty, Finding
from traceana.page.section import Section
from traceana.questions.failures.analyze import (
    MODEL_ROWS,
    MODEL_SEED,
    Outcomes,
    bad_nodes,
    fit_failure_model,
    rates_at_equal,
)
from traceana.questions.failures.hazards import overall_failure
from traceana.questions.failures.model import REVERSED
from traceana.questions.failures.tables import (
    FailureModel,
    GroupTests,
    ModelFit,
    OddsRatios,
)
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.stats.multiplicity import INCONCLUSIVE, NEGLIGIBLE
from traceana.store import Trace
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
    plural,
    ratio,
    ratio_range,
    share,
    three_digits,
    three_digits_range,
)

_NOTICED: Final = 1.1
"""Rows of a group, ratio of failure rates, and its standard errors over rows, from which a
difference is stated."""
_MOST_NAMED: Final = 3  # groups in a finding: those with the most rows, for any result
_NEARLY_ALL: Final = 0.95


def tests_table(cohort: Cohort, tests: pl.DataFrame, /) -> Table:
    """Return the table of all tests between groups; no size of rates is called negligible."""
    of_rates = pl.col("question").str.starts_with("failure of")
    small = of_rates & (pl.col("conclusion") == NEGLIGIBLE)
    return result_table(
        tests.with_columns(conclusion=pl.when(~small).then("conclusion")),
        GroupTests,
        caption=f"Tests between groups of {cohort.noun}",
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
        if outcomes.horizon is None:
            crude, title = outcomes.rates, f"failure rate of {cohort.noun}"
            what = f"{title} ({cohort.counted})"
            named = [_rate(row, by, cohort) for row in _largest(crude, by)]
            ratio_of_rates = _ratio_of_rates(crude, by, cohort)
        else:
            crude, ratio_of_rates = outcomes.horizon, ""
            title = what = f"fraction of {cohort.noun} that {cohort.counted}"
            named = [incidence_of(row, by) for row in _largest(crude, by)]
        equal = _standardized(outcomes, crude)
        findings.append(f"{title}. {'. '.join(named)}.{ratio_of_rates}{equal}")
        # Cohen's limits call rates negligible whose odds are not: the model has those
        verdict = test["conclusion"]
        decided = ratio_of_rates or (
            _odds(cohort).filter(pl.col("pvalue_adjusted") < _ALPHA, feature=key_heading(by)).height
        )
        if verdict != NEGLIGIBLE and not (decided and verdict == INCONCLUSIVE):
            findings += _tested(what, group, test)
    if outcomes.horizon is not None:
        what = f"median runtime of {cohort.noun} until any end (Kaplan-Meier)"
        findings += _medians(what, outcomes.runtimes.groups, by, cohort)
    for status in outcomes.comparisons:
        test = rows[f"runtime of {status} {cohort.noun} by {group}"]
        table = outcomes.runtimes.groups.filter(pl.col("status") == status)
        what = f"runtime of {status} {cohort.noun}"
        findings += _tested(what, group, test)
        findings += _medians(f"median {what}", table, by, cohort)
    return findings


def state_overall(cohort: Cohort, /) -> str:
    """Return the failure rate of all rows; first the incidence, where many have not ended."""
    result = cohort.trace.once(overall_failure)
    row = result.rate
    if not row["n"]:
        return ""
    excluded, bias = _excluded(row, cohort.noun), result.bias
    limits = interval(row, fraction_range, shown=cohort.sampled)
    rate = (
        f"{share(row['rate'])} of the completed and failed {cohort.noun} failed "
        f"({limits}{row['failures']:,} of {row['n']:,}{f'; {bias}' if bias else ''}"
        f"{_by_limits(cohort, row['failures'])}). "
        f"{excluded[0].upper()}{excluded[1:]}"
    )
    if not result.is_censored or result.incidence is None:
        failed = share(row["rate"]) if row["failures"] else "none"
        which = "" if row["n"] == cohort.rows.height else "completed and failed "
        heading = f"{failed} of the {which}{cohort.noun} failed"
        return Finding(rate, heading=heading, is_null=not row["failures"])
    by = result.incidence
    within = f"failed within {duration(by['horizon_s'])}"
    failed = share(by["fraction"]) if by["fraction"] else "none"
    heading = f"{failed} of the {cohort.noun} {within} of runtime"
    limits = f"{interval(by, fraction_range)}n = {by['n']:,}"
    text = f"{heading} (cumulative incidence; {limits}). {rate}"
    return Finding(text, heading=heading, is_null=not by["fraction"])


def _by_limits(cohort: Cohort, failures: int) -> str:
    """State how many failures reached a limit of their request, as notebooks do on purpose."""
    failed = cohort.rows.filter(pl.col("status").cast(pl.String) == "failed")
    if failed.height != failures or "end_reason" not in failed.columns:  # others fail here, or more
        return ""
    n = int((with_end_class(failed)[END_CLASS] == "user limit").sum())
    return f"; {n:,} failed at a limit of their request, such as time or memory" if n else ""


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


def of_equal_users(
    cohort: Cohort, pair: tuple[object, object], /, *, more: bool
) -> tuple[str, str]:
    """State the failure rates at equal users, and the end of the heading if these are alike.

    `more` is whether the first group fails more often; at equal users it may fail less often.
    """
    at_equal = cohort.trace.once(rates_at_equal, cohort.by, pair, True)
    if at_equal is None or "user" not in at_equal[0]:
        return "", ""
    held, *rates = at_equal
    text = f"; with the same composition of {held} the failure rates are "
    fewer, most = rates[::-1] if more else rates
    alike = most < _NOTICED * fewer
    text += f"{listed(map(share, rates))}{', so other users explain it' * alike}"
    return text, ", but alike with the same users" * alike


def _ratio_of_rates(rates: pl.DataFrame, by: str, cohort: Cohort) -> str:
    """Return how many times as often the group with the highest rate fails, if it is clear."""
    noun = cohort.noun
    largest = [row for row in _largest(rates, by) if row["ci_low"] is not None and row["completed"]]
    if len(largest) < 2:
        return ""
    low, *_, high = sorted(largest, key=lambda row: float(row["rate"]))
    is_clear = high["rate"] >= _NOTICED * low["rate"] and high["ci_low"] > low["ci_high"]
    if not (low["rate"] and is_clear):
        return ""
    times = three_digits(high["rate"] / low["rate"])
    of = f"{in_sentence(key_heading(by))} "
    text = f" {noun.capitalize()} of {of}{high[by]} fail {times} times as often as of {of}{low[by]}"
    return f"{text}{_opposite(cohort, by, {high[by], low[by]})}."


def _odds(cohort: Cohort) -> pl.DataFrame:
    model, _ = cohort.trace.once(fit_failure_model)
    return pl.DataFrame(schema=schema_of(OddsRatios)) if model is None else model.odds_ratios


def _opposite(cohort: Cohort, by: str, pair: set[str]) -> str:
    """Return whether the order of two groups reverses at equal features (Simpson's paradox)."""
    odds, heading = _odds(cohort), key_heading(by)
    both = pl.col("level").is_in(pair) & pl.col("reference").is_in(pair)
    names = odds["feature"].unique(maintain_order=True)
    others = [in_sentence(name.removesuffix(" doubled")) for name in names if name != heading]
    reversed_ = odds.filter(both, feature=heading, note=REVERSED).height
    return f", but less often with equal {listed(others)}" if reversed_ else ""


def _tested(what: str, group: str, test: dict[str, Any]) -> list[str]:
    """Return what a test concludes about other users or another period; nothing without a test."""
    if test["effect"] is None or test["pvalue_adjusted"] is None:
        return []
    limits = interval(test, ratio_range, ", 95 % CI {}")
    size = (
        f"({test['measure']} {ratio(test['effect'])}{limits}; n = {test['n']:,}; adjusted "
        f"{p_equals(test['pvalue_adjusted'])})"
    )
    return [f"the difference of the {what} by {group} is {test['conclusion']} {size}."]


def _rate(row: dict[str, Any], by: str, cohort: Cohort) -> str:
    limits = interval(row, fraction_range, shown=cohort.sampled)
    counts = f"{limits}{row['failures']:,} of {row['n']:,}"
    if not row["completed"]:
        counts += "; none is recorded as completed"
    return f"{row[by]}: {share(row['rate'])} ({counts})"


def _medians(what: str, groups: pl.DataFrame, by: str, cohort: Cohort) -> list[str]:
    named = []
    for row in _largest(groups.filter(pl.col("n") >= _FEWEST), by):
        median, limits = "not reached", ""
        if row["median_s"] is not None:
            median = duration(row["median_s"])
            limits = interval(row, duration_range, shown=cohort.sampled or row["n_censored"])
        named.append(f"{row[by]}: {median} ({limits}n = {row['n']:,})")
    return [f"{what}. {'. '.join(named)}."] if len(named) > 1 else []


def incidence_of(row: dict[str, Any], by: str, name: str = "fraction", /) -> str:
    """Return a cumulative incidence with its interval, as part of a sentence."""
    return f"{row[by]}: {share(row[name])} ({interval(row, fraction_range)}n = {row['n']:,})"


def _excluded(rate: dict[str, Any], noun: str) -> str:
    words = {"unknown": "of unknown status", "n_missing": "without status"}
    names = ("cancelled", "running", "pending", *words)
    parts = [f"{rate[name]:,} {words.get(name, name)}" for name in names if rate[name]]
    return f"{noun} not counted: {', '.join(parts) or 'none'}."


_ALPHA: Final = 0.05
_FEWEST: Final = 10  # failures and other rows of a level that a statement needs
_EXTREME: Final = 100  # odds ratios beyond it, or below its inverse, are written as that
_OPENING: Final = (
    "Logistic regression of failure (status failed) among completed and failed rows; where more "
    "than 5 % of the rows have not ended, of failure within a stated runtime. The odds "
    "ratio of each feature is at equal values of the others. A numeric feature has the odds ratio"
    " of a doubling, a category that against the most frequent one. Within strata: "
    "Mantel-Haenszel; of a numeric feature by a model with the categories. Not comparable: less "
    "than 5 % of the rows of a level or its reference have common support in another feature. "
    "Collinear: variance inflation factor (VIF) of 5 or more. p is that of the adjusted ratio. "
    "The features are the grouping columns and the requested resources of the trace, chosen "
    "before the fit. Their p-values are one family, adjusted by Holm's method. Predictions are "
    "evaluated on held-out rows by the area under the ROC curve (AUC; 0.5 is chance) and the "
    "Brier score beside that of the mean rate."
)
_LIMITATIONS: Final = (
    "Features that are not in the model may explain an association. An odds ratio is not a causal "
    "effect, and a category whose rows always or never failed has none."
)


def build(traces: Sequence[Trace]) -> Content:
    """Build the model of failure of each cohort."""
    return build_per_cohort(traces, _build, opening=_OPENING)


def _build(cohort: Cohort) -> Content:
    model, note = cohort.trace.once(fit_failure_model)
    drawn = ""
    if cohort.rows.height > MODEL_ROWS:
        drawn = (
            f" The model is fitted to {MODEL_ROWS:,} of the {cohort.rows.height:,} "
            f"{cohort.noun}, drawn at random (seed {MODEL_SEED})."
        )
    cohort = cohort.trace.once(outcome_cohort)
    definitions = cohort.definitions if cohort.horizon_s else (cohort.sampled.strip(),)
    blocks: list[Block] = [Text(drawn, (*definitions, cohort.independence))]
    if model is None:
        return Content((), (*blocks, Text(note)))
    lead: list[Block] = []
    if model.odds_ratios.drop_nulls(["odds_ratio", "ci_low", "ci_high"]).height > 1:
        about, key = f"Odds ratios of failure of {cohort.noun}", f"failure-odds-{cohort.trace.id}"
        figure = drawing("failure-odds", model, cohort.trace, key, about)
        lead.append(Gallery((figure,)))
    first = ["feature", "level", "reference", "n", "odds_ratio", "ci_low", "ci_high"]
    first.append("pvalue_adjusted")
    terms = model.odds_ratios.drop("log_odds", "std_error").select(*first, pl.exclude(*first))
    caption = (
        f"Odds ratios of failure of {cohort.noun}: adjusted for all other features, crude, and "
        "within strata of the other categories"
    )
    null = {"level": "", "reference": ""}
    lead.append(result_table(terms, OddsRatios, null=null, caption=caption))
    caption = (
        "Fit of the model, and predictions of held-out rows (calibrated: slope 1, "
        "intercept 0). Excluded: ended rows without a feature, or of a level that always or "
        "never failed"
    )
    blocks.append(result_table(model.fit, ModelFit, caption=caption, folded=True))
    return Content(_findings(model, cohort), tuple(blocks), tuple(lead), _LIMITATIONS)


def _findings(model: FailureModel, cohort: Cohort) -> tuple[str, ...]:
    """Return what each term allows to conclude, first that with the most failures."""
    terms, fit = model.odds_ratios, model.fit.row(0, named=True)
    tested = terms.drop_nulls(["pvalue_adjusted", "ci_low", "ci_high"])
    enough = pl.min_horizontal("failures", pl.col("n") - pl.col("failures")) >= _FEWEST
    significant = pl.col("pvalue_adjusted") < _ALPHA
    more_failures = pl.col("failures") * (1 - 1 / pl.col("odds_ratio"))  # than at a ratio of 1
    clear = tested.filter(significant, enough).sort(more_failures.abs(), descending=True)
    features = tested["feature"].unique(maintain_order=True).to_list()
    text, *more = [
        f"{_ratio_of(row, features, cohort.noun)}{_equally(row, cohort)[0]}."
        for row in clear.iter_rows(named=True)
    ] or [f"{_NONE_CLEAR}."]
    opposite = clear.filter(pl.col("note") == REVERSED)
    reversed_ = [
        f"{_reversed(row, cohort.noun)} (odds ratio {three_digits(row['crude_odds_ratio'])}; "
        f"adjusted {three_digits(row['odds_ratio'])}, 95 % CI "
        f"{three_digits_range(row['ci_low'], row['ci_high'])}; n = {fit['n']:,}: Simpson's "
        "paradox)."
        for row in opposite.iter_rows(named=True)
    ]
    of_one = terms.filter(pl.col("ci_low") <= 1, pl.col("ci_high") >= 1)["feature"]
    unclear = of_one.str.strip_suffix(" doubled").to_list()
    joint = model.joint.filter(pl.col("pvalue") < _ALPHA)
    together = " ".join(_together(row, unclear) for row in joint.to_dicts())
    fitted = (
        f"the model is fitted to {fit['n']:,} {'watched' if cohort.horizon_s else 'ended'} "
        f"{cohort.noun} ({fit['failures']:,} failed; {fit['n_excluded']:,} excluded), "
        f"{plural(tested.height, 'test')} adjusted by Holm"
    )
    if bad := cohort.trace.once(bad_nodes):
        fitted += f"; without the jobs on {plural(len(bad), 'node')} with excess failures"
    left_out = terms.filter(pl.col("note").str.starts_with("determined by"))["feature"].unique()
    if left_out.len():
        fitted += f"; without {listed(map(in_sentence, left_out.sort()))}, which others determine"
    fitted += "" if fit["auc"] is None else f"; AUC on held-out {cohort.noun} {ratio(fit['auc'])}"
    of_model = f"model of failure ({cohort.counted}): {text}"
    blocks = joint["features"]
    only_together = clear.is_empty() and len(blocks) > 0
    stated = (together, of_model) if only_together else (of_model, together)
    first, *others = filter(None, (*reversed_, *stated, *more, f"{fitted}."))
    certainty: Certainty = "estimated"
    concerned = 0
    if opposite.height:
        row = opposite.row(0, named=True)
        heading, concerned = _reversed(row, cohort.noun), row["failures"]
    elif only_together:
        heading = f"{blocks[0]} predict failure, but only together"
    elif clear.is_empty():
        heading = _NONE_CLEAR
        certainty = "cannot tell"
    else:
        row = clear.row(0, named=True)
        pair = "" if row["level"] is None else f" {row['level']} versus {row['reference']}"
        heading = f"{row['feature']}{pair}: the odds of failure are {_times(row['odds_ratio'])} as "
        heading += f"high{_equally(row, cohort)[1]}"
    lead = Finding(
        first,
        heading=heading,
        certainty=certainty,
        cost_jobs=concerned,
        is_description=not concerned,  # what to do follows from rates, not from odds
    )
    return lead, *others


_NONE_CLEAR: Final = "no single feature clearly predicts failure when the others are equal"


def _equally(row: dict[str, Any], cohort: Cohort) -> tuple[str, str]:
    """Return what :func:`of_equal_users` states of two groups of the cohort, if a term has them."""
    if cohort.by is None or row["feature"] != key_heading(cohort.by):
        return "", ""
    more = bool(row["odds_ratio"] > 1)
    return of_equal_users(cohort, (row["level"], row["reference"]), more=more)


def _together(row: dict[str, Any], unclear: list[str]) -> str:
    """State the test of collinear features together, and whose own interval contains 1."""
    names = [name.removesuffix(" doubled") for name in row["features"].split(", ")]
    alike = [in_sentence(name) for name in names if name in unclear]
    apart = f"; not certain of each alone: {listed(alike)}" if alike else ""
    p = f"{p_equals(row['pvalue'])}, {row['df']} df"
    every = listed(map(in_sentence, names))
    return f"collinear features {every} are together associated with failure ({p}){apart}."


def _times(odds_ratio: float) -> str:
    """Write an odds ratio; of one beyond 1/100 or 100 the log states no more than that."""
    if odds_ratio < 1 / _EXTREME:
        return f"less than 1/{_EXTREME}"
    if odds_ratio > _EXTREME:
        return f"more than {_EXTREME} times"
    return f"{three_digits(odds_ratio)} times"


def _reversed(row: dict[str, Any], noun: str) -> str:
    """State a feature whose association with failure has the other sign at equal features."""
    more, fewer = ("more", "less") if row["crude_odds_ratio"] > 1 else ("less", "more")
    feature = in_sentence(str(row["feature"]).removesuffix(" doubled"))
    if row["level"] is None:
        return f"{noun} with more {feature} fail {more} often, but {fewer} often at equal features"
    return (
        f"{_such(row, 'level', noun)} fail {more} often than {_such(row, 'reference')}, but "
        f"{fewer} often at equal features"
    )


def _such(row: dict[str, Any], which: str, noun: str = "those") -> str:
    """Name the rows of a level of a feature: pods with QoS class BE, jobs that request 1 GPU."""
    feature, value = in_sentence(str(row["feature"])), row[which]
    if row["feature"] != key_heading("gpus_requested"):
        return f"{noun} with {feature} {value}"
    value = "a fraction of one" if value == "fraction of one" else value
    return f"{noun} that request {value} GPU{'' if value in ('1', 'a fraction of one') else 's'}"


def _ratio_of(row: dict[str, Any], features: list[str], noun: str) -> str:
    """Return an odds ratio in words, and which other features are equal."""
    what, *others = (
        in_sentence(name.removesuffix(" doubled"))
        for name in sorted(features, key=lambda name: name != row["feature"])
    )
    same = f" at the same {listed(others)}" if others else ""
    times = _times(row["odds_ratio"])
    if row["level"] is None:
        text = f"the odds of failure of {noun} are {times} as high with twice the {what}{same}"
    else:
        text = (
            f"the odds of failure of {_such(row, 'level', noun)} are {times} as high as of "
            f"{_such(row, 'reference')}{same}"
        )
    return (
        f"{text} (95 % CI {three_digits_range(row['ci_low'], row['ci_high'])}; adjusted "
        f"{p_equals(row['pvalue_adjusted'])})"
    )


SECTION = Section(
    "failure-model",
    "Failure against several features",
    80,
    build,
    needs=COHORT_NEEDS,
    figures=("failure-odds",),
    shares="cohort",
    part="Failures",
    question="Which features predict failure when the others are equal?",
)
