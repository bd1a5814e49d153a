"""Measure how often outages and changes of level are found in logs that have none.

    python -m docs.scripts.error_rates_trends [LOGS]

Writes the part on trends of docs/explanation/error-rates.md. Seeded; takes some minutes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from docs.scripts.findings import as_table, write_measured
from tests.questions.trends.logs import stationary
from traceana import level_changes, outages

if TYPE_CHECKING:
    from collections.abc import Callable

LOGS = 200
MEASURES = ("outage", "runtime", "failure rate", "wait", "demand")
DAY_S = 86_400.0


def with_spells(seed: int) -> pl.DataFrame:
    """Users who are active in spells of some days, and waits that depend on the day before."""
    random = np.random.default_rng(seed)
    jobs = stationary(seed)
    begin = float(jobs["submit_s"].min() or 0.0)
    day = ((jobs["submit_s"] - begin) // DAY_S).cast(pl.Int64).clip(0).to_numpy()
    days = int(day.max()) + 1
    state = random.random((30, days)) < 0.5
    stays = random.random((30, days)) < 0.8
    for one in range(1, days):
        state[:, one] = np.where(stays[:, one], state[:, one - 1], state[:, one])
    user = jobs["user"].str.slice(1).cast(pl.Int64).to_numpy()
    level = random.normal(0, 1, days)
    for one in range(1, days):
        level[one] = 0.7 * level[one - 1] + np.sqrt(1 - 0.7**2) * level[one]
    longer = pl.Series(np.exp(level)[day])
    wait = (pl.col("start_s") - pl.col("submit_s")) * longer
    return (
        jobs.with_columns(start_s=pl.col("submit_s") + wait)
        .with_columns(end_s=pl.col("start_s") + pl.col("runtime_s"))
        .filter(pl.Series(state[user, day]))
    )


def false_alarms(draw: Callable[[int], pl.DataFrame], logs: int) -> dict[str, int]:
    """Count logs with a false outage or change, by measure and of any."""
    counts = dict.fromkeys((*MEASURES, "any"), 0)
    for seed in range(10_000, 10_000 + logs):
        jobs = draw(seed)
        found = set(level_changes(jobs, timezone="UTC")["measure"])
        found |= {"outage"} if outages(jobs, timezone="UTC").height else set()
        for name in found | ({"any"} if found else set()):
            counts[name] += 1
    return counts


def main() -> None:
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else LOGS
    kinds = {
        "weekly rhythm, bursts, heavy users": stationary,
        "and users active in spells, waits alike on days in a row": with_spells,
    }
    rows = [{"logs of 90 days": name} | false_alarms(draw, logs) for name, draw in kinds.items()]
    text = f"{logs} logs of each kind; number of logs with a false finding."
    write_measured("error-rates.md", f"{text}\n\n{as_table(pl.DataFrame(rows))}", name="trends")


if __name__ == "__main__":
    main()
