"""Tables of the variation between workers."""

from __future__ import annotations

from traceana.results.tables import ResultTable, count, number


class IterationCov(ResultTable):
    """Coefficient of variation of each iteration."""

    n_workers = count("Workers", "workers with a value at this time")
    mean = number("Mean", "mean over the workers, in the unit of the value")
    std = number("Standard deviation", "over the workers, in the unit of the value")
    cov = number("CoV", "`std` divided by `mean`; null where the mean is 0", display="ratio")
