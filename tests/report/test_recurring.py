"""The section on recurring jobs against simulations one by one."""

from __future__ import annotations

from statistics import mean

import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana.simulate import simulate_recurring, simulate_recurring_groups
from traceana.store import Store


def test_the_table_is_the_mean_of_ten_simulations(page: Element, store: Store) -> None:
    rows = read_table(section(page, "recurring"), "Last five recurrences versus the default")
    runs, power = (
        store.scan("zeus-2023", table).collect() for table in ("training_runs", "power_profiles")
    )
    pairs = power.select("gpu", "dataset").unique().sort("gpu", "dataset").rows()
    assert [(row["GPU"], row["Data set"]) for row in rows] == pairs
    for row in rows[::6]:
        asked = {"gpu": row["GPU"], "dataset": row["Data set"]}
        saved, regret = [], []
        for seed in range(10):
            result = simulate_recurring(runs, power, rng=seed, **asked)  # type: ignore[arg-type]
            default, oracle = result.references.rows(named=True)
            number_of = result.recurrences.height
            last = result.history.filter(pl.col("recurrence") > number_of - 5)["energy_j"].sum()
            saved.append(1 - last / 5 / default["energy_j"])
            regret.append(result.history["cost_j"].sum() / (number_of * oracle["cost_j"]) - 1)
        assert number(row["Energy saved"]) == pytest.approx(100 * mean(saved), abs=0.0501)
        assert number(row["Regret"]) == pytest.approx(100 * mean(regret), abs=0.0501)


def test_the_figures_show_the_published_job(page: Element) -> None:
    captions = [each.text for each in section(page, "recurring").all("figcaption")]
    of_groups = [each for each in captions if "Runtime ratios of recurring jobs" in each]
    assert len(of_groups) == 2  # the groups of two traces
    assert [each.partition(". ")[2].split(".")[0] for each in captions[:3]] == [
        "Energy saved by the last five recurrences, mean of 10 seeds",
        "Regret of cifar100 on v100 by policy",
        "Time saved by the last five recurrences, mean of 10 seeds",
    ]


def test_groups_are_those_of_the_simulation(page: Element, store: Store) -> None:
    rows = read_table(
        section(page, "recurring"), "Groups of recurring jobs simulated on v100. Zeus"
    )
    tables = [
        store.scan("zeus-2023", table).collect()
        for table in ("training_runs", "power_profiles", "recurring_jobs")
    ]
    expected = simulate_recurring_groups(*tables, gpu="v100").by_dataset()
    assert [row["Data set"] for row in rows] == [*expected["dataset"].drop_nulls(), "All"]
    assert [number(row["Runs"]) for row in rows] == expected["runs"].to_list()
    saved = [number(row["Energy saved"]) for row in rows]
    assert saved == pytest.approx([100 * each for each in expected["energy_saved"]], abs=0.0501)
