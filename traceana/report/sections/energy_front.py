"""Energy versus time to the target, with the Pareto front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.report.blocks import Block, Gallery, drawing, result_table
from traceana.results.energy import EnergyToAccuracy

if TYPE_CHECKING:
    import polars as pl

    from traceana.report.context import Context


def build_front(
    session: Context, trace: str, gpu: str, energy: dict[str, pl.DataFrame], /
) -> list[Block]:
    """Draw and list the front of the data set with the most configurations."""
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
    return [Gallery((picture,)), table]
