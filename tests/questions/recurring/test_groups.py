"""Recurring groups by hand, planted workloads found again, and the order of means kept."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.questions.defaults import numbers_by_default
from tests.store.test_frames import ENGINES
from traceana import map_groups_to_workloads, recurring_groups
from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS, get_table
from traceana.store import Store

JOBS = pl.DataFrame(
    [
        ("b", "u", 0.0, 10.0),
        ("b", "v", 5.0, 25.0),
        ("a", "u", 1.0, 4.0),
        ("b", "u", 7.0, None),
        ("c", "u", 0.0, 6.0),
        ("c", "u", None, 8.0),
        (None, "u", 0.0, 5.0),
        (None, "u", 0.0, 5.0),
        ("d", "u", 3.0, 3.0),
        ("d", "v", 9.0, 9.0),
    ],
    schema={"group": pl.String, "user": pl.String, "start_s": pl.Float64, "end_s": pl.Float64},
    orient="row",
)
# seconds of an epoch; a default run takes two
EPOCH_S = {"imagenet": 500.0, "cifar100": 5.0, "squad": 50.0}


def zeus_tables(*without_default: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Training runs and power profiles of one default run a data set."""
    keys, runs, profiles = [], [], []
    for name in (*EPOCH_S, *without_default):
        default = TRAINING_DEFAULTS[name]
        keys.append(
            {
                "dataset": name,
                "network": "net",
                "batch_size": default.batch_size,
                "optimizer": "sgd",
            }
        )
        reached = None if name in without_default else 2
        runs.append(
            {
                "learning_rate": 0.1,
                "run": 1,
                "target_metric": default.target,
                "target_epoch": reached,
            }
        )
        profiles.append(
            {
                "gpu": "g",
                "power_limit_w": 200.0,
                "epoch_s": EPOCH_S.get(name, 1.0),
                "mean_power_w": 100.0,
            }
        )
    of_key = pl.DataFrame(keys)
    return of_key.hstack(pl.DataFrame(runs)), of_key.hstack(pl.DataFrame(profiles))


