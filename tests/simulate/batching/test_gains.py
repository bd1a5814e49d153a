"""Published gains, devices and clusters, number by number."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from traceana import compare_clusters, implied_throughput_ratio, published_gains
from traceana.errors import DataError
from traceana.simulate.batching.devices import DEVICES, LEVELS, find_tflops
from traceana.simulate.batching.gains import largest_gain


def test_devices_are_as_their_data_sheets() -> None:
    found = {name: (cores, tflops) for name, cores, tflops, _ in DEVICES.iter_rows()}
    assert found == {
        "t4": (2560, 8.1), "p4": (2560, 5.5), "p100": (3584, 9.3), "v100": (5120, 14),
        # 48 cores at 2 GHz with 32 operations a cycle
        "xeon-48": (48, pytest.approx(3.072)),
    }  # fmt: skip
    for name, (cores, tflops) in found.items():
        assert find_tflops(name) == tflops
        (source,) = DEVICES.filter(device=name)["source"]
        assert re.findall(r"[\d,]+(?= (?:CUDA )?cores)", source) == [f"{cores:,}"]
    with pytest.raises(DataError, match="no device is called 'h100'"):
        find_tflops("h100")
    assert {sum(cores) for cores in LEVELS.values()} == {48}


def test_every_published_gain_by_hand() -> None:
    t4_p4, gpu_cpu = 8.1 / 5.5, 9.3 / 3.072

    def implied(gain: float, fast: int, slow: int) -> list[float]:
        # a + b / slow = g (a + K b / (n_f r + n_s)), with overhead a of a uniform step of 1
        return [((fast + slow) * (1 - a) / (1 / gain - a) - slow) / fast for a in (0.0, 0.1, 0.2)]

    def overhead(gain: float, most: float) -> float:
        return (1 / gain - 1 / most) / (1 - 1 / most)

    most = (gpu_cpu + 1) / 2
    mixed = f"their FLOPS differ by {gpu_cpu:.2f}, worth {most:.2f} at most"
    gpus = f"their FLOPS differ by {t4_p4:.2f}, worth 1.24 at most"
    ratios = {"t4": 8.1, "p4": 5.5, "p100": 9.3, "v100": 14.0, "xeon-48": 3.072}
    pairs = sorted((ratios[a] / ratios[b], f"{a} and {b}") for a in ratios for b in ratios)
    # 1.2 of two workers needs a ratio of 1.4
    reach = ", ".join(pair for ratio, pair in pairs if ratio >= 1.4)
    slowest = "or less evenly give it; of three workers, the slowest has"
    known = {
        "batching-cpu-gpu-resnet": (
            4.0, "1 p100 + 1 xeon-48", *implied(4, 1, 1), gpu_cpu, most, False,
            f"1 p100 at 7.00 times the throughput of 1 xeon-48; {mixed}", None, "none",
        ),
        "batching-cpu-gpu-cnn": (
            1.2, "1 p100 + 1 xeon-48", *implied(1.2, 1, 1), gpu_cpu, most, False,
            f"1 p100 at 1.40 times the throughput of 1 xeon-48; {mixed}",
            overhead(1.2, most), reach,
        ),
        "batching-gpu-resnet": (
            4.5, "2 t4 + 2 p4", *implied(4.5, 2, 2), t4_p4, (t4_p4 + 1) / 2, False,
            f"2 t4 at 8.00 times the throughput of 2 p4; {gpus}", None, "none",
        ),
        "batching-gpu-cnn": (
            2.1, "2 t4 + 2 p4", *implied(2.1, 2, 2), t4_p4, (t4_p4 + 1) / 2, False,
            f"2 t4 at 3.20 times the throughput of 2 p4; {gpus}", None, "v100 and xeon-48",
        ),
        "batching-hetero-resnet": (
            3.0, "2 + 1 CPU workers", *implied(3, 2, 1), None, 3, True,
            f"cores split 6/6/4/32 {slowest} 5.3 of 48 cores", None, None,
        ),
        "batching-hetero-linreg": (
            2.0, "2 + 1 CPU workers", *implied(2, 2, 1), None, 3, True,
            f"cores split 9/9/6/24 {slowest} 8.0 of 48 cores", None, None,
        ),
    }  # fmt: skip
    found = {row[0]: row[1:] for row in published_gains().iter_rows()}
    assert list(found) == list(known)
    for name, row in known.items():
        for value, expected in zip(found[name], row, strict=True):
            is_number = isinstance(expected, float)
            assert value == (pytest.approx(expected) if is_number else expected), name


def test_bounds_of_a_ratio() -> None:
    assert implied_throughput_ratio(1) == 1
    assert implied_throughput_ratio(3) == implied_throughput_ratio(3, fast=1, slow=1) == 5
    assert largest_gain(3) == largest_gain(3, fast=1, slow=1) == 2
    # slow workers in the majority: the least is the "fast" one, of .5
    assert largest_gain(0.5, fast=1, slow=3) == pytest.approx(3.5 / 4 / 0.5)
    for wrong in (
        {"gain": 0.99}, {"gain": 2, "fast": 0}, {"gain": 2, "slow": 0},
        {"gain": 2, "overhead_share": -0.1}, {"gain": 2, "overhead_share": 1},
        {"gain": float("nan")},
    ):  # fmt: skip
        gain = wrong.pop("gain")
        with pytest.raises(DataError, match="a gain is 1 or more"):
            implied_throughput_ratio(gain, **wrong)


def test_every_cluster_of_the_paper_by_hand() -> None:
    found = compare_clusters()
    rows = found.rows_by_key(["cluster", "workers", "system"], unique=True)
    clusters = {
        "3 CPU workers, 6/12/30 cores": [6.0, 12.0, 30.0],
        "P100 and 48-core Xeon": [9.3, 3.072],
        "2 T4 and 2 P4": [8.1, 8.1, 5.5, 5.5],
    }
    slower: dict[str, tuple[float | None, float | None]] = {
        "ResNet-50, CNN": (3, None),
        "linear regression": (2, None),
    }
    factors: dict[str, dict[str, Any]] = {
        "3 CPU workers, 6/12/30 cores": slower,
        "P100 and 48-core Xeon": {"ResNet-50": (None, 4.0), "CNN": (None, 1.2)},
        "2 T4 and 2 P4": {"ResNet-50": (None, 4.5), "CNN": (None, 2.1)},
    }  # fmt: skip
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
    assert found.height == 3 * 4 + 6


def test_overheads_and_throughputs_of_clusters_have_bounds() -> None:
    whole = compare_clusters({"a": [1.0, 3.0]}, overhead_share=0.2, steps=10)
    times = {(w, s): t for _, w, s, t, _ in whole.iter_rows()}
    assert times["homogeneous", "uniform"] == 1
    # a fifth of the step is overhead: .2 + .8 * 2
    assert times["heterogeneous", "uniform"] == pytest.approx(1.8)
    for throughputs in ([9e-13, 1], [1.1e12, 1]):
        with pytest.raises(DataError, match="cluster a: throughputs must be"):
            compare_clusters({"a": throughputs})
    for share in (-0.1, 1, float("nan")):
        with pytest.raises(DataError, match=r"overhead_share must be in \[0, 1\)"):
            compare_clusters({"a": [1, 2]}, overhead_share=share)
