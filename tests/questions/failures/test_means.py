"""Means and quantiles that a heavy tail does not decide, and the variance between users."""

from __future__ import annotations

import doctest
import importlib
import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from traceana import kaplan_meier, runtime_means, variance_fraction
from traceana.errors import DataError

# time to recall a past event (Dana, 1990), in Wilcox, Introduction to Robust Estimation and
# Hypothesis Testing, 2012, sections 3.3 and 4.3
AWARENESS = [
    77,
    87,
    88,
    114,
    151,
    210,
    219,
    246,
    253,
    262,
    296,
    299,
    306,
    376,
    428,
    515,
    666,
    1310,
    2611,
]


def test_the_trimmed_mean_of_wilcoxs_example() -> None:
    row = runtime_means(pl.DataFrame({"runtime_s": AWARENESS})).row(0, named=True)
    assert row["trimmed_mean_s"] == pytest.approx(282.7, abs=0.05)
    # printed by his R function trimci
    found = [row["trimmed_ci_low"], row["trimmed_ci_high"]]
    np.testing.assert_allclose(found, [160.3913, 404.9933], atol=5e-5)


def test_the_geometric_mean_is_that_of_the_positive_runtimes() -> None:
    frame = pl.DataFrame({"runtime_s": [*AWARENESS, 0, None], "gpu_type": "T4"})
    row = runtime_means(frame, by="gpu_type").row(0, named=True)
    logs = np.log(AWARENESS)
    assert row["geometric_mean_s"] == pytest.approx(stats.gmean(AWARENESS))
    interval = stats.t(18, logs.mean(), stats.sem(logs)).interval(0.95)
    found = [row["geometric_ci_low"], row["geometric_ci_high"]]
    np.testing.assert_allclose(found, np.exp(interval), rtol=1e-12)
    assert (row["n"], row["n_zero"], row["n_missing"]) == (20, 1, 1)


def test_clusters_of_one_row_have_the_errors_of_the_rows() -> None:
    frame = pl.DataFrame({"runtime_s": AWARENESS}).with_row_index("user")
    alone, clustered = (runtime_means(frame, cluster=name) for name in (None, "user"))
    limits = ["geometric_ci_low", "geometric_ci_high"]
    np.testing.assert_allclose(clustered.select(limits), alone.select(limits), rtol=1e-12)
    # t(n - 1) instead of t(h - 1)
    half = [one["trimmed_ci_high"].item() - 282.69231 for one in (alone, clustered)]
    assert half[1] / half[0] == pytest.approx(stats.t.ppf(0.975, 18) / stats.t.ppf(0.975, 12))


