"""Energy to accuracy against arithmetic by hand, brute force, and pandas on the published files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.questions.energy.zeus_tables import POWER, RUNS
from traceana import energy_coverage, energy_to_accuracy
from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS
from traceana.store import Store

GPUS = ("a40", "p100", "rtx6000", "v100")
PAIRS = [(gpu, dataset) for gpu in GPUS for dataset in TRAINING_DEFAULTS]


def test_energy_by_hand() -> None:
    result = energy_to_accuracy(RUNS, POWER, gpu="g", dataset="cifar100", target=0.5, eta=0.25)
    # 256 is out as one of its runs never reached the target, 512 and 1024 as they have no partner
    assert result.columns[:6] == [
        "batch_size",
        "power_limit_w",
        "tta_s",
        "eta_j",
        "cost_j",
        "on_front",
    ]
    # cost: a quarter of the energy and three quarters of 250 W for that long
    assert result.select(result.columns[:6]).rows() == [
        (64, 100.0, 100.0, 10_000.0, 0.25 * 10_000 + 0.75 * 25_000, False),
        (64, 200.0, 50.0, 9_000.0, 0.25 * 9_000 + 0.75 * 12_500, True),
        (128, 100.0, 80.0, 8_800.0, 0.25 * 8_800 + 0.75 * 20_000, True),
    ]
    assert result.select(result.columns[6:]).rows() == [
        (2, 5.0, pytest.approx(2**0.5), 4, 6, 20.0, 100.0),
        (2, 5.0, pytest.approx(2**0.5), 4, 6, 10.0, 180.0),
        (1, 8.0, None, 8, 8, 10.0, 110.0),
    ]


def test_the_default_target() -> None:
    result = energy_to_accuracy(RUNS, POWER, gpu="g", dataset="cifar100")
    assert TRAINING_DEFAULTS["cifar100"].target == 0.6
    # a run of 64 never reached 0.6; that of 128 did, if late: the trace followed it so far
    assert result.select("batch_size", "epochs_mean").rows() == [(128, 120.0)]


def test_no_feasible_configuration_is_an_empty_frame() -> None:
    late = RUNS.with_columns(target_epoch=pl.lit(None, pl.Int64))
    assert energy_to_accuracy(late, POWER, gpu="g", dataset="cifar100").is_empty()
    assert not energy_coverage(late, POWER, gpu="g", dataset="cifar100")["feasible"].any()


@given(points=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=25))
@settings(max_examples=30, deadline=None)
def test_the_front_is_what_nothing_dominates(points: list[tuple[int, int]]) -> None:
    runs = pl.concat(
        [RUNS.head(1).with_columns(batch_size=pl.lit(i + 1, pl.Int64)) for i in range(len(points))]
    )
    profiles = pl.concat(
        [
            POWER.head(1).with_columns(
                batch_size=pl.lit(i + 1, pl.Int64),
                epoch_s=pl.lit(float(seconds)),
                # energy is the second number, times the same for all: equal points stay equal
                mean_power_w=pl.lit(60 * joules / seconds),
            )
            for i, (seconds, joules) in enumerate(points)
        ]
    )
    result = energy_to_accuracy(runs, profiles, gpu="g", dataset="cifar100", target=0.5)
    on_front = [
        not any(s <= t and e <= f and (s, e) != (t, f) for s, e in points) for t, f in points
    ]
    assert result["on_front"].to_list() == on_front
    assert result["on_front"].any()


def test_eta_at_its_ends_is_energy_or_time_alone() -> None:
    energy = energy_to_accuracy(RUNS, POWER, gpu="g", dataset="cifar100", target=0.5, eta=1)
    assert energy["cost_j"].to_list() == energy["eta_j"].to_list()
    time = energy_to_accuracy(RUNS, POWER, gpu="g", dataset="cifar100", target=0.5, eta=0)
    assert time["cost_j"].to_list() == (250 * time["tta_s"]).to_list()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gpu": "v100"}, "gpu: 'v100' is unknown; found g$"),
        ({"dataset": "x"}, "dataset on g: 'x' is unknown; found cifar100, other$"),
        ({"dataset": "other"}, "dataset of the training runs: 'other' is unknown; found cifar"),
        ({"target": 0.55}, "no run of cifar100 has target 0.55; found 0.5, 0.6$"),
        ({"eta": 1.5}, "eta must lie from 0 .* to 1 .*; it is 1.5"),
        ({"eta": float("nan")}, "eta must lie from 0 .* to 1 .*; it is nan"),
    ],
)
def test_what_is_not_there_is_named_beside_what_is(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        energy_to_accuracy(RUNS, POWER, **{"gpu": "g", "dataset": "cifar100", **options})


def test_a_data_set_without_a_default_needs_a_target() -> None:
    runs, power = (frame.with_columns(dataset=pl.lit("mnist")) for frame in (RUNS, POWER.head(6)))
    with pytest.raises(DataError, match="mnist has no default target; set target= to one of 0"):
        energy_to_accuracy(runs, power, gpu="g", dataset="mnist")
    given_one = energy_to_accuracy(runs, power, gpu="g", dataset="mnist", target=0.5)
    assert given_one.height == 3


@pytest.mark.parametrize(
    ("runs", "power", "text"),
    [
        (RUNS.drop("run"), POWER, "column run is missing; found dataset, network"),
        (RUNS, POWER.drop("gpu"), "column gpu is missing; found dataset, network"),
        (pl.concat([RUNS, RUNS.head(1)]), POWER, "training_runs: 2 row.s. break the rule 'primar"),
        (RUNS, pl.concat([POWER, POWER.tail(1)]), "power_profiles: 2 row.s. break the rule 'prim"),
        (RUNS, POWER.with_columns(pl.col("epoch_s") * 0), "power_profiles: 8 row.s. break the ru"),
        (RUNS, POWER.with_columns(pl.col("mean_power_w") / 0), "8 row.s. break the rule 'mean_po"),
        (RUNS, POWER.with_columns(batch_size=pl.lit("big")), "8 row.s. break the rule 'batch_siz"),
        (
            RUNS.with_columns(pl.col("target_epoch") + 0.5),
            POWER,
            "training_runs: column target_epoch holds fractions; whole numbers are needed",
        ),
        (
            pl.concat([RUNS, RUNS.filter(batch_size=64).with_columns(learning_rate=pl.lit(0.2))]),
            POWER,
            "cifar100 at batch size 64 was trained with several learning rates: 0.1, 0.2; keep",
        ),
        (
            pl.concat([RUNS, RUNS.with_columns(optimizer=pl.lit("adam"))]),
            POWER,
            "cifar100 on g was trained and profiled with several .*: net/adam, net/sgd; keep the",
        ),
    ],
)
def test_tables_that_cannot_be_are_refused_in_one_line(
    runs: pl.DataFrame, power: pl.DataFrame, text: str
) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        energy_to_accuracy(runs, power, gpu="g", dataset="cifar100", target=0.5)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "engine",
    [
        pl.DataFrame.lazy,
        pl.DataFrame.to_arrow,
        lambda rows: duckdb.from_arrow(rows.to_arrow()),
        lambda rows: pd.DataFrame(rows.to_dict(as_series=False)),
    ],
    ids=["polars lazy", "pyarrow", "duckdb", "pandas"],
)
def test_every_engine_gives_the_same_energies(engine: Callable[[pl.DataFrame], Any]) -> None:
    which: dict[str, Any] = {"gpu": "g", "dataset": "cifar100", "target": 0.5}
    for ask in (energy_to_accuracy, energy_coverage):
        result = ask(engine(RUNS), engine(POWER), **which)
        assert_frame_equal(result, ask(RUNS, POWER, **which), rel_tol=1e-12, abs_tol=0)


def published(folder: Path, gpu: str, dataset: str, target: float, eta: float) -> pd.DataFrame:
    """Work energy to accuracy out from the files, with pandas."""
    train = pd.read_csv(folder / "summary_train.csv")
    power = pd.read_csv(folder / f"summary_power_{gpu}.csv")
    key = ["dataset", "network", "batch_size", "optimizer"]
    train = train[(train["dataset"] == dataset) & (train["target_metric"] == target)]
    epochs = train.groupby(key)["target_epoch"].agg(
        epochs=lambda x: x.mean(skipna=False), first="min", last="max", n="size"
    )
    joined = epochs.dropna(subset="epochs").reset_index().merge(power, on=key)
    joined["tta"] = joined["epochs"] * joined["time_per_epoch"]
    joined["eta"] = joined["tta"] * joined["average_power"]
    joined["cost"] = eta * joined["eta"] + (1 - eta) * power["power_limit"].max() * joined["tta"]
    # a front by walking: the quickest first, then whatever needs less than all before it
    joined = joined.sort_values(["tta", "eta"], ignore_index=True)
    joined["front"] = joined["eta"] < joined["eta"].cummin().shift(fill_value=float("inf"))
    return joined.sort_values(["batch_size", "power_limit"], ignore_index=True)


@pytest.mark.parametrize(("gpu", "dataset"), PAIRS)
def test_the_published_traces(real_store: Store, real_data: Path, gpu: str, dataset: str) -> None:
    eta = 0.3
    expected = published(
        real_data / "zeus-2023", gpu, dataset, TRAINING_DEFAULTS[dataset].target, eta
    )
    runs, power = (real_store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    result = energy_to_accuracy(runs, power, gpu=gpu, dataset=dataset, eta=eta)
    assert result.height == len(expected) > 0
    for column, theirs in {
        "batch_size": "batch_size",
        "power_limit_w": "power_limit",
        "tta_s": "tta",
        "eta_j": "eta",
        "cost_j": "cost",
        "on_front": "front",
        "runs": "n",
        "epochs_mean": "epochs",
        "epochs_min": "first",
        "epochs_max": "last",
    }.items():
        assert result[column].to_list() == pytest.approx(expected[theirs].tolist(), rel=1e-12)


def test_the_published_front_of_librispeech_on_v100(real_store: Store) -> None:
    runs, power = (real_store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    result = energy_to_accuracy(runs, power, gpu="v100", dataset="librispeech")
    # the paper's figure shows seven
    assert result["on_front"].sum() == 9


def test_energy_is_a_finite_number_above_0() -> None:
    ask: dict[str, Any] = {"gpu": "g", "dataset": "cifar100", "target": 0.5}
    found = energy_to_accuracy(RUNS, POWER.with_columns(pl.col("epoch_s") * 1e-6), **ask)
    assert found["eta_j"].to_list() == pytest.approx([10_000e-6, 9_000e-6, 8_800e-6])
    with pytest.raises(DataError, match=r"rule 'epoch_s\|max'"):
        energy_to_accuracy(RUNS, POWER.with_columns(pl.col("epoch_s") * 1e306), **ask)
    tiny = POWER.with_columns(pl.col("epoch_s", "mean_power_w") * 1e-200)
    with pytest.raises(DataError, match="energy of cifar100 on g is not a finite positive"):
        energy_to_accuracy(RUNS, tiny, **ask)
