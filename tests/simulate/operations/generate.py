"""Generated training jobs: a schedule with known partners, run by recursion over its operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Op = tuple[str, int, int]  # kind, sequence number, stage
Partners = dict[str, dict[int, list[Op]]]  # transfers by kind and stage
DURATION_S = {
    "forward-compute": 0.1,
    "backward-compute": 0.2,
    "optimizer": 0.05,
    "params-all-gather": 0.03,
    "grads-reduce-scatter": 0.04,
    "separate-grads-all-reduce": 0.01,
    "embedding-grads-all-reduce": 0.02,
    "layernorm-grads-all-reduce": 0.001,
    "optimizer-clip-main-grad": 0.005,
    "gc": 0.0,
}
SYNCHRONIZED = {
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "optimizer-clip-main-grad",
}


@dataclass
class Job:
    """Operations, what each waits for, who begins with it, and its own duration."""

    waits: dict[Op, list[Op]] = field(default_factory=dict)
    group: dict[Op, tuple[Op, ...]] = field(default_factory=dict)
    chunk: dict[Op, int] = field(default_factory=dict)
    own: dict[Op, NDArray[np.float64]] = field(default_factory=dict)

    def add(self, op: Op, *before: Op, chunk: int = -1) -> Op:
        self.waits[op] = [*self.waits.get(op, []), *before]
        self.chunk[op] = chunk
        return op


def passes(stage: int, stages: int, micro_batches: int, chunks: int) -> list[tuple[str, int]]:
    """Return Megatron's (interleaved) 1F1B order of a stage: direction and its count."""
    total = micro_batches * chunks
    early = stages - stage - 1
    if chunks > 1:
        early = 2 * early + (chunks - 1) * stages
    early = min(early, total)
    order = [("forward", k) for k in range(early)]
    for k in range(total - early):
        order += [("forward", early + k), ("backward", k)]
    return order + [("backward", k) for k in range(total - early, total)]


def chunk_of(direction: str, k: int, stages: int, chunks: int) -> int:
    chunk = k % (stages * chunks) // stages
    return chunk if direction == "forward" else chunks - 1 - chunk


def build(
    stages: int, micro_batches: int, chunks: int, *, overlapped: bool, embedding: bool
) -> Job:
    """Return the operations of one rank with what they wait for."""
    job = Job()
    partners: Partners = {}
    for stage in range(stages):
        computes: list[Op] = []
        for direction, k in passes(stage, stages, micro_batches, chunks):
            chunk = chunk_of(direction, k, stages, chunks)
            op = job.add((f"{direction}-compute", k, stage), *computes[-1:], chunk=chunk)
            computes.append(op)
            for way in ("recv", "send"):
                transfer(job, op, way, stages=stages, chunks=chunks, partners=partners)
        turn = [op[0] for op in computes].index("backward-compute")
        for way in ("send", "recv"):
            first = (f"backward-{way}", 0, stage)
            if turn >= 2 and first in job.waits:
                job.add(first, computes[turn - 2])
        collectives(job, stage, computes, chunks, overlapped=overlapped)
        finish(job, stage, stages, computes, chunks, overlapped=overlapped, embedding=embedding)
    for direction, shift in (("forward", 1), ("backward", -1)):
        for stage, sent in partners.get(f"{direction}-send", {}).items():
            received = partners[f"{direction}-recv"].get((stage + shift) % stages, [])
            for pair in zip(sent, received, strict=True):
                job.group |= dict.fromkeys(pair, pair)
    for kind in ("embedding-grads-all-reduce", "optimizer-clip-main-grad"):
        members = tuple(op for op in job.waits if op[0] == kind)
        job.group |= dict.fromkeys(members, members)
    return job


def transfer(
    job: Job, compute: Op, way: str, *, stages: int, chunks: int, partners: Partners
) -> None:
    """Add the send or receive of a computation; without chunks an idle one is not recorded."""
    kind, k, stage = compute
    direction = kind.split("-")[0]
    ends = (0, stages * chunks - 1) if direction == "forward" else (stages * chunks - 1, 0)
    idle = job.chunk[compute] * stages + stage == ends[way == "send"]
    if idle and chunks == 1:
        return
    name = f"{direction}-{way}"
    number = sum(op[0] == name and op[2] == stage for op in job.waits)
    op: Op = (name, number, stage)
    job.add(op, *([(name, number - 1, stage)] if number else []))
    if way == "send":
        job.add(op, compute)
    else:
        job.add(op, *([(kind, k - 1, stage)] if k else []))
        job.add(compute, op, chunk=job.chunk[compute])
    if not idle:
        partners.setdefault(name, {}).setdefault(stage, []).append(op)