def test_both_intervals_cover_where_that_of_the_mean_does_not() -> None:
    sigma, groups, n = 2.0, 1000, 60
    runtimes = np.random.default_rng(8).lognormal(0, sigma, groups * n)
    frame = pl.DataFrame({"sample": np.arange(groups * n) // n, "runtime_s": runtimes})
    found = runtime_means(frame, by="sample")
    z = stats.norm.ppf(0.8)
    between = stats.norm.cdf(z - sigma) - stats.norm.cdf(-z - sigma)
    trimmed = np.exp(sigma**2 / 2) * between / 0.6
    for name, truth in (("geometric", 1.0), ("trimmed", trimmed)):
        covered = found.select(pl.lit(truth).is_between(f"{name}_ci_low", f"{name}_ci_high").mean())
        assert 0.93 <= covered.item() <= 0.97, name


def test_users_of_pareto_sizes_widen_the_intervals() -> None:
    rng = np.random.default_rng(9)
    covered = []
    for _ in range(150):
        sizes = np.minimum(np.ceil(5 * (rng.pareto(1.5, 80) + 1)), 100).astype(int)
        user = np.repeat(np.arange(80), sizes)
        frame = pl.DataFrame(
            {
                "user": user,
                "runtime_s": np.exp(rng.normal(size=80)[user] + rng.normal(size=len(user))),
            }
        )
        row = runtime_means(frame, cluster="user").row(0, named=True)
        covered.append(row["geometric_ci_low"] <= 1 <= row["geometric_ci_high"])
    assert 0.89 <= np.mean(covered) <= 0.99  # 93 to 97 %, within three standard errors


def test_a_single_cluster_has_no_interval() -> None:
    frame = pl.DataFrame({"runtime_s": [1.0, 2], "user": "u"})
    row = runtime_means(frame, cluster="user").row(0, named=True)
    assert (row["note"], row["trimmed_ci_low"]) == ("one cluster: no interval", None)
    assert runtime_means(frame.head(1))["note"].item() == "fewer than two runtimes: no interval"
    with pytest.raises(DataError, match=r"trim must be from 0 to below 0\.5; it is"):
        runtime_means(frame, trim=0.5)


@pytest.mark.parametrize(
    ("time", "ended", "mean", "error"),
    [
        ([9, 13, 13, 18, 23, 28, 31, 34, 45, 48, 161], "11011011010", 52.6, 19.83),
        ([5, 5, 8, 8, 12, 16, 23, 27, 30, 33, 43, 45], "111110111111", 22.7, 4.18),
    ],
)
def test_restricted_means_are_those_of_r(
    time: list[int], ended: str, mean: float, error: float
) -> None:
    # print(survfit(Surv(time, status) ~ x, data = aml), print.rmean = TRUE): upper limit 161
    rows = pl.DataFrame({"runtime_s": time, "ended": [flag == "1" for flag in ended]})
    # each row ten times: the same curve with ten times as many at risk
    frame = pl.concat([rows] * 10)
    result = kaplan_meier(frame, status=None, observed="ended", horizon_s=161)
    row = result.groups.row(0, named=True)
    assert row["restricted_mean_s"] == pytest.approx(mean, abs=0.05)
    # a sample variance, and Student's t instead of the normal quantile
    n = len(frame)
    half = stats.t.ppf(0.975, n - 1) * error * np.sqrt(1 / 10 * n / (n - 1))
    assert row["restricted_ci_low"] == pytest.approx(row["restricted_mean_s"] - half, abs=0.01)


def test_the_share_between_users_is_that_of_shrout_and_fleiss() -> None:
    # Psychological Bulletin 86, 1979, tables 2 and 4: ICC(1, 1) = .17
    table = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    frame = pl.DataFrame({"score": np.ravel(table), "user": np.repeat(np.arange(6), 4)})
    row = variance_fraction(frame, value="score", cluster="user").row(0, named=True)
    assert row["intraclass_correlation"] == pytest.approx(0.17, abs=0.005)
    assert row["note"] == "fewer than 20 clusters: no interval"
    logs = frame.with_columns(score=pl.col("score").exp())
    assert variance_fraction(logs, value="score", cluster="user", log=True)[
        "intraclass_correlation"
    ].item() == (pytest.approx(row["intraclass_correlation"]))


def test_a_share_is_of_each_group_and_counts_what_it_excludes() -> None:
    rng = np.random.default_rng(3)
    user = np.tile(np.arange(40), 50)
    frame = pl.DataFrame(
        {
            "part": np.repeat(["alike", "apart"], 1000),
            "user": user,
            "failed": (rng.random(2000) < 0.3) | ((user % 3 == 0) & (np.arange(2000) >= 1000)),
        }
    ).with_columns(pl.when(pl.int_range(pl.len()) % 7 > 0).then("failed").alias("failed"))
    alike, apart = variance_fraction(frame, value="failed", cluster="user", by="part").to_dicts()
    assert alike["ci_high"] < 0.05
    # users at .3 (two thirds) and 1: .49 * 2 / 9 between, .21 * 2 / 3 within
    assert apart["ci_low"] < 0.1089 / 0.2489 < apart["ci_high"]
    for odd in (math.inf, -1e300):
        with pytest.raises(DataError, match="column x has a value beyond"):
            variance_fraction(frame.with_columns(x=pl.lit(odd)), value="x", cluster="user")
    assert (alike["n"], alike["n_missing"], alike["n_clusters"]) == (857, 143, 40)


@pytest.mark.parametrize(
    ("module", "name"),
    [("runtimes", "runtime_means"), ("runtimes", "variance_fraction"), ("curves", "kaplan_meier")],
)
def test_examples_are_right(module: str, name: str) -> None:
    found = importlib.import_module(f"traceana.questions.failures.{module}")
    example = doctest.DocTestFinder().find(getattr(found, name), globs=vars(found).copy())
    assert doctest.DocTestRunner().run(example[0]).failed == 0
