"""Table of the simulation of placement."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, number


class Placement(ResultTable):
    """GPUs allocated and fragmented as requests arrive, in percent of all GPUs."""

    arrived = count("Requested (%)", "GPUs requested by the jobs that arrived", unit="%")
    allocated = number("Allocated (%)", "GPUs allocated to jobs", unit="%")
    fragment = number("Fragment (%)", "free GPUs that typical requests cannot use", unit="%")
