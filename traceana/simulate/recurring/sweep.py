"""Sweep of recurring jobs over GPUs, data sets and seeds, and its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.schema.training_tables import check_one_of
from traceana.simulate.frames import over_seeds, read_result, with_intervals
from traceana.simulate.recurring.energy_tables import read_tables
from traceana.simulate.recurring.policies import PolicyMaker, policy_maker
from traceana.simulate.recurring.read import read_job
from traceana.simulate.recurring.recurrences import (
    check_knobs,
    count_recurrences,
    recur,
)
from traceana.simulate.recurring.replications import reference_points, replication
from traceana.simulate.recurring.tables import Sweep, SweepSummary
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.schema import TrainingDefaults
    from traceana.simulate.recurring.job import JobTrace

_MOST_SEEDS: Final = 100_000
_SUMMARIZED: Final = ("energy_saved", "time_saved", "cost_saved", "regret_fraction")
_READ: Final = ("gpu", "dataset", "runs", "points_missing", "note", *_SUMMARIZED)


@returns(Sweep)
def sweep_recurring(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpus: str | Sequence[str] | None = None,
    datasets: str | Sequence[str] | None = None,
    seeds: Iterable[int] = range(10),
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
    defaults: TrainingDefaults | None = None,
    policy: str | PolicyMaker = "zeus",
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    """Simulate all recurring jobs of a trace with several seeds.

    Parameters
    ----------
    training_runs, power_profiles, eta, beta, recurrences, defaults, policy
        As in :func:`simulate_recurring`.
    gpus, datasets
        One or several; None: all that were profiled.
    seeds
        Seeds, one replication each.
    progress
        Called after each job with the completed fraction.

    Returns
    -------
    DataFrame
        One row per (gpu, dataset, seed), trained to the default target. Sums are over all runs,
        savings over the last five recurrences. What cannot be simulated is null, with a note:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> sweep = traceana.sweep_recurring(runs, power, datasets="cifar100", seeds=[1, 2])
    >>> sweep.select("gpu", "seed", "recurrences").rows()[:2]
    [('a40', 1, 180), ('a40', 2, 180)]
    """
    if not isinstance(seeds, Iterable):
        raise DataError(f"seeds must be several whole numbers, such as range(10); it is {seeds!r}")
    seeds = list(islice(seeds, _MOST_SEEDS + 1))
    check_knobs(eta=eta, beta=beta, seeds=seeds, recurrences=recurrences)
    _, maker = policy_maker(policy)
    if not 0 < len(seeds) <= _MOST_SEEDS:
        raise DataError(f"seeds must be 1 to {_MOST_SEEDS:,}")
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    jobs = _profiled(tables.power_profiles, gpu=gpus, dataset=datasets)
    rows: list[dict[str, object]] = []
    for done, (gpu, dataset) in enumerate(jobs, 1):
        key: dict[str, object] = {"gpu": gpu, "dataset": dataset}
        try:
            job = read_job(tables, gpu=gpu, dataset=dataset)
        except DataError as error:
            rows += [{**key, "seed": seed, "note": str(error)} for seed in seeds]
        else:
            replications = _replications(
                job, maker, seeds, eta=eta, beta=beta, recurrences=recurrences
            )
            rows += [{**key, **row} for row in replications]
        if progress is not None:
            progress(done / len(jobs))
    return declared(pl.DataFrame(rows, schema=schema_of(Sweep)), Sweep)


def _profiled(power: pl.DataFrame, **wanted: str | Sequence[str] | None) -> list[tuple[str, str]]:
    """Return the GPU and the data set of each profiled job, of all or of those wanted."""
    jobs = power.select("gpu", "dataset").unique().sort("gpu", "dataset")
    for column, given in wanted.items():
        if given is not None:
            names = [given] if isinstance(given, str) else list(given)
            for name in names:
                check_one_of(column, name, power[column])
            jobs = jobs.filter(pl.col(column).is_in(names))
    return jobs.rows()


def _replications(
    job: JobTrace,
    maker: PolicyMaker,
    seeds: Sequence[int],
    *,
    eta: float,
    beta: float,
    recurrences: int | None,
) -> Iterator[dict[str, object]]:
    number = count_recurrences(job, recurrences)
    references = reference_points(job, eta=eta)
    note = "; ".join(references["note"].drop_nulls()) or None
    for seed in seeds:
        try:
            runs = recur(job, maker, eta=eta, beta=beta, recurrences=number, rng=seed)
        except DataError as error:
            yield {"seed": seed, "note": str(error)}
        else:
            yield {"seed": seed, "note": note, **replication(job, runs, references)}


@returns(SweepSummary)
def summarize_recurring(sweep: IntoFrame, /, *, confidence: float = 0.95) -> pl.DataFrame:
    """Average savings and regret over the seeds of a sweep.

    The intervals cover the randomness of the simulation only. They do not cover that each epoch
    was measured once and each batch size was trained a few times.

    Parameters
    ----------
    sweep
        What :func:`sweep_recurring` returns.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per (gpu, dataset). Means are over the seeds that could be simulated, which is
        optimistic for a job with seeds_failed. Bounds are null for fewer than two:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> sweep = traceana.sweep_recurring(runs, power, datasets="cifar100", seeds=[1, 2])
    >>> found = traceana.summarize_recurring(sweep)
    >>> found.filter(gpu="v100").select("seeds", pl.col("energy_saved").round(1)).rows()
    [(2, 0.7)]
    """
    simulated = pl.col("runs").is_not_null()
    rows = read_result(sweep, Sweep, _READ, "summarize_recurring")
    grouped = rows.group_by("gpu", "dataset", maintain_order=True).agg(
        *over_seeds(_SUMMARIZED),
        seeds=simulated.sum().cast(pl.Int64),
        seeds_failed=(~simulated).sum().cast(pl.Int64),
        points_missing=pl.col("points_missing").max(),
        note=pl.col("note").drop_nulls().first(),
    )
    return declared(with_intervals(grouped, _SUMMARIZED, confidence=confidence), SweepSummary)
