"""How numbers are written."""

from __future__ import annotations

import pytest

from traceana.report import wording
from traceana.report.blocks import DASH, Column


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (wording.count(82739), "82,739"),
        (wording.seconds(99.96), "100.0"),
        (wording.seconds(12345.6), "12,346"),
        (wording.hours(1632719.7), "1,632,719.7"),
        (wording.days(0, 43_200), "0.5"),
        (wording.ratio(0.05249), "0.052"),
        (wording.share(0.1234), "12.3 %"),
        (wording.plain(2.95), "2.95"),
        (wording.plain(8.0), "8"),
        (wording.share_range(0.1, 0.25), "10.0 to 25.0 %"),
        (wording.seconds_range(-5, 250), "-5.0 to 250"),
        (wording.size(999), "999 B"),
        (wording.size(54_814), "54.8 kB"),
        (wording.size(2_599_482), "2.6 MB"),
        (wording.size(7.5e9), "7.5 GB"),
        (wording.plural(1, "job"), "1 job"),
        (wording.pvalue(0.0123), "0.012"),
        (wording.pvalue(1e-300), "< 0.0001"),
        (wording.correlation(0.444, 0.1, 0.654), "0.44 (0.10 to 0.65)"),
        (wording.correlation(-0.1, None, None), "-0.10"),
        (wording.three_digits(12345.6), "12,346"),
        (wording.three_digits(0.012345), "0.0123"),
        (wording.three_digits_range(0.5, 2), "0.500 to 2.00"),
        (wording.three_digits(999.9), "1,000"),
        (wording.three_digits(999.4), "999"),
        (wording.three_digits(-0.0), "0"),
        (wording.three_digits(4.2e-7), "0.000000420"),
        (wording.share(-0.0002), "0.0 %"),
        (wording.plural(1234, "job"), "1,234 jobs"),
    ],
)
def test_numbers(written: str, expected: str) -> None:
    assert written == expected


def test_a_missing_value_is_a_dash_and_a_zero_is_not() -> None:
    column = Column("Span", ("low", "high"), wording.seconds_range)
    assert column.cell({"low": None, "high": 3.0}) == DASH
    assert Column("n", "n", wording.count).cell({"n": 0}) == "0"
