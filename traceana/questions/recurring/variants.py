"""Variants of Zeus' policy: other thresholds of early stopping, parts left out, other GPUs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana import simulate
from traceana.questions.energy.analyze import defaults, recurring_sweep, training_tables
from traceana.questions.recurring.tables import PolicyVariants
from traceana.tables.declare import declared, schema_of

if TYPE_CHECKING:
    from traceana.store import Trace

_SEEDS: Final = range(5)
_BETAS: Final = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
_PARTS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "early stopping": {"beta": math.inf},
    "pruning": {"policy": "zeus-no-pruning"},
    "profiling in the first epoch": {"policy": "zeus-no-profiling"},
}


def policy_variants(trace: Trace, gpu: str, /) -> pl.DataFrame:
    """Compare variants of the policy on a GPU, and the policy on every GPU.

    Each sweep has five seeds (ten by GPU); a geometric mean is over the data sets.
    """
    tables, known = training_tables(trace), trace.once(defaults)

    def sweep(**options: Any) -> pl.DataFrame:  # noqa: ANN401  of sweep_recurring
        return simulate.sweep_recurring(*tables, gpus=gpu, seeds=_SEEDS, defaults=known, **options)

    zeus = sweep()
    usual = zeus.select("dataset", "seed", usual_j="energy_j")
    compared = [
        *(("beta", f"{beta:g}", zeus if beta == 2 else sweep(beta=beta)) for beta in _BETAS),
        *(
            ("part left out", name, sweep(**options) if options else zeus)
            for name, options in _PARTS.items()
        ),
    ]
    rows = [
        (what, name, *_means(runs.join(usual, on=("dataset", "seed")), "energy_j", "usual_j"))
        for what, name, runs in compared
    ]
    by_gpu = trace.once(recurring_sweep).with_columns(left=1 - pl.col("energy_saved"), one=1.0)
    rows += [
        ("GPU", str(name), *_means(runs, "left", "one"))
        for (name,), runs in by_gpu.group_by("gpu", maintain_order=True)
    ]
    return declared(
        pl.DataFrame(rows, schema=schema_of(PolicyVariants), orient="row"), PolicyVariants
    )


def _means(runs: pl.DataFrame, value: str, reference: str) -> tuple[object, ...]:
    """Return the geometric mean over data sets, its range over seeds, data sets, what is missing.

    A data set that cannot be simulated with any seed is left out.
    """
    known = runs.drop_nulls([value, reference])
    of_dataset = known.group_by("dataset").agg(
        ratio=pl.col(value).mean() / pl.col(reference).mean()
    )
    mean = of_dataset.select(pl.col("ratio").log().mean().exp()).item()
    ratio = pl.col(value) / pl.col(reference)
    of_seed = known.group_by("seed").agg(ratio=ratio.log().mean().exp())["ratio"]
    there = runs.filter(pl.col("dataset").is_in(of_dataset["dataset"].implode()))
    return mean, of_seed.min(), of_seed.max(), of_dataset.height, there.height - known.height
