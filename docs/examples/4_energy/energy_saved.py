"""
Savings of recurring jobs
=========================

Energy that the policy of Zeus saves, by data set and GPU, with intervals over seeds.
"""

import traceana
from traceana.figures import plot_energy_saved

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
sweep = traceana.sweep_recurring(runs, profiles, gpu_types="v100", seeds=range(3))
ax = plot_energy_saved(traceana.summarize_recurring(sweep))
