"""Logs with planted facts: weekly rhythm, heavy users, an outage, a regression, a bad week."""

from __future__ import annotations

import numpy as np
import polars as pl

DAY_S = 86_400.0
BEGIN_S = 1_772_409_600.0  # Monday, 2 March 2026, UTC


def stationary(
    seed: int, *, days: int = 90, per_day: int = 60, users: int = 30, failing: float = 0.15
) -> pl.DataFrame:
    """Draw jobs of heavy users in bursts, at a third of the rate on weekends and at night."""
    rng = np.random.default_rng(seed)
    hour = np.arange(days * 24)
    weekend = (hour // 24) % 7 >= 5
    busy = np.where(weekend, 0.33, 1.0) * (1 + 0.6 * np.sin(2 * np.pi * (hour % 24 - 9) / 24))
    bursts = rng.poisson(busy * per_day / 3 / 24)
    start = BEGIN_S + 3600 * (np.repeat(hour, bursts) + rng.random(bursts.sum()))
    # one user in three jobs, as in logs of public clusters
    weight = 1 / np.arange(1, users + 1)
    user = rng.choice(users, len(start), p=weight / weight.sum())
    size = 1 + rng.geometric(1 / 3, len(start))
    level = rng.normal(7, 1.2, (users, 4))
    name = rng.integers(0, 4, len(start))
    of_burst = level[user, name] + rng.normal(0, 0.3, len(start))
    fails = rng.random(len(start)) < failing
    jobs = (
        pl.DataFrame(
            {
                "user": [f"u{one}" for one in user],
                "job_name": [f"train{one}" for one in name],
                "submit_s": start,
                "log": of_burst,
                "fails": fails,
                "size": size,
                "mean": user % 3,
            }
        )
        .select(pl.all().repeat_by("size").explode())
        .drop("size")
    )
    n = jobs.height
    bad = rng.random(n) < np.where(jobs["fails"].to_numpy(), 0.5, failing / 2)
    submit = jobs["submit_s"].to_numpy() + rng.exponential(60, n)
    wait = rng.exponential(300, n)
    runtime = np.exp(jobs["log"].to_numpy() + rng.normal(0, 0.4, n))
    return jobs.select(
        "user",
        "job_name",
        job_id=pl.Series([f"j{one}" for one in range(n)]),
        submit_s=submit,
        start_s=submit + wait,
        end_s=submit + wait + runtime,
        runtime_s=runtime,
        gpus=2.0 ** pl.col("mean"),
        status=pl.Series(np.where(bad, "failed", "completed")),
    )


def with_outage(jobs: pl.DataFrame, start_s: float, hours: float) -> pl.DataFrame:
    """Kill what runs at a time, and start nothing for some hours."""
    end = start_s + 3600 * hours
    kept = jobs.filter(~pl.col("start_s").is_between(start_s, end))
    cut = (pl.col("start_s") < start_s) & (pl.col("end_s") > start_s)
    return kept.with_columns(
        end_s=pl.when(cut).then(start_s).otherwise("end_s"),
        status=pl.when(cut).then(pl.lit("failed")).otherwise("status"),
    ).with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))


def sessions(
    seed: int, *, days: int = 56, per_day: int = 300, users: int = 40, queues: int = 1
) -> pl.DataFrame:
    """Draw jobs of 8 in a session of a user, by day and on workdays: a busy cluster with nights."""
    rng = np.random.default_rng(seed)
    hour = np.arange(days * 24)
    rate = (0.3 + np.exp(-(((hour % 24 - 14) / 4.5) ** 2))) * np.where(hour // 24 % 7 >= 5, 0.4, 1)
    n = per_day * days // 8
    weight = rng.pareto(1.2, users) + 1
    user = rng.choice(users, n, p=weight / weight.sum())
    size = rng.geometric(1 / 8, n)
    name = rng.integers(0, 4, n)
    begin = 3600 * (rng.choice(hour, n, p=rate / rate.sum()) + rng.random(n))
    user, name = np.repeat(user, size), np.repeat(name, size)
    submit = BEGIN_S + np.repeat(begin, size) + rng.exponential(600, size.sum())
    level = rng.normal(8.4, 0.9, (users, 4))[user, name]
    runtime = np.exp(level + rng.normal(0, 0.5, len(level)))
    start = submit + np.exp(rng.normal(5, 1, len(level)))
    table = pl.DataFrame(
        {
            "user": [f"u{one}" for one in user],
            "job_name": [f"n{one}" for one in name],
            "queue": [f"q{one}" for one in rng.integers(0, queues, (users, 4))[user, name]],
            "submit_s": submit,
            "start_s": start,
            "end_s": start + runtime,
            "runtime_s": runtime,
            "gpus": 1.0,
            "status": np.where(rng.random(len(level)) < 0.08, "failed", "completed"),
        }
    )
    return table.filter(pl.col("end_s") < BEGIN_S + days * DAY_S).sort("submit_s")


def slower(jobs: pl.DataFrame, since_s: float, factor: float) -> pl.DataFrame:
    """Lengthen the jobs that start since a time."""
    times = pl.when(pl.col("start_s") >= since_s).then(factor).otherwise(1.0)
    return jobs.with_columns(runtime_s=pl.col("runtime_s") * times).with_columns(
        end_s=pl.col("start_s") + pl.col("runtime_s")
    )
