"""k-means on a line against every partition, Lloyd's algorithm, and planted clusters."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.cluster.vq import kmeans2

from traceana.stats.segments import kmeans_1d

NUMBERS = st.lists(st.integers(-50, 50).map(float) | st.floats(-1e6, 1e6), min_size=1, max_size=9)


def within(values: ArrayLike, cluster: ArrayLike) -> float:
    numbers, labels = np.asarray(values), np.asarray(cluster)
    parts = [numbers[labels == label] for label in np.unique(labels)]
    return float(sum(((part - part.mean()) ** 2).sum() for part in parts))


def least_of_all(values: list[float], k: int) -> float:
    """The least over every way to cut the sorted values into k stretches."""
    ordered = np.sort(values)
    return min(
        float(sum(((part - part.mean()) ** 2).sum() for part in np.split(ordered, cuts)))
        for cuts in combinations(range(1, len(values)), k - 1)
    )


@settings(deadline=None)
@given(values=NUMBERS, data=st.data())
def test_it_is_the_least_of_all_partitions(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(set(values))))
    cluster = kmeans_1d(values, k=k)
    scale = max(np.ptp(values), 1e-300) ** 2
    assert within(values, cluster) == pytest.approx(least_of_all(values, k), abs=1e-12 * scale)


@settings(deadline=None)
@given(values=NUMBERS, data=st.data())
def test_clusters_are_stretches_in_order(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(set(values))))
    cluster = kmeans_1d(values, k=k)
    assert set(cluster) == set(range(k))
    order = np.argsort(values)
    assert (np.diff(cluster[order]) >= 0).all()
    assert all(len(set(cluster[np.equal(values, value)])) == 1 for value in values)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_run_of_lloyds_algorithm_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.lognormal(8, 1.5, 300)
    found = within(values, kmeans_1d(values, k=6))
    for _ in range(3):
        _, cluster = kmeans2(values, 6, minit="++", rng=rng)
        assert found <= within(values, cluster) * (1 + 1e-9)


def test_planted_clusters_are_found_however_large_the_numbers() -> None:
    rng = np.random.default_rng(3)
    planted = rng.integers(0, 4, 5000)
    values = 1e9 + planted * 10.0 + rng.uniform(-1, 1, 5000)
    assert (kmeans_1d(values, k=4) == planted).all()


def test_ties_go_to_the_earlier_beginning() -> None:
    # {0}, {1, 2} and {0, 1}, {2} cost the same
    assert kmeans_1d([2, 0, 1], k=2).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("values", "k", "text"),
    [
        ([1.0, np.inf], 1, "finite"),
        ([1.0, np.nan], 1, "finite"),
        ([1.0, 1.0], 2, "from 1 to 1"),
        ([1.0, 2.0], 0, "from 1 to 2, the number of distinct values; it is 0"),
        ([], 1, "from 1 to 0"),
    ],
)
def test_what_cannot_be_parted_is_refused(values: list[float], k: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kmeans_1d(values, k=k)


def test_no_square_leaves_the_range_of_a_double() -> None:
    for scale in (1e200, 1e-200):
        assert kmeans_1d(scale * np.array([0.0, 1, 5, 6, 30]), k=3).tolist() == [0, 0, 1, 1, 2]