def collectives(job: Job, stage: int, computes: list[Op], chunks: int, *, overlapped: bool) -> None:
    before: list[Op] = []
    for chunk in range(chunks):
        op = job.add(("params-all-gather", chunk, stage), *before, chunk=chunk)
        before = [op]
        first = next(c for c in computes if c[0] == "forward-compute" and job.chunk[c] == chunk)
        job.add(first, op, chunk=chunk)
    for number in range(chunks):
        chunk = chunks - 1 - number  # gradients are ready from the last chunk on
        op = job.add(("grads-reduce-scatter", number, stage), *before, chunk=chunk)
        before = [op]
        if overlapped:
            done = [c for c in computes if c[0] == "backward-compute" and job.chunk[c] == chunk]
            job.add(op, done[-1], chunk=chunk)


def finish(
    job: Job,
    stage: int,
    stages: int,
    computes: list[Op],
    chunks: int,
    *,
    overlapped: bool,
    embedding: bool,
) -> None:
    scatters = [("grads-reduce-scatter", number, stage) for number in range(chunks)]
    before = [job.add(("gc", 0, stage), computes[-1])]
    if overlapped:
        before.append(scatters[-1])
    chain: list[Op] = [("layernorm-grads-all-reduce", 0, stage)]
    if embedding and stage in (0, stages - 1):
        chain.append(("embedding-grads-all-reduce", 0, stage))
    chain += [("separate-grads-all-reduce", 0, stage)] if overlapped else scatters
    chain += [("optimizer-clip-main-grad", 0, stage), ("optimizer", 0, stage)]
    for op in chain:
        job.add(op, *before, chunk=job.chunk.get(op, -1))
        before = [op]


def run(job: Job, shape: tuple[int, int]) -> tuple[dict[Op, Any], dict[Op, Any]]:
    """Return start and end of each operation over (steps, ranks), by recursion."""
    zero = np.zeros(shape)

    @cache
    def start(op: Op) -> NDArray[np.float64]:
        begin: NDArray[np.float64] = np.max([zero, *(end(one) for one in job.waits[op])], axis=0)
        return begin

    @cache
    def end(op: Op) -> NDArray[np.float64]:
        begin = np.max([start(one) for one in job.group.get(op, (op,))], axis=0)
        if op[0] in SYNCHRONIZED:
            begin = np.broadcast_to(begin.max(axis=1, keepdims=True), shape)
        ended: NDArray[np.float64] = begin + job.own[op]
        return ended

    return {op: start(op) for op in job.waits}, {op: end(op) for op in job.waits}


def generate(
    rng: int = 1,
    *,
    steps: int = 3,
    ranks: int = 2,
    stages: int = 2,
    micro_batches: int = 4,
    chunks: int = 1,
    overlapped: bool = False,
    embedding: bool = True,
    noise: float = 0.1,
    slow: Mapping[str, Any] | None = None,
) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Return the operations of a job, and its step times.

    `slow` has a factor and what it applies to: stage, dp_rank, kind (a prefix) or step.
    """
    job = build(stages, micro_batches, chunks, overlapped=overlapped, embedding=embedding)
    generator = np.random.default_rng(rng)
    for op in job.waits:
        own = np.full((steps, ranks), DURATION_S.get(op[0], 0.004))
        own *= np.exp(noise * generator.standard_normal(own.shape))
        of = slow or {}
        if slow and op[0].startswith(of.get("kind", "")) and of.get("stage", op[2]) == op[2]:
            chosen = np.zeros(own.shape, dtype=bool)
            chosen[of.get("step", slice(None)), of.get("dp_rank", slice(None))] = True
            own[chosen] *= of["factor"]
        job.own[op] = own
    starts, ends = run(job, (steps, ranks))
    rows = [
        {
            "job_id": "generated",
            "step": 10 * step,
            "worker_id": f"w{stage * ranks + rank}",
            "dp_rank": rank,
            "stage": stage,
            "kind": kind,
            "start_s": starts[kind, sequence, stage][step, rank] + 1000.0 * step,
            "duration_s": (ends[kind, sequence, stage] - starts[kind, sequence, stage])[step, rank],
            "sequence": sequence,
            "micro_batch": None,
            "chunk": None if chunk < 0 else chunk,
        }
        for (kind, sequence, stage), chunk in job.chunk.items()
        for step in range(steps)
        for rank in range(ranks)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"micro_batch": pl.Int64, "chunk": pl.Int64})
    times = np.max([ends[op] for op in ends if op[0] == "optimizer"], axis=(0, 2))
    return frame, times
