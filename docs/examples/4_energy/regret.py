"""
Cumulative regret
=================

Cost above that of the best configuration, summed over recurrences.
"""

import polars as pl

import traceana
from traceana.figures import plot_regret

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
results = [
    traceana.simulate_recurring(runs, profiles, gpu="v100", dataset="librispeech", policy=policy)
    for policy in ("zeus", "grid")
]
regret = pl.concat(
    result.recurrences.with_columns(policy=pl.lit(result.policy)) for result in results
)
ax = plot_regret(regret)
