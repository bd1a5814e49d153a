"""
Energy by batch size
====================

One line per power limit.
"""

import traceana
from traceana.figures import plot_batch_sweep

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = traceana.energy_to_accuracy(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_batch_sweep(traceana.batch_size_sweep(energy))
