"""Published gains, devices and clusters, number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from traceana import compare_clusters, implied_throughput_ratio, published_gains
from traceana.errors import DataError
from traceana.simulate.batching.sweep import largest_gain
from traceana.simulate.batching.workers import LEVELS, PUBLISHED


def test_devices_are_as_their_data_sheets() -> None:
    devices = PUBLISHED["devices"]
    found = {name: (entry["cores"], entry["tflops"]) for name, entry in devices.items()}
    assert found == {
        # half precision: T4 and P4 as the paper has them, P100 and V100 of NVIDIA's data sheets
        "t4": (2560, 65.0),
        "p4": (2560, 5.5),
        "p100": (3584, 18.7),
        "v100": (5120, 112.0),
        # .187 / .813 of the P100's, as printed
        "xeon-48": (48, pytest.approx(18.7 * 0.187 / 0.813, abs=0.01)),
    }
    for name, (cores, _) in found.items():
        assert f"{cores:,}" in devices[name]["source"]
    assert {len(cores): sum(cores) for cores in LEVELS.values()} == {3: 39, 4: 48}


def test_every_published_gain_by_hand() -> None:
    # mean(x) / min(x) of the workers; the factor is plausible if it is not above it
    known = {
        "batching-hetero-resnet": (3.0, 3.25, True),
        "batching-hetero-resnet-bars": (4.0, 3.25, False),
        "batching-hetero-linreg": (2.0, 3.25, True),
        "batching-hetero-linreg-bars": (3.0, 3.25, True),
        "batching-level-2": (2.0, 13 / 9, False),
        "batching-level-10": (2.4, 13 / 2, True),
        "batching-cpu-gpu-resnet": (4.0, 0.5 / 0.187, False),
        "batching-cpu-gpu-cnn": (1.2, 0.5 / 0.187, True),
        "batching-gpu-resnet": (4.5, (65 + 5.5) / 2 / 5.5, True),
        "batching-gpu-cnn": (2.1, (65 + 5.5) / 2 / 5.5, True),
    }
    table = published_gains()
    assert table["id"].to_list() == list(known)
    for row in table.iter_rows(named=True):
        gain, most, plausible = known[row["id"]]
        assert row["published"] == gain
        assert row["largest_gain"] == pytest.approx(most)
        assert row["is_plausible"] is plausible
        assert (row["overhead_at_flops"] is not None) is plausible
        if plausible:
            # 1 / gain of the step with equal batches, a share of which is overhead
            share = row["overhead_at_flops"]
            assert share + (1 - share) / most == pytest.approx(1 / gain)
    pairs = dict(table.select("id", "reached_by").iter_rows())
    assert pairs["batching-level-2"] is None
    assert "p100 and xeon-48" not in pairs["batching-cpu-gpu-resnet"]
    assert "t4 and p4" in pairs["batching-gpu-resnet"].split(", ")


def test_bounds_of_a_ratio() -> None:
    assert implied_throughput_ratio(1) == 1
    assert implied_throughput_ratio(3) == implied_throughput_ratio(3, fast=1, slow=1) == 5
    assert largest_gain(3) == largest_gain(3, fast=1, slow=1) == 2
    # slow workers in the majority: the least is the "fast" one, of .5
    assert largest_gain(0.5, fast=1, slow=3) == pytest.approx(3.5 / 4 / 0.5)
    for wrong in (
        {"gain": 0.99},
        {"gain": 2, "fast": 0},
        {"gain": 2, "slow": 0},
        {"gain": 2, "overhead_fraction": -0.1},
        {"gain": 2, "overhead_fraction": 1},
        {"gain": float("nan")},
    ):
        gain = wrong.pop("gain")
        with pytest.raises(DataError, match="a gain is 1 or more"):
            implied_throughput_ratio(gain, **wrong)


def test_every_cluster_of_the_paper_by_hand() -> None:
    found = compare_clusters()
    rows = found.rows_by_key(["cluster", "workers", "system"], unique=True)
    clusters = {
        "3 CPU workers, 11/4/24 cores": [11.0, 4.0, 24.0],
        "H-level 2, 9/12/18 cores": [9.0, 12.0, 18.0],
        "H-level 10, 2/17/20 cores": [2.0, 17.0, 20.0],
        "P100 and 48-core Xeon": [0.813, 0.187],
        "2 T4 and 2 P4": [65.0, 65.0, 5.5, 5.5],
    }
    factors: dict[str, dict[str, Any]] = {
        "3 CPU workers, 11/4/24 cores": {
            "ResNet-50, CNN": (3, None),
            "ResNet-50, CNN (bar)": (4, None),
            "linear regression": (2, None),
            "linear regression (bar)": (3, None),
        },
        "H-level 2, 9/12/18 cores": {"dynamic batching": (None, 2.0)},
        "H-level 10, 2/17/20 cores": {"dynamic batching": (None, 2.4)},
        "P100 and 48-core Xeon": {"ResNet-50": (None, 4.0), "CNN": (None, 1.2)},
        "2 T4 and 2 P4": {"ResNet-50": (None, 4.5), "ResNet-50, B = 2048": (None, 2.1)},
    }
    for name, x in clusters.items():
        total, count = sum(x), len(x)
        # equal workers take 1 s for 64 samples; each of these has its part of 64 * count
        speed = np.array(x) * 64 * count / total

        def longest(batches: np.ndarray, speed: np.ndarray = speed) -> float:
            return float((batches / speed).max())

        uniform = longest(np.full(count, 64.0))
        assert rows[name, "homogeneous", "uniform"] == pytest.approx((1, 1))
        assert rows[name, "heterogeneous", "uniform"] == pytest.approx((uniform, 1))
        static, speedup = rows[name, "heterogeneous", "static"]
        assert 1 <= static < 1 + 1 / (speed.min())  # whole samples
        assert speedup == pytest.approx(uniform / static)
        dynamic, _ = rows[name, "heterogeneous", "dynamic"]
        assert dynamic == pytest.approx((uniform + 199 * static) / 200, rel=1e-3)
        for model, (time, factor) in factors[name].items():
            expected = (time or uniform / factor, factor)
            assert rows[name, "published", model] == pytest.approx(expected)
    assert found.height == 5 * 4 + 10


def test_overheads_and_throughputs_of_clusters_have_bounds() -> None:
    whole = compare_clusters({"a": [1.0, 3.0]}, overhead_fraction=0.2, steps=10)
    times = {(w, s): t for _, w, s, t, _ in whole.iter_rows()}
    assert times["homogeneous", "uniform"] == 1
    # a fifth of the step is overhead: .2 + .8 * 2
    assert times["heterogeneous", "uniform"] == pytest.approx(1.8)
    for throughputs in ([9e-13, 1], [1.1e12, 1]):
        with pytest.raises(DataError, match="cluster a: throughputs must be"):
            compare_clusters({"a": throughputs})
    for share in (-0.1, 1, float("nan")):
        with pytest.raises(DataError, match=r"overhead_fraction must be in \[0, 1\)"):
            compare_clusters({"a": [1, 2]}, overhead_fraction=share)
