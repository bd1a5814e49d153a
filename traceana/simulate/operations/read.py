"""Kinds of operation, and a frame of them read into arrays over steps and ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.store.frames import admit_columns, collect, column_names

FORWARD: Final = "forward-compute"
BACKWARD: Final = "backward-compute"
COMPUTE: Final = (FORWARD, BACKWARD)
"""Kinds that a worker runs one after another."""

POINT_TO_POINT: Final = ("forward-send", "forward-recv", "backward-send", "backward-recv")
"""Transfers between neighboring stages; each kind is a stream of its own."""

ALL_GATHER: Final = "params-all-gather"
REDUCE_SCATTER: Final = "grads-reduce-scatter"
ALL_REDUCE: Final = "separate-grads-all-reduce"
DATA_PARALLEL: Final = (ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE)
"""Collectives of the data-parallel ranks of a stage."""

LAYERNORM: Final = "layernorm-grads-all-reduce"
EMBEDDING: Final = "embedding-grads-all-reduce"
CLIP: Final = "optimizer-clip-main-grad"
OPTIMIZER: Final = "optimizer"
GARBAGE: Final = "gc"

KINDS: Final = (
    *COMPUTE,
    *POINT_TO_POINT,
    *DATA_PARALLEL,
    LAYERNORM,
    EMBEDDING,
    CLIP,
    OPTIMIZER,
    GARBAGE,
)
"""All kinds of operation."""

SYNCHRONIZED: Final = frozenset({*DATA_PARALLEL, CLIP})
"""Kinds that start together on all data-parallel ranks."""

TRANSFERS: Final = frozenset({*POINT_TO_POINT, *DATA_PARALLEL, EMBEDDING, CLIP})
"""Kinds that wait for other workers: only the time after the last start is their own."""

COMMUNICATION: Final = TRANSFERS | {LAYERNORM}
"""Kinds whose ideal duration is the median; that of all others is the mean."""

MERGED: Final = {kind: f"{kind.split('-')[0]}-pp-comm" for kind in POINT_TO_POINT}
"""Sends and receives of a direction count as one kind in a decomposition."""


Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.integer[Any]]

_NEEDED: Final = ("step", "dp_rank", "stage", "kind", "start_s", "duration_s")
_CHUNKS: Final = ("chunk", "global_chunk")
_OPTIONAL: Final = ("job_id", "worker_id", "sequence", *_CHUNKS)
_WHOLE: Final = ("step", "dp_rank", "stage", "sequence")
_LARGEST: Final = 1e12
_ENUM: Final = pl.Enum(KINDS)


@dataclass(frozen=True)
class Operations:
    """Operations of a job by (kind, stage, sequence), step and rank, from the start of a step."""

    job: str
    steps: Integers
    dp_ranks: Integers
    workers: NDArray[np.object_]
    """Worker of each (stage, data-parallel rank)."""
    kind: NDArray[np.str_]
    stage: Integers
    sequence: Integers
    chunk: Integers
    """Chunk of the stage's model; -1 where there is none."""
    global_chunk: Integers
    """Chunk of the whole model; -1 where there is none."""
    start: Floats
    end: Floats

    @property
    def stages(self) -> int:
        """Return the number of stages."""
        return len(self.workers)

    def place(self, stage: int, /) -> str:
        """Return the first step and worker of a stage, for a message."""
        return f"step {self.steps[0]}, worker {self.workers[stage, 0]}"

    def name(self, node: int, /, step: int = 0, rank: int = 0) -> str:
        """Return the step, worker, kind and sequence number of an operation, for a message."""
        return (
            f"step {self.steps[step]}, worker {self.workers[self.stage[node], rank]}: "
            f"{self.kind[node]} {self.sequence[node]}"
        )


