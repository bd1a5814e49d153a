"""Failure against several features at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.cohorts import COHORT_NEEDS
from traceana.derived.outcomes import MODEL_ROWS, MODEL_SEED, fit_failure_models
from traceana.report.blocks import Block, Content, Drawing, Gallery, Text, drawing, result_table
from traceana.report.per_cohort import build_per_cohort
from traceana.report.section import Section
from traceana.results.formatting import ratio, three_digits, three_digits_range
from traceana.results.outcomes import FailureModel, ModelFit, OddsRatios

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.report.context import Context

_OPENING: Final = (
    "Logistic regression of failure: the odds ratio of each feature, all other features equal. A "
    "numeric feature has the odds ratio of a doubling, a category that against the most frequent "
    "one. Features that are not in the model may explain an association; an odds ratio is not a "
    "causal effect. Predictions are evaluated on held-out rows by the area under the ROC curve "
    "(AUC; 0.5 is chance) and the Brier score beside that of the mean rate."
)


def build(session: Context, traces: list[str]) -> Content:
    """Build the models of failure of each cohort."""
    return build_per_cohort(
        session, traces, lambda cohort: _build(session, cohort), opening=_OPENING
    )


def _build(session: Context, cohort: Cohort) -> Content:
    models, notes = session.once(fit_failure_models, cohort.trace)
    drawn = ""
    if cohort.rows.height > MODEL_ROWS:
        drawn = (
            f" The models are fitted to {MODEL_ROWS:,} of the {cohort.rows.height:,} "
            f"{cohort.noun}, drawn at random (seed {MODEL_SEED})."
        )
    blocks: list[Block] = [Text(f"{cohort.independence}{cohort.sampled}{drawn}")]
    blocks += [Text(note) for note in notes]
    if not models:
        return Content((), tuple(blocks))
    terms, fits = (
        pl.concat(
            getattr(model, name).select(pl.lit(definition).alias("definition"), pl.all())
            for definition, model in models.items()
        )
        for name in ("odds_ratios", "fit")
    )
    blocks += [
        result_table(
            terms.drop("log_odds", "std_error"),
            OddsRatios,
            headings={"definition": "Failure"},
            null={"level": "", "reference": ""},
            caption=f"Odds ratios of failure of {cohort.noun}: crude, within strata of the other "
            "categories (Mantel-Haenszel), and adjusted for all other features. Not comparable: "
            "less than 5 % of the rows of a level or its reference have common support in another "
            f"feature. p-values are of the adjusted ratio and not adjusted. {cohort.title}",
        ),
        result_table(
            fits,
            ModelFit,
            headings={"definition": "Failure"},
            caption="Fit of the models, and predictions of held-out rows (calibrated: slope 1, "
            "intercept 0). Excluded: successes and failures without a feature, or of a level that "
            f"always or never failed. {cohort.title}",
        ),
        Gallery(tuple(_figures(models, cohort))),
    ]
    return Content(tuple(_findings(models, cohort)), tuple(blocks))


def _figures(models: dict[str, FailureModel], cohort: Cohort) -> list[Drawing]:
    figures = []
    for place, (definition, model) in enumerate(models.items(), start=1):
        of = f"of {cohort.noun}, failure: {definition}"
        known = model.odds_ratios.drop_nulls(["odds_ratio", "ci_low", "ci_high"])
        for figure, shown, about in (
            ("failure-odds", known, f"Odds ratios of failure {of}"),
            ("failure-calibration", model.calibration, f"Calibration of the model of failure {of}"),
        ):
            if not shown.is_empty():
                figures.append(
                    drawing(
                        figure,
                        model,
                        trace=cohort.trace,
                        title=cohort.title,
                        key=f"{figure}-{place}-{cohort.trace}",
                        about=about,
                    )
                )
    return figures


def _findings(models: dict[str, FailureModel], cohort: Cohort) -> list[str]:
    findings = []
    for definition, model in models.items():
        row = model.fit.row(0, named=True)
        clear = model.odds_ratios.filter((pl.col("ci_low") > 1) | (pl.col("ci_high") < 1))
        if row["auc"] is None or clear.is_empty():
            continue
        # the interval farthest from 1
        nearest = pl.when(pl.col("ci_low") > 1).then("ci_low").otherwise(1 / pl.col("ci_high"))
        most = clear.sort(nearest).row(-1, named=True)
        what = (
            most["feature"]
            if most["level"] is None
            else f"{most['feature']} {most['level']} against {most['reference']}"
        )
        findings.append(
            f"{cohort.title}, failure: {definition}: all other features equal, the odds ratio of "
            f"failure for {what} is {three_digits(most['odds_ratio'])} (95 % CI "
            f"{three_digits_range(most['ci_low'], most['ci_high'])}); the model has an AUC of "
            f"{ratio(row['auc'])} on held-out {cohort.noun} (n = {row['n']:,})."
        )
    return findings


SECTION = Section(
    "failure-model",
    "Failure against several features",
    80,
    build,
    needs=COHORT_NEEDS,
    figures=("failure-odds", "failure-calibration"),
    of_tasks=True,
    part="Failures",
    question="Which features predict failure when the others are equal?",
)
