"""Clusters against mean(x) / min(x)."""

from __future__ import annotations

import pytest

from traceana import compare_clusters
from traceana.errors import DataError


def test_equal_workers_take_one_and_uniform_batches_mean_over_min() -> None:
    found = compare_clusters({"a": [1.0, 3.0], "b": [2, 2, 2]})
    times = dict(
        found.select("cluster", "system", "workers", "relative_time").rows_by_key(
            ["cluster", "workers", "system"], unique=True
        )
    )
    assert times["a", "homogeneous", "uniform"][0] == 1
    assert times["a", "heterogeneous", "uniform"][0] == pytest.approx(2)  # (1 + 3) / 2 / 1
    assert times["a", "heterogeneous", "static"][0] == pytest.approx(1)
    assert times["a", "heterogeneous", "dynamic"][0] == pytest.approx(1 + 1 / 200)  # one slow step
    assert times["b", "heterogeneous", "dynamic"][0] == 1
    # half of the step is overhead: .5 + .5 * 2
    half = compare_clusters({"a": [1.0, 3.0]}, overhead_fraction=0.5)
    assert half.filter(workers="heterogeneous", system="uniform")[
        "relative_time"
    ].item() == pytest.approx(1.5)


def test_clusters_without_workers_are_refused() -> None:
    for throughputs in ([0.0, 1.0], [], [1e308]):
        with pytest.raises(DataError, match="cluster a: throughputs must be"):
            compare_clusters({"a": throughputs})
    with pytest.raises(DataError, match="one or more"):
        compare_clusters({})
