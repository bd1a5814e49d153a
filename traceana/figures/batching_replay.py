"""A recorded job's steps over time, had its batches been split by one controller or another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.figures.controllers import look_of
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Line: time of a step, that of its slowest worker, had the recorded workers been given their "
    "batches by that controller; shaded: a worker is in a straggler's episode, darker where more "
    "than one is."
)


@figure("batching-replay", result="steps of one job of replay_batching")
def plot_batching_replay(
    steps: pl.DataFrame, /, *, ax: Axes | None = None, episodes: pl.DataFrame | None = None
) -> Axes:
    """Draw the time of each step against the trace's clock, one line a controller.

    Parameters
    ----------
    steps
        [job_id, controller, time_s, step_time]: rows of one job of `steps` of a `replay_batching`
        result, of the controllers to show.
    ax
        Axes to draw on; by default those of a new figure.
    episodes
        [onset_s, end_s] of that job, shaded; by default none.

    Returns
    -------
    Axes
        Lines in the order of their rows, the later on top.

    Raises
    ------
    DataError
        If the rows are not those of exactly one job.
    """
    jobs = steps["job_id"].unique().to_list()
    if len(jobs) != 1:
        raise DataError(f"plot_batching_replay draws one job, and these are steps of {len(jobs)}")
    with use_style():
        ax = start_axes(ax)
        if episodes is not None:
            spans = episodes.select("onset_s", "end_s").unique(maintain_order=True)
            for number, (onset_s, end_s) in enumerate(spans.iter_rows()):
                ax.axvspan(
                    onset_s,
                    end_s,
                    color="#D55E00",
                    alpha=0.13,
                    linewidth=0,
                    gid=f"episode-{number}",
                )
        for (name,), own in steps.group_by("controller", maintain_order=True):
            look, rows = look_of(str(name)), own.sort("time_s")
            ax.plot(
                rows["time_s"], rows["step_time"], color=look.colour, drawstyle="steps-post",
                label=name, gid=str(name), linewidth=0.7,
            )  # fmt: skip
        ax.set_ylim(bottom=0)
        ax.margins(x=0)
        ax.set_title(str(jobs[0]), pad=16)
        ax.set_xlabel("Time since the job began (s)")
        ax.set_ylabel("Time of a step\n(1/1000 of the job's largest)")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.locator_params(axis="x", nbins=5)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
        return ax


def describe_batching_replay(steps: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these steps shows."""
    told = ", ".join(
        f"{name} {own['step_time'].to_numpy().mean():,.0f}"
        for (name,), own in steps.group_by("controller", maintain_order=True)
    )
    return f"{steps['time_s'].n_unique():,} steps, on average {told}."
