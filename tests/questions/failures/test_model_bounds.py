"""Numbers at which a model of failures changes its method, and its counts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.errors import DataError
from traceana.questions.failures.model import make_design


def rows_of(failures: int, successes: int) -> pl.DataFrame:
    n = failures + successes
    return pl.DataFrame(
        {
            "x": np.random.default_rng(3).normal(size=n),
            "status": ["failed"] * failures + ["completed"] * successes,
        }
    )


@pytest.mark.parametrize(
    ("failures", "successes", "errors"),
    [(9, 40, "profile of Firth"), (10, 40, "HC1"), (40, 9, "profile of Firth"), (40, 10, "HC1")],
)
def test_ten_of_the_rarer_outcome_for_one_feature_need_no_penalty(
    failures: int, successes: int, errors: str
) -> None:
    fit = traceana.failure_model(rows_of(failures, successes), features="x").fit
    row = fit.row(0, named=True)
    assert row["events_per_parameter"] == min(failures, successes)
    assert row["errors"].startswith(errors)


def test_predictions_stand_in_ten_bins() -> None:
    calibration = traceana.failure_model(rows_of(30, 75), features="x").calibration
    assert calibration["bin"].to_list() == list(range(1, 11))
    assert calibration["n"].to_list() == [11] * 5 + [10] * 5


def test_a_feature_of_one_level_is_told_with_its_counts() -> None:
    rows = rows_of(12, 30).with_columns(pool=pl.lit("a"))
    terms = traceana.failure_model(rows, features=("pool", "x")).odds_ratios
    row = terms.filter(feature="pool").row(0, named=True)
    assert (row["level"], row["n"], row["failures"]) == ("a", 42, 12)
    assert row["note"] == "the same in every row"
    alone = traceana.failure_model(rows, features="pool")
    assert (alone.odds_ratios["note"].item(), alone.joint.height) == (row["note"], 0)


def test_outcomes_too_rare_to_predict_a_fifth_from_the_rest() -> None:
    fit = traceana.failure_model(rows_of(1, 14), features="x").fit.row(0, named=True)
    assert (fit["auc"], fit["note"]) == (None, "too few rows to predict each 5th from the rest")


@pytest.mark.parametrize("levels", [50, 51])
def test_a_feature_has_50_levels_at_most(levels: int) -> None:
    rows = pl.DataFrame(
        {"x": [f"x{i // 2}" for i in range(2 * levels)], "failure": [False, True] * levels}
    )
    if levels == 50:
        assert make_design(rows, ["x"]).matrix.shape == (100, 50)
    else:
        with pytest.raises(DataError, match="column x has 51 levels; at most 50 are allowed"):
            make_design(rows, ["x"])
