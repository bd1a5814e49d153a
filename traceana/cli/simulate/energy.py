"""``traceana simulate energy``: time and energy to accuracy over batch size and power limit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from traceana.cli.options import (
    EtaOption,
    JsonOption,
    OutOption,
    StoreOption,
    TraceArgument,
    option,
)
from traceana.cli.output import Shown, print_result, write_frame
from traceana.cli.simulate.choose import open_simulated, qualifying_trace
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_SHOWN: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j", "cost_j", "on_front", "runs")


def energy(
    *,
    trace: TraceArgument = None,
    gpu: Annotated[
        str | None, option("GPU as in the trace.  [default: the GPU with the most profiles]")
    ] = None,
    dataset: Annotated[
        str | None, option("Data set as in the trace.  [default: all, best only]")
    ] = None,
    eta: EtaOption = 0.5,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Compute time, energy and cost to a target.

    cost = eta * energy + (1 - eta) * largest power limit * time. Without --dataset, the
    configuration of least cost of each data set; with it, every configuration.
    """
    from traceana.questions.energy.accuracy import energy_to_accuracy, eta_sweep
    from traceana.questions.energy.savings import ENERGY_NEEDS, defaults, shown_gpu, training_tables
    from traceana.questions.energy.tables import EnergyToAccuracy, EtaSweep

    chosen = qualifying_trace(open_simulated(store), trace, ENERGY_NEEDS)
    tables = training_tables(chosen)
    gpu = gpu or shown_gpu(chosen)
    about = {"gpu": gpu, "dataset": dataset, "eta": eta, "synthetic": chosen.synthetic}
    settings: dict[str, Any] = {"gpu": gpu, "defaults": defaults(chosen)}
    if dataset is None:
        best = _least(tables, eta, settings)
        write_frame(best, out, EtaSweep)
        title = f"{gpu}: configuration of least cost by data set, eta {eta:g}"
        print_result(title, about, Shown(name="best", frame=best, table=EtaSweep), as_json=json)
        return
    rows = energy_to_accuracy(*tables, eta=eta, dataset=dataset, **settings)
    etas = sorted({0.0, 0.25, 0.5, 0.75, 1.0, eta})
    weights = eta_sweep(*tables, etas=etas, dataset=dataset, **settings)
    write_frame(rows, out, EnergyToAccuracy)
    front = rows.filter("on_front").sort("tta_s")
    print_result(
        f"{dataset} on {gpu}: {rows.height:,} configurations, {front.height} on the Pareto front",
        about,
        Shown(
            name="configurations", frame=rows, table=EnergyToAccuracy, columns=_SHOWN, rows=front
        ),
        Shown(
            name="by_eta",
            frame=weights,
            table=EtaSweep,
            title="Configuration of least cost by weight of energy",
        ),
        as_json=json,
    )


def _least(
    tables: tuple[pl.DataFrame, pl.DataFrame], eta: float, settings: dict[str, Any]
) -> pl.DataFrame:
    import polars as pl

    from traceana.questions.energy.accuracy import eta_sweep
    from traceana.schema.training_tables import check_eta, check_one_of

    check_eta(eta)
    gpu, profiles = settings["gpu"], tables[1]
    check_one_of("gpu", gpu, profiles["gpu"])
    rows = []
    for name in profiles.filter(gpu=gpu)["dataset"].unique().sort():
        try:
            best = eta_sweep(*tables, dataset=name, etas=[eta], **settings)
        except DataError as error:
            sys.stderr.write(f"traceana: note: {error}\n")
            continue
        rows.append(best.select(pl.lit(name).alias("dataset"), pl.all()))
    if not rows:
        raise DataError(f"no data set of {gpu} has a feasible configuration")
    return pl.concat(rows)
