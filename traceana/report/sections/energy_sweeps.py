"""Energy and time to the target versus the batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.analysis import batch_size_sweep
from traceana.report.blocks import Block, Gallery, drawing

if TYPE_CHECKING:
    import polars as pl


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
