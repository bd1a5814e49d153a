"""Tables of the simulation of placement, in percent of all GPUs."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, number, text

_TIES = "machine that wins among equal scores: that of the smallest name, or a random one"
_ARRIVED = ("Requested (%)", "GPUs requested by the jobs that arrived")
_ALLOCATED = ("Allocated (%)", "GPUs allocated to jobs")
_FRAGMENT = ("Fragment (%)", "free GPUs that typical requests cannot use")


class Placement(ResultTable):
    """GPUs allocated and fragmented as requests arrive."""

    arrived = count(*_ARRIVED, unit="%")
    allocated = number(*_ALLOCATED, unit="%")
    fragment = number(*_FRAGMENT, unit="%")


class PlacementRuns(ResultTable):
    """Simulated placement by policy and seed."""

    policy = text("Policy")
    seed = count("Seed")
    ties = text("Ties", _TIES)
    arrived = count(*_ARRIVED, unit="%")
    allocated = number(*_ALLOCATED, unit="%")
    fragment = number(*_FRAGMENT, unit="%")


class PlacementSummary(ResultTable):
    """Means over seeds of the simulated placement."""

    policy = text("Policy")
    ties = text("Ties", _TIES)
    arrived = count(*_ARRIVED, unit="%")
    n = count("Seeds")
    allocated = number(*_ALLOCATED, unit="%")
    allocated_std = number("Std. dev.", "standard deviation of `allocated` over seeds", unit="%")
    fragment = number(*_FRAGMENT, unit="%")
    fragment_std = number("Std. dev.", "standard deviation of `fragment` over seeds", unit="%")
