"""Whether the models of published plans are the draws of one seeded generator."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.simulate.deadlines.tables import PublishedDraws
from traceana.store.frames import collect, open_frame
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_PUBLISHED: Final = tomllib.loads(
    files("traceana.simulate.deadlines").joinpath("published.toml").read_text(encoding="utf-8")
)
PAIRS: Final = tuple((model, batch_size) for model, batch_size in _PUBLISHED["pairs"])
"""The pairs of model and batch size, in the order in which the published draws number them."""


@returns(PublishedDraws)
def replay_published_draws(
    training_plans: IntoFrame, /, *, testbed: str = "195job"
) -> pl.DataFrame:
    """Compare the models of plans with one seeded sequence of draws.

    Job ids of the ElasticFlow files are the first 128-bit numbers of Python's generator with seed
    42, which reveals the order of the jobs. In that order, the (model, batch size) pairs of each
    file (without the jobs of the testbed) follow ``random.Random(0).choice`` over 14 pairs. For
    each job the next draw of its pair is taken. A draw that is passed over belongs to a job that is
    not in the file. Or the pair was drawn again because it has no rate at the GPUs of the job.
    Other equally likely draws would pass over 13 per job on average.

    Parameters
    ----------
    training_plans
        [cluster, job_id, model, batch_size]; eager or lazy, of any supported engine.
    testbed
        Cluster whose jobs repeat those of the others.

    Returns
    -------
    DataFrame
        Sorted by cluster:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> plans = pl.DataFrame(
    ...     {"cluster": "c1", "job_id": "a", "model": ["vgg16"], "batch_size": 64}
    ... )
    >>> found = traceana.replay_published_draws(plans)
    >>> found.select("cluster", "n", "n_as_drawn", "n_passed_over").rows()
    [('c1', 1, 0, None)]
    """
    lazy = open_frame(training_plans, keys=("cluster", "job_id", "model"), measures=("batch_size",))
    plans = collect(lazy).cast({"cluster": pl.String, "job_id": pl.String, "model": pl.String})
    place = _places(set(plans["job_id"].drop_nulls().to_list()))
    repeated = set(plans.filter(cluster=testbed)["job_id"].to_list())
    rows = []
    for (cluster,), group in sorted(plans.group_by("cluster"), key=lambda item: str(item[0][0])):
        table = group.select("job_id", "model", "batch_size").drop_nulls()
        ordered = sorted(
            (place[job], (model, int(batch)))
            for job, model, batch in table.rows()
            if job in place and (cluster == testbed or job not in repeated)
        )
        matched, passed = _walk([pair for _, pair in ordered])
        rows.append((cluster, group.height, len(ordered), matched, passed if ordered else None))
    schema = schema_of(PublishedDraws) | {"cluster": pl.String()}
    return declared(pl.DataFrame(rows, schema=schema, orient="row"), PublishedDraws)


def _places(ids: set[str]) -> dict[str, int]:
    """Give each id its place in the id generator's sequence, as far as ids follow it."""
    generator = random.Random(_PUBLISHED["id_seed"])  # noqa: S311 - the publishers' own
    place = {}
    # the published ids are the first so many numbers, none left out
    for position in range(len(ids)):
        bits = f"{generator.getrandbits(128):032x}"
        name = f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"  # a UUID
        if name in ids:
            place[name] = position
    return place


def _walk(pairs: list[tuple[str, int]]) -> tuple[int, int]:
    draws = _draws()
    limit = 20 * len(pairs)
    passed = matched = taken = 0
    for pair in pairs:
        waited = 0
        while taken < limit:
            taken += 1
            if next(draws) == pair:
                matched, passed = matched + 1, passed + waited
                break
            waited += 1
    return matched, passed


def _draws() -> Iterator[tuple[str, int]]:
    generator = random.Random(_PUBLISHED["model_seed"])  # noqa: S311 - the publishers' own
    while True:
        yield generator.choice(PAIRS)
