"""``traceana simulate recurring --groups``: the groups of recurring jobs of a trace."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl

from traceana.cli.output import frame_writer, print_json, print_rows
from traceana.cli.simulate.choose import print_title, qualifying_trace
from traceana.errors import DataError
from traceana.questions.energy.analyze import ENERGY_NEEDS, defaults, shown_gpu, training_tables
from traceana.questions.recurring.analyze import mapped_jobs, workloads_of
from traceana.simulate import simulate_recurring_groups
from traceana.simulate.recurring.tables import GroupRuns, GroupsByDataset
from traceana.store import Trace


def simulate_groups(
    trace: Trace,
    workloads: str | None,
    gpu: str | None,
    settings: dict[str, Any],
    /,
    *,
    out: Path | None,
    json: bool,
) -> None:
    """Simulate the groups of a trace under each policy and print the savings by data set."""
    writer = frame_writer(out, GroupRuns)
    first = workloads_of(trace)[0]
    if workloads is None and first is None:
        raise DataError(
            "groups are simulated with the workloads of a trace with training_runs and "
            "power_profiles, and the store has none; ingest one (see `traceana traces`)"
        )
    chosen = first if workloads is None and first else None
    chosen = chosen or qualifying_trace(trace.store, workloads, ENERGY_NEEDS)
    gpu = gpu or shown_gpu(chosen)
    jobs = mapped_jobs(trace, chosen, gpu)
    policies = settings.pop("policies")
    results = [
        simulate_recurring_groups(
            *training_tables(chosen),
            jobs,
            gpu=gpu,
            defaults=defaults(chosen),
            policy=policy,
            **settings,
        )
        for policy in policies
    ]
    several = len(results) > 1
    writer(
        pl.concat(
            each.history.select(*([pl.lit(each.policy).alias("policy")] * several), pl.all())
            for each in results
        )
    )
    synthetic = trace.synthetic or chosen.synthetic
    if json:
        found = [
            {
                "trace": trace.id,
                "workloads": chosen.id,
                "gpu": gpu,
                "policy": result.policy,
                "eta": result.eta,
                "beta": result.beta if math.isfinite(result.beta) else None,
                "synthetic": synthetic,
                "by_dataset": result.by_dataset().to_dicts(),
                "groups": result.groups.to_dicts(),
            }
            for result in results
        ]
        print_json({"results": found} if several else found[0])
        return
    for result in results:
        print_title(f"{trace.id}: {result}\n", synthetic=synthetic)
        print_rows(result.by_dataset(), GroupsByDataset, null={"dataset": "all"})
