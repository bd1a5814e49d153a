"""Sums, savings and regret of a history of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.simulate.recurring.tables import LAST, References, Runs
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.simulate.recurring.job import JobTrace
    from traceana.simulate.recurring.run import Run

_MEASURES: Final = ("energy_j", "time_s", "cost_j")


def history_frame(history: Sequence[tuple[int, Run]], /) -> pl.DataFrame:
    """Return a history as a frame, one row per run."""
    rows = [(recurrence, *run) for recurrence, run in history]
    return pl.DataFrame(rows, schema=schema_of(Runs), orient="row")


def reference_points(job: JobTrace, /, *, eta: float) -> pl.DataFrame:
    """Return the expected energy, time and cost of the default and of the oracle.

    They are null, with a note, where a run misses the target or the point was not measured.
    """
    points = {"default": (job.default_batch_size, job.max_power_w), "oracle": job.best(eta)}
    rows = []
    for policy, point in points.items():
        expected = point and job.expected(*point)
        row: dict[str, object] = {"policy": policy}
        if point:
            row |= {"batch_size": point[0], "power_limit_w": point[1]}
        if expected:
            measures = (*expected, job.cost(*expected, eta))
            row |= dict(zip(_MEASURES, measures, strict=True))
        else:
            row["note"] = _why_unknown(job, policy)
        rows.append(row)
    return pl.DataFrame(rows, schema=schema_of(References))


def _why_unknown(job: JobTrace, policy: str) -> str:
    if policy == "oracle":
        return "of every batch size a run missed the target"
    if job.max_power_w not in job.batches[job.default_batch_size].limits:
        return f"batch size {job.default_batch_size} was not profiled at {job.max_power_w:g} W"
    return f"a run of batch size {job.default_batch_size} missed the target"


def by_recurrence(history: pl.DataFrame, references: pl.DataFrame, /) -> pl.DataFrame:
    """Sum the runs of each recurrence; regret is null where there is no oracle."""
    oracle_j = references.filter(policy="oracle")["cost_j"].item()
    return (
        history.group_by("recurrence", maintain_order=True)
        .agg(
            runs=pl.len().cast(pl.Int64),
            batch_size=pl.col("batch_size").last(),
            power_limit_w=pl.col("power_limit_w").last(),
            energy_j=pl.col("energy_j").sum(),
            time_s=pl.col("time_s").sum(),
            cost_j=pl.col("cost_j").sum(),
        )
        .with_columns(
            cumulative_cost_j=pl.col("cost_j").cum_sum(),
            regret_j=pl.col("cost_j") - pl.lit(oracle_j, pl.Float64),
        )
        .with_columns(cumulative_regret_j=pl.col("regret_j").cum_sum())
    )


def replication(
    job: JobTrace, history: Sequence[tuple[int, Run]], references: pl.DataFrame, /
) -> dict[str, object]:
    """Return sums, savings of the last recurrences and regret of a history.

    energy_saved = 1 - (mean energy of the last five recurrences, all their runs) / (the default's
    expected energy), and so for time and cost; null where the default's is unknown.
    """
    runs = [run for _, run in history]
    recurrences = history[-1][0]
    last = min(LAST, recurrences)
    ended = [run for recurrence, run in history if recurrence > recurrences - last]
    default, oracle = references.rows(named=True)
    row: dict[str, object] = {
        "recurrences": recurrences,
        "runs": len(runs),
        "runs_missed": sum(not run.reached for run in runs),
        "batch_sizes_tried": len({run.batch_size for run in runs}),
        "points_missing": int(job.gaps["points_missing"].sum()),
    }
    for measure in _MEASURES:
        row[measure] = sum(getattr(run, measure) for run in runs)
        mean = sum(getattr(run, measure) for run in ended) / last
        saved = measure.rsplit("_", 1)[0] + "_saved"
        row[saved] = None if default[measure] is None else 1 - mean / default[measure]
    cost_j = sum(run.cost_j for run in runs)
    expected_j = None if oracle["cost_j"] is None else recurrences * oracle["cost_j"]
    row["regret_j"] = None if expected_j is None else cost_j - expected_j
    row["regret_fraction"] = None if not expected_j else cost_j / expected_j - 1
    return row
