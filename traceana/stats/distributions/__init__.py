"""Distributions of durations: fits, comparisons, goodness of fit and tails."""

from traceana.stats.distributions.clusters import (
    ClusterTerms,
    cluster_interval_of_fit,
    cluster_terms,
    multiplier_pvalue,
)
from traceana.stats.distributions.families import FAMILIES, Family
from traceana.stats.distributions.goodness import ks_distance, ks_distances_of_refits
from traceana.stats.distributions.likelihood import Fit, fit_family
from traceana.stats.distributions.pairs import PairTest, vuong_test
from traceana.stats.distributions.sample import Sample, make_sample, resolution
from traceana.stats.distributions.tail import Tail, hill

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
