"""What judges and the report's sections both take from a store; ask for it with `Data.once`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.analysis import (
    deadline_rules,
    detect_stragglers,
    iteration_rates,
    match_cov_rows,
    task_runtimes,
)

if TYPE_CHECKING:
    import polars as pl

    from traceana.analysis import StragglerResult
    from traceana.claims.data import Data

_MINIBATCH: Final = "alibaba-minibatch-2020"
_ELASTICFLOW: Final = "elasticflow-2023"
_PAI: Final = "alibaba-pai-2020"


def stragglers(data: Data, /) -> StragglerResult:
    """Return the stragglers of the jobs with worker times."""
    return detect_stragglers(data.scan(_MINIBATCH, "worker_samples"))


def cov_matches(data: Data, /) -> pl.DataFrame:
    """Return the rows of the published CoV table that those jobs are most like."""
    return match_cov_rows(
        data.scan(_MINIBATCH, "worker_samples"), data.scan(_MINIBATCH, "cov_samples")
    )


def rules(data: Data, /) -> pl.DataFrame:
    """Return the rules that the published deadlines follow."""
    return deadline_rules(data.scan(_ELASTICFLOW, "training_plans"), _jobs(data))


def rates(data: Data, /) -> pl.DataFrame:
    """Return the throughputs behind the published deadlines."""
    return iteration_rates(data.scan(_ELASTICFLOW, "training_plans"), _jobs(data))


def pai_runtimes(data: Data, /) -> pl.DataFrame:
    """Return the runtimes of PAI's tasks, instances without an end left out."""
    tasks, instances = (data.frame(_PAI, table) for table in ("tasks", "instances"))
    return task_runtimes(tasks, instances, missing_end="drop")


def _jobs(data: Data) -> pl.LazyFrame:
    return data.scan(_ELASTICFLOW, "jobs")
