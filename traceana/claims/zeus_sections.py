"""Zeus (NSDI'23), section by section: single printed numbers and statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana import simulate
from traceana.claims.claim import Claim, Judgement, decide, not_testable, untested
from traceana.claims.rounding import agrees, round_as, span
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

if TYPE_CHECKING:
    from traceana.store import Store, Trace

_TRACE: Final = "zeus-2023"
_GPU: Final = "v100"
_SEEDS: Final = 79
_POLICY_SEEDS: Final = 5
_SPEECH: Final = "librispeech"
_PROFILED_S: Final = 5.0


def _ratios(store: Store, choice: str) -> pl.DataFrame:
    """Return the energy of a choice over that of the baseline, by data set."""
    result = store.trace(_TRACE).once(savings)
    kept = result.filter(gpu=_GPU, objective="energy", choice=choice).drop_nulls("ratio")
    return kept.select("dataset", "batch_size", "power_limit_w", "ratio").sort("dataset")


def _speech(store: Store) -> pl.DataFrame:
    return store.trace(_TRACE).once(configurations, _GPU)[_SPEECH]


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
        note=f"Of {ratios.height} data sets, against the default batch size, cut to the largest "
        "profiled, at the largest power limit.",
        evidence=ratios,
    )


def bar(store: Store, claim: Claim) -> float | None:
    """Return the height of a bar, or the batch size of its choice."""
    column = claim.values.get("column", "ratio")
    table = _ratios(store, claim.values["choice"]).filter(dataset=claim.values["dataset"])
    return float(table[column].item()) if table.height else None


def front(store: Store, claim: Claim) -> Judgement:
    """Count the points that no configuration dominates."""
    table = _speech(store).filter("on_front").sort("tta_s")
    return decide(
        holds=agrees(table.height, claim.published),
        measured=str(table.height),
        evidence=table.select("batch_size", "power_limit_w", "tta_s", "eta_j"),
    )


def front_point(store: Store, claim: Claim) -> Judgement:
    """Find a printed point among those that no configuration dominates."""
    front = (
        _speech(store).filter("on_front").select("batch_size", "power_limit_w", "tta_s", "eta_j")
    )
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


def zeus_power_range(store: Store, claim: Claim) -> Judgement:
    """Compare the range of the mean power."""
    profiles = store.scan(_TRACE, "power_profiles").filter(gpu=_GPU, dataset=_SPEECH).collect()
    low, high = span(profiles["mean_power_w"])
    return decide(
        holds=claim.values["low"] <= round(low, -1) <= round(high, -1) <= claim.values["high"],
        measured=f"{low:.1f} W to {high:.1f} W over {profiles.height} configurations",
        evidence=profiles.select("batch_size", "power_limit_w", "mean_power_w").sort(
            "mean_power_w"
        ),
    )


def optimum(store: Store, claim: Claim) -> Judgement:
    """Compare the configuration of least energy or time."""
    measure = claim.values["measure"]
    best = _speech(store).sort(measure).head(3).select("batch_size", "power_limit_w", measure)
    first = best.row(0, named=True)
    return decide(
        holds=all(first[name] == claim.values[name] for name in ("batch_size", "power_limit_w")),
        measured=f"({first['batch_size']}, {first['power_limit_w']:g} W)",
        evidence=best,
    )


def zeus_power_limits(store: Store, claim: Claim) -> Judgement:
    """Compare the smallest and largest power limit."""
    profiles = store.scan(_TRACE, "power_profiles").filter(gpu=_GPU).collect()
    low, high = span(profiles["power_limit_w"])
    return decide(
        holds=(low, high) == (claim.values["low"], claim.values["high"]),
        measured=f"{low:g} W to {high:g} W",
        evidence=profiles["power_limit_w"].value_counts().sort("power_limit_w"),
    )


def zeus_batch_range(store: Store, claim: Claim) -> Judgement:
    """Return the smallest batch size of each data set."""
    profiles = store.scan(_TRACE, "power_profiles").filter(gpu=_GPU)
    table = profiles.group_by("dataset").agg(smallest=pl.col("batch_size").min()).collect()
    table = table.sort("dataset")
    return decide(
        holds=set(table["smallest"]) == {claim.values["low"]},
        measured=", ".join(f"{name} from {least}" for name, least in table.rows()),
        evidence=table,
    )


def zeus_table_1(store: Store, claim: Claim) -> Judgement:
    """Compare data set, model and optimizer of the training runs."""
    names = pl.concat_str("dataset", "network", "optimizer", separator=" ").str.to_lowercase()
    table = store.scan(_TRACE, "training_runs").select(names.unique().sort()).collect()
    printed = table.to_series().to_list()
    return decide(
        holds=printed == claim.values["rows"], measured="; ".join(printed), evidence=table
    )


def zeus_square_root(store: Store, _claim: Claim) -> Judgement:
    """Compare learning rate over the square root of the batch size with its median."""
    scaled = pl.col("learning_rate") / pl.col("batch_size").sqrt()
    table = (
        store.scan(_TRACE, "training_runs")
        .filter(pl.col("optimizer").str.to_lowercase().is_in(["adam", "adamw"]))
        .group_by("dataset")
        .agg(
            batch_sizes=pl.col("batch_size").n_unique(),
            largest_deviation=(scaled / scaled.median() - 1).abs().max(),
        )
        .sort("dataset")
        .collect()
    )
    largest = span(table["largest_deviation"])[1]
    return decide(
        holds=largest <= 0.015,
        measured=f"within {100 * largest:.1f} % of the square root for {table.height} data sets",
        evidence=table,
    )


def time_change(store: Store, claim: Claim) -> Judgement:
    """Compare the largest or smallest saving of time with its range over seeds."""
    sweep = store.trace(_TRACE).once(recurring_seeds, _GPU, _SEEDS).drop_nulls("time_saved")
    if sweep.is_empty():
        return untested(f"no job of {_GPU} can be simulated")
    saved = 100 * pl.col("time_saved")
    seeds = sweep.group_by("seed").agg(low=-saved.min(), high=saved.max()).sort("seed")
    end = claim.values["end"]
    low, high = span(seeds[end])
    word = "largest reduction" if end == "high" else "largest increase"
    return decide(
        holds=low <= claim.values["percent"] <= high,
        measured=f"{word} {low:.1f} % to {high:.1f} % over {seeds.height} seeds",
        note="Simulated: the choices of the policy are random.",
        evidence=seeds,
    )


def _policies(trace: Trace) -> pl.DataFrame:
    """Return the regret of Zeus and of grid search, by data set and seed."""
    seeds, names = range(_POLICY_SEEDS), ("dataset", "seed", "regret_j", "cost_j", "cost_saved")
    every = trace.once(recurring_sweep)
    zeus = every.filter(pl.col("gpu") == _GPU, pl.col("seed").is_in(seeds)).select(names)
    tables, defaults_of_job = training_tables(trace), trace.once(defaults)
    grid = simulate.sweep_recurring(
        *tables, gpus=_GPU, seeds=seeds, policy="grid", defaults=defaults_of_job
    ).select(names)
    both = zeus.join(grid, on=("dataset", "seed"), suffix="_grid")
    return both.drop_nulls().sort("dataset", "seed")


def grid_regret(store: Store, claim: Claim) -> Judgement:
    """Compare the ratio of both regrets."""
    result = store.trace(_TRACE).once(_policies)
    ratio = result["regret_j_grid"] / result["regret_j"]
    low, high = span(ratio)
    return decide(
        holds=low <= claim.values["factor"] <= high,
        measured=f"{low:.1f} to {high:.1f} times over {result['dataset'].n_unique()} data sets and "
        f"{_POLICY_SEEDS} seeds",
        note="Simulated on the published runs, with the number of recurrences of the simulator.",
        evidence=result.with_columns(ratio=ratio),
    )


def regret_lower(store: Store, claim: Claim) -> Judgement:
    """Compare the mean regrets of each data set."""
    result = store.trace(_TRACE).once(_policies)
    means = result.group_by("dataset").agg(
        zeus=pl.col("regret_j").mean(), grid=pl.col("regret_j_grid").mean()
    )
    means = means.sort("dataset")
    lower = means.filter(pl.col("zeus") < pl.col("grid")).height
    return decide(
        holds=lower == means.height == claim.values["pairs"],
        measured=f"lower for {lower} of {means.height} data sets",
        note="Simulated on the published runs.",
        evidence=means,
    )


def grid_suboptimal(store: Store, _claim: Claim) -> Judgement:
    """Compare where grid search ends with the best saving of cost."""
    result = store.trace(_TRACE).once(_policies)
    costs = store.trace(_TRACE).once(savings)
    best = costs.filter(gpu=_GPU, objective="cost", choice="both").select("dataset", "ratio")
    ends = result.join(best, on="dataset").with_columns(ends_at=1 - pl.col("cost_saved_grid"))
    worse = ends.filter(pl.col("ends_at") > 1.01 * pl.col("ratio"))
    names = worse["dataset"].unique().sort().to_list()
    return decide(
        holds=bool(names),
        measured=f"costs more than 1 % more than the best in {worse.height} of {ends.height} "
        f"replications ({', '.join(names) or 'none'})",
        note="Cost of the last five recurrences against the best expected cost.",
        evidence=ends.select("dataset", "seed", "ends_at", "ratio"),
    )


def four_gpus(store: Store, claim: Claim) -> Judgement:
    """Compute the geometric mean of the energy relative to the default, by GPU."""
    sweep = store.trace(_TRACE).once(recurring_sweep).drop_nulls("energy_saved")
    means = (
        sweep.group_by("gpu")
        .agg(
            datasets=pl.col("dataset").n_unique(),
            energy=(1 - pl.col("energy_saved")).log().mean().exp(),
        )
        .sort("gpu")
    )
    parts = [f"{gpu} {energy:.3f}" for gpu, _, energy in means.rows()]
    return decide(
        holds=means.height == claim.values["gpus"] and span(means["energy"])[1] < 1,
        measured=f"geometric means of energy over that of the default: {', '.join(parts)}",
        note="Simulated, of the last five recurrences.",
        evidence=means,
    )


def beta_least(store: Store, _claim: Claim) -> Judgement:
    """Compare the geometric means of energy by beta."""
    table = store.trace(_TRACE).once(policy_variants, _GPU).filter(comparison="beta")
    least = table.sort("energy")["variant"][0]
    parts = [f"{beta} {energy:.3f}" for beta, energy in table.select("variant", "energy").rows()]
    return decide(
        holds=least == "2",
        measured=f"lowest at {least}; relative to 2: {', '.join(parts)}",
        note="Simulated; energy of all recurrences, geometric mean over the data sets.",
        evidence=table,
    )


def part_matters_most(store: Store, _claim: Claim) -> Judgement:
    """Compare the energy of the policy without each of its parts."""
    table = store.trace(_TRACE).once(policy_variants, _GPU).filter(comparison="part left out")
    left_out = table.filter(pl.col("variant") != "none").select("variant", "energy").rows()
    parts = [f"without {name} {energy:.2f}" for name, energy in left_out]
    most = table.sort("energy")["variant"][-1]
    return decide(
        holds=most == "early stopping",
        measured=f"energy relative to the whole policy: {', '.join(parts)}",
        note="Simulated; energy of all recurrences, geometric mean over the data sets.",
        evidence=table,
    )


def eta_on_front(store: Store, _claim: Claim) -> Judgement:
    """Find the optimum of every weight on the front."""
    names = ["batch_size", "power_limit_w"]
    optima = store.trace(_TRACE).once(weights_of_energy, _GPU, _SPEECH)
    front = _speech(store).filter("on_front").select(names)
    chosen = optima.drop_nulls(names).select(names).unique().sort(names)
    off = chosen.join(front, on=names, how="anti")
    return decide(
        holds=off.is_empty(),
        measured=f"{chosen.height - off.height} of {chosen.height} optima are on the front of "
        f"{_SPEECH}",
        evidence=chosen,
    )


def convex(store: Store, _claim: Claim) -> Judgement:
    """Find batch sizes at which energy falls again after it rose."""
    rows = []
    for dataset, energy in store.trace(_TRACE).once(configurations, _GPU).items():
        best = energy.group_by("batch_size").agg(pl.col("eta_j").min()).sort("batch_size")
        values = best["eta_j"].to_numpy()
        least = int(values.argmin())
        rises = np.diff(values)
        wrong = int((rises[:least] > 0).sum() + (rises[least:] < 0).sum())
        rows.append((dataset, len(values), wrong))
    table = pl.DataFrame(rows, schema=["dataset", "batch_sizes", "steps_against"], orient="row")
    off = table.filter(pl.col("steps_against") > 0)["dataset"].to_list()
    return decide(
        holds=not off,
        measured=f"{table.height - len(off)} of {table.height} data sets"
        + (f"; not {', '.join(off)}" if off else ""),
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


def figure_15(store: Store, _claim: Claim) -> Judgement:
    """Return the range of the bars of the other GPUs."""
    table = store.trace(_TRACE).once(savings).filter(pl.col("gpu") != _GPU, objective="energy")
    bars = table.filter(pl.col("choice") != "baseline").drop_nulls("ratio")
    low, high = span(bars["ratio"])
    return Judgement("observation", f"{bars.height} bars, from {low:.4f} to {high:.4f}")


def more_jobs(store: Store, claim: Claim) -> Judgement:
    """Count the jobs of the groups."""
    jobs = store.scan(*claim.tables[0]).select(pl.len()).collect().item()
    return decide(holds=jobs > claim.values["jobs"], measured=f"{jobs:,}")


def ratio_rows(store: Store, claim: Claim) -> Judgement:
    """Compare each row's ratio with its runtime over the mean of its data set."""
    runtime = pl.col("end_s") - pl.col("start_s")
    rows = store.scan(*claim.tables[0]).with_columns(
        expected=runtime / runtime.mean().over("dataset")
    )
    close = pl.col("expected").is_close(pl.col("runtime_ratio"), rel_tol=1e-6)
    n, equal = rows.select(pl.len(), equal=close.sum()).collect().row(0)
    return decide(
        holds=n == equal,
        measured=f"{equal:,} of {n:,} rows",
        evidence=rows.filter(~close).head(5).collect(),
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
        note="Simulated, with the published seeds: all runs against the expected default.",
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
