"""
Variants of a policy
====================

Energy of a policy by its threshold of early stopping.
"""

import polars as pl

import traceana
from traceana.figures import plot_policy_variants

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = {
    beta: traceana.sweep_recurring(
        runs, profiles, gpu_types="v100", datasets="cifar100", seeds=range(3), beta=beta
    )["energy_j"]
    for beta in (2, 3, 5)
}
rows = [
    ("beta", str(beta), *(getattr(e / energy[2].mean(), name)() for name in ("mean", "min", "max")))
    for beta, e in energy.items()
]
columns = ["comparison", "variant", "energy", "energy_low", "energy_high"]
ax = plot_policy_variants(pl.DataFrame(rows, schema=columns, orient="row"))
