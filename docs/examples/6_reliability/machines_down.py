"""
Machines down
=============

Machines with at least one fault at a time.
"""

import numpy as np
import polars as pl

import traceana
from traceana.figures import plot_machines_down

rng = np.random.default_rng(1)
start_s = rng.uniform(0, 180 * 86_400, 120)
machines = [*rng.integers(100, size=110), *[7] * 10]  # machine 7 fails ten times more
faults = pl.DataFrame({"machine_id": machines, "start_s": start_s})
faults = faults.with_columns(end_s=start_s + rng.lognormal(11, 1, 120))
window = (0, 180 * 86_400)
ax = plot_machines_down(traceana.machine_reliability(faults, total_machines=100, window=window))
