"""What options may be."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from traceana.errors import DataError
from traceana.stats.arguments import as_generator, check_confidence, is_number, takes


@pytest.mark.parametrize("value", [0, -3, 2.5, math.inf, np.float32(1), np.int8(1), Fraction(1, 3)])
def test_numbers(value: Any) -> None:
    assert is_number(value)
    assert is_number(value, whole=True) == isinstance(value, int | np.int8)


@pytest.mark.parametrize("value", [True, np.True_, math.nan, np.nan, "1", None, [1], 1j])
def test_what_is_no_number(value: Any) -> None:
    assert not is_number(value)
    assert not is_number(value, whole=True)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.5, math.nan, "0.95", True])
def test_confidence_is_inside_0_and_1(confidence: Any) -> None:
    check_confidence(0.001)
    check_confidence(0.999)
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        check_confidence(confidence)


def test_a_seed_or_a_generator() -> None:
    assert as_generator(0).random() == np.random.default_rng(0).random()
    own = np.random.default_rng(5)
    assert as_generator(own) is own
    for wrong in (-1, 1.5, True, "1", None):
        with pytest.raises(DataError, match="rng must be a whole number"):
            as_generator(wrong)  # type: ignore[arg-type]


def test_how_many_arguments_a_function_takes() -> None:
    assert takes(lambda _a, _b: None, 2)
    assert not takes(lambda _a, _b: None, 1)
    assert not takes(3, 0)
    assert takes(max, 7)  # whose signature cannot be read
