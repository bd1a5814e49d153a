"""What coefficients do by chance, against closed forms and permutations."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana.analysis import correlate
from traceana.stats.correlation import correlation
from traceana.stats.null_correlation import (
    Null,
    null_correlations,
    null_pvalue,
    shared_by_clusters,
)

ROWS = [("row", "pearson")]


def test_of_independent_rows_it_is_fishers() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 200))
    alone = null_correlations(x, y, np.arange(200), ROWS, resamples=1000, rng=rng)["row", "pearson"]
    # t(199) of its error reaches what the normal of 1 / (n - 3) does
    assert alone.error * 1.972 == pytest.approx(1.96 / np.sqrt(197), rel=0.1)
    assert alone.centre == pytest.approx(0, abs=4 / np.sqrt(197 * 1000))
    copies = [np.repeat(part, 5) for part in (x, y, np.arange(200))]
    five = null_correlations(
        copies[0], copies[1], copies[2].astype(np.int64), ROWS, resamples=1000, rng=rng
    )["row", "pearson"]
    assert five.error == pytest.approx(alone.error, rel=0.1)


def test_small_groups_lean_as_permutations_do() -> None:
    rng = np.random.default_rng(2)
    # few rows at each of the high x, many at the low: means of many are above those of one
    x = np.repeat(np.arange(40.0), [20] * 20 + [1] * 20)
    y = rng.lognormal(0, 1.5, len(x))
    asked = [("group_mean", "spearman"), ("group_mean", "pearson"), ("group_mean", "kendall")]
    clusters = np.arange(len(x))
    found = null_correlations(x, y, clusters, asked, resamples=500, rng=rng)
    group = x.astype(np.int64)
    for level, method in asked:
        permuted = []
        for _ in range(200):
            mean = np.bincount(group, rng.permutation(y)) / np.bincount(group)
            permuted.append(np.arctanh(correlation(np.arange(40), mean, method=method)))
        null = found[level, method]
        lean = float(np.mean(permuted))
        assert null.centre == pytest.approx(lean, abs=4 * np.std(permuted) / np.sqrt(150))
        reach = np.quantile(np.abs(np.array(permuted) - lean), 0.95) / 1.965
        assert null.error == pytest.approx(reach, rel=0.2)
    assert found["group_mean", "spearman"].centre < -0.3
    frame = pl.DataFrame({"x": x, "y": y, "row": clusters})
    line = correlate(frame, "x", "y", method="spearman", level="group_mean", cluster="row").table
    assert "on average where there is nothing" in line["note"].item()
    assert line["pvalue"].item() > 0.01
    naive = correlate(frame, "x", "y", method="spearman", level="group_mean").table
    assert naive["pvalue"].item() < 0.01


def test_p_is_of_the_distance_from_the_centre() -> None:
    null = Null(0.2, 0.1)
    assert null_pvalue(float(np.tanh(0.2)), null, 30) == pytest.approx(1)
    # t(29) is beyond 2.045 five times in a hundred
    assert null_pvalue(float(np.tanh(0.2 + 0.20452296)), null, 30) == pytest.approx(0.05, rel=1e-6)


def test_what_clusters_share() -> None:
    rng = np.random.default_rng(3)
    of = np.repeat(np.arange(2000), 5)
    y = np.sqrt(0.3) * rng.standard_normal(2000)[of] + np.sqrt(0.7) * rng.standard_normal(10_000)
    assert shared_by_clusters(y, of) == pytest.approx(0.3, abs=0.05)
    assert shared_by_clusters(y, rng.permutation(of)) == pytest.approx(0, abs=0.03)
    assert shared_by_clusters(of.astype(float), of) == 1
    assert shared_by_clusters(y[:50], np.arange(50)) == 1
