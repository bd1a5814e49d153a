"""
Energy by power limit
=====================

One line per batch size.
"""

import traceana
from traceana.figures import plot_power_sweep

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = traceana.energy_to_accuracy(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_power_sweep(energy)
