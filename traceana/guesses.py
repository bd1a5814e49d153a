"""Messages for names that do not exist: the name that a reader of other libraries meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_READ: Final = "traceana.read(path), which detects the format"
_STORE: Final = "traceana.open_store(path) and its trace(id)"
_HERE: Final = "traceana itself, as traceana.failure_rates"
_MEANT: Final = {
    **dict.fromkeys(
        (
            "read_sacct",
            "read_slurm",
            "read_csv",
            "read_json",
            "read_parquet",
            "read_trace",
            "read_swf",
            "read_kubectl",
            "scan",
            "open",
            "from_csv",
            "read_log",
        ),
        _READ,
    ),
    **dict.fromkeys(("Session", "Store", "open_session", "session", "store_path"), _STORE),
    **dict.fromkeys(("analysis", "derived", "analyze"), _HERE),
    "results": "traceana itself, as traceana.StragglerResult; declarations are in traceana.tables",
    **dict.fromkeys(("load_trace", "download", "load_dataset"), "traceana.load(trace_id)"),
    **dict.fromkeys(("sample", "example", "load_sample", "datasets"), "traceana.open_sample()"),
    **dict.fromkeys(("failures", "failure", "rate_of_failure"), "traceana.failure_rates(jobs, by)"),
    **dict.fromkeys(
        ("gpu_hours", "gpu_time", "usage", "users", "by_user"), "traceana.gpu_hours_by(jobs, by)"
    ),
    **dict.fromkeys(
        (
            "waiting_time",
            "wait_time",
            "waiting_times",
            "queue_time",
            "queueing_time",
            "queue_delay",
            "wait_times",
            "waits",
            "wait",
            "queueing",
        ),
        "traceana.queueing_delay(jobs, by=None)",
    ),
    **dict.fromkeys(
        ("survival", "survival_curve", "KaplanMeierFitter", "km"), "traceana.kaplan_meier(jobs)"
    ),
    **dict.fromkeys(("CoxPHFitter", "cox"), "traceana.cause_specific_hazards(jobs, features)"),
    "AalenJohansenFitter": "traceana.cumulative_incidence(jobs)",
    **dict.fromkeys(("correlation", "corr", "pearsonr", "spearmanr"), "traceana.correlate"),
    **dict.fromkeys(("stragglers", "find_stragglers"), "traceana.detect_stragglers(samples)"),
    **dict.fromkeys(("cov", "variation"), "traceana.iteration_cov(samples)"),
    **dict.fromkeys(("plot", "draw", "plots"), "traceana.figures, or plot() of a result"),
    **dict.fromkeys(
        ("summary", "describe", "info"),
        "traceana.workload_summary(jobs), or summary() of a trace",
    ),
    "fit": "traceana.fit_distributions(jobs)",
    "ecdf": "traceana.empirical_distribution(jobs)",
    "replay": "traceana.replay_operations, replay_batching or replay_published_draws",
    "simulate_scheduling": "traceana.simulate_schedule(jobs, policy=...)",
    "mtbf": "traceana.machine_reliability(faults)",
    "exceptions": "traceana.errors",
}
"""Names of earlier versions and of other libraries, and what to use."""


def correct_name(name: str, known: Iterable[str], /) -> str:
    """Return the message for a name that traceana does not have."""
    missing = f"traceana has no {name!r}"
    if name in _MEANT:
        return f"{missing}: use {_MEANT[name]}"
    names = list(known)
    close = get_close_matches(name, names, n=3, cutoff=0.7)
    close += [other for other in names if len(name) > 3 and name in other and other not in close]
    if close:
        return f"{missing}: did you mean {', '.join(close[:4])}?"
    return f"{missing}; dir(traceana) lists the names, traceana.figures has the plots"
