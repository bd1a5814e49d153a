"""A map of the ratios to the peers of each job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.derived import workers
from traceana.report.blocks import drawing, picture_key
from traceana.results.formatting import plural

if TYPE_CHECKING:
    from traceana.report.blocks import Drawing
    from traceana.report.context import Context
    from traceana.results.stragglers import StragglerResult


def draw_jobs(
    session: Context, trace: str, result: StragglerResult, max_drawn: int
) -> list[Drawing]:
    """Return the maps of the first jobs whose workers have peers."""
    pictures = []
    for job in result.jobs.sort(*workers.JOB_ORDER)["job_id"].head(max_drawn):
        own = result.of_job(job)
        if not (own.ratios["ratio_to_peers"].drop_nulls() > 0).any():
            continue  # a single worker has no peers
        episodes, slow = own.jobs.select("n_episodes", "n_slow_workers").row(0)
        pictures.append(
            drawing(
                "straggler-map",
                own,
                trace=trace,
                key=picture_key("stragglers", trace, job),
                about=f"Stragglers of {job}: "
                + (
                    "cannot be judged"
                    if episodes is None
                    else f"{_number(episodes, 'episode')}, {_number(slow, 'persistent straggler')}"
                ),
                time=workers.clock(session, trace),
            )
        )
    return pictures


def _number(number: int, noun: str) -> str:
    return plural(number, noun) if number else f"no {noun}"
