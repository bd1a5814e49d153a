"""Sample of operations of a training job with a slow worker: `bytedance-stragglers-2025`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import polars as pl

from tests.generator.files import MARK

if TYPE_CHECKING:
    from pathlib import Path

Place: TypeAlias = tuple[int, int]
"""Data-parallel rank and stage of a worker."""
Row: TypeAlias = tuple[int, int, int, str, int, float, float]
Add: TypeAlias = Callable[[Place, str, int, float, float], None]
Own: TypeAlias = Callable[[str, int, int], float]

_JOB: Final = "SYNTHETIC-job"
_ROWS: Final = 124_000
"""Rows of the real trace."""
_STEP_ROWS: Final = 352
_RANKS: Final = 2
_STAGES: Final = 4
_MICRO_BATCHES: Final = 8
_SLOW: Final = (1, 2)
"""Data-parallel rank and stage of the slow worker."""
_FACTOR: Final = 1.5
_S: Final = {
    "forward-compute": 0.05,
    "backward-compute": 0.1,
    "transfer": 0.002,
    "params-all-gather": 0.02,
    "grads-reduce-scatter": 0.03,
    "optimizer-clip-main-grad": 0.005,
    "optimizer": 0.02,
}
_NOISE: Final = 0.02


def write_operations(folder: Path, *, scale: float, seed: int) -> dict[str, int]:
    """Write the sample and return its rows by file."""
    operations = draw_operations(seed, steps=max(round(scale * _ROWS / _STEP_ROWS), 1))
    file = f"{MARK}trace-{_JOB}.parquet"
    operations.write_parquet(folder / file, compression="zstd")
    return {file: operations.height}


def draw_operations(rng: int | np.random.Generator = 1, /, *, steps: int) -> pl.DataFrame:
    """Draw steps of the job, with the columns of the publisher."""
    generator = np.random.default_rng(rng)
    rows = [row for step in range(steps) for row in _step(generator, step)]
    names = ("step", "dp_rank", "stage", "optype", "seq_id", "start_ts", "duration")
    frame = pl.DataFrame(rows, schema=names, orient="row")
    computed = pl.col("optype").str.ends_with("compute")
    of_chunk = computed | pl.col("optype").is_in(["params-all-gather", "grads-reduce-scatter"])
    return frame.select(
        pl.col("dp_rank", "stage").cast(pl.Int8),
        (pl.col("stage") * _RANKS + pl.col("dp_rank")).cast(pl.Int16).alias("rank"),
        "step",
        pl.col("optype").cast(pl.Categorical),
        "start_ts",
        "duration",
        pl.col("seq_id").cast(pl.Int32),
        pl.when(of_chunk).then(0).otherwise(-1).cast(pl.Int8).alias("mc"),
        pl.when(computed).then("seq_id").otherwise(-1).cast(pl.Int8).alias("mb_id"),
        pl.when(of_chunk).then("stage").otherwise(-1).cast(pl.Int16).alias("gmc"),
    )


def sample_operations() -> pl.DataFrame:
    """Return the job of the shipped sample as a table of operations."""
    names = {"rank": "worker_id", "optype": "kind", "start_ts": "start_s", "mb_id": "micro_batch"}
    names |= {"duration": "duration_s", "seq_id": "sequence", "mc": "chunk", "gmc": "global_chunk"}
    return (
        draw_operations(steps=5)
        .rename(names)
        .with_columns(
            pl.lit(_JOB).alias("job_id"),
            pl.col("worker_id", "kind").cast(pl.String),
            pl.col("micro_batch", "chunk", "global_chunk").replace(-1, None),
        )
    )


def _step(rng: np.random.Generator, step: int) -> list[Row]:
    """Return the operations of all workers in one step."""
    rows: list[Row] = []

    def own(kind: str, rank: int, stage: int) -> float:
        factor = _FACTOR if (rank, stage) == _SLOW and kind.endswith("compute") else 1.0
        return factor * _S[kind] * float(np.exp(_NOISE * rng.standard_normal()))

    def add(place: Place, kind: str, sequence: int, start: float, duration: float) -> None:
        rows.append((step, *place, kind, sequence, start, duration))

    def together(kind: str, starts: dict[Place, float]) -> dict[Place, float]:
        ends = {place: max(starts.values()) + own(kind, *place) for place in starts}
        for place, start in starts.items():
            add(place, kind, 0, start, ends[place] - start)
        return ends

    ranks, stages = range(_RANKS), range(_STAGES)
    free: dict[Place, float] = {}
    for stage in stages:
        free |= together("params-all-gather", {(rank, stage): 0.0 for rank in ranks})
    for rank in ranks:
        _pipeline(rank, free, add, own)
    for stage in stages:
        starts = {(rank, stage): free[rank, stage] for rank in ranks}
        free |= together("grads-reduce-scatter", starts)
    for place, start in together("optimizer-clip-main-grad", free).items():
        add(place, "optimizer", 0, start, own("optimizer", *place))
    return rows


def _order(stage: int) -> list[tuple[str, int]]:
    """Return the computations of a stage in the 1F1B schedule."""
    early = min(_STAGES - 1 - stage, _MICRO_BATCHES)
    order = [("forward", k) for k in range(early)]
    for k in range(_MICRO_BATCHES - early):
        order += [("forward", early + k), ("backward", k)]
    return order + [("backward", k) for k in range(_MICRO_BATCHES - early, _MICRO_BATCHES)]


def _pipeline(rank: int, free: dict[Place, float], add: Add, own: Own) -> None:
    """Run the micro-batches of one rank; `free` is when each of its stages is idle."""
    ends: dict[tuple[str, int, int], float] = {}
    orders = [_order(stage) for stage in range(_STAGES)]

    def receive(direction: str, k: int, stage: int, sender: int) -> float:
        """Send from one stage to another when both are ready, and return when it has arrived."""
        before = [ends.get((f"{direction}-send", k - 1, sender), 0.0)]
        sent = max(ends[direction, k, sender], *before, early(direction, k, sender))
        before = [ends.get((name, k - 1, stage), 0.0) for name in (direction, f"{direction}-recv")]
        posted = max(*before, early(direction, k, stage))
        for way, at, start in (("send", sender, sent), ("recv", stage, posted)):
            end = max(sent, posted) + own("transfer", rank, at)
            ends[f"{direction}-{way}", k, at] = end
            add((rank, at), f"{direction}-{way}", k, start, end - start)
        return ends[f"{direction}-recv", k, stage]

    def early(direction: str, k: int, stage: int) -> float:
        """Return when the first backward transfer of a stage may begin."""
        turn = orders[stage].index(("backward", 0))
        if direction == "forward" or k or turn < 2:
            return 0.0
        return ends[(*orders[stage][turn - 2], stage)]

    waiting = [list(order) for order in orders]
    while any(waiting):
        for stage, order in enumerate(waiting):
            while order:
                direction, k = order[0]
                sender = stage - 1 if direction == "forward" else stage + 1
                begin = free[rank, stage]
                if 0 <= sender < _STAGES:
                    if (direction, k, sender) not in ends:
                        break
                    begin = max(begin, receive(direction, k, stage, sender))
                duration = own(f"{direction}-compute", rank, stage)
                add((rank, stage), f"{direction}-compute", k, begin, duration)
                free[rank, stage] = ends[direction, k, stage] = begin + duration
                order.pop(0)
