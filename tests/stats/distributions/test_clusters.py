"""Fits to values in clusters."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import traceana
from traceana.errors import DataError
from traceana.stats.distributions.goodness import hill
from traceana.stats.distributions.likelihood import resolution
from traceana.stats.permutation import clustered_ks


def make_clusters(clusters: int = 20, share: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, clusters, 400)
    common = rng.standard_normal(clusters)[cluster]
    return np.exp(np.sqrt(share) * common + np.sqrt(1 - share) * rng.standard_normal(400)), cluster


def test_the_mean_of_logs_has_the_interval_of_a_jackknife_by_newton_steps() -> None:
    values, cluster = make_clusters()
    fits = traceana.fit_distributions(
        values, families=["lognormal"], cluster=cluster, resamples=0, confidence=0.9
    )
    mu = fits.parameters.row(0, named=True)
    y, size = np.log(values), np.bincount(cluster) / 400
    # Newton steps of the normal log-likelihood of the logs, in the mean and the log of sigma
    sigma = y.std()
    z = (y - y.mean()) / sigma
    score = np.stack([z / sigma, z**2 - 1])
    information = np.array([[np.full(400, sigma**-2), 2 * z / sigma], [2 * z / sigma, 2 * z**2]])
    steps = [
        np.linalg.solve(information[..., cluster != c].sum(-1), score[:, cluster == c].sum(-1))
        for c in range(20)
    ]
    moved = np.array(steps)[:, 0]
    square = (moved**2).sum()
    center = y.mean() + (1 - size) @ moved
    error = np.sqrt(19 / 20 * square)
    df = min(2 * square**2 / ((moved**4).sum() - square**2 / 20), 1 / (size**2).sum() - 1)
    t = stats.t.ppf(0.95, df)
    skewness = (moved**3).sum() / (6 * square**1.5)
    assert mu["estimate"] == pytest.approx(y.mean())
    for end, w in ((mu["ci_low"], -t), (mu["ci_high"], t)):
        farther = max(abs(w), abs(w) / (1 - skewness * w) ** 2)
        assert end == pytest.approx(center + np.sign(w) * error * farther, rel=1e-6)


def test_goodness_of_clusters_allows_for_them_and_still_rejects() -> None:
    values, cluster = make_clusters(share=0.5)
    table = traceana.fit_distributions(
        values, families=["lognormal", "exponential"], cluster=cluster, resamples=199
    ).table
    p = dict(table.select("family", "ks_pvalue").iter_rows())
    alone = traceana.fit_distributions(values, families=["lognormal"], resamples=199).table
    assert p["lognormal"] > alone["ks_pvalue"].item()
    assert p["exponential"] < 0.05


def test_rounded_values_fit_as_well_as_exact_ones() -> None:
    exact = np.random.default_rng(8).lognormal(5, 0.7, 300)
    minutes = np.maximum(np.round(exact / 60), 1) * 60
    assert resolution(minutes) == 60
    assert resolution(exact) is None
    found = traceana.fit_distributions(minutes, families=["lognormal"], resamples=99)
    assert found.table["ks_pvalue"].item() > 0.05


def test_clusters_of_one_value_have_hills_delta_method() -> None:
    values = np.random.default_rng(2).pareto(1.5, 300) + 1
    tail = hill(values, 100, cluster=np.arange(300), confidence=0.95)
    assert tail is not None
    logs = np.log(values[values > tail.threshold] / tail.threshold)
    w = logs / logs.sum()
    error = np.sqrt(99 / 100 * (((1 / 100 - w) / (1 - w)) ** 2).sum())
    assert np.log(tail.high / tail.index) == pytest.approx(stats.t.ppf(0.975, 99) * error)


def test_identical_clusters_are_alike_and_shifted_ones_are_not() -> None:
    values, cluster = make_clusters(share=0.2)
    group = np.arange(400) % 2
    order = np.argsort(group, kind="stable")
    for shift, alike in ((1.0, True), (3.0, False)):
        x = np.where(group == 0, shift * values, values)
        p, low, high = clustered_ks(
            x[group == 0],
            x[group == 1],
            cluster[order],
            confidence=0.95,
            resamples=199,
            rng=np.random.default_rng(1),
        )
        assert (p > 0.05, low == 0) == (alike, alike)
        assert high > stats.ks_2samp(x[group == 0], x[group == 1]).statistic


def test_few_clusters_have_no_test_of_the_distance() -> None:
    values, cluster = make_clusters(clusters=6)
    rows = pl.DataFrame({"x": values, "g": np.arange(400) % 2, "user": cluster})
    found = traceana.compare_distributions(rows, "x", "g", cluster="user").row(0, named=True)
    assert found["ks_pvalue"] is None
    assert found["note"].endswith("of equal size; 10 are needed")


def test_wrong_clusters_are_refused() -> None:
    with pytest.raises(DataError, match="cluster has 2 entries for 3 values"):
        traceana.tail_index([1.0, 2, 3], cluster=[1, 2])
    with pytest.raises(DataError, match="cluster is null for 1 value"):
        traceana.tail_index([1.0, 2, 3], cluster=[1, None, 2])
    with pytest.raises(DataError, match="one cluster"):
        traceana.tail_index([1.0, 2, 3], cluster=["a"] * 3)


def test_a_tail_of_one_cluster_has_no_interval_rather_than_all_numbers() -> None:
    tail = hill(np.array([1e9, 1.001, 1.0]), 2, cluster=np.array([0, 1, 2]), confidence=0.95)
    assert tail is not None
    assert tail.index == pytest.approx(2 / np.log(1.001e9))
    assert np.isnan([tail.low, tail.high]).all()
