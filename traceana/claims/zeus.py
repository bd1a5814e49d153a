"""Batch size and power limit of deep learning (Zeus, NSDI'23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, untested
from traceana.claims.printed import agrees, as_printed, span
from traceana.derived.energy import recurring_sweep, savings
from traceana.simulate import summarize_recurring

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.store.session import Session

_PAPER: Final = "zeus"
_TRACE: Final = "zeus-2023"
_RUNS: Final = (_TRACE, "training_runs")
_POWER: Final = (_TRACE, "power_profiles")
_GROUPS: Final = (_TRACE, "recurring_jobs")
_GPU: Final = "v100"
_POTENTIAL: Final = ("23.8", "74.7")
_IMPROVEMENT: Final = ("15.3", "75.8")
_POWER_EXAMPLE: Final[dict[str, str | float]] = {
    "dataset": "imagenet", "network": "resnet50", "batch_size": 256, "optimizer": "adadelta",
    "power_limit_w": 225.0, "epoch_s": 11198.95, "mean_power_w": 116.63087520008567,
}  # fmt: skip
_TRAIN_EXAMPLE: Final[dict[str, str | float]] = {
    "dataset": "imagenet", "network": "resnet50", "batch_size": 256, "optimizer": "adadelta",
    "learning_rate": 2.6e-5, "run": 4, "target_metric": 0.45, "target_epoch": 9,
}  # fmt: skip
_GROUP_EXAMPLE: Final[dict[str, str | float]] = {
    "group": "0001086788b7de0f13804d22a12a27db", "start_s": 1427642.0, "end_s": 1446915.0,
    "dataset": "squad", "runtime_ratio": 1.1779405764729405,
}  # fmt: skip


def _rows(
    session: Session, need: tuple[str, str], values: Mapping[str, str | float]
) -> pl.DataFrame:
    """Rows that have these values; texts are compared without case, numbers to 1e-9 of them."""
    conditions = [
        pl.col(name).str.to_lowercase() == value
        if isinstance(value, str)
        else pl.col(name).cast(pl.Float64).is_close(value, rel_tol=1e-9)
        for name, value in values.items()
    ]
    return session.scan(*need).filter(*conditions).collect()


def _pairs(session: Session, need: tuple[str, str]) -> int:
    pairs = session.scan(*need).select("dataset", "network").unique()
    return pairs.collect().height


def _judge_pairs(session: Session) -> Judgement:
    trained, profiled = _pairs(session, _RUNS), _pairs(session, _POWER)
    return decide(
        holds=agrees(trained, "6") and agrees(profiled, "6"),
        measured=f"{trained} in the training runs, {profiled} in the power traces",
        note="A network is no key: two data sets are trained with one.",
    )


def _judge_seeds(session: Session) -> Judgement:
    runs = (
        session.scan(*_RUNS)
        .group_by("dataset", "network", "batch_size")
        .agg(runs=pl.col("run").n_unique().cast(pl.Int64))
        .sort("runs", "dataset", "batch_size")
        .collect()
    )
    fewer = runs.filter(pl.col("runs") < 4)
    told = [
        f"{row['dataset']} {row['batch_size']} ({row['runs']})"
        for row in fewer.iter_rows(named=True)
    ]
    return decide(
        holds=fewer.is_empty(),
        measured=f"{fewer.height} of {runs.height} batch sizes have fewer"
        + (f": {', '.join(told)}" if told else ""),
        note="Runs of each (data set, network, batch size) are counted, whatever they reached.",
        evidence=fewer if told else runs.head(1),
    )


def _judge_once(session: Session) -> Judgement:
    point = ("gpu", "dataset", "network", "batch_size", "power_limit_w")
    power = session.scan(*_POWER).collect()
    counted = power.group_by(*point).agg(
        rows=pl.len(), optimizers=pl.col("optimizer").n_unique(), names=pl.col("optimizer").sort()
    )
    several = counted.filter(pl.col("rows") > 1).sort(point)
    # a second row of the same key is rejected when a table is ingested
    rejected = session.store.scan_rejected(*_POWER).filter(rule="duplicate_key").collect().height
    names = sorted({name for row in several["names"] for name in row})
    where = several.select("gpu", "dataset").unique().sort("gpu", "dataset").rows()
    under = f" ({', '.join(' '.join(each) for each in where)}: {', '.join(names)})" if names else ""
    return decide(
        holds=not rejected,
        measured=f"{power.height:,} rows; {rejected} repeat a (GPU, data set, network, optimizer, "
        f"batch size, power limit); {several.height} points under two optimizers{under}",
        note="A workload is trained by one optimizer, and each has one row a point: nothing was "
        "measured twice.",
    )


def _judge_potential(session: Session) -> Judgement:
    choices = session.once(savings, _TRACE).filter(gpu=_GPU, objective="energy")
    v100 = choices.filter(choice="both").drop_nulls("ratio")
    if v100.is_empty():
        return untested(f"no data set of {_GPU} has a baseline to compare with")
    saved = 100 * (1 - v100["ratio"])
    ends = span(saved)
    return decide(
        holds=all(agrees(end, printed) for end, printed in zip(ends, _POTENTIAL, strict=True)),
        measured=_range(ends, _POTENTIAL),
        note=f"Least and most of {v100.height} data sets: the configuration of least energy "
        "against the default batch size at the largest power limit.",
        evidence=v100.select("dataset", "batch_size", "power_limit_w", saved=saved),
    )


def _judge_improvement(session: Session) -> Judgement:
    sweep = session.once(recurring_sweep, _TRACE).filter(gpu=_GPU)
    table = summarize_recurring(sweep).drop_nulls("energy_saved")
    if table.is_empty():
        return untested(f"no job of {_GPU} can be simulated")
    means = 100 * table["energy_saved"]
    seeds = sweep.group_by("seed").agg(
        least=100 * pl.col("energy_saved").min(), most=100 * pl.col("energy_saved").max()
    )
    ends, least, most = (span(series) for series in (means, seeds["least"], seeds["most"]))
    as_published = seeds.filter(
        pl.Series([_both_agree(row) for row in seeds.select("least", "most").rows()])
    )
    return decide(
        holds=_both_agree(ends),
        measured=f"{_range(ends, _IMPROVEMENT)} (means of {seeds.height} seeds; by seed the least "
        f"is {least[0]:.1f} to {least[1]:.1f}, the most {most[0]:.1f} to {most[1]:.1f})",
        note="Simulated with the publisher's policy (eta 0.5, beta 2), whose choices are random: "
        f"{as_published.height} of {seeds.height} seeds give both of the printed ends.",
        evidence=table.select(
            "dataset", "seeds", *(f"energy_saved{end}" for end in ("", "_ci_low", "_ci_high"))
        ),
    )


def _both_agree(ends: tuple[float, float]) -> bool:
    return all(agrees(end, printed) for end, printed in zip(ends, _IMPROVEMENT, strict=True))


def _range(ends: tuple[float, float], printed: tuple[str, str]) -> str:
    low, high = (as_printed(end, text) for end, text in zip(ends, printed, strict=True))
    return f"{low} % to {high} %"


def _judge_ratio(session: Session) -> Judgement:
    means = (
        session.scan(*_GROUPS)
        .group_by("dataset")
        .agg(jobs=pl.len(), mean=pl.col("runtime_ratio").mean())
        .sort("dataset")
        .collect()
    )
    least, most = span(means["mean"])
    return decide(
        holds=all(agrees(mean, "1.000") for mean in means["mean"]),
        measured=f"{least:.3f} to {most:.3f} over {means.height} data sets",
        note="A ratio to the mean averages 1 by its definition: three decimals are compared.",
        evidence=means,
    )


def _judge_example(session: Session) -> Judgement:
    rows = _rows(session, _POWER, _POWER_EXAMPLE)
    if not rows.is_empty():
        return decide(
            holds=True, measured=f"a row of {rows['gpu'][0]}", note="Every value is compared."
        )
    measures = {name: _POWER_EXAMPLE[name] for name in ("epoch_s", "mean_power_w")}
    same = _rows(session, _POWER, measures)
    told = [
        f"{row['gpu']} has this time and power at batch size {row['batch_size']} and "
        f"{row['power_limit_w']:g} W"
        for row in same.iter_rows(named=True)
    ]
    return decide(
        holds=False,
        measured=f"no such row; {'; '.join(told) or 'nor one with this time and power'}",
        note="The example puts one row's measurements beside another's settings."
        if told
        else "No power trace in the store has it.",
        evidence=same if told else None,
    )


def _judge_train_example(session: Session) -> Judgement:
    rows = _rows(session, _RUNS, _TRAIN_EXAMPLE)
    looked = ("learning_rate", "target_epoch")
    key = {name: value for name, value in _TRAIN_EXAMPLE.items() if name not in looked}
    there = _rows(session, _RUNS, key)
    rate = _rows(session, _RUNS, {"learning_rate": _TRAIN_EXAMPLE["learning_rate"]}).height
    told = [
        f"that run is at learning rate {row['learning_rate']:g} and epoch {row['target_epoch']}"
        for row in there.iter_rows(named=True)
    ]
    return decide(
        holds=not rows.is_empty(),
        measured="the row" if len(rows) else f"no such row; {'; '.join(told) or 'nor its run'}",
        note="Every value is compared, the optimizer without its case; the learning rate printed "
        f"stands in {rate} rows of the trace.",
        evidence=there,
    )


def _judge_group_example(session: Session) -> Judgement:
    rows = _rows(session, _GROUPS, _GROUP_EXAMPLE)
    return decide(
        holds=not rows.is_empty(),
        measured="the row" if len(rows) else "no such row",
        note="Every value is compared.",
    )


CLAIMS: Final = (
    Claim(
        "zeus-pairs", _PAPER, "six (data set, network) pairs", "six", (_RUNS, _POWER),
        _judge_pairs,
    ),
    Claim(
        "zeus-seeds", _PAPER, "at least four runs of every (data set, network, batch size)",
        "at least four", (_RUNS,), _judge_seeds,
    ),
    Claim(
        "zeus-power-once", _PAPER,
        "power and epoch time were measured once for each (batch size, power limit)", "once",
        (_POWER,), _judge_once, "Store.scan, Store.scan_rejected",
    ),
    Claim(
        "zeus-potential", _PAPER,
        "choosing batch size and power limit together saves 23.8 % to 74.7 % of energy on a V100",
        " % to ".join(_POTENTIAL) + " %", (_RUNS, _POWER), _judge_potential, "energy_savings",
    ),
    Claim(
        "zeus-improvement", _PAPER,
        "Zeus improves energy efficiency by 15.3 % to 75.8 % (V100; last five recurrences against "
        "the default)",
        " % to ".join(_IMPROVEMENT) + " %", (_RUNS, _POWER), _judge_improvement,
        "sweep_recurring, summarize_recurring",
    ),
    Claim(
        "zeus-ratio-mean", _PAPER, "runtime_ratio averages 1 within every data set", "1",
        (_GROUPS,), _judge_ratio,
    ),
    Claim(
        "zeus-example", _PAPER,
        "the README's example row (imagenet, resnet50, batch 256, adadelta, 225 W, 11198.95 s, "
        "116.63087520008567 W) stands in a power trace as one row",
        "batch 256, 225 W, 11198.95 s, 116.63087520008567 W", (_POWER,), _judge_example,
    ),
    Claim(
        "zeus-train-example", _PAPER,
        "the README's example row (imagenet, resnet50, batch 256, Adadelta, learning rate 2.6e-5, "
        "run 4, target 0.45, epoch 9) stands in the train trace",
        "learning rate 2.6e-5, run 4, target 0.45, epoch 9", (_RUNS,), _judge_train_example,
    ),
    Claim(
        "zeus-group-example", _PAPER,
        "the README's example row (group 0001086788b7de0f13804d22a12a27db, 1427642.0, 1446915.0, "
        "squad, 1.1779405764729405) stands in the group trace",
        "1427642.0, 1446915.0, squad, 1.1779405764729405", (_GROUPS,), _judge_group_example,
    ),
)  # fmt: skip
