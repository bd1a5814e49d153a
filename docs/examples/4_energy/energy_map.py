"""
Energy by batch size and power limit
====================================

A heat map; ``measure`` is energy, time or cost.
"""

import traceana
from traceana.figures import plot_energy_map

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = traceana.energy_to_accuracy(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_energy_map(energy)
