"""Messages for names that do not exist: the name that a reader of other libraries meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_GUESSES: Final = {
    "traceana.read(path), which detects the format": "read_sacct read_slurm read_csv read_json "
    "read_parquet read_trace read_swf read_kubectl read_log scan open from_csv from_pandas",
    "traceana.open_store(path) and its trace(id)": "Session Store open_session session store_path",
    "traceana itself, as traceana.failure_rates": "analysis derived analyze",
    "traceana itself, as traceana.StragglerResult; declarations are in traceana.tables": "results",
    "traceana.load(trace_id)": "load_trace download load_dataset",
    "traceana.open_sample() or traceana.list_traces()": "sample example load_sample datasets",
    "traceana.failure_rates(jobs, by)": "failures failure rate_of_failure error_rate",
    "traceana.gpu_hours_by(jobs, by)": "gpu_hours gpu_time usage users by_user top_users",
    "traceana.queueing_delay(jobs, by)": "waiting_time wait_time waiting_times queue_time "
    "queueing_time queue_delay wait_times waits wait queueing queue_wait",
    "traceana.kaplan_meier(jobs, by)": "survival survival_curve survival_function "
    "KaplanMeierFitter km",
    "traceana.cause_specific_hazards(jobs, features=[...])": "CoxPHFitter cox",
    "traceana.cumulative_incidence(jobs, by)": "AalenJohansenFitter cif",
    "traceana.compare_runtimes(jobs, by)": "logrank log_rank log_rank_test logrank_test anova "
    "mann_whitney mannwhitneyu kruskal ttest ttest_ind",
    "traceana.correlate(jobs, x, y)": "correlation corr pearsonr spearmanr",
    "traceana.runtime_correlations(jobs)": "correlation_matrix correlations",
    "traceana.detect_stragglers(samples)": "stragglers find_stragglers slow_workers",
    "traceana.iteration_cov(samples, ddof=0)": "cov variation",
    "traceana.figures, or plot() of a result": "plot draw plots",
    "traceana.figures.use_style() and use_width()": "set_style style set_theme",
    "traceana.workload_summary(jobs), or summary() of a trace": "summary describe info",
    'traceana.job_quantiles(jobs) or traceana.fit_distributions(jobs["runtime_s"])': "quantiles "
    "runtime_quantiles percentiles runtime_distribution",
    'traceana.fit_distributions(jobs["runtime_s"])': "fit fit_distribution",
    'traceana.empirical_distribution(jobs, "runtime_s")': "ecdf cdf plot_cdf",
    "traceana.interarrivals(jobs) or traceana.arrival_rhythm(jobs, per='hour')": "arrivals "
    "arrival_rate submissions",
    "traceana.concentration(jobs)": "gini lorenz gini_coefficient",
    "traceana.gpu_demand(jobs)": "demand running_jobs cluster_load",
    "traceana.replay_operations, replay_batching or replay_published_draws": "replay",
    "traceana.simulate_schedule(jobs, policy=...)": "simulate_scheduling schedule",
    "traceana.machine_reliability(faults)": "mtbf mttf mttr reliability",
    "traceana.node_failures(jobs)": "bad_nodes failing_nodes failures_by_node nodes",
    "traceana.compare(a, b)": "compare_traces diff",
    "traceana.export_tables(trace_id, out=folder, store=path)": "to_swf write_swf "
    "to_parquet export",
    "traceana.list_traces()": "traces list_datasets catalog_list",
    "traceana.errors": "exceptions",
}
_MEANT: Final = {guess: right for right, guesses in _GUESSES.items() for guess in guesses.split()}
"""Names of earlier versions and of other libraries, and what to use."""


def correct_name(name: str, words: Iterable[str], /, *, of: str = "traceana") -> str:
    """Return the message for a name that a module does not have."""
    missing = f"{of} has no {name!r}"
    names = list(words)
    close = get_close_matches(name, names, n=3, cutoff=0.7)
    close += [other for other in names if len(name) > 3 and name in other and other not in close]
    if name in _MEANT and of == "traceana":
        return f"{missing}: use {_MEANT[name]}"
    if close:
        return f"{missing}: did you mean {', '.join(close[:4])}?"
    return f"{missing}; dir({of}) lists the names"
