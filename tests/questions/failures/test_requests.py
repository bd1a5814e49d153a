"""Bins of requested resources."""

from __future__ import annotations

import polars as pl
import pytest

from traceana.questions.failures.rates import MOST_VALUES, bin_values


def test_few_values_are_their_own_bins_in_ascending_order() -> None:
    binned = bin_values(pl.Series("gpus", [100.0, 25.0, None, 800.0, 25.0]))
    assert binned.to_list() == ["100", "25", None, "800", "25"]
    assert binned.dtype == pl.Enum(["25", "100", "800"])


@pytest.mark.parametrize(
    ("value", "label"),
    [(0.0, "0"), (1.0, "1"), (2.0, "2"), (3.0, "3 to 4"), (4.0, "3 to 4"), (5.0, "5 to 8"),
     (6330.0, "4,097 to 8,192")],
)  # fmt: skip
def test_many_whole_numbers_are_between_powers_of_two(value: float, label: str) -> None:
    values = pl.Series("n", [value, *map(float, range(10, 11 + MOST_VALUES))])
    assert bin_values(values)[0] == label


def test_parts_of_gpus_are_binned_by_whole_gpus() -> None:
    values = pl.Series("gpus", [1.0, 2.0, 0.25, 0.3, 8.0, *range(9, 23)])
    assert bin_values(values)[:5].to_list() == [
        "over 0.5 to 1", "over 1 to 2", "over 0.125 to 0.25", "over 0.25 to 0.5", "over 4 to 8",
    ]  # fmt: skip


def test_bins_of_fractions_include_their_upper_end() -> None:
    values = pl.Series("memory_gib", [0.3 * k for k in range(1, 30)] + [8.0, 4.0])
    binned = bin_values(values)
    assert binned[-2:].to_list() == ["over 4 to 8", "over 2 to 4"]
    assert binned.null_count() == 0
