"""Results on robust means of runtimes, and on the variance between users."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, number, text

_CI = "95 % CI"


class RuntimeMeans(ResultTable):
    """Means of runtimes that a heavy tail does not decide."""

    n = count("Runtimes", "rows with a runtime")
    geometric_mean_s = number(
        "Geometric mean (s)", "of the runtimes above 0", display="seconds", unit="s"
    )
    geometric_ci_low = number(f"{_CI} (s)", "confidence interval", display="seconds", unit="s")
    geometric_ci_high = number(f"{_CI} (s)", "confidence interval", display="seconds", unit="s")
    trimmed_mean_s = number(
        "Trimmed mean (s)", "mean without the shortest and longest", display="seconds", unit="s"
    )
    trimmed_ci_low = number(f"{_CI} (s)", "confidence interval", display="seconds", unit="s")
    trimmed_ci_high = number(f"{_CI} (s)", "confidence interval", display="seconds", unit="s")
    n_zero = count("Runtimes of 0", "runtimes of 0 s, without a logarithm")
    n_missing = count("Without runtime", "rows without a runtime (null or NaN)")
    n_clusters = count("Clusters", "clusters among the rows, only with `cluster`", optional=True)
    note = text("Note", "why there is no interval")


class VarianceBetween(ResultTable):
    """Fraction of the variance between clusters."""

    share = number("Between clusters", "intraclass correlation, at least 0", display="ratio")
    ci_low = number(_CI, "its interval; null below 20 clusters", display="ratio")
    ci_high = number(_CI, "its interval; null below 20 clusters", display="ratio")
    n = count("Rows", "rows with a value")
    n_clusters = count("Clusters", "clusters among these rows")
    n_missing = count("Excluded", "rows without a value")
    note = text("Note", "why a value is null")
