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
    )


def example(store: Store, claim: Claim) -> Judgement:
    """Search a printed row, or the rows that have its key."""
    table, printed = claim.tables[0][1], claim.values["row"]
    key = {name: printed[name] for name in claim.values.get("key", printed)}
    same, rows = _rows(store, table, printed), _rows(store, table, key)
    others: str = claim.values.get("others", "")
    parts = [others.format(**row) for row in rows.iter_rows(named=True)]
    return decide(
        holds=not same.is_empty(),
        measured="the row"
        if len(same)
        else f"no such row; {'; '.join(parts) or 'nor one of its key'}",
        evidence=rows,
    )


_POLICY_SEEDS: Final = 5
_SPEECH: Final = "librispeech"
_PROFILED_S: Final = 5.0


def _speech(trace: Trace) -> pl.DataFrame:
    configured = trace.once(configurations, _GPU)
    if _SPEECH not in configured:
        raise DataError(f"no configuration of {_SPEECH} on {_GPU}")
    return configured[_SPEECH]


def saving(store: Store, claim: Claim) -> Judgement:
    """Compare the smallest or largest saving of a choice over the data sets."""
    result, choice = store.trace(_TRACE).once(savings), claim.values["choice"]
    kept = result.filter(gpu=_GPU, objective="energy", choice=choice).drop_nulls("ratio")
    ratios = kept.select("dataset", "batch_size", "power_limit_w", "ratio").sort("dataset")
    if ratios.is_empty():
        return untested(f"no data set of {_GPU} has a baseline to compare with")
    ends = dict(zip(("least", "most"), span(100 * (1 - ratios["ratio"])), strict=True))
    printed = {end: claim.values[end] for end in ends if end in claim.values}
    return decide(
        holds=all(agrees(ends[end], text) for end, text in printed.items()),
        measured=" to ".join(f"{round_as(ends[end], text)} %" for end, text in printed.items()),
        evidence=ratios,
    )


def front_point(store: Store, claim: Claim) -> Judgement:
    """Find a printed point, to a second and a joule, among those on the front."""
    speech = store.trace(_TRACE).once(_speech).filter("on_front")
    front = speech.select("batch_size", "power_limit_w", "tta_s", "eta_j")
    near = ((pl.col(name) - float(value)).abs() <= 1 for name, value in claim.values.items())
    where = [f"batch size {size} at {limit:g} W" for size, limit, *_ in front.filter(*near).rows()]
    return decide(
        holds=bool(where),
        measured=where[0] if where else "no such point on the front",
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
    if not rows:
        raise DataError(f"no data set of {_GPU} reaches its target")
    schema = ["dataset", "batch_sizes", "steps_against", "is_convex"]
    table = pl.DataFrame(rows, schema=schema, orient="row")
    off = table.filter(pl.col("steps_against") > 0)["dataset"].to_list()
    return decide(
        holds=not off,
        measured=f"{table.height - len(off)} of {table.height} data sets"
        + (f"; not {', '.join(off)}" if off else ""),
        evidence=table,
    )


def _groups(trace: Trace) -> pl.DataFrame:
    """Simulate all groups of recurring jobs; return the totals by data set."""
    jobs = trace.frame("recurring_jobs")
    tables, defaults_of_job = training_tables(trace), trace.once(defaults)
    result = simulate.simulate_recurring_groups(*tables, jobs, gpu=_GPU, defaults=defaults_of_job)
    return result.by_dataset()


def _configured(trace: Trace) -> pl.DataFrame:
    """Return the feasible configurations of every data set."""
    every = trace.once(configurations, _GPU)
    if not every:
        raise DataError(f"no data set of {_GPU} reaches its target")
    named = (rows.with_columns(dataset=pl.lit(dataset)) for dataset, rows in every.items())
    return pl.concat(named)


def _variation(trace: Trace) -> pl.DataFrame:
    """Return the variation of the epochs of each batch size, the largest first."""
    cv = pl.col("epochs_std") / pl.col("epochs_mean")
    several = trace.once(_configured).filter(pl.col("runs") > 1)
    rows = several.select("dataset", "batch_size", "runs", cv=cv).drop_nulls("cv")
    return rows.unique(("dataset", "batch_size")).sort("cv", descending=True)


def _profiling(trace: Trace) -> pl.DataFrame:
    """Return the cost of profiling each limit for five seconds, over the training's."""
    done = _PROFILED_S / pl.col("tta_s")  # fraction of the training
    best_s, best_j = (pl.col(name).sort_by("cost_j").first() for name in ("tta_s", "eta_j"))
    return (
        trace.once(_configured)
        .group_by("dataset", "batch_size")
        .agg(
            time=(_PROFILED_S - done * best_s).sum() / best_s,
            energy=(done * pl.col("eta_j") - done * best_j).sum() / best_j,
        )
    )


FRAMES: Final = {
    "groups": (_groups,),
    "policies": (_policies,),
    "profiling": (_profiling,),
    "savings": (savings,),
    "seeds": (recurring_seeds, _GPU, _SEEDS),
    "speech": (_speech,),
    "variants": (policy_variants, _GPU),
    "variation": (_variation,),
    "weights": (weights_of_energy, _GPU, _SPEECH),
}
"""Analyses of a trace that queries read as tables."""
