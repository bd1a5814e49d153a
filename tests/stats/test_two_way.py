"""Intervals and p-values over two crossed units, from those over either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import traceana
from traceana.cohorts.cohort import combine_units
from traceana.stats.intervals import two_way_interval, two_way_pvalue

Z = norm.ppf(0.975)


@pytest.mark.parametrize(
    ("scale", "middle"),
    [(lambda x: x, 5.0), (np.exp, 0.5), (lambda x: 1 / (1 + np.exp(-x)), -2.0), (np.tanh, -0.2)],
)
def test_squared_widths_are_added(scale: Callable[[Any], Any], middle: float) -> None:
    # errors of users, days and combinations; those of both crossed are sqrt(.3^2 + .4^2 - .1^2)
    errors, total = np.array([0.3, 0.4, 0.1]), np.sqrt(0.24)
    first = scale(np.stack([middle - Z * errors, middle + Z * errors], axis=1))[..., None]
    other = scale(np.array([[[-9.0], [-8.0]]] * 3)) if scale(middle) == middle else first
    low, high = two_way_interval(np.concatenate([first, other], axis=2))
    assert low[0] == pytest.approx(scale(middle - Z * total))
    assert high[0] == pytest.approx(scale(middle + Z * total))
    p = 2 * norm.sf(abs(middle) / errors)
    assert two_way_pvalue(p[:, None])[0] == pytest.approx(2 * norm.sf(abs(middle) / total))


def test_a_unit_without_variance_of_its_own_changes_nothing() -> None:
    users, cells = [[0.1], [0.7]], [[0.3], [0.5]]
    assert [end.item() for end in two_way_interval([users, cells, cells])] == [0.1, 0.7]
    assert [end.item() for end in two_way_interval([cells, users, cells])] == [0.1, 0.7]
    # the wider of both is the least
    assert [end.item() for end in two_way_interval([users, cells, users])] == [0.1, 0.7]
    assert two_way_pvalue([[0.04], [0.01], [0.01]]).item() == 0.04
    assert two_way_pvalue([[1.0], [0.01], [0.5]]).item() == 1.0
    assert two_way_pvalue([[0.0], [0.0], [0.0]]).item() == 0.0


def test_an_interval_keeps_to_its_limits_and_its_missing_ends() -> None:
    low, high = two_way_interval([[[0.0], [0.5]], [[0.0], [0.6]], [[0.1], [0.3]]])
    assert low.item() == 0.0
    assert high.item() == pytest.approx(0.3 + np.sqrt(0.25 + 0.36 - 0.04) / 2)
    none = np.nan
    ends = two_way_interval([[[0.1], [none]], [[0.2], [0.6]], [[0.3], [0.4]]])
    assert ends[0].item() == 0.1
    assert np.isnan(ends[1].item())
    assert np.isnan(two_way_pvalue([[none], [0.2], [0.1]]).item())
    assert two_way_pvalue([[0.3], [0.2], [none]]).item() > 0.3


def test_combined_tables_are_those_of_the_library_that_adds_them_itself() -> None:
    rng = np.random.default_rng(3)
    user, day = rng.integers(0, 20, 900), rng.integers(0, 30, 900)
    # the feature varies between users and between days
    x = rng.normal(size=20)[user] + rng.normal(size=30)[day] + rng.normal(size=900)
    level = rng.normal(size=20)[user] + rng.normal(size=30)[day]
    rows = pl.DataFrame(
        {
            "user": user,
            "day": day,
            "both": 30 * user + day,
            "x": x,
            "status": "failed",
            "runtime_s": rng.exponential(np.exp(0.5 * level)),
        }
    )

    def fit(*cluster: str) -> pl.DataFrame:
        return traceana.cause_specific_hazards(
            rows, features="x", causes="failed", cluster=[*cluster]
        )

    ours = combine_units([fit("user"), fit("day"), fit("both")]).row(0, named=True)
    theirs = fit("user", "day").row(0, named=True)
    assert ours["std_error"] == pytest.approx(theirs["std_error"])
    assert ours["ci_low"] == pytest.approx(theirs["ci_low"], rel=0.01)
    assert ours["pvalue"] == pytest.approx(theirs["pvalue"], rel=0.1)
    assert ours["ci_high"] / ours["ci_low"] > fit("user")["ci_high"][0] / fit("user")["ci_low"][0]
    both = combine_units([(fit("user"), fit("day"))] * 3)
    assert both[0].equals(fit("user"))
    # tables of other rows cannot be combined: those of the first unit stay
    alone = fit("user")
    assert combine_units([alone, alone.head(0), alone]).equals(alone)