def read_operations(operations: IntoFrame, /) -> tuple[Operations, Floats]:
    """Return the operations of one job as arrays, and their durations."""
    present = column_names(operations)
    names = [*_NEEDED, *(name for name in _OPTIONAL if name in present)]
    admitted = admit_columns(operations, names)
    native = admitted.to_native()
    rows = native if isinstance(native, pl.LazyFrame) else collect(admitted).lazy()
    job = _only_job(rows, names)
    table = _compact(rows, names)
    kind = table.drop_in_place("kind").to_numpy()
    coded = [_coded(table.drop_in_place(name)) for name in _WHOLE]
    (steps, step), (ranks, rank), (stages, stage), (sequences, sequence) = coded
    if not np.array_equal(stages, np.arange(len(stages))):
        raise DataError(
            f"operations: stages must be 0, 1, 2, ... without a gap; found "
            f"{', '.join(map(str, stages[:20]))}"
        )
    axes = (len(KINDS), len(stages), len(sequences))
    label = np.ravel_multi_index((kind, stage, sequence), axes)
    labels, node = _coded(pl.Series(label))
    shape = (len(labels), len(steps), len(ranks))
    cell = np.ravel_multi_index((node, step, rank), shape)
    first = np.flatnonzero((step == 0) & (rank == 0))
    chunks = np.full((len(_CHUNKS), len(labels)), -1)
    for chunk, name in zip(chunks, _CHUNKS, strict=True):
        if name in names:
            chunk[node[first]] = table[name].gather(first).fill_null(-1).to_numpy()
    del coded, kind, label, node, step, rank, stage, sequence
    workers = _workers(rows, names, ranks, len(stages))
    kinds, of_stage, numbers = np.unravel_index(labels, axes)
    none = np.zeros(0)
    of_each = (np.array(KINDS)[kinds], of_stage, sequences[numbers], *chunks, none, none)
    read = Operations(job, steps, ranks, workers, *of_each)
    _refuse_unequal(read, cell, shape)  # before there is a time of each, which may be far too many
    times = []
    for name in ("start_s", "duration_s"):
        column = table.drop_in_place(name).to_numpy()
        times.append(np.zeros(shape, dtype=column.dtype))
        times[-1].reshape(-1)[cell] = column
    _refuse_values(read, *times)
    start, duration = _single(times)
    first_start = start.min(axis=(0, 2), keepdims=True)
    end = start + duration
    end -= first_start
    start -= first_start
    return replace(read, start=start, end=end), duration


def _refuse_values(operations: Operations, start: Floats, duration: Floats) -> None:
    """Refuse times that are not finite, and durations below 0."""
    wrong = ~((np.abs(start) <= _LARGEST) & (duration >= 0) & (duration <= _LARGEST))
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise DataError(
            f"operations: {operations.name(*map(int, place))} has start_s {start[place]} and "
            f"duration_s {duration[place]}; both must be finite, and the duration 0 or more"
        )


def _single(values: list[Floats]) -> list[Floats]:
    """Return times that were recorded as 32-bit floats as such."""
    if all(array.dtype == np.float32 for array in values):
        return values
    single = [array.astype(np.float32) for array in values]
    exact = all(np.array_equal(*both) for both in zip(single, values, strict=True))
    return single if exact else [value.astype(np.float64, copy=False) for value in values]


def _only_job(rows: pl.LazyFrame, names: list[str]) -> str:
    if "job_id" not in names:
        return ""
    jobs = collect(rows.select(pl.col("job_id").unique())).to_series().cast(pl.String).sort()
    if len(jobs) > 1:
        listed = ", ".join(map(str, jobs.head(5)))
        raise DataError(
            f"operations: the frame has {len(jobs)} jobs ({listed}); pass one at a time"
        )
    return str(jobs[0] or "") if len(jobs) else ""


def _without_fractions(rows: pl.LazyFrame, floats: list[str]) -> pl.LazyFrame:
    """Return the rows with NaN as null in these columns, which must hold whole numbers."""
    rows = rows.with_columns(pl.col(floats).fill_nan(None))
    broken = collect(rows.select((pl.col(floats) % 1 != 0).any())).row(0) if floats else ()
    if any(broken):
        name = floats[broken.index(True)]
        raise DataError(f"operations: column {name} holds fractions; whole numbers are needed")
    return rows


