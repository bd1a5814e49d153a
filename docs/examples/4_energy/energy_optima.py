"""
Optima on the front
===================

Configuration of least cost by weight of energy, on the Pareto front.
"""

import traceana
from traceana.figures import plot_energy_optima

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
energy = traceana.energy_to_accuracy(runs, profiles, gpu="v100", dataset="librispeech")
optima = traceana.eta_sweep(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_energy_optima(energy, optima=optima)
