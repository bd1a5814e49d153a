"""Tables of who used a cluster, and which groups fail more often than the rest."""

from __future__ import annotations

from traceana.results.tables import ResultTable, count, fraction, number, text

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


class FailureOutliers(ResultTable):
    """Groups compared with all other rows of the same strata."""

    n = count("Ended", "successes and failures of the group")
    failures = count("Failures")
    expected = number(
        "Expected", "failures at the rate of all rows of the same strata", display="ratio"
    )
    odds_ratio = number("Odds ratio", "Mantel-Haenszel, against all other rows")
    ci_low = number(_CI, "Robins, Breslow and Greenland's interval")
    ci_high = number(_CI, "Robins, Breslow and Greenland's interval")
    pvalue = number("p", "Cochran-Mantel-Haenszel test", display="pvalue")
    pvalue_adjusted = number("Adjusted p", "Holm's, over the groups tested", display="pvalue")
    note = text("Note", "why a value is null")
