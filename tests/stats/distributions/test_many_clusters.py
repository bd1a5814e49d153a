"""The p-value of a fit to values in clusters takes bounded memory, however many there are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from traceana.stats.distributions import goodness
from traceana.stats.distributions.families import FAMILIES
from traceana.stats.distributions.goodness import cluster_terms, ks_distance, multiplier_pvalue
from traceana.stats.distributions.likelihood import fit_family, make_sample


def pvalue(clusters: int, *, seed: int = 1) -> float:
    rng = np.random.default_rng(seed)
    y, cluster = rng.normal(size=2 * clusters), np.repeat(np.arange(clusters), 2)
    none = np.zeros(len(y), dtype=bool)
    sample = make_sample(y, none, None)
    fit = fit_family(FAMILIES["lognormal"], sample)
    centered = y - sample.center
    terms = cluster_terms(fit, centered, none, np.full(len(y), -np.inf), cluster)
    distance = ks_distance(fit, sample)
    return multiplier_pvalue(
        fit, centered, terms.scores, cluster, distance=distance, resamples=199, rng=rng
    )


def test_memory_does_not_grow_with_clusters() -> None:
    tracemalloc.start()
    pvalue(20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6


def test_clusters_at_once_decide_nothing_but_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [pvalue(200, seed=seed) for seed in range(20)]
    monkeypatch.setattr(goodness, "_MOST_CLUSTERS", 30)
    parts = [pvalue(200, seed=seed) for seed in range(20)]
    # of one true p, two estimates by 199 draws each differ by a standard error of at most 0.05
    assert np.abs(np.subtract(whole, parts)).max() < 0.2
    assert np.mean(whole) == pytest.approx(np.mean(parts), abs=0.04)
    assert whole != parts
