"""
Energy versus time
==================

Each configuration of batch size and power limit, and the Pareto front.
"""

import traceana
from traceana.figures import plot_energy_front

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = traceana.energy_to_accuracy(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_energy_front(energy)
