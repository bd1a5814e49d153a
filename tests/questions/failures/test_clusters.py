"""Intervals over clusters against the same functions asked again without each cluster in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from traceana import (
    compare_runtimes,
    cumulative_incidence,
    failure_odds,
    failure_rates,
    kaplan_meier,
    outcome_association,
    outcome_rates,
    runtime_by,
)
from traceana.errors import DataError
from traceana.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable


def make_jobs(n: int = 300, users: int = 12) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    user = rng.choice(users, n, p=rng.dirichlet(np.ones(users)))
    return pl.DataFrame(
        {
            "user": user,
            "group": rng.integers(0, 2, n),
            "stratum": rng.integers(0, 3, n),
            "status": np.where(rng.random(n) < 0.2 + 0.5 * user / users, "failed", "completed"),
            "runtime_s": np.round(rng.lognormal(3, 1, n)) + user,
        }
    )


JOBS = make_jobs()
USERS = JOBS["user"].n_unique()


def kish(jobs: pl.DataFrame) -> float:
    """Return the effective number of users, (sum of n)^2 / sum of n^2."""
    return float(jobs.height**2 / (jobs["user"].value_counts()["count"] ** 2).sum())


KISH = kish(JOBS)
T = stats.t.ppf(0.975, KISH - 1)


def jackknife(estimate: Callable[[pl.DataFrame], float]) -> tuple[float, float]:
    """Return an estimate, and its error by asking without each user."""
    whole = estimate(JOBS)
    left = [estimate(JOBS.filter(pl.col("user") != user)) for user in JOBS["user"].unique()]
    return whole, np.sqrt((USERS - 1) / USERS * sum((one - whole) ** 2 for one in left))


def test_a_rate_has_wilsons_interval_of_the_rows_it_is_worth() -> None:
    row = failure_rates(JOBS, (), cluster="user").row(0, named=True)
    rate, error = jackknife(lambda jobs: jobs.select(pl.col("status") == "failed").mean().item())
    worth = rate * (1 - rate) / error**2
    assert (row["n_clusters"], row["n_effective"]) == (USERS, pytest.approx(worth))
    # the rates at which the score is no further off than the quantile
    for bound in (row["ci_low"], row["ci_high"]):
        assert abs(rate - bound) == pytest.approx(T * np.sqrt(bound * (1 - bound) / worth))
    turned = outcome_rates(JOBS, (), cluster="user").row(0, named=True)
    assert (1 - turned["ci_high"], 1 - turned["ci_low"]) == pytest.approx(
        (row["ci_low"], row["ci_high"])
    )


def test_a_mean_has_the_jackknifes_error() -> None:
    row = runtime_by(JOBS, (), cluster="user").row(0, named=True)
    mean, error = jackknife(lambda jobs: jobs["runtime_s"].mean())  # type: ignore[arg-type,return-value]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((mean - T * error, mean + T * error))
    deviation = float(np.std(JOBS["runtime_s"].to_numpy(), ddof=1))
    assert row["n_effective"] == pytest.approx((deviation / error) ** 2)


def test_each_row_its_own_cluster_is_the_classical_interval() -> None:
    alone = JOBS.with_columns(user=pl.int_range(pl.len()))
    rows, clusters = (runtime_by(alone, "group", cluster=of) for of in (None, "user"))
    for name in ("ci_low", "ci_high"):
        np.testing.assert_allclose(clusters[name], rows[name], rtol=2e-3)
    assert clusters["n_effective"].to_list() == pytest.approx(clusters["n"].to_list(), rel=0.02)


def test_a_rate_of_0_is_worth_as_many_rows_as_effective_clusters() -> None:
    done = JOBS.with_columns(status=pl.lit("completed"))
    row = failure_rates(done, (), cluster="user").row(0, named=True)
    assert row["n_effective"] == pytest.approx(KISH)
    assert (row["ci_low"], row["ci_high"]) == (0, pytest.approx(T**2 / (KISH + T**2)))


@pytest.mark.parametrize("at", [5.0, 20.0, 50.0])
def test_curves_have_the_jackknifes_error(at: float) -> None:
    def last(curves: pl.DataFrame) -> dict[str, Any]:
        return curves.filter(pl.col("time_s") <= at).row(-1, named=True)

    def incidence(jobs: pl.DataFrame, **options: Any) -> dict[str, Any]:
        return last(cumulative_incidence(jobs, **options).curves.filter(event="failed"))

    def survival(jobs: pl.DataFrame, **options: Any) -> dict[str, Any]:
        return last(kaplan_meier(jobs, **options).curves)

    for ask, name in ((incidence, "incidence"), (survival, "survival")):
        share, error = jackknife(lambda jobs, ask=ask, name=name: ask(jobs)[name])  # type: ignore[misc]
        half = T * error / abs(share * np.log(share))
        found = ask(JOBS, cluster="user")
        assert (found["ci_low"], found["ci_high"]) == pytest.approx(
            (share ** np.exp(half), share ** np.exp(-half))
        )


def test_a_restricted_mean_has_the_jackknifes_error() -> None:
    def mean(jobs: pl.DataFrame, **options: Any) -> dict[str, Any]:
        found = kaplan_meier(jobs, horizon_s=30, **options)
        return found.groups.row(0, named=True)

    value, error = jackknife(lambda jobs: float(jobs["runtime_s"].clip(upper_bound=30).mean()))  # type: ignore[arg-type]
    row = mean(JOBS, cluster="user")
    assert row["restricted_mean_s"] == pytest.approx(value)
    assert (row["restricted_ci_low"], row["restricted_ci_high"]) == pytest.approx(
        (value - T * error, value + T * error)
    )


def test_a_restricted_mean_of_censored_runtimes_is_covered() -> None:
    rng, samples, users = np.random.default_rng(21), 150, 25
    covered = 0
    for _ in range(samples):
        user = np.repeat(np.arange(users), rng.integers(2, 30, users))
        own, shared = rng.standard_normal(len(user)), rng.standard_normal(users)[user]
        runtime = -stats.norm.logsf(np.sqrt(0.5) * (own + shared))  # exponential, mean 1
        until = rng.exponential(3, len(user))
        jobs = pl.DataFrame(
            {"user": user, "runtime_s": np.minimum(runtime, until), "ended": runtime <= until}
        )
        row = kaplan_meier(
            jobs, status=None, observed="ended", cluster="user", horizon_s=1
        ).groups.row(0, named=True)
        covered += row["restricted_ci_low"] <= 1 - np.exp(-1) <= row["restricted_ci_high"]
    # 95 %, within two and a half standard errors
    assert 0.905 <= covered / samples <= 0.995


def test_one_cluster_with_most_rows_leaves_no_interval() -> None:
    jobs = JOBS.with_columns(user=pl.when(pl.int_range(pl.len()) < 280).then(1).otherwise("user"))
    survival = kaplan_meier(jobs, cluster="user")
    row = survival.groups.row(0, named=True)
    assert row["note"] == "one cluster has most rows: no interval"
    assert row["ci_low"] is row["restricted_ci_low"] is None
    assert survival.quantiles["ci_low"].null_count() == survival.quantiles.height
    for ask in (failure_rates, runtime_by):
        row = ask(jobs, (), cluster="user").row(0, named=True)
        assert (row["ci_low"], row["note"]) == (None, "one cluster has most rows: no interval")


def test_odds_have_the_jackknifes_error() -> None:
    def log_odds(jobs: pl.DataFrame, name: str = "odds_ratio") -> float:
        row = failure_odds(jobs, "group", strata="stratum").row(0, named=True)
        return float(np.log(row[name]) * (1 if row["group"] == 1 else -1))

    row = failure_odds(JOBS, "group", strata="stratum", cluster="user").row(0, named=True)
    assert (row["n_clusters"], row["pvalue_homogeneity"]) == (USERS, None)
    assert row["note"] == "fewer than 100 clusters: interval and p are conservative"
    for users, few in ((99, True), (100, False)):
        many = JOBS.with_columns(user=pl.int_range(pl.len()) % users)
        found = failure_odds(many, "group", strata="stratum", cluster="user")
        assert found["n_clusters"].item() == users
        assert (found["note"].item() is not None) == few
    sign = 1 if row["group"] == 1 else -1
    df = min(kish(jobs) for jobs in JOBS.partition_by("group")) - 1
    quantile = stats.t.ppf(0.975, df)
    for prefix in ("", "crude_"):
        whole, error = jackknife(lambda jobs, of=prefix: log_odds(jobs, f"{of}odds_ratio"))  # type: ignore[misc]
        bounds = np.exp(sorted(sign * (whole + side * quantile * error) for side in (-1, 1)))
        assert (row[f"{prefix}ci_low"], row[f"{prefix}ci_high"]) == pytest.approx(tuple(bounds))
    whole, error = jackknife(log_odds)
    assert row["pvalue"] == pytest.approx(2 * stats.t.sf(abs(whole) / error, df))


def test_a_lost_cluster_is_refused_and_a_single_one_has_no_interval() -> None:
    lost = JOBS.with_columns(user=pl.when(pl.col("user") > 0).then("user"))
    for ask in (failure_rates, outcome_rates, runtime_by):
        with pytest.raises(DataError, match=r"cluster user is null in \d+ row"):
            ask(lost, (), cluster="user")
        row = ask(JOBS.with_columns(user=1), (), cluster="user").row(0, named=True)
        assert (row["ci_low"], row["ci_high"], row["n_effective"]) == (None, None, None)
        assert row["note"] == "one cluster: no interval"


def test_published_pods_as_counted_by_hand(real_store: Store) -> None:
    pods = real_store.scan("alibaba-openb-2023", "jobs").collect()
    row = failure_rates(pods, (), cluster="qos").row(0, named=True)
    known = pods.filter(pl.col("status").is_in(["completed", "failed"]))
    failed = {
        qos: (known.filter(pl.col("qos") == qos)["status"] == "failed").to_numpy()
        for qos in known["qos"].unique()
    }
    rate = np.concatenate(list(failed.values())).mean()
    left = [
        np.concatenate([part for name, part in failed.items() if name != qos]).mean()
        for qos in failed
    ]
    variance = (len(left) - 1) / len(left) * sum((one - rate) ** 2 for one in left)
    assert row["rate"] == pytest.approx(rate, rel=1e-9)
    assert row["n_clusters"] == len(left)
    assert row["n_effective"] == pytest.approx(rate * (1 - rate) / variance, rel=1e-9)


def test_a_row_that_comes_four_times_counts_once() -> None:
    rng = np.random.default_rng(12)
    once = pl.DataFrame(
        {"group": np.arange(200) % 2, "user": np.arange(200), "runtime_s": rng.gamma(2, 60, 200)}
    )
    four = pl.concat([once] * 4)
    test = compare_runtimes(four, by="group", cluster="user").test
    assert test["n_effective"].item() == pytest.approx(200, rel=0.05)
    assert compare_runtimes(four, by="group").test["n_effective"].item() == 800


def test_the_corrected_association_counts_effective_rows() -> None:
    rng = np.random.default_rng(13)
    of = np.repeat(np.arange(60), 10)
    chance = 0.2 + 0.2 * (of % 3) + rng.uniform(-0.2, 0.2, 60)[of]
    frame = pl.DataFrame(
        {
            "group": of % 3,
            "user": of,
            "status": np.where(rng.random(600) < chance, "failed", "completed"),
        }
    )
    row = outcome_association(frame, "group", cluster="user").row(0, named=True)
    assert 60 < row["n_effective"] < 500
