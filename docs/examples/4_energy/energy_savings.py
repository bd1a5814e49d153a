"""
Savings of each choice
======================

Batch size, power limit, and both, relative to the default.
"""

import traceana
from traceana.figures import plot_energy_savings

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
savings = traceana.energy_savings(runs, profiles)
ax = plot_energy_savings(savings.filter(gpu="v100", objective="energy"))
