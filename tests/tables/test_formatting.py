"""How numbers are written."""

from __future__ import annotations

import polars as pl
import pytest

from traceana.tables import declare as tables
from traceana.tables import formatting
from traceana.tables.declare import ResultTable
from traceana.tables.display import DASH, cells_of


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (formatting.count(82739), "82,739"),
        (formatting.seconds(99.96), "100.0"),
        (formatting.seconds(12345.6), "12,346"),
        (formatting.hours(1632719.7), "1,632,720"),
        (formatting.days_range(0, 43_200), "0.5"),
        (formatting.ratio(0.05249), "0.052"),
        (formatting.percent(0.1234), "12.3 %"),
        (formatting.share(0.1234), "12 %"),
        (formatting.share(0.0941), "9.4 %"),
        (formatting.share(0.09525), "9.5 %"),
        (formatting.share(0.0996), "10 %"),
        (formatting.share(0.9996), "100.0 %"),
        (formatting.share(1.0), "100 %"),
        (formatting.plain(2.95), "2.95"),
        (formatting.plain(8.0), "8"),
        (formatting.fraction_range(0.1, 0.25), "10 to 25 %"),
        (formatting.fraction_range(0.4951, 0.5026), "49.5 to 50.3 %"),
        (formatting.clock(12_345.4), "3.43 h"),
        (formatting.clock(9e11), formatting.duration(9e11)),
        (formatting.clock(1_772_323_200 + 14 * 3600 + 300), "2026-03-01 14:05 UTC"),
        (formatting.size(999), "999 B"),
        (formatting.size(54_814), "54.8 kB"),
        (formatting.size(2_599_482), "2.6 MB"),
        (formatting.size(7.5e9), "7.5 GB"),
        (formatting.plural(1, "job"), "1 job"),
        (formatting.pvalue(0.0123), "0.012"),
        (formatting.pvalue(1e-300), "< 0.0001"),
        (formatting.correlation(0.444, 0.1, 0.654), "0.44 (0.10 to 0.65)"),
        (formatting.correlation(-0.1, None, None), "-0.10"),
        (formatting.three_digits(12345.6), "12,346"),
        (formatting.three_digits(0.012345), "0.0123"),
        (formatting.three_digits_range(0.5, 2), "0.500 to 2.00"),
        (formatting.three_digits(999.9), "1,000"),
        (formatting.three_digits(999.4), "999"),
        (formatting.three_digits(-0.0), "0"),
        (formatting.three_digits(4.2e-7), "0.000000420"),
        (formatting.three_digits(4.2e-10), "4.20e-10"),
        (formatting.three_digits(9.99e14), "999,000,000,000,000"),
        (formatting.three_digits(-1e15), "-1.00e+15"),
        (formatting.share(-0.0002), "0.0 %"),
        (formatting.plural(1234, "job"), "1,234 jobs"),
    ],
)
def test_numbers(written: str, expected: str) -> None:
    assert written == expected


class Spans(ResultTable):
    """A count, and an interval in seconds."""

    n = tables.count("n")
    low = tables.number("Span", display="duration")
    high = tables.number("Span", display="duration")


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0 s"), (0.01, "10 ms"), (30, "30 s"), (60, "1 min"), (5400, "1.5 h"), (86_400, "1 d")],
)
def test_durations_are_in_the_unit_a_person_would_choose(value: float, written: str) -> None:
    assert formatting.duration(value) == written


def test_ticks_of_durations_are_as_dense_as_there_is_room() -> None:
    assert formatting.duration_ticks(40, 4000, 6) == [60, 120, 300, 600, 1800, 3600]
    assert formatting.duration_ticks(40, 4000, 4) == [60, 600, 3600]
    assert formatting.duration_ticks(5, 1e7, 5) == [60, 3600, 86_400, 2_592_000]
    assert formatting.duration_ticks(3, 7, 5) == [3, 4, 5, 6, 7]
    assert formatting.duration_ticks(7500, 13_200, 5) == [9000, 10_800, 12_600]  # 2.5 h to 3.5 h


def test_a_missing_value_is_a_dash_and_a_zero_is_not() -> None:
    rows = pl.DataFrame({"n": [0, 1], "low": [None, 1.0], "high": [3.0, 2.0]})
    assert cells_of(rows, Spans).rows == (("0", DASH), ("1", "1 to 2 s"))


def test_both_ends_of_an_interval_of_durations_have_three_digits_and_one_unit_if_near() -> None:
    assert formatting.duration_range(418.8, 840) == "6.98 to 14.0 min"
    assert formatting.duration_range(3414, 3960) == "56.9 min to 1.10 h"
    assert formatting.duration_range(29_880, 179_712) == "8.30 h to 2.08 d"
    assert formatting.duration_range(0, 30) == "0 to 30 s"
    assert formatting.duration_range(0.002, 0.5) == "2 to 500 ms"
    assert formatting.duration_range(120, 86_400 * 120.5) == "2.00 min to 120 d"


@pytest.mark.parametrize(
    ("value_j", "written"),
    [(0, "0 J"), (-3200, "-3.2 kJ"), (512.4, "512 J"), (5_451_163, "5.45 MJ"), (2e12, "2,000 GJ")],
)
def test_energy_is_in_the_largest_unit_of_which_there_is_one(value_j: float, written: str) -> None:
    assert formatting.energy(value_j) == written
