"""The best configuration by the weight of energy versus time (Zeus)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.questions.energy.accuracy import configurations
from traceana.questions.energy.tables import EtaSweep
from traceana.schema.training_tables import (
    check_eta,
    default_batch_size,
    max_power_w,
    target_of,
    trained_profiles,
)
from traceana.simulate.recurring.energy_tables import read_tables
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.schema import TrainingDefaults


@returns(EtaSweep)
def eta_sweep(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
    etas: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    defaults: TrainingDefaults | None = None,
) -> pl.DataFrame:
    """Find the configuration of least cost per weight of energy.

    cost_j = eta * eta_j + (1 - eta) * max_power * tta_s (Zeus, NSDI'23, section 3): eta 0 minimizes
    time, eta 1 energy. Savings are those over the default batch size at the largest power limit.

    Parameters
    ----------
    training_runs, power_profiles, gpu, dataset, target, defaults
        As in :func:`energy_to_accuracy`.
    etas
        Weights in [0, 1].

    Returns
    -------
    DataFrame
        One row per weight, in their order; savings are null if the default is not feasible:
        {columns}

    Raises
    ------
    DataError
        As :func:`energy_to_accuracy`; or if no configuration is feasible.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> found = traceana.eta_sweep(runs, power, gpu="v100", dataset="cifar100", etas=[0, 1])
    >>> found.select("eta", "batch_size", "power_limit_w").rows()
    [(0.0, 256, 150.0), (1.0, 128, 150.0)]
    """
    for eta in etas:
        check_eta(eta)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    target = target_of(tables, gpu=gpu, dataset=dataset, target=target)
    energy = configurations(tables, gpu=gpu, dataset=dataset, target=target, eta=1.0)
    if energy.is_empty():
        raise DataError(f"no configuration of {dataset} on {gpu} reaches {target:g} in every run")
    power_w = max_power_w(tables, gpu)
    profiles = trained_profiles(tables, gpu=gpu, dataset=dataset, target=target)
    default = energy.clear()
    if dataset in tables.defaults:
        size = default_batch_size(profiles, tables.defaults[dataset])
        default = energy.filter(batch_size=size, power_limit_w=power_w)
    found = []
    for eta in etas:
        weighed = energy.with_columns(
            cost_j=eta * pl.col("eta_j") + (1 - eta) * power_w * pl.col("tta_s")
        )
        best = weighed.sort("cost_j", "batch_size", "power_limit_w").row(0, named=True)
        saved = {
            f"{name}_saved": None if default.is_empty() else 1 - best[column] / default[column][0]
            for name, column in (("energy", "eta_j"), ("time", "tta_s"))
        }
        found.append({"eta": float(eta), **best, **saved})
    return declared(pl.DataFrame(found, infer_schema_length=None), EtaSweep)
