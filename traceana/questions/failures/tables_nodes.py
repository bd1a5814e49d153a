"""Result table of the failures of nodes."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, number, text

_CI = "95 % CI"


class NodeFailures(ResultTable):
    """Failures of each node, compared with comparable jobs on other nodes."""

    n = count("Jobs", "ended jobs on the node for which other nodes have comparable jobs")
    failures = count("Failures", "failed jobs, without user limits such as the time limit")
    expected = number("Expected", "failures at the rate of comparable jobs on other nodes")
    ratio = number("Ratio", "failures over expected failures")
    ci_low = number(_CI, "interval of the ratio for another such period")
    ci_high = number(_CI, "interval of the ratio for another such period")
    lost_gpu_hours = number(
        "GPU-hours lost",
        "GPU-hours in failed jobs beyond the expected failures",
        display="hours",
        unit="h",
    )
    pvalue = number("p", "of at least as many failures, one-sided", display="pvalue")
    pvalue_adjusted = number("Adjusted p", "Holm's, over the nodes", display="pvalue")
    note = text("Note", "why a value is null")
