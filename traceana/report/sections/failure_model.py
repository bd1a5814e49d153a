"""Failure against several features at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import FailureModel, failure_model
from traceana.errors import DataError
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    make_table,
    notes,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.populations import OPENB, PAI, Population, tell_populations
from traceana.results.formatting import count, pvalue, ratio, three_digits, three_digits_range

if TYPE_CHECKING:
    from traceana.report.context import Context

_MOST_ROWS: Final = 50_000
_SEED: Final = 1
_TEXTS: Final = {
    PAI: {"gpu_type": "GPU type"},
    OPENB: {"qos": "QoS class", "gpus_asked": "GPUs asked for"},
}
_DOUBLED: Final = {
    PAI: {
        "gpus": "GPUs doubled",
        "cpus": "CPUs doubled",
        "memory_gib": "memory doubled",
        "n_instances": "instances doubled",
    },
    OPENB: {"cpus": "CPUs doubled", "memory_gib": "memory doubled"},
}
_READINGS: Final = ("strict", "published")

_OPENING: Final = (
    "The log odds of failure as a sum over features (logistic regression): what each has "
    "to do with failure where all others are alike. A number has the odds ratio of its "
    "doubling; a class has that against the most frequent one. Features that are not "
    "here, such as what the code did, may lie behind any of it: nothing says that a "
    "feature makes things fail. How well the model tells failures from the rest is "
    "measured on rows that the fit has not seen: the area under the ROC curve (AUC, 0.5 is "
    "chance) and Brier's score beside that of the mean rate alone."
)


def build(session: Context) -> Content:
    """Fit a logistic model of failure to each trace, under both readings."""
    return tell_populations(session, _tell, opening=_OPENING, what="A model of failure")


def _tell(population: Population) -> Content:
    rows, names = _with_features(population)
    drawn = ""
    if rows.height > _MOST_ROWS:
        drawn = (
            f" The fits are to {_MOST_ROWS:,} of the {rows.height:,} {population.things}, drawn at "
            f"random (seed {_SEED})."
        )
        rows = rows.sample(_MOST_ROWS, seed=_SEED)
    models, blocks = {}, [Text(f"{population.independence}{population.sampled}{drawn}")]
    told: list[Block] = [*blocks]
    for reading in _READINGS:
        try:
            models[reading] = failure_model(
                rows, features=names, reading=reading, cluster=population.cluster
            )
        except DataError as error:
            told.append(Text(f"There is no model under the {reading} reading: {error}."))
    if not models:
        return Content((), tuple(told))
    told += [
        _ratios(models, population),
        _summary(models, population),
        Gallery(tuple(_pictures(models, population))),
    ]
    return Content(tuple(_findings(models, population)), tuple(told))


def _with_features(population: Population) -> tuple[pl.DataFrame, list[str]]:
    """Name features as the page does; a number's doubling is one more of its logarithm."""
    texts, doubled = _TEXTS[population.trace], _DOUBLED[population.trace]
    frame = population.rows.with_columns(
        *(pl.col(name).cast(pl.String).alias(label) for name, label in texts.items()),
        *(
            pl.when(pl.col(name) > 0).then(pl.col(name).log(2)).alias(label)
            for name, label in doubled.items()
        ),
    )
    return frame, [*texts.values(), *doubled.values()]


def _ratios(models: dict[str, FailureModel], population: Population) -> Table:
    terms = pl.concat(
        model.odds_ratios.select(pl.lit(reading).alias("reading"), pl.all())
        for reading, model in models.items()
    )
    return make_table(
        terms,
        [
            words("Reading", "reading"),
            words("Feature", "feature"),
            words("Level", "level", null=""),
            words("Against", "reference", null=""),
            Column("n", "n", count),
            Column("Failures", "failures", count),
            Column("Odds ratio", "odds_ratio", three_digits),
            Column("95 % interval", ("ci_low", "ci_high"), three_digits_range),
            Column("p", "pvalue", pvalue),
            *notes(terms),
        ],
        caption=f"Odds ratios of failure of {population.things}, all other features alike; p are "
        f"not adjusted. {population.name}",
    )


def _summary(models: dict[str, FailureModel], population: Population) -> Table:
    table = pl.concat(model.fit for model in models.values())
    return make_table(
        table,
        [
            words("Reading", "reading"),
            Column("n", "n", count),
            Column("Failures", "failures", count),
            Column("Left out", "n_left_out", count),
            Column("Users", "n_clusters", count),
            Column("AUC", "auc", ratio),
            Column("Brier", "brier", ratio),
            Column("of the mean rate", "brier_of_rate", ratio),
            Column("Calibration slope", "calibration_slope", ratio),
            Column("intercept", "calibration_intercept", ratio),
            words("Errors", "errors"),
            *notes(table),
        ],
        caption="What the models were fitted to, and how they predict rows held out (a slope of 1 "
        "and an intercept of 0 is what comes true); left out, of the successes and "
        "failures, are rows that lack a feature or are of a class that failed always or never. "
        f"{population.name}",
    )


def _pictures(models: dict[str, FailureModel], population: Population) -> list[Drawing]:
    pictures = []
    for reading, model in models.items():
        of = f"of {population.things}, {reading} reading"
        n = model.fit["n"].item()
        odds, calibration = model.odds_ratios, model.calibration
        known = odds.drop_nulls(["odds_ratio", "ci_low", "ci_high"])
        for figure, result, drawable, about in (
            ("failure-odds", odds, known, f"Odds ratios of failure {of}, n = {n:,}"),
            ("failure-calibration", calibration, calibration, f"Predicted and true failures {of}"),
        ):
            if drawable.is_empty():
                continue
            pictures.append(
                drawing(
                    figure,
                    result,
                    trace=population.trace,
                    title=population.name,
                    key=f"{figure}-{reading}-{population.trace}",
                    about=about,
                )
            )
    return pictures


def _findings(models: dict[str, FailureModel], population: Population) -> list[str]:
    told = []
    for reading, model in models.items():
        row = model.fit.row(0, named=True)
        clear = model.odds_ratios.filter((pl.col("ci_low") > 1) | (pl.col("ci_high") < 1))
        if row["auc"] is None or clear.is_empty():
            continue
        # the interval that stays farthest from 1
        nearest = pl.when(pl.col("ci_low") > 1).then("ci_low").otherwise(1 / pl.col("ci_high"))
        most = clear.sort(nearest).row(-1, named=True)
        what = (
            f"each doubling of {most['feature']}"
            if most["level"] is None
            else f"{most['feature']}: {most['level']} against {most['reference']}"
        )
        told.append(
            f"{population.name}, {reading} reading: all other features alike, the odds of failure "
            f"are {three_digits(most['odds_ratio'])} times as high "
            f"({three_digits_range(most['ci_low'], most['ci_high'])}) for {what}; a model "
            f"of all features has an AUC of {ratio(row['auc'])} on {population.things} held out "
            f"(n = {row['n']:,})."
        )
    return told


SECTION = Section(
    "failure-model",
    "Failure against several features",
    80,
    build,
    figures=("failure-odds", "failure-calibration"),
    of_tasks=True,
)
