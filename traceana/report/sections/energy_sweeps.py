"""Energy and time to the target against the batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import batch_size_sweep, energy_to_accuracy
from traceana.report.blocks import Block, Gallery, Text, drawing
from traceana.report.sections.energy_front import TRACE
from traceana.schema import TRAINING_DEFAULTS

if TYPE_CHECKING:
    from traceana.report.blocks import Drawing

_GPU: Final = "v100"
_TIMED: Final = "librispeech"
"""The data set whose time is drawn beside its energy."""


def build_sweeps(runs: pl.DataFrame, power: pl.DataFrame) -> list[Block]:
    """Draw the sweep of each data set on the publisher's GPU."""
    pictures: list[Drawing] = []
    for dataset in power.filter(gpu=_GPU)["dataset"].unique().sort():
        if dataset not in TRAINING_DEFAULTS:
            continue
        target = pl.col("target_metric").is_close(TRAINING_DEFAULTS[dataset].target)
        if runs.filter(target, dataset=dataset).is_empty():
            continue
        energy = energy_to_accuracy(runs, power, gpu=_GPU, dataset=dataset)
        if energy.is_empty():
            continue
        sweep = batch_size_sweep(energy)
        for measure, what in (("eta", "Energy"), ("tta", "Time")):
            if measure == "tta" and dataset != _TIMED:
                continue
            pictures.append(
                drawing(
                    "batch-sweep",
                    sweep,
                    trace=TRACE,
                    key=f"sweep-{measure}-{dataset}",
                    about=f"{what} to the target of {dataset} on {_GPU} by batch size",
                    measure=measure,
                )
            )
    if not pictures:
        return [Text(f"No batch size on {_GPU} is both trained and profiled.")]
    return [Gallery(tuple(pictures))]
