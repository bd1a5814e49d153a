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
    [
        (0.0, "0"),
        (1.0, "1"),
        (2.0, "2"),
        (3.0, "3 to 4"),
        (4.0, "3 to 4"),
        (5.0, "5 to 8"),
        (6330.0, "4,097 to 8,192"),
    ],
)
def test_many_whole_numbers_are_between_powers_of_two(value: float, label: str) -> None:
    values = pl.Series("n", [value, *map(float, range(10, 11 + MOST_VALUES))])
    assert bin_values(values)[0] == label


def test_parts_of_gpus_are_in_bins_between_round_numbers_and_whole_gpus_apart() -> None:
    parts = [0.005, 0.02, 0.05, 0.06, 0.25, 0.47, 0.5, 0.99]
    values = pl.Series("gpus", [0.0, *parts, 1.0, 2.0, 4.0, 8.0, 9.5])
    assert bin_values(values).to_list() == [
        "0",
        "0.005",
        "0.02",
        "0.05 to under 0.1",
        "0.05 to under 0.1",
        "0.2 to under 0.5",
        "0.2 to under 0.5",
        "0.5 to under 1",
        "0.5 to under 1",
        "1",
        "2",
        "4",
        "8 to under 16",
        "8 to under 16",
    ]


def test_bins_of_fractions_include_their_lower_end() -> None:
    values = pl.Series("memory_gib", [0.3 * k for k in range(1, 30)] + [8.0, 4.0])
    binned = bin_values(values)
    assert binned[-2:].to_list() == ["8 to under 16", "4 to under 8"]
    assert binned.null_count() == 0
