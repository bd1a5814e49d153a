"""
Choices of a recurring job
==========================

The batch size of every run.
"""

import traceana
from traceana.figures import plot_recurring_choices

store = traceana.open_sample()
runs = store.scan("zeus-2023", "training_runs")
profiles = store.scan("zeus-2023", "power_profiles")
result = traceana.simulate_recurring(runs, profiles, gpu="v100", dataset="librispeech")
ax = plot_recurring_choices(result)
