"""Batch size and power limit of deep learning (Zeus, NSDI'23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from traceana import simulate
from traceana.claims.claim import (
    Claim,
    Judgement,
    agrees,
    decide,
    not_testable,
    round_as,
    span,
    untested,
)
from traceana.errors import DataError
from traceana.questions.energy.savings import (
    configurations,
    defaults,
    recurring_seeds,
    recurring_sweep,
    savings,
    training_tables,
    weights_of_energy,
)
from traceana.questions.recurring.analyze import policy_variants
from traceana.store import Store, Trace

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


_POLICY_SEEDS: Final = 5
_SPEECH: Final = "librispeech"
_PROFILED_S: Final = 5.0


def _ratios(store: Store, choice: str) -> pl.DataFrame:
    """Return the energy of a choice over that of the baseline, by data set."""
    result = store.trace(_TRACE).once(savings)
    kept = result.filter(gpu=_GPU, objective="energy", choice=choice).drop_nulls("ratio")
    return kept.select("dataset", "batch_size", "power_limit_w", "ratio").sort("dataset")


def _speech(trace: Trace) -> pl.DataFrame:
    configured = trace.once(configurations, _GPU)
    if _SPEECH not in configured:
        raise DataError(f"no configuration of {_SPEECH} on {_GPU}")
    return configured[_SPEECH]


def saving(store: Store, claim: Claim) -> Judgement:
    """Compare the smallest or largest saving of a choice over the data sets."""
    ratios = _ratios(store, claim.values["choice"])
    if ratios.is_empty():
        return untested(f"no data set of {_GPU} has a baseline to compare with")
    ends = dict(zip(("least", "most"), span(100 * (1 - ratios["ratio"])), strict=True))
    printed = {end: claim.values[end] for end in ends if end in claim.values}
    return decide(
        holds=all(agrees(ends[end], text) for end, text in printed.items()),
        measured=" to ".join(f"{round_as(ends[end], text)} %" for end, text in printed.items()),
        note=claim.note
        or f"Of {ratios.height} data sets, against the default batch size, cut to the largest "
        "profiled, at the largest power limit.",
        evidence=ratios,
    )


def front_point(store: Store, claim: Claim) -> Judgement:
    """Find a printed point among those that no configuration dominates."""
    speech = store.trace(_TRACE).once(_speech).filter("on_front")
    front = speech.select("batch_size", "power_limit_w", "tta_s", "eta_j")
    printed = claim.values
    same = [
        row
        for row in front.iter_rows(named=True)
        if all(abs(row[name] - float(printed[name])) <= 1 for name in ("tta_s", "eta_j"))
    ]
    where = [f"batch size {row['batch_size']} at {row['power_limit_w']:g} W" for row in same]
    return decide(
        holds=bool(same),
        measured=where[0] if same else "no such point on the front",
        note="To a second and a joule.",
        evidence=front,
    )


def _policies(trace: Trace) -> pl.DataFrame:
    """Return the regret of Zeus and of grid search, by data set and seed."""
    seeds, names = range(_POLICY_SEEDS), ("dataset", "seed", "regret_j", "cost_j", "cost_saved")
    every = trace.once(recurring_sweep)
    zeus = every.filter(pl.col("gpu") == _GPU, pl.col("seed").is_in(seeds)).select(names)
    tables, defaults_of_job = training_tables(trace), trace.once(defaults)
    grid = simulate.sweep_recurring(
        *tables, gpu_types=_GPU, seeds=seeds, policy="grid", defaults=defaults_of_job
    ).select(names)
    both = zeus.join(grid, on=("dataset", "seed"), suffix="_grid")
    return both.drop_nulls().sort("dataset", "seed")


def convex(store: Store, _claim: Claim) -> Judgement:
    """Find batch sizes at which energy falls again after it rose."""
    rows = []
    for dataset, energy in store.trace(_TRACE).once(configurations, _GPU).items():
        best = energy.group_by("batch_size").agg(pl.col("eta_j").min()).sort("batch_size")
        values = best["eta_j"].to_numpy()
        least = int(values.argmin())
        rises = np.diff(values)
        wrong = int((rises[:least] > 0).sum() + (rises[least:] < 0).sum())
        slopes = rises / np.diff(best["batch_size"].to_numpy())
        rows.append((dataset, len(values), wrong, bool((np.diff(slopes) >= 0).all())))
    schema = ["dataset", "batch_sizes", "steps_against", "is_convex"]
    if not rows:
        return untested(f"no data set of {_GPU} reaches its target")
    table = pl.DataFrame(rows, schema=schema, orient="row")
    off = table.filter(pl.col("steps_against") > 0)["dataset"].to_list()
    return decide(
        holds=not off,
        measured=f"{table.height - len(off)} of {table.height} data sets"
        + (f"; not {', '.join(off)}" if off else ""),
        note="A data set counts if its energy falls to one minimum and rises after it; "
        f"{table['is_convex'].sum()} of the curves are convex in the strict sense.",
        evidence=table,
    )


def tta_variation(store: Store, claim: Claim) -> Judgement:
    """Compare the variation of the epochs of each batch size."""
    rows = [
        energy.select(
            pl.lit(dataset).alias("dataset"),
            "batch_size",
            "runs",
            cv=pl.col("epochs_std") / pl.col("epochs_mean"),
        )
        for dataset, energy in store.trace(_TRACE).once(configurations, _GPU).items()
    ]
    if not rows:
        return untested(f"no data set of {_GPU} reaches its target")
    table = pl.concat(rows).unique(("dataset", "batch_size")).drop_nulls("cv")
    table = table.filter(pl.col("runs") > 1).sort("cv", descending=True)
    above = table.filter(100 * pl.col("cv") >= claim.values["percent"])
    top = table.row(0, named=True)
    return decide(
        holds=above.is_empty(),
        measured=f"{above.height} of {table.height} batch sizes vary by more; at most "
        f"{100 * top['cv']:.1f} % ({top['dataset']}, batch size {top['batch_size']})",
        note="Time per epoch was measured once, so that only the epochs vary.",
        evidence=table.head(10),
    )


def _groups(trace: Trace) -> pl.DataFrame:
    """Simulate all groups of recurring jobs; return the totals by data set."""
    jobs = trace.frame("recurring_jobs")
    tables, defaults_of_job = training_tables(trace), trace.once(defaults)
    result = simulate.simulate_recurring_groups(*tables, jobs, gpu=_GPU, defaults=defaults_of_job)
    return result.by_dataset()


def groups_saved(store: Store, claim: Claim) -> Judgement:
    """Compare the least or largest saving of the groups over the data sets."""
    measure = claim.values["measure"]
    table = store.trace(_TRACE).once(_groups).drop_nulls(["dataset", measure]).sort("dataset")
    if table.is_empty():
        return untested(f"no group can be simulated on {_GPU}")
    low, high = span(100 * table[measure])
    saved = low if claim.values["end"] == "low" else high
    parts = [f"{name} {100 * part:.1f} %" for name, part in table.select("dataset", measure).rows()]
    return decide(
        holds=abs(saved - claim.values["percent"]) <= 1,
        measured=f"saved: {', '.join(parts)}",
        note="Simulated, with the published seeds: all runs against the expected default. How long "
        "a run lasts and what overlapping jobs choose is open: on synthetic groups this moves "
        "savings by up to 3 percentage points, and by up to 33 where most jobs overlap.",
        evidence=table,
    )


def profiling(store: Store, claim: Claim) -> Judgement:
    """Estimate the cost of profiling each power limit for five seconds, by batch size."""
    trace, name = store.trace(_TRACE), claim.values["measure"]
    table = trace.once(configurations, _GPU).get(claim.values["dataset"], pl.DataFrame())
    if table.is_empty():
        return untested(f"no configuration of {claim.values['dataset']} on {_GPU}")
    best = table.sort("cost_j").group_by("batch_size").agg(pl.first("tta_s", "eta_j"))
    done = _PROFILED_S / pl.col("tta_s")  # fraction of the training
    energy = done * pl.col("eta_j")
    cost = (
        table.join(best, on="batch_size", suffix="_best")
        .group_by("batch_size")
        .agg(
            time=(_PROFILED_S - done * pl.col("tta_s_best")).sum() / pl.first("tta_s_best"),
            energy=(energy - done * pl.col("eta_j_best")).sum() / pl.first("eta_j_best"),
        )
    )
    low, high = span(100 * cost[name])
    return not_testable(
        f"{low:.3f} to {high:.3f} % of the {name} over {cost.height} batch sizes",
        claim.note,
        evidence=cost.sort("batch_size"),
    )


FRAMES: Final = {
    "policies": (_policies,),
    "savings": (savings,),
    "seeds": (recurring_seeds, _GPU, _SEEDS),
    "speech": (_speech,),
    "variants": (policy_variants, _GPU),
    "weights": (weights_of_energy, _GPU, _SPEECH),
}
"""Analyses of a trace that queries read as tables."""
