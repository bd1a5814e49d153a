"""
Search path
===========

Configurations that a policy runs, on the map of their costs.
"""

import traceana
from traceana.figures import plot_search_path

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = traceana.energy_to_accuracy(runs, profiles, gpu="v100", dataset="librispeech")
result = traceana.simulate_recurring(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_search_path(energy, history=result.history)
