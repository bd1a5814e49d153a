"""Conclusions from effect sizes, and intervals of differences."""

import pytest

from traceana.stats.multiplicity import conclude


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # a V of .009 is significant in a million rows and means nothing
        ((0.009, 0.007, 0.011, 1e-9), "negligible"),
        ((0.02, 0.0, 0.09, 0.5), "negligible"),
        ((0.05, 0.0, 0.144, 0.6), "inconclusive"),
        ((0.25, 0.05, 0.45, 0.07), "inconclusive"),
        ((0.08, 0.05, 0.12, 0.001), "negligible"),
        ((0.25, 0.1, 0.4, 0.01), "small"),
        ((0.62, 0.55, 0.69, 1e-9), "large"),
        ((None, None, None, None), "inconclusive"),
        ((0.62, None, None, None), "inconclusive"),
    ],
)
def test_no_effect_is_asserted_that_is_negligible_or_not_significant(
    values: tuple[float | None, ...], expected: str
) -> None:
    assert conclude("cramers_v", *values) == expected


@pytest.mark.parametrize(
    ("name", "thresholds"),
    [
        # Cohen (1988), tables 7.2.3, 8.2.2 (squared: f of .1, .25, .4) and section 3.2
        ("cramers_v", (0.1, 0.3, 0.5)),
        ("epsilon_squared", (0.01, 0.06, 0.14)),
        ("correlation", (0.1, 0.3, 0.5)),
        # Romano et al. (2006)
        ("cliffs_delta", (0.147, 0.33, 0.474)),
    ],
)
def test_an_effect_has_the_size_of_its_threshold_on(
    name: str, thresholds: tuple[float, float, float]
) -> None:
    below = "negligible"
    for threshold, word in zip(thresholds, ("small", "medium", "large"), strict=True):
        assert conclude(name, threshold - 1e-6, 0, 1, 0.049) == below
        assert conclude(name, -threshold, -1, 0, 0.049) == word
        below = word
    assert conclude(name, 0.9, 0.8, 1, 0.05) == "inconclusive"
    assert conclude(name, 0.9, 0.8, 1, 0.05, alpha=0.051) == "large"
    # the whole interval is below a small effect, or its end is not
    least = thresholds[0]
    assert conclude(name, 0.0, 1e-6 - least, least - 1e-6, 0.5) == "negligible"
    assert conclude(name, 0.0, -least, 0, 0.5) == "inconclusive"
    assert conclude(name, 0.0, 0, least, 0.5) == "inconclusive"
    assert conclude(name, float("nan"), 0, 0, 0.01) == "inconclusive"


def test_negative_effects_are_judged_by_their_magnitude() -> None:
    assert conclude("cliffs_delta", -0.5, -0.7, -0.3, 0.001) == "large"
    assert conclude("cliffs_delta", -0.05, -0.1, 0.01, 0.2) == "negligible"
