"""Equal to the precision printed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.claims.claim import agrees, round_as


@pytest.mark.parametrize(
    ("value", "printed", "same"),
    [
        (0.435, "0.44", True),  # halves are rounded away from zero
        (0.4349, "0.44", False),
        (0.4449, "0.44", True),
        (0.445, "0.44", False),
        (-0.135, "-0.14", True),
        (-0.1349, "-0.14", False),
        (0.02005, "2.01e-02", True),
        (0.02015, "2.01e-02", False),
        (4.514e-07, "4.51e-07", True),
        (4.516e-07, "4.51e-07", False),
        (1632719.7469, "1,632,719.7", True),
        (1632719.75, "1,632,719.7", False),
        (69351, "69,351", True),
        (69350.4, "69,351", False),
        (None, "0", False),
        (math.nan, "0", False),
    ],
)
def test_the_last_printed_digit_decides(value: float | None, printed: str, same: bool) -> None:
    assert agrees(value, printed) is same


@pytest.mark.parametrize(
    ("value", "printed", "told"),
    [
        (1234.56, "5,197.2", "1,234.6"),
        (0.1, "2.01e-02", "1.00e-01"),
        (3, "100", "3"),
        (None, "0.44", "none"),
    ],
)
def test_a_measured_value_has_the_printed_digits(
    value: float | None, printed: str, told: str
) -> None:
    assert round_as(value, printed) == told


@given(st.decimals(-(10**9), 10**9, places=3, allow_nan=False))
def test_a_number_agrees_with_itself_as_printed_and_with_no_other(number: object) -> None:
    printed = f"{number:,}"
    value = float(printed.replace(",", ""))
    assert agrees(value, printed)
    assert round_as(value, printed) in (printed, printed.removeprefix("-"))
    assert not agrees(value + 0.0011, printed)
