"""Content of a section that treats one cohort after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from traceana.cohorts.cohort import Cohort, form_cohort
from traceana.page.blocks import Content, join_parts
from traceana.store import Trace


def build_per_cohort(
    traces: Sequence[Trace],
    build: Callable[[Cohort], Content],
    /,
    *,
    opening: str,
    end_imputation: str = "drop",
) -> Content:
    """Build the content of each trace's cohort, under a heading with its title."""
    cohorts = [form_cohort(trace, end_imputation=end_imputation) for trace in traces]
    contents = [build(cohort).of(cohort.title) for cohort in cohorts]
    headings = (f"{cohort.title}: {cohort.noun}" for cohort in cohorts)
    joined = join_parts(opening, zip(headings, contents, strict=True))
    doubts = [
        f"{f'{cohort.title}: ' * (len(cohorts) > 1)}{cohort.doubt}"
        for cohort, content in zip(cohorts, contents, strict=True)
        if content.findings and cohort.doubt
    ]
    return replace(joined, limitations=" ".join(filter(None, [joined.limitations, *doubts])))