def _compact(rows: pl.LazyFrame, names: list[str]) -> pl.DataFrame:
    """Return the needed columns in types that take little memory."""
    schema = rows.collect_schema()
    whole = [name for name in (*_WHOLE, *_CHUNKS) if name in names]
    rows = _without_fractions(rows, [name for name in whole if schema[name].is_float()])
    times = ("start_s", "duration_s")
    for name in times:
        if not schema[name].is_numeric():
            raise DataError(f"operations: column {name} holds {schema[name]}; numbers are needed")
    if not ("sequence" in names and collect(rows.select(pl.col("sequence").count())).item()):
        order = pl.col("start_s").rank("ordinal").over("step", "dp_rank", "stage", "kind")
        rows = rows.with_columns(sequence=order.cast(pl.Int64) - 1)
    kind = pl.col("kind").cast(pl.String)
    small = pl.Float32 if all(schema[name] == pl.Float32 for name in times) else pl.Float64
    table = collect(
        rows.select(
            *(pl.col(name).cast(pl.Int64 if name == "step" else pl.Int32) for name in _WHOLE),
            *(pl.col(name).cast(pl.Int32) for name in _CHUNKS if name in names),
            pl.col(times).cast(small).fill_null(float("nan")),
            kind=kind.cast(_ENUM, strict=False).to_physical().cast(pl.UInt8),
        )
    )
    _check_complete(table, rows)
    return table


def _check_complete(table: pl.DataFrame, rows: pl.LazyFrame) -> None:
    if table.is_empty():
        raise DataError("operations: the frame has no rows")
    if table["kind"].null_count():
        kind = pl.col("kind").cast(pl.String)
        unknown = collect(rows.select(kind.filter(~kind.is_in(KINDS)).first())).item()
        raise DataError(
            f"operations: kind {unknown!r} is unknown; the kinds are {', '.join(KINDS)}"
        )
    for name in _WHOLE:
        if nulls := table[name].null_count():
            raise DataError(
                f"operations: column {name} has {nulls:,} null(s); a replay needs it of all "
                f"{table.height:,} operations"
            )


def _coded(column: pl.Series) -> tuple[Integers, Integers]:
    """Return the sorted values of a column, and the place of each row's among them."""
    values = column.unique().sort()
    places = values.search_sorted(column).cast(pl.Int32).to_numpy()
    return values.cast(pl.Int64).to_numpy(), places


def _workers(
    rows: pl.LazyFrame, columns: list[str], ranks: Integers, stages: int
) -> NDArray[np.object_]:
    """Return the worker of each (stage, rank), by the computations that each must have."""
    places = [[f"{rank}-{stage}" for rank in ranks] for stage in range(stages)]
    names = np.array(places, dtype=object)
    if "worker_id" not in columns:
        return names
    seen = collect(
        rows.filter(pl.col("kind").cast(pl.String) == FORWARD)
        .select(pl.col("worker_id").cast(pl.String), pl.col("dp_rank", "stage").cast(pl.Int64))
        .unique()
        .sort("worker_id")
    )
    by_place = seen.group_by("dp_rank", "stage", maintain_order=True).agg("worker_id")
    several = by_place.filter(pl.col("worker_id").list.len() > 1)
    if not several.is_empty():
        rank, stage, both = several.row(0)
        raise DataError(
            f"operations: workers {both[0]} and {both[1]} are both data-parallel rank {rank} of "
            f"stage {stage}; keep one (of tensor parallelism, one rank)"
        )
    at = {int(value): place for place, value in enumerate(ranks)}
    for rank, stage, (worker,) in by_place.iter_rows():
        if worker is None:
            raise DataError("operations: column worker_id has null(s)")
        names[stage, at[rank]] = worker
    if len(set(names.ravel())) < names.size:
        twice = seen.filter(seen["worker_id"].is_duplicated())["worker_id"][0]
        raise DataError(f"operations: worker {twice} has several data-parallel ranks or stages")
    return names


def _refuse_unequal(operations: Operations, cell: Integers, shape: tuple[int, int, int]) -> None:
    found, times = np.unique(cell, return_counts=True)
    once = (found == np.arange(len(found))) & (times == 1)
    place = len(once) if once.all() else int(np.argmin(once))
    if place < math.prod(shape):
        node, step, rank = map(int, np.unravel_index(place, shape))
        n = (cell == place).sum()
        raise DataError(
            f"operations: {operations.name(node, step, rank)} occurs {n} times; all steps and "
            "ranks need the same operations, each once"
        )
    for stage in range(operations.stages):
        if missing := set(COMPUTE) - set(operations.kind[operations.stage == stage]):
            raise DataError(
                f"operations: {operations.place(stage)}: no {min(missing)}; every stage needs "
                "forward and backward computation"
            )
    if OPTIMIZER not in operations.kind:
        raise DataError(f"operations: {operations.place(0)}: no optimizer; a step ends with it")
