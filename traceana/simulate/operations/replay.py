"""Replay the training steps of a job with other durations of its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.simulate.operations.model import Model, prepare
from traceana.simulate.operations.policies import Ideal, Policy, as_policy
from traceana.simulate.operations.run import replay, replay_recorded
from traceana.simulate.operations.tables import ReplayResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narwhals.stable.v2.typing import IntoFrame


def replay_operations(
    operations: IntoFrame, /, *, ideal: Policy | Mapping[str, object] | None = None
) -> ReplayResult:
    """Replay training steps as they were and with ideal durations.

    Each step is replayed from the durations of its operations and what each waits for: the
    operation before it on its stream, the transfer with its input, the members of its collective.
    Own durations of computation are as recorded; those of communication are counted from the latest
    start of the group, so that waiting for others is not part of them. An ideal duration is one
    value per kind over all steps and workers: the mean of computation (with gc and optimizer), the
    median of communication. The dependencies are those of the first step and data-parallel rank,
    and hold for all: :doc:`/explanation/operations`.

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

    Returns
    -------
    ReplayResult
        Arrays over steps: `step_s_measured`, `step_s_original` (without launch delays) and
        `step_s_ideal`; `slowdown`, the mean original over the mean ideal step time;
        `replay_error`, how far a replay with the recorded launch delays is from the measured times;
        `steps`, the same as a frame.

    Raises
    ------
    DataError
        If the frame has several jobs, steps or ranks differ in their operations, a transfer has no
        partner, or operations wait for one another in a circle. The message names step, worker and
        kind.

    References
    ----------
    Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI'25.

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
    policy = as_policy(ideal)
    return replay_model(prepare(operations), policy)


def replay_model(model: Model, policy: Policy | None = None, /) -> ReplayResult:
    """Return what :func:`replay_operations` does, of a job that is ready to be replayed."""
    chosen = policy or Ideal()
    operations = model.operations
    graph, durations = chosen.plan(model)
    times = {
        "measured_s": operations.end.max(axis=(0, 2)),
        "replayed_s": replay_recorded(
            model.graph, list(model.own), operations.start, operations.end
        ),
        "original_s": replay(model.graph, list(model.own)),
        "ideal_s": replay(graph, durations),
    }
    steps = pl.DataFrame(
        {"step": operations.steps}
        | {
            name: np.broadcast_to(values, model.shape[:1]).astype(float)
            for name, values in times.items()
        }
    ).with_columns(slowdown=pl.col("original_s") / pl.col("ideal_s"))
    return ReplayResult(job=operations.job, policy=str(chosen), steps=steps)
