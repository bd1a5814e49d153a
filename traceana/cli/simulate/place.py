"""``traceana simulate place``: jobs that share GPUs, placed as a cluster fills up."""

from __future__ import annotations

from typing import Annotated, Final

from traceana.cli.options import JsonOption, OutOption, StoreOption, argument, option
from traceana.cli.output import Shown, print_result, show_fraction, write_frame
from traceana.cli.simulate.choose import load_objects, open_simulated, qualifying_trace

_NEEDED: Final = ({"jobs": ("gpus",), "machines": ("gpus",)},)
_POLICIES: Final = "random,dotprod,clustering,packing,bestfit,fgd"
_TIES: Final = ("name", "random")
_SHOWN: Final = (50, 80, 100, 120)


def place(
    *,
    trace: Annotated[str, argument("Trace of the store with jobs and machines.", "TRACE")],
    policy: Annotated[
        str,
        option(
            "random, dotprod, clustering, packing, bestfit, fgd, or package.module:name.",
            "NAME,...",
        ),
    ] = _POLICIES,
    seeds: Annotated[int, option("Number of runs: seeds 1 to N.")] = 3,
    ties: Annotated[
        str,
        option("Which machine to take among equal scores: by name, or at random.", "name|random"),
    ] = "name",
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Fill a cluster with jobs that share GPUs.

    Jobs arrive in random order until they request 130 % of the GPUs, and never leave. Prints the
    GPUs allocated, and those that are a fragment, in percent of all GPUs.
    """
    import polars as pl

    from traceana.simulate.placement.sweep import summarize_placement, sweep_placement
    from traceana.simulate.placement.tables import PlacementRuns, PlacementSummary
    from traceana.simulate.placement.workload import Workload
    from traceana.stats.arguments import MOST_RESAMPLES, check_choice, check_count

    check_count("--seeds", seeds, most=MOST_RESAMPLES)
    check_choice("--ties", ties, _TIES)
    policies = load_objects(policy, "--policy")
    chosen = qualifying_trace(open_simulated(store), trace, _NEEDED)
    jobs, machines = chosen.jobs, chosen.table("machines")
    drawn = range(1, seeds + 1)
    with show_fraction("placement") as progress:
        runs = sweep_placement(
            jobs, machines, policies=policies, seeds=drawn, ties=(ties,), progress=progress
        )
    write_frame(runs, out, PlacementRuns)
    with_gpus = machines.filter(machines["gpus"] > 0)
    without = jobs["gpus"].null_count()
    unplaceable = Workload(jobs, machines).count_unplaceable()
    note = f"; {unplaceable:,} jobs fit on no machine, even if all are empty" if unplaceable else ""
    note += f"; {without:,} jobs without a number of GPUs are excluded" if without else ""
    about = {
        "trace": chosen.id,
        "synthetic": chosen.synthetic,
        "jobs": jobs["gpus"].count(),
        "machines": with_gpus.height,
        "gpus": with_gpus["gpus"].sum(),
        "jobs_without_gpu_number": without,
        "jobs_that_fit_on_no_machine": unplaceable,
    }
    summary = summarize_placement(runs).filter(pl.col("arrived").is_in(_SHOWN))
    print_result(
        f"{chosen.id}: {about['jobs']:,} jobs on {with_gpus.height:,} machines with "
        f"{about['gpus']:,.0f} GPUs{note}\n",
        about,
        Shown(name="results", frame=runs, table=PlacementSummary, rows=summary),
        as_json=json,
    )
