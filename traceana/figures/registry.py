"""Every figure by its id: what draws it, what it takes, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure

from traceana.errors import DataError
from traceana.figures import (
    arrivals,
    batch_sweep,
    batch_time_ecdf,
    batching_iterations,
    batching_replay,
    batching_speedup,
    batching_trajectory,
    concentration,
    cov,
    cov_ecdf,
    cumulative_incidence,
    deadline_tightness,
    distribution_fit,
    energy_front,
    energy_savings,
    failure_calibration,
    failure_odds,
    gpu_demand,
    group_means,
    interarrivals,
    outcome_rates,
    recurring_choices,
    recurring_savings,
    regret,
    runtime_against,
    runtime_by,
    runtime_ratio,
    straggler_map,
    throughput,
    worker_times,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class FigureEntry:
    """A kind of figure.

    Attributes
    ----------
    plot
        Draws a result on axes and returns them.
    describe
        Says in one sentence what the figure of a result shows, with n.
    result
        What the figure takes: a table's rows, or the analysis whose result it is.
    reading
        How the figure is read.
    source
        The published figure that it draws again; "traceana" where it is ours.
    """

    plot: Callable[..., Axes]
    describe: Callable[[pl.DataFrame], str]
    result: str
    reading: str
    source: str = "traceana"

    @property
    def shows(self) -> str:
        """What the figure shows: the first line that `plot` says of itself."""
        return (self.plot.__doc__ or "").partition("\n")[0].removeprefix("Draw ").strip()


FIGURES: Final[dict[str, FigureEntry]] = {
    "worker-times": FigureEntry(
        worker_times.plot_worker_times,
        worker_times.describe_worker_times,
        "worker_samples of one job",
        worker_times.READING,
        "AntMan (OSDI'20): mini-batch time of the ten workers of four jobs",
    ),
    "cov": FigureEntry(
        cov.plot_cov,
        cov.describe_cov,
        "iteration_cov",
        cov.READING,
        "AntMan (OSDI'20): CoV of five sampled jobs",
    ),
    "batch-time-ecdf": FigureEntry(
        batch_time_ecdf.plot_batch_time_ecdf,
        batch_time_ecdf.describe_batch_time_ecdf,
        "worker_samples",
        batch_time_ecdf.READING,
        "AntMan (OSDI'20, Fig. 5b): the distribution of mini-batch time",
    ),
    "cov-ecdf": FigureEntry(
        cov_ecdf.plot_cov_ecdf,
        cov_ecdf.describe_cov_ecdf,
        "iteration_cov",
        cov_ecdf.READING,
        "AntMan (OSDI'20): the distribution of CoV",
    ),
    "straggler-map": FigureEntry(
        straggler_map.plot_straggler_map,
        straggler_map.describe_straggler_map,
        "ratios to peers, with detect_stragglers",
        straggler_map.READING,
    ),
    "runtime-by": FigureEntry(
        runtime_by.plot_runtime_by,
        runtime_by.describe_runtime_by,
        "runtime_by",
        runtime_by.READING,
        "Analyzing ML Training Tasks (Alibaba PAI): mean runtime by GPU type",
    ),
    "runtime-ratio": FigureEntry(
        runtime_ratio.plot_runtime_ratio,
        runtime_ratio.describe_runtime_ratio,
        "summarize_runtime_ratio",
        runtime_ratio.READING,
        "Zeus (NSDI'23): runtime ratios by data set",
    ),
    "arrivals": FigureEntry(
        arrivals.plot_arrivals, arrivals.describe_arrivals, "arrival_rhythm", arrivals.READING
    ),
    "interarrivals": FigureEntry(
        interarrivals.plot_interarrivals,
        interarrivals.describe_interarrivals,
        "interarrival_curve",
        interarrivals.READING,
    ),
    "gpu-demand": FigureEntry(
        gpu_demand.plot_gpu_demand,
        gpu_demand.describe_gpu_demand,
        "gpu_demand or gpu_demand_if_started_at_submission",
        gpu_demand.READING,
    ),
    "energy-savings": FigureEntry(
        energy_savings.plot_energy_savings,
        energy_savings.describe_energy_savings,
        "energy_savings of one GPU and objective",
        energy_savings.READING,
        "Zeus (NSDI'23): batch size, power limit and both, over six data sets",
    ),
    "energy-front": FigureEntry(
        energy_front.plot_energy_front,
        energy_front.describe_energy_front,
        "energy_to_accuracy",
        energy_front.READING,
        "Zeus (NSDI'23): energy against time, with the Pareto front",
    ),
    "batch-sweep": FigureEntry(
        batch_sweep.plot_batch_sweep,
        batch_sweep.describe_batch_sweep,
        "batch_size_sweep",
        batch_sweep.READING,
        "Zeus (NSDI'23): batch-size sweeps",
    ),
    "outcome-rates": FigureEntry(
        outcome_rates.plot_outcome_rates,
        outcome_rates.describe_outcome_rates,
        "outcome_rates",
        outcome_rates.READING,
    ),
    "regret": FigureEntry(
        regret.plot_regret,
        regret.describe_regret,
        "recurrences of simulate_recurring, with their policy",
        regret.READING,
        "Zeus (NSDI'23): regret of a recurring job",
    ),
    "recurring-choices": FigureEntry(
        recurring_choices.plot_recurring_choices,
        recurring_choices.describe_recurring_choices,
        "history of simulate_recurring",
        recurring_choices.READING,
        "Zeus (NSDI'23): choices of a recurring job",
    ),
    "batching-trajectory": FigureEntry(
        batching_trajectory.plot_batching_trajectory,
        batching_trajectory.describe_batching_trajectory,
        "batches of simulate_batching",
        batching_trajectory.READING,
        "Dynamic batching (ACSOS'20): the controller's batches",
    ),
    "batching-speedup": FigureEntry(
        batching_speedup.plot_batching_speedup,
        batching_speedup.describe_batching_speedup,
        "summarize_batching of one overhead and noise",
        batching_speedup.READING,
        "Dynamic batching (ACSOS'20): speed-up by heterogeneity",
    ),
    "batching-replay": FigureEntry(
        batching_replay.plot_batching_replay,
        batching_replay.describe_batching_replay,
        "steps of one job of replay_batching",
        batching_replay.READING,
    ),
    "batching-iterations": FigureEntry(
        batching_iterations.plot_batching_iterations,
        batching_iterations.describe_batching_iterations,
        "workers of one job of replay_batching",
        batching_iterations.READING,
        "Dynamic batching (ACSOS'20): iteration times before and after",
    ),
    "recurring-savings": FigureEntry(
        recurring_savings.plot_recurring_savings,
        recurring_savings.describe_recurring_savings,
        "summarize_recurring",
        recurring_savings.READING,
    ),
    "deadline-tightness": FigureEntry(
        deadline_tightness.plot_deadline_tightness,
        deadline_tightness.describe_deadline_tightness,
        "deadline_tightness by cluster, with the kind of plans",
        deadline_tightness.READING,
    ),
    "throughput": FigureEntry(
        throughput.plot_throughput,
        throughput.describe_throughput,
        "iteration_rates",
        throughput.READING,
    ),
    "concentration": FigureEntry(
        concentration.plot_concentration,
        concentration.describe_concentration,
        "lorenz_curve",
        concentration.READING,
    ),
    "cumulative-incidence": FigureEntry(
        cumulative_incidence.plot_cumulative_incidence,
        cumulative_incidence.describe_cumulative_incidence,
        "cumulative_incidence, one event, with its curves",
        cumulative_incidence.READING,
    ),
    "distribution-fit": FigureEntry(
        distribution_fit.plot_distribution_fit,
        distribution_fit.describe_distribution_fit,
        "fitted_quantiles",
        distribution_fit.READING,
    ),
    "failure-calibration": FigureEntry(
        failure_calibration.plot_failure_calibration,
        failure_calibration.describe_failure_calibration,
        "calibration of failure_model",
        failure_calibration.READING,
    ),
    "failure-odds": FigureEntry(
        failure_odds.plot_failure_odds,
        failure_odds.describe_failure_odds,
        "odds_ratios of failure_model",
        failure_odds.READING,
    ),
    "group-means": FigureEntry(
        group_means.plot_group_means,
        group_means.describe_group_means,
        "mean_by_value, with joint_counts and correlate",
        group_means.READING,
    ),
    "runtime-against": FigureEntry(
        runtime_against.plot_runtime_against,
        runtime_against.describe_runtime_against,
        "mean_by_value of runtimes",
        runtime_against.READING,
        "Analyzing ML Training Tasks (Alibaba PAI): mean runtime against GPU %, CPU %, memory "
        "and size",
    ),
}
"""A new figure is one file and one line here."""


def draw_figure(figure: str, result: pl.DataFrame, /, **options: object) -> Figure:
    """Draw a result as the registered figure of that id, on axes of its own.

    Raises
    ------
    DataError
        If no figure has that id; the message lists the ids.
    """
    if figure not in FIGURES:
        raise DataError(f"no figure is called {figure!r}; the figures are {', '.join(FIGURES)}")
    drawn = FIGURES[figure].plot(result, **options).get_figure(root=True)
    assert isinstance(drawn, Figure)  # noqa: S101  (new axes stand on a new figure)
    return drawn
