"""What training to a target takes, and what choosing batch size and power limit would save."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import energy_savings
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Heading,
    Table,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.energy_front import PAIR, TRACE, build_coverage, build_front
from traceana.report.sections.energy_sweeps import build_sweeps
from traceana.results.formatting import plural, share, share_range

if TYPE_CHECKING:
    from traceana.report.context import Context

_TABLES = ("training_runs", "power_profiles")
_PUBLISHED_GPU = "v100"
_CHOICES = ("batch_size", "power_limit", "both")


def build(session: Context) -> Content:
    """Savings by GPU and data set, what fell out of the join, and the Pareto front."""
    for table in _TABLES:
        if not session.has(TRACE, table):
            what = "Energy to accuracy and savings"
            return Content((), (session.absent(TRACE, table, what=what),))
    runs, power = (session.scan(TRACE, table).collect() for table in _TABLES)
    savings = energy_savings(runs, power)
    name = session.title(TRACE)
    blocks: list[Block] = [
        Text(
            "Time to the target is the mean number of epochs over the runs of a batch size times "
            "the time of an epoch; energy is that times the mean power. The default is the data "
            "set's own batch size, cut to the largest one profiled on the GPU, at the GPU's "
            "largest power limit. A batch size counts only if every run of it reached the target. "
            "Each epoch was measured once, and the best of many noisy configurations looks better "
            "than it is: savings are optimistic. The interval is that of both together, over 1,000 "
            "resamples of the runs of each batch size, with the best configuration chosen anew in "
            "each. It has no width where epochs cancel, the default's batch size being the only "
            "one, or where all runs take as many whole epochs."
        ),
        Gallery(tuple(_bars(savings))),
        _savings(savings, "energy", name, folded=False),
        _savings(savings, "cost", name, folded=True),
        Heading("Energy against time"),
        *build_front(session, runs, power),
        Heading("Energy against the batch size"),
        *build_sweeps(runs, power),
        Heading("What can be judged"),
        Text(
            "Training runs and power profiles are joined on data set, network, batch size and "
            "optimizer. A batch size is left out for the first of these reasons that applies; "
            "with gaps are those profiled at some of the GPU's power limits only."
        ),
        build_coverage(runs, power, name),
    ]
    return Content(tuple(_findings(savings, name)), tuple(blocks))


def _savings(savings: pl.DataFrame, objective: str, name: str, *, folded: bool) -> Table:
    rows = savings.filter(objective=objective)
    on = ["gpu", "dataset"]
    saved = rows.with_columns(saved=1 - pl.col("ratio")).pivot("choice", index=on, values="saved")
    baseline, best = (
        rows.filter(choice=choice).select(
            *on,
            pl.col("batch_size", "power_limit_w", "note").name.suffix(f"_{choice}"),
            (1 - pl.col("ratio_high")).alias(f"low_{choice}"),
            (1 - pl.col("ratio_low")).alias(f"high_{choice}"),
        )
        for choice in ("baseline", "both")
    )
    table = saved.join(baseline, on=on).join(best, on=on).sort(on)
    columns = [
        *PAIR,
        Column("Default", ("batch_size_baseline", "power_limit_w_baseline"), _configuration),
        Column("Batch size alone", "batch_size", share),
        Column("Power limit alone", "power_limit", share),
        Column("Both", "both", share),
        Column("95 % interval", ("low_both", "high_both"), share_range),
        Column("Best", ("batch_size_both", "power_limit_w_both"), _configuration),
        words("Note", "note_both", null=""),
    ]
    what = {
        "energy": "Energy saved, as a share of what the default takes",
        "cost": "Cost saved, as a share of the default's (half energy, half time at the GPU's "
        "largest power)",
    }
    return make_table(table, columns, caption=f"{what[objective]}. {name}", folded=folded)


def _configuration(batch_size: int, power_limit_w: float) -> str:
    return f"{batch_size}, {power_limit_w:g} W"


def _bars(savings: pl.DataFrame) -> list[Drawing]:
    energy = savings.filter(objective="energy")
    return [
        drawing(
            "energy-savings",
            energy.filter(gpu=gpu),
            trace=TRACE,
            key=f"savings-{gpu}",
            about=f"Energy to the target on {gpu} by what is chosen",
        )
        for gpu in energy.filter(pl.col("ratio").is_not_null())["gpu"].unique().sort()
    ]


def _findings(savings: pl.DataFrame, name: str) -> list[str]:
    both = (
        savings.filter(objective="energy", choice="both")
        .drop_nulls("ratio")
        .with_columns(saved=1 - pl.col("ratio"))
    )
    if both.is_empty():
        return []
    on_gpu = both.filter(gpu=_PUBLISHED_GPU)
    if on_gpu.is_empty():
        return [f"{name}: {_range(both, _everywhere(both))}."]
    told = f"{name}: {_range(on_gpu, f'on {_PUBLISHED_GPU}')}"
    if both["gpu"].n_unique() == 1:
        return [f"{told}."]
    least, most = both["saved"].min(), both["saved"].max()
    return [f"{told}; {_everywhere(both)} it is {_span(least, most)}."]


def _range(both: pl.DataFrame, where: str) -> str:
    ordered = both.sort("saved").rows(named=True)
    least, most = ordered[0], ordered[-1]
    return (
        "choosing batch size and power limit together takes "
        f"{_span(least['saved'], most['saved'])} less energy to the target than the default "
        f"{where} (least for {least['dataset']}, most for {most['dataset']}, "
        f"{plural(both['dataset'].n_unique(), 'data set')})"
    )


def _everywhere(both: pl.DataFrame) -> str:
    return f"over {plural(both['gpu'].n_unique(), 'GPU')}"


def _span(low: object, high: object) -> str:
    return f"{share(float(str(low)))} to {share(float(str(high)))}"


SECTION = Section(
    "energy",
    "Energy to accuracy",
    130,
    build,
    figures=("energy-savings", "energy-front", "batch-sweep"),
)
