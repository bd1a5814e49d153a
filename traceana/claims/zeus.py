"""Batch size and power limit of deep learning (Zeus, NSDI'23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, untested
from traceana.claims.rounding import agrees, span
from traceana.questions.energy.savings import recurring_seeds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.store import Store


_TRACE: Final = "zeus-2023"
_GPU: Final = "v100"
_SEEDS: Final = 79
"""The range of n draws has the next one in n - 1 of n + 1 cases: 97.5 % for each of two ends."""


def _rows(store: Store, table: str, values: Mapping[str, Any]) -> pl.DataFrame:
    """Return rows with these values; text without its case, numbers to a relative 1e-9."""
    conditions = [
        pl.col(name).str.to_lowercase() == value
        if isinstance(value, str)
        else pl.col(name).cast(pl.Float64).is_close(value, rel_tol=1e-9)
        for name, value in values.items()
    ]
    return store.trace(_TRACE).scan(table).filter(*conditions).collect()


def zeus_pairs(store: Store, claim: Claim) -> Judgement:
    """Count the pairs in both tables."""
    trained, profiled = (
        set(store.scan(*table).select("dataset", "network").unique().collect().rows())
        for table in claim.tables
    )
    return decide(
        holds=len(trained) == claim.values["pairs"] and trained == profiled,
        measured=f"{len(trained)} in the training runs, {len(profiled)} in the power traces",
    )


def zeus_seeds(store: Store, claim: Claim) -> Judgement:
    """Count the runs of each batch size."""
    runs = (
        store.trace(_TRACE)
        .scan("training_runs")
        .group_by("dataset", "network", "batch_size")
        .agg(runs=pl.col("run").n_unique().cast(pl.Int64))
        .sort("runs", "dataset", "batch_size")
        .collect()
    )
    fewer = runs.filter(pl.col("runs") < claim.values["runs"])
    parts = ", ".join(
        f"{dataset} {size} ({n})"
        for dataset, size, n in fewer.select("dataset", "batch_size", "runs").rows()
    )
    return decide(
        holds=fewer.is_empty(),
        measured=f"{fewer.height} of {runs.height} batch sizes have fewer"
        + (f": {parts}" if parts else ""),
        evidence=fewer if parts else runs.head(1),
    )


def zeus_power_once(store: Store, _claim: Claim) -> Judgement:
    """Count the rows of each point."""
    point = ("gpu", "dataset", "network", "batch_size", "power_limit_w")
    power = store.trace(_TRACE).scan("power_profiles").collect()
    counted = power.group_by(*point).agg(rows=pl.len(), names=pl.col("optimizer").sort())
    several = counted.filter(pl.col("rows") > 1).sort(point)
    # a second row of the same key is rejected when a table is ingested
    rejected = store.scan_rejected(_TRACE, "power_profiles")
    repeated = rejected.filter(rule="duplicate_key").collect().height
    names = sorted({name for row in several["names"] for name in row})
    where = several.select("gpu", "dataset").unique().sort("gpu", "dataset").rows()
    under = f" ({', '.join(' '.join(each) for each in where)}: {', '.join(names)})" if names else ""
    return decide(
        holds=not repeated,
        measured=f"{power.height:,} rows; {repeated} repeat a (GPU, data set, network, optimizer, "
        f"batch size, power limit); {several.height} points under two optimizers{under}",
        note="Each workload, with its optimizer, has one row per point."
        if not repeated
        else "Some points were measured again.",
    )


def zeus_improvement(store: Store, claim: Claim) -> Judgement:
    """Simulate the policy with many seeds."""
    sweep = store.trace(_TRACE).once(recurring_seeds, _GPU, _SEEDS).drop_nulls("energy_saved")
    if sweep.is_empty():
        return untested(f"no job of {_GPU} can be simulated")
    saved = pl.col("energy_saved") * 100
    seeds = sweep.group_by("seed").agg(low=saved.min(), high=saved.max()).sort("seed")
    intervals = [span(seeds[end]) for end in ("low", "high")]
    printed = [float(text) for text in claim.values["ends"]]
    means = span(sweep.group_by("dataset").agg(saved.mean())["energy_saved"])
    return decide(
        holds=all(
            low <= value <= high for (low, high), value in zip(intervals, printed, strict=True)
        ),
        measured="predictive interval of the smallest saving {:.1f} % to {:.1f} %, of the largest "
        "{:.1f} % to {:.1f} %; ".format(*intervals[0], *intervals[1])
        + f"means of {seeds.height} seeds {means[0]:.1f} % to {means[1]:.1f} %",
        note="Simulated with the publisher's policy (eta 0.5, beta 2), whose choices are random: "
        "one run is compared with the range of repeated runs.",
        evidence=seeds,
    )


def zeus_ratio_mean(store: Store, claim: Claim) -> Judgement:
    """Compute the mean ratio of each data set."""
    means = (
        store.scan(*claim.tables[0])
        .group_by("dataset")
        .agg(jobs=pl.len(), mean=pl.col("runtime_ratio").mean())
        .sort("dataset")
        .collect()
    )
    low, high = span(means["mean"])
    return decide(
        holds=all(agrees(mean, "1.000") for mean in means["mean"]),
        measured=f"{low:.3f} to {high:.3f} over {means.height} data sets",
        evidence=means,
    )


def zeus_example(store: Store, claim: Claim) -> Judgement:
    """Search the row, or its measurements under other settings."""
    rows = _rows(store, "power_profiles", claim.values)
    if not rows.is_empty():
        return decide(
            holds=True, measured=f"a row of {rows['gpu'][0]}", note="Every value is compared."
        )
    measures = {name: claim.values[name] for name in ("epoch_s", "mean_power_w")}
    same = _rows(store, "power_profiles", measures)
    parts = [
        f"{row['gpu']} has this time and power at batch size {row['batch_size']} and "
        f"{row['power_limit_w']:g} W"
        for row in same.iter_rows(named=True)
    ]
    return decide(
        holds=False,
        measured=f"no such row; {'; '.join(parts) or 'nor one with this time and power'}",
        note="The example combines the measurements of one row with the settings of another."
        if parts
        else "No power trace in the store has it.",
        evidence=same if parts else None,
    )


def zeus_train_example(store: Store, claim: Claim) -> Judgement:
    """Search the row, or its run with other values."""
    rows = _rows(store, "training_runs", claim.values)
    compared = ("learning_rate", "target_epoch")
    key = {name: value for name, value in claim.values.items() if name not in compared}
    measured = _rows(store, "training_runs", key)
    rate = {"learning_rate": claim.values["learning_rate"]}
    parts = [
        f"that run is at learning rate {row['learning_rate']:g} and epoch {row['target_epoch']}"
        for row in measured.iter_rows(named=True)
    ]
    return decide(
        holds=not rows.is_empty(),
        measured="the row" if len(rows) else f"no such row; {'; '.join(parts) or 'nor its run'}",
        note="Every value is compared, the optimizer without its case; the printed learning rate "
        f"is in {_rows(store, 'training_runs', rate).height} rows of the trace.",
        evidence=measured,
    )


def zeus_group_example(store: Store, claim: Claim) -> Judgement:
    """Search the row."""
    rows = _rows(store, "recurring_jobs", claim.values)
    return decide(holds=not rows.is_empty(), measured="the row" if len(rows) else "no such row")
