"""Replay the training steps of a job with other durations, and find what explains its slowdown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.operations import run, tables
from traceana.simulate.operations.policies import GROUPINGS, AsMeasured, Ideal, Policy, as_policy
from traceana.simulate.operations.read import MERGED
from traceana.simulate.operations.run import IntoModel
from traceana.store.frames import Names, as_names
from traceana.tables.declare import declared, returns


def replay_operations(
    operations: IntoModel,
    /,
    *,
    ideal: Policy | Mapping[str, object] | None = None,
) -> tables.ReplayResult:
    """Replay training steps as they were and with ideal durations.

    An operation waits for the one before it on its stream, the transfer with its input and the
    members of its collective (:doc:`/explanation/operations`). Durations of communication are
    counted from the latest start of the group. An ideal duration is one value per kind over all
    steps and workers: the mean of computation (with gc and optimizer), the median of communication
    (Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis, OSDI'25).

    Parameters
    ----------
    operations
        One row per operation of one job: step, dp_rank, stage, kind, start_s, duration_s, and
        optionally job_id, worker_id, sequence (without it the order of the starts), chunk (of the
        stage's model) and global_chunk; eager or lazy, of any supported engine. All steps and ranks
        need the same operations; a null start or duration is an error.
    ideal
        None: all durations are ideal. A mapping such as ``{"stage": 3}``: those of a group, by
        "kind", "stage", "dp_rank", "worker" or "step". Else a policy of
        :mod:`traceana.simulate.operations.policies`, such as ``Scaled(0.5, kind="communication")``.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> kinds = ["forward-compute", "backward-compute", "optimizer"]
    >>> operations = pl.DataFrame({
    ...     "step": 0, "dp_rank": [0, 0, 0, 1, 1, 1], "stage": 0, "kind": kinds * 2,
    ...     "start_s": [0.0, 1.0, 3.0, 0.0, 1.0, 5.0], "duration_s": [1.0, 2.0, 1.0, 1.0, 4.0, 1.0],
    ... })
    >>> result = traceana.replay_operations(operations)
    >>> result.step_s_original, result.step_s_ideal, result.slowdown
    (array([6.]), array([5.]), 1.2)
    """
    policy = as_policy(ideal)  # before the rows are read
    model = run.prepare(operations)
    took, start, end = list(model.own), model.operations.start, model.operations.end
    steps = pl.DataFrame(
        {
            "step": model.operations.steps,
            "measured_s": end.max(axis=(0, 2)).astype(float),
            "replayed_s": run.replay_recorded(model.graph, took, start, end),
            "original_s": run.replay(model.graph, took),
            "ideal_s": np.broadcast_to(run.replay(*policy.plan(model)), model.shape[:1]),
        }
    ).with_columns(slowdown=pl.col("original_s") / pl.col("ideal_s"))
    return tables.ReplayResult(model.operations.job, str(policy), steps)


SLOWEST_PERCENT: Final = 3
"""Percentage of workers, rounded up, that are the slowest."""

Replays: TypeAlias = tuple[run.Times, run.Times]
"""Step times if all is ideal but a group, and if the group is and all else as it was."""


@returns(tables.SlowdownBy)
def slowdown_by(operations: IntoModel, /, by: Names) -> pl.DataFrame:
    r"""Attribute the slowdown of a training job to groups of operations.

    The job is replayed with all ideal but a group, and as it was but with the group ideal (Lin et
    al., OSDI'25; see :func:`replay_operations`). With mean step times T, the slowdown of a group is
    :math:`T_+ / T_{\text{ideal}}`; it explains the fractions :math:`(T_+ - T_{\text{ideal}}) /
    (T_{\text{original}} - T_{\text{ideal}})` of the job's slowdown by addition, and
    :math:`(T_{\text{original}} - T_-) / (T_{\text{original}} - T_{\text{ideal}})` by removal.
    Fractions may be negative or above 1, and do not add up to 1: operations overlap.

    Parameters
    ----------
    operations
        One row per operation of one job, as for :func:`replay_operations`.
    by
        One or more of "kind", "stage", "dp_rank", "worker" and "step". Sends and receives of one
        direction are one kind, forward-pp-comm or backward-pp-comm. With "step", the slowdown is
        that of the step's own time, and the fractions are those of the slowdown of all steps.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by`: a column for each name in `by` and

        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> kinds = ["forward-compute", "backward-compute", "optimizer"]
    >>> operations = pl.DataFrame({
    ...     "step": [0, 0, 0, 1, 1, 1], "dp_rank": 0, "stage": 0, "kind": kinds * 2,
    ...     "start_s": [0.0, 1.0, 3.0, 0.0, 1.0, 5.0], "duration_s": [1.0, 2.0, 1.0, 1.0, 4.0, 1.0],
    ... })
    >>> traceana.slowdown_by(operations, by="step")["slowdown"].to_list()
    [0.8, 1.2]
    """
    names = as_names(by)
    if not names or len(set(names)) < len(names) or not set(names) <= set(GROUPINGS):
        raise DataError(f"by must be of {', '.join(GROUPINGS)}, each once; it is {by!r}")
    model = run.prepare(operations)
    original, ideal = model.step_times(list(model.own)), model.step_times(list(model.ideal))
    if set(names) == {"step"}:
        parts: list[tuple[dict[str, Any], Replays]] = [({}, (original, ideal))]
    else:
        parts = _replays(model, set(names))
    rows: list[dict[str, Any]] = []
    excess = original.mean() - ideal.mean()
    for group, (added, removed) in parts:
        shown = {name: group[name] for name in names if name != "step"}
        if "step" in names:
            of_steps = zip(added / ideal, added - ideal, original - removed, strict=True)
            rows += (
                shown | {"step": step} | _shares(*of_step, excess * len(ideal))
                for step, of_step in zip(model.operations.steps.tolist(), of_steps, strict=True)
            )
        else:
            extra, rest = added.mean() - ideal.mean(), original.mean() - removed.mean()
            rows.append(shown | _shares(added.mean() / ideal.mean(), extra, rest, excess))
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return declared(frame, tables.SlowdownBy, by=names).sort(names, maintain_order=True)


def _shares(slowdown: float, added: float, removed: float, whole: float) -> dict[str, float | None]:
    return {
        "slowdown": float(slowdown),
        "explained_removal": float(removed / whole) if whole else None,
        "explained_addition": float(added / whole) if whole else None,
    }


def _replays(model: run.Model, names: set[str]) -> list[tuple[dict[str, Any], Replays]]:
    """Return the step times of each group, of the groupings other than the step."""
    operations = model.operations
    columns: dict[str, NDArray[Any]] = {}
    if "kind" in names:
        columns["kind"] = np.array([MERGED.get(str(kind), str(kind)) for kind in operations.kind])
    if names & {"stage", "worker"}:
        columns["stage"] = operations.stage
    groups = sorted(set(zip(*(column.tolist() for column in columns.values()), strict=True)))
    parts: list[tuple[dict[str, Any], Replays]] = []
    for group in groups or [()]:
        label = dict(zip(columns, group, strict=True))
        chosen = np.ones(len(operations.kind), dtype=bool)
        for column, value in label.items():
            chosen &= columns[column] == value
        if names & {"dp_rank", "worker"}:
            for rank, times in enumerate(_by_rank(model, chosen)):
                dp_rank = int(operations.dp_ranks[rank])
                worker = operations.workers[label["stage"], rank] if "stage" in label else None
                parts.append((label | {"dp_rank": dp_rank, "worker": worker}, times))
        else:
            added, removed = (model.step_times(model.mixed(mask)) for mask in (~chosen, chosen))
            parts.append((label, (added, removed)))
    return parts


def _by_rank(model: run.Model, chosen: NDArray[np.bool_]) -> list[Replays]:
    without, ideal = (model.mixed(np.full_like(chosen, each)) for each in (False, True))
    # the same object where durations agree, which is how the replay knows
    added = [a if group else b for group, a, b in zip(chosen, without, ideal, strict=True)]
    removed = [b if group else a for group, a, b in zip(chosen, without, ideal, strict=True)]
    both = (
        run.replay_ranks(model.graph, ideal, added, model.shape),
        run.replay_ranks(model.graph, without, removed, model.shape),
    )
    return list(zip(*both, strict=True))


def worker_slowdown(operations: IntoModel, /) -> tables.WorkerSlowdownResult:
    r"""Find the slowest workers and what they and the last stage explain.

    The slowdown of a worker is the smaller one of its data-parallel rank's and its stage's (see
    :func:`slowdown_by` and its source). M_S is the fraction of the job's slowdown that vanishes if
    the last stage has ideal durations, M_W if the slowest 3 % of the workers (rounded up) have; NaN
    for a job whose ideal step time is the original.

    Parameters
    ----------
    operations
        One row per operation of one job, as for :func:`replay_operations`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> kinds = ["forward-compute", "backward-compute", "optimizer"]
    >>> operations = pl.DataFrame({
    ...     "step": 0, "dp_rank": [0, 0, 0, 1, 1, 1], "stage": 0, "kind": kinds * 2,
    ...     "start_s": [0.0, 1.0, 3.0, 0.0, 1.0, 5.0], "duration_s": [1.0, 2.0, 1.0, 1.0, 4.0, 1.0],
    ... })
    >>> traceana.worker_slowdown(operations).workers["worker"][0]
    '1-0'
    """
    model = run.prepare(operations)
    original, ideal = (float(model.step_times(list(d)).mean()) for d in (model.own, model.ideal))
    of_rank, of_stage = (slowdown_by(model, by)["slowdown"] for by in ("dp_rank", "stage"))
    score: NDArray[Any] = np.minimum.outer(of_stage.to_numpy(), of_rank.to_numpy())
    stages, ranks = (part.ravel() for part in np.indices(score.shape))
    names = model.operations.workers.ravel()
    numbered = all(str(name).isdecimal() for name in names)
    # numbers in their order, names in that of their places
    numbers = np.array([int(name) if numbered else 0 for name in names])
    order = np.lexsort((ranks, stages, numbers, -score.ravel()))
    slowest = order[: -(-len(names) * SLOWEST_PERCENT // 100)]
    workers = pl.DataFrame(
        {
            "worker": names[order].tolist(),
            "dp_rank": model.operations.dp_ranks[ranks[order]],
            "stage": stages[order],
            "slowdown": score.ravel()[order],
            "is_slowest": np.arange(len(names)) < len(slowest),
        }
    )
    groups: dict[str, dict[str, Any]] = {
        "last stage": {"stage": model.operations.stages - 1},
        "slowest workers": {"worker": names[slowest].tolist()},
    }
    rows: list[dict[str, Any]] = []
    for group, chosen in groups.items():
        removed, added = (
            float(run.replay(*policy(**chosen).plan(model)).mean())
            for policy in (Ideal, AsMeasured)
        )
        shares = _shares(1, added - ideal, original - removed, original - ideal)
        rows.append({"group": group, "t_removal_s": removed, "t_addition_s": added} | shares)
    explained = pl.DataFrame(rows)
    m_s, m_w = explained["explained_removal"].cast(pl.Float64).fill_null(math.nan)
    return tables.WorkerSlowdownResult(
        m_s=m_s,
        m_w=m_w,
        t_original_s=original,
        t_ideal_s=ideal,
        workers=workers,
        explained=explained,
    )
