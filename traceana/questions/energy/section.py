"""Section on energy to accuracy: savings, Pareto fronts, batch sizes and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from traceana.page import blocks as page
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.energy import savings as results
from traceana.questions.energy import tables
from traceana.questions.energy.accuracy import batch_size_sweep
from traceana.store import Trace
from traceana.tables.formatting import fraction_range, plural, share

_OPENING: Final = (
    "Time to the target is the mean number of epochs over the runs of a batch size times the time "
    "of an epoch; energy is that times the mean power. The default is the batch size of the data "
    "set, reduced to the largest one profiled on the GPU, at the largest power limit of the GPU. A "
    "batch size is feasible only if every run of it reached the target. The 95 % intervals are "
    "Welch's, from held-out runs of both batch sizes. They allow for the noise of an epoch's "
    "measurement: what no parabola over the power limits explains. With 4 or 5 runs they covered "
    "the truth in 92 to 96 % of simulations, and in 87 to 96 % where the energy of an epoch was "
    "measured with an error of 1 to 5 %. Where the epochs cancel there is none."
)
_LIMITATIONS: Final = (
    "Each epoch was measured once. The best of many configurations is partly best by chance. The "
    "savings of held-out runs avoid this: the runs did not choose the batch size, and the power "
    "limit was chosen by its cost as predicted from the other limits. Where only the batch size is "
    "free, the one measurement of its epoch still chooses."
)
_CAPTIONS: Final = {
    "energy": "Energy saved, as a percentage of the default's",
    "cost": "Cost saved, as a percentage of the default's (half energy, half time at the "
    "largest power of the GPU)",
}
_REASONS: Final = {
    "missed": "a run never reached the target",
    "unknown": "a run has no row at the target",
    "trained": "trained only",
    "profiled": "profiled only",
}


def build(traces: Sequence[Trace]) -> page.Content:
    """Show the savings and the front of each trace; the rest is folded."""
    return page.join_parts(_OPENING, ((trace.label, _trace(trace)) for trace in traces))


def _trace(trace: Trace) -> page.Content:
    saved, gpu = trace.once(results.savings), results.shown_gpu(trace)
    energy = trace.once(results.configurations, gpu)
    by_choice = {measure: _by_choice(saved, measure) for measure in _CAPTIONS}
    pictures = _draw_savings(saved, trace)
    columns: dict[str, Any] = {"columns": [*tables.SavingsByChoice.columns()], "folded": True}
    blocks: list[page.Block] = [
        page.result_table(rows, tables.SavingsByChoice, caption=_CAPTIONS[measure], **columns)
        for measure, rows in by_choice.items()
    ]
    if energy:
        dataset = _shown_dataset(energy)
        front, heat, *_ = draw_configurations(trace, gpu, {dataset: energy[dataset]})
        pictures.append(front)
        blocks += [page.Gallery((heat,)), *_tables(trace, gpu, dataset, energy[dataset])]
    blocks += [
        page.Text(
            "Training runs and power profiles are joined on data set, network, batch size and "
            "optimizer. A batch size is excluded for the first of these reasons that applies; "
            "batch sizes with gaps were profiled at some of the power limits only."
        ),
        _coverage(trace.once(results.coverage)),
    ]
    lead = (page.Gallery(tuple(pictures)),) if pictures else ()
    return page.Content(_findings(saved, gpu), tuple(blocks), lead, _LIMITATIONS).of(trace.label)


def draw_more(traces: Sequence[Trace]) -> list[page.Drawing]:
    """Draw the savings by choice on each GPU, and the configurations of each data set on one."""
    pictures = []
    for trace in traces:
        energy = trace.once(results.savings).filter(objective="energy")
        gpu = results.shown_gpu(trace)
        for each in energy.drop_nulls("ratio")["gpu"].unique().sort():
            key, about = f"savings-{trace.id}-{each}", f"Energy to the target on {each} by choice"
            pictures.append(
                page.drawing("energy-savings", energy.filter(gpu=each), trace, key, about)
            )
        result = trace.once(results.configurations, gpu)
        pictures += draw_configurations(trace, gpu, result) if result else []
    return pictures


def _shown_dataset(energy: dict[str, pl.DataFrame]) -> str:
    """Return the data set with the most configurations."""
    return max(energy, key=lambda name: (energy[name].height, name))


def _by_choice(savings: pl.DataFrame, objective: str) -> pl.DataFrame:
    rows = savings.filter(objective=objective)
    on = ["gpu", "dataset"]
    fractions = rows.with_columns(saved=1 - pl.col("ratio")).pivot(
        "choice", index=on, values="saved"
    )
    configuration = pl.format(
        "{}, {} W", "batch_size", pl.col("power_limit_w").cast(pl.String).str.strip_suffix(".0")
    )
    default = rows.filter(choice="baseline").select(*on, default=configuration)
    saved = {"held_out": 1 - pl.col("ratio_held_out")}
    saved |= {"ci_low": 1 - pl.col("ci_high"), "ci_high": 1 - pl.col("ci_low")}
    best = rows.filter(choice="both").select(*on, "note", best=configuration, **saved)
    return fractions.join(default, on=on).join(best, on=on).sort(on)


def _coverage(batches: pl.DataFrame) -> page.Table:
    feasible = pl.col("feasible")
    counts = batches.group_by("gpu", "dataset", maintain_order=True).agg(
        feasible.sum().cast(pl.Int64),
        gaps=(feasible & (pl.col("power_limits_missing") > 0)).sum(),
        **{name: (pl.col("note") == note).sum() for name, note in _REASONS.items()},
        min_runs=pl.col("runs").filter(feasible).min(),
    )
    return page.result_table(
        counts, tables.CoverageCounts, caption="Batch sizes by feasibility", folded=True
    )


def _draw_savings(savings: pl.DataFrame, trace: Trace) -> list[page.Drawing]:
    both = savings.filter(objective="energy", choice="both").with_columns(
        energy_saved=1 - pl.coalesce("ratio_held_out", "ratio"),
        energy_saved_ci_low=1 - pl.col("ci_high"),
        energy_saved_ci_high=1 - pl.col("ci_low"),
    )
    if not both["energy_saved"].count():
        return []
    about = "Energy saved by the best batch size and power limit, in held-out runs if any"
    return [page.drawing("energy-saved", both, trace, f"saved-{trace.id}", about)]


def _findings(savings: pl.DataFrame, gpu: str) -> tuple[str, ...]:
    """State the held-out savings, and those measured on the runs that chose."""
    both = savings.filter(objective="energy", choice="both").drop_nulls("ratio")
    both = both.with_columns(saved=1 - pl.col("ratio"), held_out=1 - pl.col("ratio_held_out"))
    on_gpu = both.filter(gpu=gpu)
    if on_gpu.is_empty():
        return ()

    def span(rows: pl.DataFrame, column: str) -> str:
        ordered = rows[column].drop_nulls().sort()
        first, last = ordered[0], ordered[-1]
        return share(first) if first == last else fraction_range(first, last)

    gpus = both["gpu"].n_unique()
    others = f"; on all {gpus} GPUs {span(both, 'saved')}" if gpus > 1 else ""
    held = on_gpu.drop_nulls("held_out").sort("held_out")
    spanned = span(on_gpu, "held_out" if held.height else "saved")
    heading = f"a better batch size and power limit save {spanned} of the energy"
    optimistic = f"{span(on_gpu, 'saved')} of the energy of the default on {gpu}{others}"
    if held.is_empty():
        text = f"the best batch size and power limit together save {optimistic}"
        return (Finding(f"{text} (measured on the runs that chose them).", heading=heading),)
    ends: list[str] = []
    for row in pl.concat([held.head(1), held.tail(1)]).unique().sort("held_out").rows(named=True):
        of = "" if ends else " of the default's energy"
        end = f"{share(row['held_out'])}{of} for {row['dataset']}"
        if row["ci_low"] is not None:
            end += f" (95 % CI {fraction_range(1 - row['ci_high'], 1 - row['ci_low'])})"
        ends.append(end)
    first = (
        f"held out on {gpu}, the best batch size and power limit save {' to '.join(ends)} "
        f"(n = {plural(held.height, 'data set')})."
    )
    second = f"measured on the runs that chose them, they save {optimistic}, which is "
    return (Finding(first, heading=heading), f"{second}optimistic.")


def _tables(trace: Trace, gpu: str, dataset: str, energy: pl.DataFrame) -> list[page.Block]:
    columns = ("batch_size", "power_limit_w", "tta_s", "eta_j", "runs", "epochs_min", "epochs_max")
    front, weights = energy.filter("on_front"), trace.once(results.weights_of_energy, gpu, dataset)
    of = f"{dataset} on {gpu}"
    caption = f"Configurations on the front: {of}"
    least = f"Configuration of least cost by the weight of energy in the cost: {of}"
    return [
        page.result_table(
            front.sort("tta_s"), tables.EnergyToAccuracy, caption=caption, columns=columns
        ),
        page.result_table(weights, tables.EtaSweep, caption=least),
    ]


def draw_configurations(
    trace: Trace, gpu: str, energy: dict[str, pl.DataFrame], /
) -> list[page.Drawing]:
    """Draw front, maps and power limits of the largest data set, and a sweep of each."""
    dataset = _shown_dataset(energy)
    rows, job = energy[dataset], f"{trace.id}-{gpu}-{dataset}"

    def draw(
        figure: str, result: pl.DataFrame, key: str, what: str, of: str = dataset, **options: str
    ) -> page.Drawing:
        about, subject = what.format(f"to the target of {of} on {gpu}"), f"{of} on {gpu.upper()}"
        return page.drawing(figure, result, trace, key, about, subject=subject, **options)

    pictures = [draw("energy-front", rows, f"front-{job}", "Energy versus time {}")]
    for measure in ("energy", "time"):
        what = f"{measure.capitalize()} {{}} by batch size and power limit"
        pictures.append(draw("energy-map", rows, f"map-{measure}-{job}", what, measure=measure))
    pictures.append(draw("power-sweep", rows, f"power-{job}", "Energy {} by power limit"))
    sweeps = {name: batch_size_sweep(each) for name, each in energy.items()}
    timed = max(sweeps, key=lambda name: (sweeps[name]["batch_size"].n_unique(), name))
    for name, sweep in sweeps.items():
        for measure, what in {"eta": "Energy", "tta": "Time"}.items():
            if measure == "eta" or name == timed:
                key, about = f"sweep-{measure}-{trace.id}-{name}", f"{what} {{}} by batch size"
                pictures.append(draw("batch-sweep", sweep, key, about, name, measure=measure))
    return pictures


SECTION = Section(
    "energy",
    "Energy to accuracy",
    10,
    build,
    needs=results.ENERGY_NEEDS,
    figures=(
        "energy-saved",
        "energy-savings",
        "energy-front",
        "energy-map",
        "power-sweep",
        "batch-sweep",
    ),
    more=draw_more,
    part="Energy",
    question="How much energy do a better batch size and power limit save?",
)
