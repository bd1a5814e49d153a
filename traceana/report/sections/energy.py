"""Section on energy to accuracy: savings, Pareto fronts, batch sizes and coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import batch_size_sweep
from traceana.derived.energy import (
    ENERGY_NEEDS,
    configurations,
    coverage,
    savings,
    shown_gpu,
    weights_of_energy,
)
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Table,
    Text,
    drawing,
    join_parts,
    result_table,
)
from traceana.report.section import Section
from traceana.results.energy import (
    CoverageCounts,
    EnergyToAccuracy,
    EtaSweep,
    SavingsByChoice,
)
from traceana.results.formatting import plural, share

if TYPE_CHECKING:
    from traceana.report.context import Context

_OPENING: Final = (
    "Time to the target is the mean number of epochs over the runs of a batch size times the time "
    "of an epoch; energy is that times the mean power. The default is the batch size of the data "
    "set, reduced to the largest one profiled on the GPU, at the largest power limit of the GPU. A "
    "batch size is feasible only if every run of it reached the target. Each epoch was measured "
    "once. The best of many configurations is in part the luckiest: the savings of held-out runs, "
    "which did not choose the batch size, have no such bias. The 95 % intervals around them are "
    "Welch's, from the runs of both batch sizes; where the epochs cancel there is none."
)
_CAPTIONS: Final = {
    "energy": "Energy saved, as a percentage of that of the default",
    "cost": "Cost saved, as a percentage of that of the default (half energy, half time at the "
    "largest power of the GPU)",
}
_REASONS: Final = {
    "missed": "a run never reached the target",
    "unknown": "a run has no row at the target",
    "trained": "trained only",
    "profiled": "profiled only",
}


def build(session: Context, traces: list[str]) -> Content:
    """Show savings, fronts, sweeps and coverage of each trace."""
    return join_parts(
        _OPENING, ((session.title(trace), _trace(session, trace)) for trace in traces)
    )


def _trace(session: Context, trace: str) -> Content:
    saved, title = session.once(savings, trace), session.title(trace)
    gpu = shown_gpu(session, trace)
    energy = session.once(configurations, trace, gpu)
    blocks: list[Block] = [
        Gallery(tuple(_bars(saved, trace))),
        _savings(saved, "energy", title, folded=False),
        _savings(saved, "cost", title, folded=True),
    ]
    if energy:
        blocks += [
            Heading("Energy versus time"),
            *build_front(session, trace, gpu, energy),
            Heading("Energy versus batch size"),
            *build_sweeps(trace, gpu, energy),
        ]
    blocks += [
        Heading("Coverage"),
        Text(
            "Training runs and power profiles are joined on data set, network, batch size and "
            "optimizer. A batch size is excluded for the first of these reasons that applies; "
            "batch sizes with gaps were profiled at some of the power limits only."
        ),
        _coverage(session.once(coverage, trace), title),
    ]
    return Content(tuple(_findings(saved, gpu, title)), tuple(blocks))


def _savings(savings: pl.DataFrame, objective: str, title: str, *, folded: bool) -> Table:
    rows = savings.filter(objective=objective)
    on = ["gpu", "dataset"]
    fractions = rows.with_columns(saved=1 - pl.col("ratio")).pivot(
        "choice", index=on, values="saved"
    )
    configuration = pl.format(
        "{}, {} W", "batch_size", pl.col("power_limit_w").cast(pl.String).str.strip_suffix(".0")
    )
    default = rows.filter(choice="baseline").select(*on, default=configuration)
    best = rows.filter(choice="both").select(
        *on,
        "note",
        best=configuration,
        held_out=1 - pl.col("ratio_held_out"),
        ci_low=1 - pl.col("ci_high"),
        ci_high=1 - pl.col("ci_low"),
    )
    return result_table(
        fractions.join(default, on=on).join(best, on=on).sort(on),
        SavingsByChoice,
        caption=f"{_CAPTIONS[objective]}. {title}",
        columns=list(SavingsByChoice.columns()),
        null={"note": ""},
        folded=folded,
    )


def _coverage(batches: pl.DataFrame, title: str) -> Table:
    feasible = pl.col("feasible")
    counts = batches.group_by("gpu", "dataset", maintain_order=True).agg(
        feasible.sum().cast(pl.Int64),
        gaps=(feasible & (pl.col("power_limits_missing") > 0)).sum(),
        **{name: (pl.col("note") == note).sum() for name, note in _REASONS.items()},
        min_runs=pl.col("runs").filter(feasible).min(),
    )
    return result_table(
        counts, CoverageCounts, caption=f"Batch sizes by feasibility. {title}", folded=True
    )


def _bars(savings: pl.DataFrame, trace: str) -> list[Drawing]:
    energy = savings.filter(objective="energy")
    return [
        drawing(
            "energy-savings",
            energy.filter(gpu=gpu),
            trace=trace,
            key=f"savings-{trace}-{gpu}",
            about=f"Energy to the target on {gpu} by choice",
        )
        for gpu in energy.filter(pl.col("ratio").is_not_null())["gpu"].unique().sort()
    ]


def _findings(savings: pl.DataFrame, gpu: str, title: str) -> list[str]:
    both = (
        savings.filter(objective="energy", choice="both")
        .drop_nulls("ratio")
        .with_columns(saved=1 - pl.col("ratio"))
        .sort("saved")
    )
    on_gpu = both.filter(gpu=gpu)
    if on_gpu.is_empty():
        return []
    least, most = on_gpu.row(0, named=True), on_gpu.row(-1, named=True)
    others = (
        ""
        if both["gpu"].n_unique() == 1
        else (
            f"; on all {both['gpu'].n_unique()} GPUs {share(both['saved'][0])} to "
            f"{share(both['saved'][-1])}"
        )
    )
    effect = (
        f"{title}: the best batch size and power limit together save {share(least['saved'])} to "
        f"{share(most['saved'])} of the energy of the default on {gpu} (least for "
        f"{least['dataset']}, most for {most['dataset']}, {plural(on_gpu.height, 'data set')})"
    )
    return [f"{effect}{others}."]


def build_front(
    session: Context, trace: str, gpu: str, energy: dict[str, pl.DataFrame], /
) -> list[Block]:
    """Draw the front and maps of the data set with the most configurations."""
    dataset = max(energy, key=lambda name: (energy[name].height, name))
    picture = drawing(
        "energy-front",
        energy[dataset],
        trace=trace,
        key=f"front-{trace}-{gpu}-{dataset}",
        about=f"Energy versus time to the target of {dataset} on {gpu}",
    )
    columns = ("batch_size", "power_limit_w", "tta_s", "eta_j", "runs", "epochs_min", "epochs_max")
    table = result_table(
        energy[dataset].filter("on_front").sort("tta_s"),
        EnergyToAccuracy,
        caption=f"Configurations on the front: {dataset} on {gpu}. {session.title(trace)}",
        columns=columns,
    )
    maps = [
        drawing(
            "energy-map",
            energy[dataset],
            trace=trace,
            key=f"map-{measure}-{trace}-{gpu}-{dataset}",
            about=f"{measure.capitalize()} to the target of {dataset} on {gpu} by batch size and "
            "power limit",
            measure=measure,
        )
        for measure in ("energy", "time")
    ]
    power = drawing(
        "power-sweep",
        energy[dataset],
        trace=trace,
        key=f"power-{trace}-{gpu}-{dataset}",
        about=f"Energy to the target of {dataset} on {gpu} by power limit",
    )
    weights = result_table(
        session.once(weights_of_energy, trace, gpu, dataset),
        EtaSweep,
        caption="Configuration of least cost by the weight of energy in the cost: "
        f"{dataset} on {gpu}. {session.title(trace)}",
    )
    return [Gallery((picture, *maps, power)), table, weights]


def build_sweeps(trace: str, gpu: str, energy: dict[str, pl.DataFrame], /) -> list[Block]:
    """Draw the energy of each data set, and the time of the one with the most batch sizes."""
    sweeps = {dataset: batch_size_sweep(rows) for dataset, rows in energy.items()}
    timed = max(sweeps, key=lambda name: (sweeps[name]["batch_size"].n_unique(), name))
    pictures = tuple(
        drawing(
            "batch-sweep",
            sweep,
            trace=trace,
            key=f"sweep-{measure}-{trace}-{dataset}",
            about=f"{what} to the target of {dataset} on {gpu} by batch size",
            measure=measure,
        )
        for dataset, sweep in sweeps.items()
        for measure, what in (("eta", "Energy"), ("tta", "Time"))
        if measure == "eta" or dataset == timed
    )
    return [Gallery(pictures)]


SECTION = Section(
    "energy",
    "Energy to accuracy",
    130,
    build,
    needs=ENERGY_NEEDS,
    figures=("energy-savings", "energy-front", "energy-map", "power-sweep", "batch-sweep"),
    part="Energy",
    question="How much energy do a better batch size and power limit save?",
)
