"""Table of the replayed jobs of a trace."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, number, text


class OperationJobs(ResultTable):
    """Replayed jobs: step times, slowdown and what explains it."""

    job_id = text("Job")
    steps = count("Steps")
    workers = count("Workers")
    t_measured_s = number("Measured (s)", "mean step time, first start to last end", unit="s")
    t_original_s = number("Replayed (s)", "mean step time without launch delays", unit="s")
    t_ideal_s = number("Ideal (s)", "mean step time with ideal durations", unit="s")
    slowdown = number("Slowdown", "t_original_s over t_ideal_s")
    m_s = number(
        "Last stage explains (M_S)",
        "fraction that the last stage explains by removal",
        display="percent",
    )
    m_w = number(
        "Slowest workers explain (M_W)",
        "fraction that the slowest workers explain by removal",
        display="percent",
    )
    slowest_workers = text("Slowest workers", "slowest 3 % of the workers")
    replay_error = number("Replay error", "largest relative error with launch delays")
    note = text("Note", "why a job was not replayed")
