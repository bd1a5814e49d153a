"""Attributes of workers that explain why a job is slow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from traceana.errors import DataError
from traceana.tables.declare import ResultTable, count, flag, fraction, number, text
from traceana.tables.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping


class StragglerAttributes(ResultTable):
    """One row per job and attribute: its group that costs most."""

    attribute = text("Attribute", "attribute of the workers; `worker`: each worker by itself")
    n_groups = count("Groups", "groups with a value")
    group = text("Slowest group", "group whose slowness costs most")
    n_workers = count("Workers", "workers in that group")
    job = number("Job time", "mean over steps of the slowest worker", display="plain")
    without = number(
        "Without", "the same, if the group were as fast as the others", display="plain"
    )
    gain = fraction("Time gained", "fraction of the job's time gained")
    slowdown = number("Slowdown", "`job` over the mean over steps of the median", display="ratio")
    systematic = fraction(
        "Systematic", "fraction of the time above the median that lasts; null for few steps"
    )
    explained = fraction("Explained", "fraction of what lasts of that time that is gained")
    explained_by_chance = fraction(
        "By chance", "largest of 20 shuffles of times between the workers of each step"
    )
    variance_explained = fraction(
        "Of variance", "fraction of the variance between workers that is between groups"
    )
    pvalue = number(
        "p", "permutation of workers between groups; null for single workers", display="pvalue"
    )
    explains = flag("Explains", "whether it is the attribute that explains the slowness")
    n_steps = count("Steps", "steps with at least two workers")
    n_missing = count("Missing", "rows without a value or a group")
    note = text("Note", "why values are missing, or why no attribute explains the slowness")


class AttributeGroups(ResultTable):
    """One row per job, attribute and group."""

    attribute = text("Attribute")
    group = text("Group")
    n_workers = count("Workers", "workers in the group")
    ratio_to_others = number(
        "Ratio to others", "mean over the mean of the workers outside of the group", display="ratio"
    )
    gain = fraction("Time gained", "if the group were as fast as the others")
    explained = fraction("Explained", "fraction of what lasts of the time above the median")


@dataclass(frozen=True, repr=False, eq=False)
class AttributeResult(Result):
    """What explains the slowness of jobs, as :func:`traceana.straggler_attributes` finds.

    Both frames begin with the columns of `by`.
    """

    tables: ClassVar[Mapping[str, type[ResultTable]]] = {
        "attributes": StragglerAttributes,
        "groups": AttributeGroups,
    }
    drawn_by: ClassVar[str] = "plot_straggler_attributes"

    attributes: pl.DataFrame
    """One row per job and attribute."""
    groups: pl.DataFrame
    """One row per job, attribute and group."""

    def of_job(self, job: object, /) -> AttributeResult:
        """Return the result of one job, by its key; a tuple if several columns are its key.

        Raises a DataError if there is no such job.
        """
        by = self.attributes.columns[: self.attributes.columns.index("attribute")]
        key = job if isinstance(job, tuple) else (job,)
        is_job = [pl.col(n).eq_missing(pl.lit(one)) for n, one in zip(by, key, strict=False)]
        frames = {name: getattr(self, name).filter(*is_job) for name in self.tables}
        if len(key) != len(by) or frames["attributes"].is_empty():
            raise DataError(f"job= is {job!r}; no job has this value of {', '.join(by)}")
        return replace(self, **frames)

    def summary(self) -> str:
        """Return a line per job."""
        explained = self.attributes.filter("explains")
        by = explained.columns[: explained.columns.index("attribute")]
        lines = [
            f"{', '.join(map(str, (row[name] for name in by)))}: {row['attribute']} {row['group']} "
            f"explains {100 * row['explained']:.0f} % of the slowdown; without it the job would "
            f"take {100 * row['gain']:.0f} % less time"
            for row in explained.iter_rows(named=True)
        ]
        return "\n".join(lines) or "no attribute explains the slowness of a job"
