"""Empirical distribution functions, against NumPy."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import empirical_distribution
from traceana.errors import DataError
from traceana.figures import plot_empirical_distribution


def test_quantiles_are_numpys_inverse_of_the_distribution_function() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"kind": rng.choice(["a", "b"], 501), "x": rng.lognormal(2, 1, 501)})
    found = empirical_distribution(frame, "x", by="kind", points=17)
    for (kind,), own in found.group_by("kind"):
        values = frame.filter(kind=kind)["x"].to_numpy()
        assert own["n"].to_list() == [len(values)] * 17
        expected = np.quantile(values, own["fraction_below"], method="inverted_cdf")
        np.testing.assert_array_equal(own["value"], expected)


def test_missing_values_are_excluded_and_a_null_group_is_a_group() -> None:
    frame = pl.DataFrame({"kind": ["a", None, "b", None], "x": [1.0, 3.0, float("nan"), None]})
    found = empirical_distribution(frame, "x", by="kind", points=2)
    assert found.rows() == [
        ("a", 1, 0.0, 1.0),
        ("a", 1, 1.0, 1.0),
        (None, 1, 0.0, 3.0),
        (None, 1, 1.0, 3.0),
    ]
    assert empirical_distribution(frame.clear(), "x").is_empty()
    with pytest.raises(DataError, match="points must be a whole number"):
        empirical_distribution(frame, "x", points=1)


def test_a_line_is_a_group_and_rises_to_1() -> None:
    frame = pl.DataFrame({"gpu_type": ["T4", "T4", "V100"], "wait_s": [0.0, 10.0, 100.0]})
    found = empirical_distribution(frame, "wait_s", by="gpu_type", points=3)
    ax = plot_empirical_distribution(found, x_label="Wait (s)", heading="Wait by GPU type")
    assert [line.get_label() for line in ax.lines] == ["T4", "V100"]
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 0], [0, 0.5], [10, 1]])
    assert ax.get_xscale() == "symlog"
    assert ax.get_title(loc="left") == "Wait by GPU type"
    with pytest.raises(DataError, match="no row"):
        plot_empirical_distribution(found.clear())


def test_a_distribution_has_from_2_to_100000_points() -> None:
    frame = pl.DataFrame({"x": [3.0, 1.0]})
    assert empirical_distribution(frame, "x").height == 101
    assert empirical_distribution(frame, "x", points=2)["value"].to_list() == [1, 3]
    assert empirical_distribution(frame.clear(), "x", points=100_000).is_empty()
    for points in (1, 100_001, 2.0):
        with pytest.raises(DataError, match="points must be a whole number from 2 to 100,000"):
            empirical_distribution(frame, "x", points=points)  # type: ignore[arg-type]
