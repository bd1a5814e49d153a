"""``traceana simulate place``: jobs that share GPUs, placed as a cluster fills up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from traceana.cli.options import JsonOption, OutOption, StoreOption, argument, option
from traceana.cli.output import frame_writer, print_json, print_rows, show_share
from traceana.cli.simulate.choose import load_objects, open_simulated, print_title, qualifying_trace

if TYPE_CHECKING:
    import polars as pl

    from traceana.store import Trace

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
    from traceana.simulate.placement.sweep import sweep_placement
    from traceana.simulate.placement.tables import PlacementRuns
    from traceana.stats.arguments import MOST_RESAMPLES, check_choice, check_count

    check_count("--seeds", seeds, most=MOST_RESAMPLES)
    check_choice("--ties", ties, _TIES)
    writer = frame_writer(out, PlacementRuns)
    policies = load_objects(policy, "--policy")
    chosen = qualifying_trace(open_simulated(store), trace, _NEEDED)
    jobs, machines = chosen.jobs, chosen.table("machines")
    drawn = range(1, seeds + 1)
    with show_share("placement") as progress:
        runs = sweep_placement(
            jobs, machines, policies=policies, seeds=drawn, ties=(ties,), progress=progress
        )
    writer(runs)
    about = _describe(chosen, jobs, machines)
    if json:
        print_json({**about, "results": runs.to_dicts()})
    else:
        _print(about, runs)


def _describe(trace: Trace, jobs: pl.DataFrame, machines: pl.DataFrame) -> dict[str, Any]:
    with_gpus = machines.filter(machines["gpus"] > 0)
    return {
        "trace": trace.id,
        "synthetic": trace.synthetic,
        "jobs": jobs["gpus"].count(),
        "machines": with_gpus.height,
        "gpus": with_gpus["gpus"].sum(),
        "jobs_without_gpu_number": jobs["gpus"].null_count(),
    }


def _print(about: dict[str, Any], runs: pl.DataFrame) -> None:
    import polars as pl

    from traceana.simulate.placement.sweep import summarize_placement
    from traceana.simulate.placement.tables import PlacementSummary

    title = (
        f"{about['trace']}: {about['jobs']:,} jobs on {about['machines']:,} machines with "
        f"{about['gpus']:,.0f} GPUs"
    )
    if left_out := about["jobs_without_gpu_number"]:
        title += f"; {left_out:,} jobs without a number of GPUs are excluded"
    print_title(f"{title}\n", synthetic=about["synthetic"])
    shown = summarize_placement(runs).filter(pl.col("arrived").is_in(_SHOWN))
    print_rows(shown, PlacementSummary)
