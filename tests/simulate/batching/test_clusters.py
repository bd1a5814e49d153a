"""The published clusters against mean(x) / min(x), and devices that allow a speedup."""

from __future__ import annotations

import pytest

from traceana import compare_clusters, published_gains
from traceana.errors import DataError
from traceana.simulate.batching.devices import find_tflops


def test_equal_workers_take_one_and_uniform_batches_mean_over_min() -> None:
    found = compare_clusters({"a": [1.0, 3.0], "b": [2, 2, 2]})
    times = dict(found.select("cluster", "system", "workers", "relative_time").rows_by_key(
        ["cluster", "workers", "system"], unique=True
    ))  # fmt: skip
    assert times["a", "homogeneous", "uniform"][0] == 1
    assert times["a", "heterogeneous", "uniform"][0] == pytest.approx(2)  # (1 + 3) / 2 / 1
    assert times["a", "heterogeneous", "static"][0] == pytest.approx(1)
    assert times["a", "heterogeneous", "dynamic"][0] == pytest.approx(1 + 1 / 200)  # one slow step
    assert times["b", "heterogeneous", "dynamic"][0] == 1
    # half of the step is overhead: .5 + .5 * 2
    half = compare_clusters({"a": [1.0, 3.0]}, overhead_share=0.5)
    assert half.filter(workers="heterogeneous", system="uniform")[
        "relative_time"
    ].item() == pytest.approx(1.5)


def test_published_factors_stand_beside_the_cluster_that_they_are_of() -> None:
    found = compare_clusters()
    rows = found.filter(workers="published").rows_by_key(["cluster", "system"], unique=True)
    assert rows["2 T4 and 2 P4", "ResNet-50"][-1] == 4.5
    assert rows["P100 and 48-core Xeon", "ResNet-50"][-1] == 4
    assert rows["P100 and 48-core Xeon", "CNN"][-1] == 1.2
    assert rows["3 CPU workers, 6/12/30 cores", "ResNet-50, CNN"][-2:] == (3.0, None)
    # uniform batches wait for the P4: (8.1 + 5.5) / 2 / 5.5
    uniform = (8.1 + 5.5) / 2 / 5.5
    assert rows["2 T4 and 2 P4", "CNN"][-2] == pytest.approx(uniform / 2.1)
    assert rows["3 CPU workers, 6/12/30 cores", "linear regression"][-2:] == (2.0, None)
    for throughputs in ([0.0, 1.0], [], [1e308]):
        with pytest.raises(DataError, match="cluster a: throughputs must be"):
            compare_clusters({"a": throughputs})
    with pytest.raises(DataError, match="one or more"):
        compare_clusters({})


def test_device_pairs_that_reach_a_speedup() -> None:
    pairs = dict(published_gains().select("id", "reached_by").iter_rows())
    # one fast and one slow worker: (r + 1) / 2 of 4 needs r = 7, and the largest is 14 / 3.072
    assert pairs["batching-cpu-gpu-resnet"] == "none"
    assert pairs["batching-gpu-cnn"] == "v100 and xeon-48"
    assert pairs["batching-cpu-gpu-cnn"].split(", ")[0] == "t4 and p4"
    assert pairs["batching-hetero-resnet"] is None
    assert find_tflops("mine=19.5") == 19.5
    with pytest.raises(DataError, match="no number of TFLOPS"):
        find_tflops("mine=fast")
