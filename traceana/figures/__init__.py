"""Figures: a finished result in, matplotlib Axes out; nothing is computed while it is drawn."""

from traceana.figures.arrivals import plot_arrivals
from traceana.figures.batch_sweep import plot_batch_sweep
from traceana.figures.batch_time_ecdf import plot_batch_time_ecdf
from traceana.figures.batching_iterations import plot_batching_iterations
from traceana.figures.batching_replay import plot_batching_replay
from traceana.figures.batching_speedup import plot_batching_speedup
from traceana.figures.batching_trajectory import plot_batching_trajectory
from traceana.figures.concentration import plot_concentration
from traceana.figures.cov import plot_cov
from traceana.figures.cov_ecdf import plot_cov_ecdf
from traceana.figures.cumulative_incidence import plot_cumulative_incidence
from traceana.figures.deadline_tightness import plot_deadline_tightness
from traceana.figures.distribution_fit import draw_distribution_fit, plot_distribution_fit
from traceana.figures.energy_front import plot_energy_front
from traceana.figures.energy_savings import plot_energy_savings
from traceana.figures.failure_calibration import plot_failure_calibration
from traceana.figures.failure_odds import plot_failure_odds
from traceana.figures.gpu_demand import plot_gpu_demand
from traceana.figures.group_means import plot_group_means
from traceana.figures.interarrivals import plot_interarrivals
from traceana.figures.outcome_rates import plot_outcome_rates
from traceana.figures.recurring_choices import plot_recurring_choices
from traceana.figures.recurring_savings import plot_recurring_savings
from traceana.figures.registry import FIGURES, FigureEntry, draw_figure
from traceana.figures.regret import plot_regret
from traceana.figures.runtime_against import plot_runtime_against
from traceana.figures.runtime_by import plot_runtime_by
from traceana.figures.runtime_ratio import plot_runtime_ratio
from traceana.figures.straggler_map import plot_straggler_map
from traceana.figures.style import use_style
from traceana.figures.svg import WATERMARK, mark_synthetic, render_file, render_svg
from traceana.figures.throughput import plot_throughput
from traceana.figures.worker_times import draw_worker_times, plot_worker_times

__all__ = [
    "FIGURES",
    "WATERMARK",
    "FigureEntry",
    "draw_distribution_fit",
    "draw_figure",
    "draw_worker_times",
    "mark_synthetic",
    "plot_arrivals",
    "plot_batch_sweep",
    "plot_batch_time_ecdf",
    "plot_batching_iterations",
    "plot_batching_replay",
    "plot_batching_speedup",
    "plot_batching_trajectory",
    "plot_concentration",
    "plot_cov",
    "plot_cov_ecdf",
    "plot_cumulative_incidence",
    "plot_deadline_tightness",
    "plot_distribution_fit",
    "plot_energy_front",
    "plot_energy_savings",
    "plot_failure_calibration",
    "plot_failure_odds",
    "plot_gpu_demand",
    "plot_group_means",
    "plot_interarrivals",
    "plot_outcome_rates",
    "plot_recurring_choices",
    "plot_recurring_savings",
    "plot_regret",
    "plot_runtime_against",
    "plot_runtime_by",
    "plot_runtime_ratio",
    "plot_straggler_map",
    "plot_throughput",
    "plot_worker_times",
    "render_file",
    "render_svg",
    "use_style",
]
