"""A Slurm accounting log with planted facts, for tests of what a page states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = (
    "JobID|JobName|User|Account|Partition|State|Submit|Start|End|Elapsed|Timelimit|ReqCPUS|NNodes|"
    "ReqMem|MaxRSS|TotalCPU|AllocTRES|NodeList|Comment"
)
_BEGIN = 1_772_323_200  # 2026-03-01 00:00 UTC
_DAY = 86_400


@dataclass(frozen=True)
class Planted:
    """What is planted; the default is a clean log, a control."""

    jobs: int = 6_000
    nodes: int = 60
    users: int = 30
    days: int = 60
    bad_node: int | None = None
    """This node has three times the failures of others."""
    h100_fails: bool = False
    """Jobs on GPUs of type H100, a tenth of the nodes, fail twice as often."""
    top_user: bool = False
    """User svc_sweep has 60 % of the jobs."""
    idle_user: bool = False
    """User u3 has few, large and long jobs at 2 % utilization."""
    timeouts: bool = False
    """A tenth of the jobs run into their time limit."""
    requeued: int = 0
    cancelled: int = 0
    """Jobs cancelled before they ran."""
    cpu_only: bool = False
    seed: int = 1


def write_slurm_log(path: Path, planted: Planted, /) -> Path:
    """Write a log to a file."""
    rng = np.random.default_rng(planted.seed)
    lines = [FIELDS]
    for job in range(planted.jobs):
        lines += _job(job, planted, rng)
    for job in range(planted.cancelled):
        at = _time(_BEGIN + int(rng.integers(planted.days * _DAY)))
        lines.append(
            f"{900_000 + job}|never|u1|lab1|gpu|CANCELLED by 7|{at}|{at}|{at}|00:00:00|"
            "1-00:00:00|8|1|64G||00:00:00||None assigned|"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def _job(job: int, planted: Planted, rng: np.random.Generator) -> list[str]:
    fast = planted.nodes // 10
    user = f"u{min(int(rng.exponential(planted.users / 4)), planted.users - 1)}"
    if planted.top_user and rng.random() < 0.6:
        user = "svc_sweep"
    idle = planted.idle_user and user == "u3"
    h100 = rng.random() < 0.15
    count = int(rng.choice([1, 1, 1, 1, 1, 2, 4]))
    pool = np.arange(fast) if h100 else np.arange(fast, planted.nodes)
    nodes = sorted(rng.choice(pool, size=min(count, len(pool)), replace=False).tolist())
    fails = 0.08 * (2 if planted.h100_fails and h100 else 1)
    fails *= 3 if planted.bad_node in nodes else 1
    gpus = 0 if planted.cpu_only else 8 * count if idle or count > 1 else int(rng.integers(1, 9))
    runtime = int(np.clip(rng.lognormal(8.5, 1), 60, 5 * _DAY)) * (10 if idle else 1)
    state = "FAILED" if rng.random() < fails else "COMPLETED"
    if planted.timeouts and rng.random() < 0.1:
        state, runtime = "TIMEOUT", 3 * _DAY
    submit = _BEGIN + int(rng.integers(planted.days * _DAY))
    start = submit + int(rng.exponential(600 * (4 if h100 else 1)))
    end = start + runtime
    limit = 3 * _DAY if state == "TIMEOUT" else 7 * _DAY
    cpus = 8 * count
    tres = f"cpu={cpus},mem={64 * count}G,node={count}"
    if gpus:
        tres += f",gres/gpu={gpus},gres/gpu:{'h100' if h100 else 'a100'}={gpus}"
    use = 2 if idle else int(rng.integers(60, 95))
    hosts = f"n[{','.join(f'{node:03d}' for node in nodes)}]" if count > 1 else f"n{nodes[0]:03d}"
    head = f"{1000 + job}|job{job % 50}|{user}|lab{len(user) % 3}|{'h' if h100 else 'a'}"
    rest = (
        f"{_elapsed(limit)}|{cpus}|{count}|{64 * count}G|{32 * count}G|"
        f"{_elapsed(int(runtime * cpus * 0.5))}|{tres}|{hosts}|{f'gpu_util={use}' if gpus else ''}"
    )
    lines = []
    if job < planted.requeued:
        early = submit - 3600
        lines.append(
            f"{head}|REQUEUED|{_time(early)}|{_time(early)}|{_time(early + 600)}|00:10:00|{rest}"
        )
        submit = early
    times = f"{_time(submit)}|{_time(start)}|{_time(end)}|{_elapsed(runtime)}"
    return [*lines, f"{head}|{state}|{times}|{rest}"]


def _time(second: int) -> str:
    return str(np.datetime64(second, "s"))


def _elapsed(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY)
    return f"{days}-{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
