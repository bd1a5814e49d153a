"""Groups on the clock, by hand and against one job after the other."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.simulate.recurring.tiny import POWER, RUNS, tiny_power, tiny_runs
from traceana import sample_training_path, simulate_recurring, simulate_recurring_groups
from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS

Job = tuple[float, float, float]


def jobs(*each: Job, group: str = "a", dataset: str = "cifar100") -> pl.DataFrame:
    return pl.DataFrame(
        [(group, start, end, dataset, ratio) for start, end, ratio in each],
        schema=["group", "start_s", "end_s", "dataset", "runtime_ratio"],
        orient="row",
    )


def simulate(table: pl.DataFrame, runs: pl.DataFrame = RUNS, **asked: Any) -> Any:
    return simulate_recurring_groups(runs, POWER, table, gpu="g", **asked)


def test_a_concurrent_job_by_hand() -> None:
    result = simulate(jobs((0.0, 10.0, 0.5), (5.0, 20.0, 2.0), (30.0, 40.0, 1.0)))
    columns = [
        "recurrence",
        "batch_size",
        "power_limit_w",
        "energy_j",
        "time_s",
        "reached",
        "concurrent",
        "start_s",
        "end_s",
    ]
    assert result.history.select(columns).rows() == [
        # 4 is the default; its first epoch profiles; half as long as the mean job
        (1, 4, 200.0, 8925.0 / 2, 62.5 / 2, True, False, 0.0, 10.0),
        # nothing has ended yet: the default again, and no profiling
        (2, 4, 200.0, 2 * 9000.0, 2 * 60.0, True, True, 5.0, 20.0),
        # both have ended, and pruning goes on with the size below
        (3, 2, 100.0, 5600.0, 65.0, True, False, 30.0, 40.0),
    ]
    # half of the energy, and half of 200 W times the seconds
    costs = (0.5 * result.history["energy_j"] + 0.5 * 200 * result.history["time_s"]).to_list()
    assert result.history["cost_j"].to_list() == pytest.approx(costs)
    group = result.groups.to_dicts()[0]
    assert (group["recurrences"], group["runs"], group["runs_concurrent"]) == (3, 3, 1)
    assert group["default_energy_j"] == 3.5 * 9000
    assert group["energy_saved"] == pytest.approx(1 - (4462.5 + 18_000 + 5600) / 31_500)
    assert (group["time_s"], group["default_time_s"]) == (31.25 + 120 + 65, 3.5 * 60)
    assert group["time_saved"] == pytest.approx(1 - 216.25 / 210)
    assert "1 began while others of their group ran" in str(result)


def test_a_run_that_misses_is_repeated_when_it_ends() -> None:
    runs = tiny_runs({2: [30], 4: [6]})
    history = simulate(jobs((0.0, 10.0, 1.0), (20.0, 25.0, 1.0)), runs).history
    columns = ["recurrence", "batch_size", "energy_j", "reached", "start_s", "end_s"]
    assert history.select(columns).rows()[1:] == [
        (2, 2, 2080 + 5 * 1760.0, False, 20.0, 25.0),
        (2, 4, 9000.0, True, 25.0, 30.0),
    ]


def test_one_job_after_the_other_is_a_recurring_job() -> None:
    runs = tiny_runs({2: [3, 5, 4], 4: [6, 4, 9]})
    table = jobs(*((10.0 * each, 10.0 * each + 1, 1.0) for each in range(30)))
    in_turn = simulate(table, runs, beta=4, rng=5 - zlib.adler32(b"a")).history
    alone = simulate_recurring(
        runs, POWER, gpu="g", dataset="cifar100", recurrences=30, beta=4, rng=4
    ).history
    assert alone["reached"].all()  # else least costs differ: of a recurrence, and of a run
    columns = ["recurrence", "batch_size", "power_limit_w", "energy_j", "time_s", "cost_j"]
    assert in_turn.select(columns).equals(alone.select(columns))
    assert not in_turn["concurrent"].any()


def test_a_group_has_a_seed_of_its_own_name_and_no_other_group_touches_it() -> None:
    runs = tiny_runs({2: [3, 5, 4], 4: [6, 4, 9]})
    each = [(10.0 * number, 10.0 * number + 15, 1.0) for number in range(20)]
    both = simulate(pl.concat([jobs(*each), jobs(*each, group="b")]), runs).history
    for group in ("a", "b"):
        alone = simulate(jobs(*each, group=group), runs).history
        assert both.filter(group=group).equals(alone)
    assert not both.filter(group="a")["energy_j"].equals(both.filter(group="b")["energy_j"])
    shuffled = simulate(jobs(*each[::-1]), runs).history
    assert shuffled.equals(both.filter(group="a"))


def test_a_group_that_cannot_be_simulated_has_a_note() -> None:
    known = jobs((0.0, 1.0, 1.0))
    other = jobs((0.0, 1.0, 1.0), group="b", dataset="squad")
    result = simulate(pl.concat([known, other]))
    assert result.groups["note"].to_list() == [
        None,
        "dataset on g: 'squad' is unknown; found cifar100",
    ]
    with pytest.raises(DataError, match="'squad' is unknown"):
        simulate(other)
    with pytest.raises(DataError, match="group a has several data sets: cifar100, squad"):
        simulate(pl.concat([known, jobs((0.0, 1.0, 1.0), dataset="squad")]))
    with pytest.raises(DataError, match="recurring_jobs: column runtime_ratio is missing"):
        simulate(known.drop("runtime_ratio"))
    never = simulate(known, tiny_runs({2: [3], 4: [None]}), policy="default")
    assert "in 20 runs" in never.groups["note"][0]
    assert simulate(known.clear()).groups.is_empty()


def test_sums_by_data_set_and_of_all() -> None:
    runs = pl.concat([RUNS, RUNS.with_columns(dataset=pl.lit("squad"))])
    power = pl.concat([POWER, POWER.with_columns(dataset=pl.lit("squad"))])
    defaults = dict(TRAINING_DEFAULTS) | {"squad": TRAINING_DEFAULTS["cifar100"]}
    table = pl.concat(
        [jobs((0, 1, 1.0), (2, 3, 1.0)), jobs((0, 2, 2.0), (1, 3, 1.0), group="b", dataset="squad")]
    )
    result = simulate_recurring_groups(runs, power, table, gpu="g", defaults=defaults)
    sums = result.by_dataset()
    assert sums["dataset"].to_list() == ["cifar100", "squad", None]
    assert sums["concurrent"].to_list() == [0.0, 0.5, 0.25]
    energy, default = (sum(result.groups[name]) for name in ("energy_j", "default_energy_j"))
    assert sums["energy_saved"][-1] == pytest.approx(1 - energy / default)
    assert sums["energy_j"][-1] == pytest.approx(energy)


def test_times_of_groups_may_be_datetimes() -> None:
    table = jobs((0.0, 10.0, 1.0), (30.0, 40.0, 1.0))
    seconds = [pl.from_epoch(pl.col(name).cast(pl.Int64), "s") for name in ("start_s", "end_s")]
    assert simulate(table.with_columns(seconds)).history.equals(simulate(table).history)


def test_a_training_path_is_one_of_the_runs() -> None:
    runs = tiny_runs({2: [3, 5, None], 4: [6]})
    asked = {"dataset": "cifar100", "network": runs["network"][0], "batch_size": 2}
    target = runs["target_metric"][0]
    rng = np.random.default_rng(1)
    # a run drawn three times as often as the others has p < .001 in 99 % of 100 draws
    drawn = [sample_training_path(runs, target=target, rng=rng, **asked) for _ in range(100)]
    counts = [drawn.count(epochs) for epochs in (3, 5, None)]
    assert sum(counts) == 100
    assert stats.chisquare(counts).pvalue > 0.001
    assert sample_training_path(runs, target=target, rng=4, **asked) == sample_training_path(
        runs.to_pandas(), target=target, rng=4, **asked
    )
    with pytest.raises(DataError, match=r"no run of cifar100, .*, 8 has target"):
        sample_training_path(runs, target=target, **{**asked, "batch_size": 8})


def test_a_default_that_missed_the_target_is_no_saving() -> None:
    runs = tiny_runs({2: [3], 4: [6, None]})
    groups = simulate(jobs((0.0, 1.0, 1.0)), runs, policy="oracle").groups
    assert groups.select("default_energy_j", "energy_saved", "time_saved").row(0) == (None,) * 3
    assert groups["note"][0] == "no default: a run of batch size 4 missed the target"


def test_jobs_that_meet_end_in_the_order_they_began() -> None:
    # the second starts as the first ends; the fourth and the third end together
    table = jobs((0, 10, 1.0), (10, 20, 1.0), (30, 90, 1.0), (40, 90, 1.0), (50, 90, 1.0))
    found = simulate(table).history
    assert found["recurrence"].to_list() == [1, 2, 3, 4, 5]
    assert found["concurrent"].to_list() == [False, False, False, True, True]
    # recurrences that end at once need a seed each: it is that of the name, below 2^32
    long = jobs(*((10.0 * each, 10.0 * each + 1, 1.0) for each in range(12)))
    runs = tiny_runs({2: [3, 5, 4], 4: [6, 4, 9]})
    assert simulate(long, runs, rng=2**32 + 3).history.equals(simulate(long, runs, rng=3).history)


def test_the_first_of_equally_cheap_sizes_is_that_of_concurrent_jobs() -> None:
    # both sizes take three equal epochs; the default is 4, and the second job tries 2
    power = tiny_power({(2, 200.0): (10.0, 150.0), (4, 200.0): (10.0, 150.0)})
    table = jobs((0, 10, 1.0), (20, 30, 1.0), (40, 90, 1.0), (50, 60, 1.0))
    found = simulate_recurring_groups(tiny_runs({2: [3], 4: [3]}), power, table, gpu="g").history
    sizes = dict(found.select("recurrence", "batch_size").iter_rows())
    assert (sizes[1], sizes[2], sizes[4]) == (4, 2, 4)
    assert found["cost_j"].n_unique() == 1
