"""``traceana simulate energy``: time and energy to accuracy over batch size and power limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from traceana.cli.options import (
    EtaOption,
    JsonOption,
    OutOption,
    StoreOption,
    TraceArgument,
    option,
)
from traceana.cli.output import frame_writer, print_json, print_rows
from traceana.cli.simulate.choose import open_simulated, print_title, qualifying_trace
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_SHOWN: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j", "cost_j", "on_front", "runs")


def energy(
    *,
    trace: TraceArgument = None,
    gpu: Annotated[
        str | None,
        option("GPU as in the trace.  [default: the GPU with the most profiles]"),
    ] = None,
    dataset: Annotated[
        str | None, option("Data set as in the trace.  [default: all, best only]")
    ] = None,
    target: Annotated[float | None, option("Target metric.  [default: the data set's]")] = None,
    eta: EtaOption = 0.5,
    figures: Annotated[
        Path | None,
        option("Write heat maps, sweeps and the Pareto front of a data set as SVG.", "DIR"),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Compute time, energy and cost to a target.

    cost = eta * energy + (1 - eta) * largest power limit * time. Without --dataset, the
    configuration of least cost of each data set; with it, every configuration.
    """
    from traceana.questions.energy.accuracy import energy_to_accuracy, eta_sweep
    from traceana.questions.energy.analyze import ENERGY_NEEDS, defaults, shown_gpu, training_tables
    from traceana.questions.energy.tables import EnergyToAccuracy, EtaSweep

    if dataset is None and (figures or target is not None):
        raise DataError("--figures and --target are for one data set; pass --dataset")
    writer = frame_writer(out, EtaSweep if dataset is None else EnergyToAccuracy)
    found_trace = qualifying_trace(open_simulated(store), trace, ENERGY_NEEDS)
    tables = training_tables(found_trace)
    known = defaults(found_trace)
    gpu = gpu or shown_gpu(found_trace)
    synthetic = found_trace.synthetic
    if dataset is None:
        found = _least(tables, gpu, eta, known)
        writer(found)
        if json:
            print_json({"gpu": gpu, "eta": eta, "synthetic": synthetic, "best": found.to_dicts()})
            return
        title = f"{gpu}: configuration of least cost by data set, eta {eta:g}"
        print_title(title, synthetic=synthetic)
        headings = {"dataset": "Data set"}
        print_rows(found, EtaSweep, columns=found.columns, headings=headings)
        return
    asked: dict[str, Any] = {"gpu": gpu, "dataset": dataset, "target": target, "defaults": known}
    rows = energy_to_accuracy(*tables, eta=eta, **asked)
    etas = sorted({0.0, 0.25, 0.5, 0.75, 1.0, eta})
    weights = eta_sweep(*tables, etas=etas, **asked)
    writer(rows)
    if figures:
        drawn = _draw(rows, figures, f"{gpu}-{dataset}", synthetic=synthetic)
        sys.stderr.write("".join(f"traceana: wrote {path}\n" for path in drawn))
    if json:
        found_json = {"gpu": gpu, "dataset": dataset, "target": target, "eta": eta}
        frames = {"configurations": rows.to_dicts(), "by_eta": weights.to_dicts()}
        print_json({**found_json, "synthetic": synthetic, **frames})
        return
    front = rows.filter("on_front").sort("tta_s")
    title = (
        f"{dataset} on {gpu}: {rows.height:,} configurations, {front.height} on the Pareto front"
    )
    print_title(title, synthetic=synthetic)
    print_rows(front, EnergyToAccuracy, columns=_SHOWN)
    sys.stdout.write("\nConfiguration of least cost by weight of energy\n")
    print_rows(weights, EtaSweep)


def _least(
    tables: tuple[pl.DataFrame, pl.DataFrame], gpu: str, eta: float, known: dict[str, Any]
) -> pl.DataFrame:
    import polars as pl

    from traceana.questions.energy.accuracy import eta_sweep
    from traceana.schema.training_tables import check_eta, check_one_of

    check_eta(eta)
    check_one_of("gpu", gpu, tables[1]["gpu"])
    found = []
    for name in tables[1].filter(gpu=gpu)["dataset"].unique().sort():
        try:
            best = eta_sweep(*tables, gpu=gpu, dataset=name, etas=[eta], defaults=known)
        except DataError as error:
            sys.stderr.write(f"traceana: note: {error}\n")
            continue
        found.append(best.select(pl.lit(name).alias("dataset"), pl.all()))
    if not found:
        raise DataError(f"no data set of {gpu} has a feasible configuration")
    return pl.concat(found)


def _draw(rows: pl.DataFrame, folder: Path, name: str, *, synthetic: bool) -> list[Path]:
    from traceana.figures import draw_figure, mark_synthetic, render_svg
    from traceana.questions.energy.accuracy import batch_size_sweep

    pictures: list[tuple[str, Any, dict[str, str]]] = [
        ("energy-map", rows, {"measure": measure}) for measure in ("energy", "time", "cost")
    ]
    pictures += [("power-sweep", rows, {"measure": measure}) for measure in ("energy", "time")]
    sweep = batch_size_sweep(rows)
    pictures += [("batch-sweep", sweep, {"measure": measure}) for measure in ("eta", "tta")]
    pictures.append(("energy-front", rows, {}))
    if rows.is_empty():
        raise DataError("no configuration is feasible; there is nothing to draw")
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure, result, options in pictures:
            drawn = draw_figure(figure, result, **options)
            if synthetic:
                mark_synthetic(drawn)
            parts = (figure, name, *options.values())
            path = folder / ("-".join(parts).replace("/", "_") + ".svg")
            path.write_text(render_svg(drawn, prefix="energy-"), encoding="utf-8")
            paths.append(path)
    except OSError as error:
        raise DataError(f"--figures {folder}: cannot be written ({error.strerror})") from None
    return paths
