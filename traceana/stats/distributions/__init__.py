"""Distributions of durations: fits, comparisons, goodness of fit and tails."""

from traceana.stats.distributions.families import FAMILIES, Family
from traceana.stats.distributions.goodness import (
    ClusterTerms,
    Tail,
    cluster_interval_of_fit,
    cluster_terms,
    hill,
    ks_distance,
    ks_distances_of_refits,
    multiplier_pvalue,
)
from traceana.stats.distributions.likelihood import (
    Fit,
    PairTest,
    Sample,
    fit_family,
    make_sample,
    resolution,
    vuong_test,
)

__all__ = [
    "FAMILIES",
    "ClusterTerms",
    "Family",
    "Fit",
    "PairTest",
    "Sample",
    "Tail",
    "cluster_interval_of_fit",
    "cluster_terms",
    "fit_family",
    "hill",
    "ks_distance",
    "ks_distances_of_refits",
    "make_sample",
    "multiplier_pvalue",
    "resolution",
    "vuong_test",
]
