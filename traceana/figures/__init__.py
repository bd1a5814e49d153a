"""Figures: a finished result in, matplotlib Axes out; nothing is computed while it is drawn."""

from traceana.figures.arrivals import plot_arrivals
from traceana.figures.cov import plot_cov
from traceana.figures.cov_ecdf import plot_cov_ecdf
from traceana.figures.energy_front import plot_energy_front
from traceana.figures.energy_savings import plot_energy_savings
from traceana.figures.gpu_demand import plot_gpu_demand
from traceana.figures.outcome_rates import plot_outcome_rates
from traceana.figures.recurring_choices import plot_recurring_choices
from traceana.figures.registry import FIGURES, FigureEntry, draw_figure
from traceana.figures.regret import plot_regret
from traceana.figures.runtime_by import plot_runtime_by
from traceana.figures.runtime_ratio import plot_runtime_ratio
from traceana.figures.straggler_map import plot_straggler_map
from traceana.figures.style import use_style
from traceana.figures.svg import WATERMARK, mark_synthetic, render_file, render_svg
from traceana.figures.worker_times import draw_worker_times, plot_worker_times

__all__ = [
    "FIGURES",
    "WATERMARK",
    "FigureEntry",
    "draw_figure",
    "draw_worker_times",
    "mark_synthetic",
    "plot_arrivals",
    "plot_cov",
    "plot_cov_ecdf",
    "plot_energy_front",
    "plot_energy_savings",
    "plot_gpu_demand",
    "plot_outcome_rates",
    "plot_recurring_choices",
    "plot_regret",
    "plot_runtime_by",
    "plot_runtime_ratio",
    "plot_straggler_map",
    "plot_worker_times",
    "render_file",
    "render_svg",
    "use_style",
]
