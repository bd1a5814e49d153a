"""Table of runtime predictions."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, fraction, interval, number, text


class RuntimePredictions(ResultTable):
    """Scores of predicted runtimes, one row per predictor and quantile."""

    predictor = text("Predictor", "all, last, mean, quantile or model")
    quantile = number("Quantile", "quantile of the runtime that is predicted", display="plain")
    n = count("Jobs", "jobs submitted after the split")
    n_excluded = count("Excluded", "jobs without a submission, an end or a runtime")
    with_history = fraction("With history", "jobs of which the same job had ended before")
    pinball_s = number("Pinball loss (s)", "mean over jobs", display="seconds", unit="s")
    coverage = fraction("Below", "jobs that ran at most as long as predicted")
    skill = number("Skill", "1 - loss over that of predictor all", display="percent")
    ci_low, ci_high = interval(description="of skill", display="percent")
    note = text("Note", "that the rows are likely not independent", optional=True)