def make_jobs(runtimes: dict[str, list[float]]) -> pl.DataFrame:
    """Jobs of groups, one after the other."""
    rows = [
        (group, 1000.0 * number, 1000.0 * number + runtime)
        for group, own in runtimes.items()
        for number, runtime in enumerate(own)
    ]
    schema = {"group": pl.String, "start_s": pl.Float64, "end_s": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_groups_by_hand() -> None:
    assert recurring_groups(JOBS).rows() == [
        ("b", 2, 15.0, pytest.approx(math.sqrt(50) / 15), 0.0, 25.0, 1),
        ("d", 2, 0.0, None, 3.0, 9.0, 0),
    ]
    everything = recurring_groups(JOBS, min_recurrences=1)
    assert everything.columns == [
        "group",
        "recurrences",
        "mean_s",
        "cov",
        "first_start_s",
        "last_end_s",
        "n_missing",
    ]
    assert everything["group"].to_list() == ["a", "b", "c", "d"]
    assert everything.row(2) == ("c", 1, 6.0, None, 0.0, 6.0, 1)
    by_two = recurring_groups(JOBS, by=("group", "user"), min_recurrences=1)
    assert by_two.select("group", "user", "recurrences").row(1) == ("b", "u", 1)
    assert recurring_groups(JOBS, min_recurrences=3).is_empty()


def test_planted_workloads_are_found_in_their_order() -> None:
    rng = np.random.default_rng(2)
    planted = {"imagenet": 40_000.0, "cifar100": 400.0, "squad": 9000.0}
    runtimes, dataset_of = {}, {}
    for number in range(60):
        dataset = list(planted)[number % 3]
        dataset_of[f"group {number}"] = dataset
        runtimes[f"group {number}"] = list(planted[dataset] * rng.uniform(0.8, 1.2, 8))
    mapping = map_groups_to_workloads(make_jobs(runtimes), *zeus_tables(), gpu="g")
    assert dict(mapping.groups.select("group", "dataset").iter_rows()) == dataset_of
    assert mapping.workloads["dataset"].to_list() == ["cifar100", "squad", "imagenet"]
    assert mapping.workloads["default_s"].to_list() == [10, 100, 1000]
    assert mapping.workloads["groups"].to_list() == [20] * 3
    assert mapping.workloads["jobs"].to_list() == [160] * 3
    for row in mapping.workloads.rows(named=True):
        of_dataset = [own for group, own in runtimes.items() if dataset_of[group] == row["dataset"]]
        assert row["mean_s"] == pytest.approx(np.mean(of_dataset))
        means = np.mean(of_dataset, axis=1)
        assert row["group_mean_low_s"] == pytest.approx(means.min())
        assert row["group_mean_high_s"] == pytest.approx(means.max())
    assert any(line.startswith("squad ") and "160" in line for line in str(mapping).splitlines())


@settings(max_examples=10)
@given(
    st.lists(
        st.lists(st.integers(1, 10**6).map(float), min_size=2, max_size=4), min_size=3, max_size=12
    ).filter(lambda groups: len({sum(own) / len(own) for own in groups}) >= 3)
)
def test_order_is_kept_and_ratios_average_one(groups: list[list[float]]) -> None:
    jobs = make_jobs({str(number): own for number, own in enumerate(groups)})
    mapping = map_groups_to_workloads(jobs, *zeus_tables(), gpu="g")
    ordered = mapping.workloads
    assert (ordered["groups"] > 0).all()
    for shorter, longer in pairwise(ordered.rows(named=True)):
        assert shorter["default_s"] <= longer["default_s"]
        assert shorter["group_mean_high_s"] < longer["group_mean_low_s"]
    means = mapping.jobs.group_by("dataset").agg(pl.col("runtime_ratio").mean())
    assert means["runtime_ratio"].to_list() == pytest.approx([1] * 3)
    # no job is lost, and a simulator takes them as they are
    assert mapping.jobs.height == jobs.height
    get_table("recurring_jobs").validate(mapping.jobs)
    assert mapping.jobs["start_s"].is_sorted()


def test_what_has_no_default_run_stands_for_no_group() -> None:
    jobs = make_jobs({"x": [1, 2], "y": [50, 60], "z": [900, 990]})
    mapping = map_groups_to_workloads(jobs, *zeus_tables("librispeech"), gpu="g")
    *_, last = mapping.workloads.rows(named=True)
    assert (last["dataset"], last["default_s"], last["groups"]) == ("librispeech", None, None)
    assert last["note"] == "no baseline at batch size 256: a run never reached the target"
    assert "no baseline at batch size 256" in str(mapping)
    assert mapping.jobs["dataset"].n_unique() == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_mapping(engine: str) -> None:
    of = ENGINES[engine]
    rng = np.random.default_rng(4)
    jobs = make_jobs({f"g{number}": list(rng.lognormal(7, 2, 5)) for number in range(30)})
    runs, profiles = zeus_tables()
    result = map_groups_to_workloads(of(jobs), of(runs), of(profiles), gpu="g")
    expected = map_groups_to_workloads(jobs, runs, profiles, gpu="g")
    for name in ("jobs", "groups", "workloads"):
        assert_frame_equal(getattr(result, name), getattr(expected, name), rel_tol=1e-12, abs_tol=0)


@pytest.mark.parametrize(
    ("jobs", "options", "text"),
    [
        (JOBS.drop("group"), {}, "column group is missing; found user, start_s, end_s"),
        (JOBS.with_columns(end_s=0.0), {}, "a job ends before it starts: end_s is below start_s"),
        (JOBS.with_columns(end_s=pl.lit(math.inf)), {}, "column end_s holds inf"),
        (
            JOBS,
            {"min_recurrences": 0},
            "min_recurrences must be a whole number from 1 to .*; it is 0",
        ),
        (JOBS, {"gpu": "tpu"}, "gpu: 'tpu' is unknown; found g"),
        (
            JOBS,
            {},
            "2 recurring group.* 2 distinct mean runtimes cannot be assigned to 3 data sets",
        ),
        (
            make_jobs({"x": [0, 0], "y": [50, 60], "z": [900, 990]}),
            {},
            "every job assigned to cifar100 has a runtime of 0; remove these jobs",
        ),
        (JOBS.clear(), {}, "0 recurring group"),
    ],
)
def test_what_cannot_be_mapped_is_refused_in_one_line(
    jobs: pl.DataFrame, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        map_groups_to_workloads(jobs, *zeus_tables(), **{"gpu": "g"} | options)
    assert "\n" not in str(refusal.value)


def test_without_a_default_run_nothing_can_be_mapped() -> None:
    runs, profiles = zeus_tables()
    with pytest.raises(DataError, match="no data set has a default run on g"):
        map_groups_to_workloads(JOBS, runs.with_columns(target_epoch=None), profiles, gpu="g")
    with pytest.raises(DataError, match="by names no column"):
        recurring_groups(JOBS, by=())


def test_the_published_default_runs_keep_their_order(real_store: Store) -> None:
    runs, profiles = (
        real_store.scan("zeus-2023", table) for table in ("training_runs", "power_profiles")
    )
    rng = np.random.default_rng(1)
    jobs = make_jobs({f"g{number}": list(rng.lognormal(7, 2, 5)) for number in range(50)})
    workloads = map_groups_to_workloads(jobs, runs, profiles, gpu="v100").workloads
    # epochs of the default run times seconds of an epoch, read off the publisher's files
    expected = {}
    for row in workloads.rows(named=True):
        default = TRAINING_DEFAULTS[row["dataset"]]
        at_target = pl.col("target_metric").is_close(default.target)
        trained = runs.filter(at_target, dataset=row["dataset"]).collect()
        own = profiles.filter(gpu="v100", dataset=row["dataset"]).collect()
        own = own.join(trained, on=["network", "optimizer"], how="semi")
        batch = min(default.batch_size, max(own["batch_size"]))
        at = own.filter(batch_size=batch).sort("power_limit_w").row(-1, named=True)
        epochs = trained.filter(batch_size=batch, optimizer=at["optimizer"])["target_epoch"]
        expected[row["dataset"]] = np.mean(epochs.to_list()) * at["epoch_s"]
    assert dict(workloads.select("dataset", "default_s").iter_rows()) == pytest.approx(expected)
    assert list(expected.values()) == sorted(expected.values())


def test_numbers_by_default() -> None:
    assert numbers_by_default(recurring_groups, map_groups_to_workloads) == {
        "recurring_groups": {"min_recurrences": 2},
        "map_groups_to_workloads": {"min_recurrences": 2},
    }
