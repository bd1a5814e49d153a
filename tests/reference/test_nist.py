"""Our values against those that NIST certifies (Statistical Reference Datasets)."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import correlate
from traceana.stats.correlation import correlation
from traceana.stats.ranks import between_groups
from traceana.stats.time_blocks import autocorrelation

HERE = Path(__file__).parent
UNIVARIATE = tomllib.loads((HERE / "nist_univariate.toml").read_text(encoding="utf-8"))
FITTED = tomllib.loads((HERE / "nist_groups_and_lines.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", UNIVARIATE)
def test_autocorrelation_has_the_certified_digits(name: str) -> None:
    known = UNIVARIATE[name]
    values = known.get("values") or [known["first"], *(known["pair"] * known["pairs"])]
    found = autocorrelation(values, lags=1)[0]
    assert found == pytest.approx(known["autocorrelation"], rel=1e-9)


def test_r_of_the_calibration_of_ozone_monitors() -> None:
    known = FITTED["Norris"]
    x, y = known["x"], known["y"]
    found = correlate(pl.DataFrame({"x": x, "y": y}), "x", "y").table["r"].item()
    for r in (found, correlation(x, y, method="pearson")):
        # what is left of the variance has ten digits of the fifteen certified
        assert 1 - r**2 == pytest.approx(1 - known["r_squared"], rel=1e-9)
    slope = found * np.std(y) / np.std(x)
    assert slope == pytest.approx(known["slope"], rel=1e-14)


@pytest.mark.parametrize("name", ["SiRstv", "AtmWtAg"])
def test_variance_between_and_within_groups(name: str) -> None:
    known = FITTED[name]
    values = np.array(known["values"]) - known["values"][0]  # the leading digits are alike
    group = np.unique(known["group"], return_inverse=True)[1].astype(np.int64)
    n = np.bincount(group)
    found = between_groups(n, np.bincount(group, values), float(values @ values))
    assert found.effect == pytest.approx(known["r_squared"], rel=1e-8)
    df = (len(n) - 1, len(values) - len(n))
    f = found.effect / df[0] / ((1 - found.effect) / df[1])
    assert f == pytest.approx(known["f_statistic"], rel=1e-8)
