"""Begin and end of each operation, as measured and as replayed, and a file of them for a viewer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.simulate.frames import read_result
from traceana.simulate.operations.policies import Policy, as_policy
from traceana.simulate.operations.read import POINT_TO_POINT, TRANSFERS
from traceana.simulate.operations.run import IntoModel, Model, prepare, replay_timeline
from traceana.simulate.operations.tables import OperationTimeline
from traceana.stats.arrays import Floats
from traceana.store.writer import write_whole
from traceana.tables.declare import declared, returns, schema_of

_MOST_STEPS: Final = 10
_MOST_OPERATIONS: Final = 250_000
_STREAMS: Final = ("compute", *POINT_TO_POINT, "collectives")
_PAUSE: Final = 1.1
"""A step of a file begins at this multiple of the longest end before it."""


@returns(OperationTimeline)
def operation_timeline(
    operations: IntoModel,
    /,
    *,
    steps: Sequence[int] | None = None,
    ideal: Policy | Mapping[str, object] | None = None,
) -> pl.DataFrame:
    """Return when each operation begins and ends, measured and ideal.

    Transfers begin when the last member of their group has started; what they waited for before
    that is `waiting_s`.

    Parameters
    ----------
    operations
        One row per operation of one job, as for :func:`replay_operations`.
    steps
        Steps to return; None: the first ten, or as many of them as have 250,000 operations.
    ideal
        What is ideal, as for :func:`replay_operations`.

    Returns
    -------
    DataFrame
        One row per operation of each scenario, sorted by step and begin within a worker:

        {columns}

    Examples
    --------
    >>> import traceana
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> timeline = traceana.operation_timeline(operations, steps=[0])
    >>> [round(timeline.filter(scenario=name)["end_s"].max(), 2) for name in ("measured", "ideal")]
    [2.28, 1.86]
    """
    policy, model = as_policy(ideal), prepare(operations)
    chosen = _places(model, steps)
    graph, durations = policy.plan(model)
    if graph is not model.graph:
        raise DataError(f"a timeline of {policy} is not possible: it has other operations")
    picked = [duration if np.size(duration) == 1 else duration[chosen] for duration in durations]
    shape = (len(model.operations.kind), len(chosen), len(model.operations.dp_ranks))
    replayed = replay_timeline(graph, picked, shape)
    recorded = model.operations
    start, end = (times[:, chosen].astype(float) for times in (recorded.start, recorded.end))
    waits = np.isin(recorded.kind, list(TRANSFERS))[:, None, None]
    begin = np.where(waits, np.maximum(end - model.own[:, chosen], start), start)
    waiting = pl.Series("waiting_s", (begin - start).ravel())
    parts = [
        _frame(model, chosen, "measured", begin, end).with_columns(waiting),
        _frame(model, chosen, "ideal", *replayed).with_columns(waiting_s=pl.lit(None, pl.Float64)),
    ]
    order = ["step", "stage", "dp_rank", "begin_s"]
    timeline = pl.concat(part.sort(order, maintain_order=True) for part in parts)
    return declared(timeline, OperationTimeline)


def _places(model: Model, steps: Sequence[int] | None) -> list[int]:
    numbers = model.operations.steps.tolist()
    if steps is None:
        each = len(model.own) * model.shape[1]
        return list(range(min(len(numbers), max(1, min(_MOST_STEPS, _MOST_OPERATIONS // each)))))
    if unknown := [step for step in steps if step not in numbers]:
        listed = ", ".join(map(str, numbers[:20]))
        raise DataError(f"operations: no step is {unknown[0]!r}; found {listed}")
    if not steps:
        raise DataError("steps must name at least one step")
    return sorted({numbers.index(step) for step in steps})


def _frame(
    model: Model, steps: list[int], scenario: str, begin: Floats, end: Floats
) -> pl.DataFrame:
    operations = model.operations
    node, step, rank = (part.ravel() for part in np.indices(begin.shape))
    columns = {
        "scenario": scenario,
        "step": operations.steps[steps][step],
        "worker": operations.workers[operations.stage[node], rank].tolist(),
        "dp_rank": operations.dp_ranks[rank],
        "stage": operations.stage[node],
        "kind": operations.kind[node].tolist(),
        "sequence": operations.sequence[node],
        "begin_s": begin.ravel(),
        "end_s": end.ravel(),
    }
    return pl.DataFrame(columns, schema_overrides=schema_of(OperationTimeline))


def write_timeline(timeline: IntoFrame, path: str | Path, /) -> Path:
    """Write a timeline as a file that Perfetto and chrome://tracing open.

    The format is Chrome's Trace Event Format; https://ui.perfetto.dev opens the file. A process is
    a data-parallel rank, as measured or ideal; a thread is a stream of a stage. Steps follow one
    another, with a pause between them.

    Parameters
    ----------
    timeline
        What :func:`operation_timeline` returns.
    path
        File to write, ``.json`` or ``.json.gz``; an existing one is replaced.

    Examples
    --------
    >>> import traceana
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> timeline = traceana.operation_timeline(operations)
    >>> traceana.write_timeline(timeline, "steps.json.gz").name
    'steps.json.gz'
    """
    file = Path(path)
    if not file.name.endswith((".json", ".json.gz")):
        raise DataError(f"{path}: the ending must be .json or .json.gz")
    columns = [name for name in OperationTimeline.columns() if name != "waiting_s"]
    rows = read_result(timeline, OperationTimeline, columns, "write_timeline")
    content = json.dumps({"traceEvents": _events(rows), "displayTimeUnit": "ms"}).encode()
    if file.name.endswith(".gz"):
        content = gzip.compress(content, compresslevel=6, mtime=0)
    try:
        write_whole({file: content})
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error
    return file


def _events(rows: pl.DataFrame) -> list[dict[str, Any]]:
    length = rows.group_by("step").agg(length=pl.col("end_s").max() * _PAUSE).sort("step")
    first = length.select("step", offset=pl.col("length").cum_sum() - pl.col("length"))
    stream = (
        pl.when(pl.col("kind").is_in(POINT_TO_POINT))
        .then("kind")
        .when(pl.col("kind").is_in(TRANSFERS))
        .then(pl.lit(_STREAMS[-1]))
        .otherwise(pl.lit(_STREAMS[0]))
        .replace_strict({name: place for place, name in enumerate(_STREAMS)})
    )
    moments = ((pl.col("begin_s", "end_s") + pl.col("offset")) * 1e6).floor().cast(pl.Int64)
    placed = (
        rows.join(first, on="step", how="left", maintain_order="left")
        .with_columns(
            moments,
            pid=2 * pl.col("dp_rank") + (pl.col("scenario") != "measured"),
            tid=pl.col("stage") * len(_STREAMS) + stream,
        )
        .sort("pid", "tid", "begin_s", maintain_order=True)
    )
    events: list[dict[str, Any]] = []
    ranks = placed.select("pid", "dp_rank", "scenario").unique().sort("pid")
    for pid, rank, scenario in ranks.rows():
        events += _names("process", {"pid": pid}, f"data-parallel rank {rank}, {scenario}", pid)
    threads = placed.select("pid", "tid", "stage", "worker").unique().sort("pid", "tid")
    for pid, tid, stage, worker in threads.rows():
        name = f"stage {stage} (worker {worker}) {_STREAMS[tid % len(_STREAMS)]}"
        events += _names("thread", {"pid": pid, "tid": tid}, name, tid)
    # clocks are not exact, and viewers take operations that overlap for nested ones
    until = pl.min_horizontal("end_s", pl.col("begin_s").shift(-1).over("pid", "tid"))
    shown = placed.select(
        pl.col("kind").alias("name"),
        pl.col("kind").alias("cat"),
        pl.lit("X").alias("ph"),
        "pid",
        "tid",
        pl.col("begin_s").alias("ts"),
        dur=(until - pl.col("begin_s")).clip(lower_bound=0),
        args=pl.struct("step", "sequence"),
    )
    return events + shown.to_dicts()


def _names(what: str, of: dict[str, int], name: str, order: int) -> list[dict[str, Any]]:
    return [
        {"name": f"{what}_name", "ph": "M", **of, "args": {"name": name}},
        {"name": f"{what}_sort_index", "ph": "M", **of, "args": {"sort_index": order}},
    ]
