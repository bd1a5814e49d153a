"""``traceana simulate recurring --groups``: the groups of recurring jobs of a trace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store.session import Session


def simulate_groups(
    session: Session,
    trace: str,
    workloads: str | None,
    gpu: str | None,
    settings: dict[str, Any],
    /,
    *,
    out: Path | None,
    json: bool,
) -> None:
    """Simulate the groups of a trace and print the savings by data set."""
    import math

    from traceana.cli.output import frame_writer, print_json, print_rows
    from traceana.cli.simulate.choose import mark, qualifying_trace
    from traceana.errors import DataError
    from traceana.questions.energy.analyze import ENERGY_NEEDS, defaults, shown_gpu, training_tables
    from traceana.questions.recurring.analyze import mapped_jobs, workloads_of
    from traceana.simulate import simulate_recurring_groups
    from traceana.simulate.recurring.tables import GroupRuns, GroupsByDataset

    writer = frame_writer(out, GroupRuns)
    workloads = workloads or workloads_of(session, trace)[0] or None
    if workloads is None:
        raise DataError(
            "groups are simulated with the workloads of a trace with training_runs and "
            "power_profiles, and the store has none; ingest one (see `traceana traces`)"
        )
    workloads = qualifying_trace(session, workloads, ENERGY_NEEDS)
    gpu = gpu or shown_gpu(session, workloads)
    jobs = mapped_jobs(session, trace, workloads, gpu)
    result = simulate_recurring_groups(
        *training_tables(session, workloads),
        jobs,
        gpu=gpu,
        defaults=defaults(session, workloads),
        **settings,
    )
    writer(result.history)
    synthetic = session.synthetic(trace) or session.synthetic(workloads)
    table = result.by_dataset()
    if json:
        found = {
            "trace": trace,
            "workloads": workloads,
            "gpu": gpu,
            "policy": result.policy,
            "eta": result.eta,
            "beta": result.beta if math.isfinite(result.beta) else None,
            "synthetic": synthetic,
            "by_dataset": table.to_dicts(),
            "groups": result.groups.to_dicts(),
        }
        print_json(found)
        return
    sys.stdout.write(mark(f"{trace}: {result}", synthetic=synthetic) + "\n\n")
    print_rows(table, GroupsByDataset, null={"dataset": "all"})
