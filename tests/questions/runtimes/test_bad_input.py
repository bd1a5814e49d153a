"""What cannot be fitted or compared: one clear line, or nulls that say why."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from traceana import compare_distributions, fit_distributions, tail_index
from traceana.errors import DataError


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        ([1, -2], {}, "1 of 2 values are not above 0 and finite, such as -2"),
        ([1, 0], {}, "such as 0 "),
        ([1, np.inf], {}, "such as inf"),
        (["a"], {}, "values are String; numbers are needed"),
        ([True, False], {}, "values are Boolean"),
        (np.ones((2, 2)), {}, "numbers are needed"),
        (object(), {}, "found object"),
        ([1, 2], {"observed": [False]}, "2 values, 1 flags"),
        ([1, 2], {"observed": [False, None]}, "1 of them null"),
        ([1, 2], {"observed": [0, 1]}, "flags of type Int64"),
        ([1, 2], {"truncated_below": 1.5}, "1 of 2 values are below truncated_below = 1.5"),
        ([1, 2], {"truncated_below": 5}, "2 of 2 values are below"),
        ([1, 2], {"truncated_below": -1}, "truncated_below must be"),
        ([1, 2], {"truncated_below": "least"}, "truncated_below must be"),
        ([1, 2], {"families": ["normal"]}, "families must be some of lognormal"),
        ([1, 2], {"families": "gamma"}, "families must be"),
        ([1, 2], {"families": []}, "families must be"),
        ([1, 2], {"criterion": "dic"}, "criterion must be one of aic, bic"),
        ([1, 2], {"resamples": -1}, "resamples must be a whole number from 0 to 1,000,000"),
        ([1, 2], {"confidence": 1}, "confidence must lie between 0 and 1"),
    ],
)
def test_one_clear_line(values: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        fit_distributions(values, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "options", "why"),
    [
        ([], {}, "no value"),
        ([None, None], {}, "no value"),
        ([np.nan], {}, "no value"),
        ([5], {}, "one distinct uncensored value"),
        ([5, 5, 5], {"truncated_below": "min"}, "one distinct uncensored value"),
        ([5, 6, 7], {"observed": [False] * 3}, "all values are censored"),
        ([5, 6, 7], {"observed": [True, False, False]}, "one distinct uncensored value"),
    ],
)
def test_nothing_to_fit_is_null_with_its_reason(
    values: list[Any], options: dict[str, Any], why: str
) -> None:
    fits = fit_distributions(values, rng=1, **options)
    assert fits.table.height == 6
    assert fits.table["log_likelihood"].null_count() == 6
    assert all(note.startswith(why) for note in fits.table["note"])
    assert fits.parameters["estimate"].null_count() == fits.parameters.height
    assert fits.comparisons.is_empty()
    assert fits.best is None
    assert fits.params("gamma") == {}
    assert why in str(fits)
    with pytest.raises(DataError, match="'normal' was not fitted; fitted are"):
        fits.params("normal")


@pytest.mark.parametrize(
    "values",
    [[1, 2], [1.0, 1 + 1e-12, 1.0], [1e-150, 1e150], [1, 1, 1, 1, 1e9], list(range(1, 50))],
)
@pytest.mark.parametrize("bound", [None, "min"])
def test_odd_values_give_numbers_or_notes(values: list[float], bound: str | None) -> None:
    fits = fit_distributions(values, truncated_below=bound, rng=1, resamples=5)
    for frame in (fits.table, fits.parameters, fits.comparisons):
        floats = frame.select(pl.selectors.float()).to_series(0).drop_nulls()
        assert floats.is_finite().all()
        for column in frame.select(pl.selectors.float()):
            assert column.drop_nulls().is_finite().all(), column.name
    for family, note in fits.table.select("family", "note").rows():
        assert fits.params(family) or note is not None


def test_a_censored_sample_with_few_ends_is_fitted() -> None:
    fits = fit_distributions(np.arange(1, 100.0), observed=np.arange(99) <= 2, rng=1, resamples=9)
    assert fits.table["log_likelihood"].null_count() == 0
    # samples without two ends have no fit, and it is told how many had
    assert fits.table["resamples"].max() <= 9  # type: ignore[operator]


ROWS = pl.DataFrame({"g": ["a", "a", "b", "b", "c", None], "v": [1.0, 2, 3, 4, 5, None]})


@pytest.mark.parametrize(
    ("rows", "value", "by", "options", "says"),
    [
        (ROWS.filter(g="a"), "v", "g", {}, "two groups are needed to compare"),
        (ROWS, "v", (), {}, "two groups are needed"),
        (ROWS, "w", "g", {}, "column w is missing"),
        (ROWS, "g", "v", {}, "column g holds String"),
        (ROWS.with_columns(v=-1.0), "v", "g", {}, "column v holds -1"),
        (ROWS, "v", "g", {"confidence": 0}, "confidence must lie"),
        (ROWS, "v", "g", {"resamples": 0}, "resamples must be a whole number from 1 to 1,000,000"),
        (ROWS.rename({"g": "n"}), "v", "n", {}, "by cannot name n"),
    ],
)
def test_groups_that_cannot_be_compared(
    rows: pl.DataFrame, value: str, by: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        compare_distributions(rows, value, by, rng=1, **options)


def test_groups_too_small_or_apart_are_null_with_their_reason() -> None:
    table = compare_distributions(ROWS, "v", "g", rng=1)
    assert table.height == 6
    apart = table.filter(g="a", g_other="b").row(0, named=True)
    assert apart["ks_distance"] == 1
    small = table.filter(pl.col("g_other").is_null() | (pl.col("g_other") == "c"))
    assert small["note"].unique().to_list() == ["a group has fewer than two values"]
    assert small["ks_distance"].null_count() == small.height
    assert table.filter(pl.col("g_other").is_null())["n_missing_other"].to_list() == [1, 1, 1]


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([], "fewer than two values"),
        ([1], "fewer than two values"),
        ([4, 4, 4], "no exact value is above the threshold"),
    ],
)
def test_no_tail_is_null_with_its_reason(values: list[float], note: str) -> None:
    row = tail_index(values).row(0, named=True)
    assert (row["tail_index"], row["ci_low"], row["note"]) == (None, None, note)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 3}, {"k": [1, 9]}, {"confidence": 2}])
def test_a_tail_of_no_such_length(options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="must lie"):
        tail_index([1, 2, 3], **options)
