"""Tables of who used a cluster, and which groups fail more often than the rest."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, fraction, number, text

_CI = "95 % CI"


class GpuHours(ResultTable):
    """GPU-hours by group, with what was lost."""

    jobs = count("Jobs")
    n_missing = count("GPU-hours missing", "jobs whose GPUs or runtime are missing")
    gpu_hours = number("GPU-hours", display="hours", unit="h")
    share = fraction("Of all", "fraction of the GPU-hours of all groups")
    failed = fraction("Failed", "fraction of the group's GPU-hours in failed jobs")
    cancelled = fraction("Cancelled", "fraction of the group's GPU-hours in cancelled jobs")
    users = count("Users", "distinct users of the group; only with `user`", optional=True)
    note = text("Note", "jobs whose start or end is not recorded")
