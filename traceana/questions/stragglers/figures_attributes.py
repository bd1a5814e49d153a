"""Time gained if one group of workers were as fast as the others, by attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.drawing.labels import small_size
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, start_axes
from traceana.errors import DataError
from traceana.tables.formatting import share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from traceana.questions.stragglers.tables_attributes import AttributeResult


@figure(
    "straggler-attributes",
    result="straggler_attributes of one job",
    reading="Dot: time gained if one group of the attribute were as fast as the other workers. "
    "Label: the group that gains most, and the number of its workers. Filled: the attribute that "
    "explains the slowness.",
)
def plot_straggler_attributes(
    result: AttributeResult, /, *, ax: Axes | None = None, job: object = None
) -> Axes:
    """Draw the job time that each group of workers costs, one row per attribute.

    Parameters
    ----------
    result
        What `straggler_attributes` returns.
    job
        Key of the job to draw; not needed if the result has one job.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> step = {"job_id": "a", "step": [0] * 6, "rank": range(6), "stage": [0, 0, 1, 1, 2, 2]}
    >>> samples = pl.DataFrame(step | {"compute_s": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]})
    >>> found = traceana.straggler_attributes(
    ...     samples, attributes="stage", time="step", worker="rank", value="compute_s"
    ... )
    >>> found.plot().get_xlabel()
    'Job time gained'
    """
    result = _one_job(result, job)
    names = result.attributes["attribute"].to_list()
    ax = start_axes(ax, height_in=0.9 + 0.3 * len(names))
    for row, found in enumerate(result.attributes.iter_rows(named=True)):
        gains = result.groups.filter(attribute=found["attribute"])["gain"].fill_null(0.0)
        color = color_of(1 if found["explains"] else 0)
        ax.scatter(
            gains, [row] * len(gains), s=18, edgecolors=color, linewidths=1.0, clip_on=False,
            facecolors=color if found["explains"] else "none", gid=f"attribute-{row}",
        )  # fmt: skip
        ax.annotate(
            _name(found), (gains.to_numpy().max(), row),
            xytext=(6, 0), textcoords="offset points", va="center", fontsize=small_size(),
        )  # fmt: skip
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, max(0.1, 1.3 * result.groups["gain"].fill_null(0.0).to_numpy().max()))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_xlabel("Job time gained")
    ax.set_ylabel("Attribute")
    return ax


def _name(found: dict[str, Any]) -> str:
    """Return the group that gains most, with its number of workers if it has several."""
    name = f"{found['attribute'].replace('_', ' ')} {found['group']}"
    return name if found["n_workers"] == 1 else f"{name} ({found['n_workers']} workers)"


def describe_straggler_attributes(result: AttributeResult, *, job: object = None) -> str:
    """Return one sentence on what the figure of a result shows."""
    result = _one_job(result, job)
    found = result.attributes.filter("explains")
    if found.is_empty():
        return "No attribute explains the slowness."
    row = found.row(0, named=True)
    return (
        f"{row['attribute']} {row['group']} explains {share(row['explained'])} of the slowdown "
        f"and costs {share(row['gain'])} of the job's time."
    )


def _one_job(result: AttributeResult, job: object) -> AttributeResult:
    result = result if job is None else result.of_job(job)
    if result.groups.is_empty() or result.attributes["attribute"].is_duplicated().any():
        found = result.attributes.filter(pl.col("attribute") == "worker").height
        raise DataError(f"one job with two workers is needed; found {found} jobs; pass job=")
    return result
