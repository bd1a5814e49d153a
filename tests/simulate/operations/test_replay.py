"""The replay returns what a recursion over known partners computed, and names what is wrong."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.operations.generate import generate
from traceana import replay_operations, slowdown_by, worker_slowdown
from traceana.errors import DataError
from traceana.simulate import AsMeasured, BalancedStages, Ideal, MicroBatches, Scaled
from traceana.simulate.operations.run import prepare


@settings(max_examples=25)
@given(
    rng=st.integers(0, 1000),
    stages=st.integers(1, 4),
    chunks=st.integers(1, 3),
    ranks=st.integers(1, 3),
    overlapped=st.booleans(),
    embedding=st.booleans(),
)
def test_replay_returns_the_step_times_of_any_schedule(
    *, rng: int, stages: int, chunks: int, ranks: int, overlapped: bool, embedding: bool
) -> None:
    operations, times = generate(
        rng,
        steps=2,
        stages=stages,
        chunks=chunks if stages > 1 else 1,
        ranks=ranks,
        micro_batches=2 * stages,
        overlapped=overlapped,
        embedding=embedding,
        noise=0.3,
    )
    result = replay_operations(operations.sample(fraction=1, shuffle=True, seed=rng))
    assert result.step_s_original == pytest.approx(times, rel=1e-9)
    assert result.step_s_measured == pytest.approx(times, rel=1e-9)
    assert result.replay_error < 1e-9


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("overlapped", [False, True])
def test_one_rank_replayed_with_all_equals_it_replayed_alone(
    *, chunks: int, overlapped: bool
) -> None:
    """Ranks and workers are replayed at once, and equal policies that are replayed one by one."""
    operations, _ = generate(
        stages=3, chunks=chunks, ranks=3, micro_batches=6, overlapped=overlapped, noise=0.5
    )
    model = prepare(operations)
    job = replay_operations(model)
    ideal, excess = job.step_s_ideal.mean(), job.step_s_original.mean() - job.step_s_ideal.mean()
    for by in ("dp_rank", "worker", "stage", "kind"):
        for row in slowdown_by(operations, by).iter_rows(named=True):
            group = {by: row[by]}
            added = replay_operations(model, ideal=AsMeasured(**group)).step_s_ideal.mean()
            removed = replay_operations(model, ideal=Ideal(**group)).step_s_ideal.mean()
            assert row["slowdown"] == pytest.approx(added / ideal, rel=1e-12)
            assert row["explained_addition"] == pytest.approx((added - ideal) / excess, abs=1e-12)
            removal = (job.step_s_original.mean() - removed) / excess
            assert row["explained_removal"] == pytest.approx(removal, abs=1e-12)


def test_groups_by_step_have_the_time_of_the_step_and_a_fraction_of_the_whole() -> None:
    operations, _ = generate(steps=4)
    job = replay_operations(operations)
    steps = slowdown_by(operations, "step")
    assert steps["step"].to_list() == [0, 10, 20, 30]
    assert steps["slowdown"].to_numpy() == pytest.approx(job.step_s_original / job.step_s_ideal)
    assert steps["explained_removal"].sum() == pytest.approx(1)
    both = slowdown_by(operations, ("stage", "step"))
    assert both.columns[:2] == ["stage", "step"]
    alone = slowdown_by(operations, "stage")
    assert both.group_by("stage", maintain_order=True).agg(pl.col("slowdown").mean())[
        "slowdown"
    ].to_list() == pytest.approx(alone["slowdown"].to_list())  # the ideal step time is one
    assert both.group_by("stage", maintain_order=True).agg(pl.col("explained_removal").sum())[
        "explained_removal"
    ].to_list() == pytest.approx(alone["explained_removal"].to_list())


FORWARD_S, BACKWARD_S = 0.1, 0.2
TRANSFERS = [f"{way}-{end}" for way in ("forward", "backward") for end in ("send", "recv")]
OTHERS = ["communication", "optimizer", "gc"]


@pytest.mark.parametrize(
    ("stages", "micro_batches", "chunks", "ranks"),
    [(1, 4, 1, 2), (1, 1, 1, 1), (2, 7, 1, 3), (4, 4, 1, 1), (8, 16, 1, 2), (4, 8, 2, 1)],
)
@pytest.mark.parametrize("slow", [1.0, 1.7])
def test_step_times_of_schedules_in_closed_form(
    *, stages: int, micro_batches: int, chunks: int, ranks: int, slow: float
) -> None:
    """n micro-batches in p stages of v chunks take (n v + p - 1) (f + b).

    The last stage never waits between its first and last computation: if it is slow by k, the
    others precede and follow, (n k + p - 1) (f + b).
    """
    where = {"stage": stages - 1, "dp_rank": ranks - 1, "factor": slow}
    operations, _ = generate(
        stages=stages,
        micro_batches=micro_batches,
        chunks=chunks,
        ranks=ranks,
        noise=0,
        slow=where,
    )
    alone = replay_operations(operations, ideal=Scaled(0, kind=OTHERS)).step_s_ideal
    both = FORWARD_S + BACKWARD_S
    if chunks == 1:
        expected = (micro_batches * slow + stages - 1) * both
        assert alone == pytest.approx(expected)
    elif slow == 1:
        assert alone == pytest.approx((micro_batches * chunks + stages - 1) * both)


def test_the_time_of_links_in_closed_form() -> None:
    """A single micro-batch passes each link forward and backward."""
    slow = {"stage": 1, "kind": "forward-send", "factor": 50}
    operations, _ = generate(stages=3, micro_batches=1, noise=0, slow=slow)
    kinds = [kind for kind in operations["kind"].unique() if "compute" not in kind]
    only = [kind for kind in kinds if kind not in TRANSFERS]
    times = replay_operations(operations, ideal=Scaled(0, kind=only)).step_s_ideal
    # a send of stage 1 takes 50 times as long, the receive of stage 2 does not
    assert times == pytest.approx(3 * (FORWARD_S + BACKWARD_S) + 4 * 0.004)
    slow["kind"] = "forward-"
    operations, _ = generate(
        stages=3, micro_batches=1, noise=0, slow=slow | {"stage": 2, "kind": "forward-recv"}
    )
    times = replay_operations(operations, ideal=Scaled(0, kind=only)).step_s_ideal
    assert times == pytest.approx(3 * (FORWARD_S + BACKWARD_S) + (3 + 50) * 0.004)


def test_transfers_that_lead_nowhere_may_be_left_out() -> None:
    operations, times = generate(stages=2, chunks=2, micro_batches=4, noise=0)
    first, last = (
        (pl.col("stage") == stage) & (pl.col("chunk") == chunk) for stage, chunk in ((0, 0), (1, 1))
    )
    computes = operations.filter(pl.col("kind").str.ends_with("compute"))
    idle = pl.concat(
        computes.filter(place, pl.col("kind") == f"{way}-compute").select(
            "step", "dp_rank", "stage", "sequence", kind=pl.lit(f"{way}-{end}")
        )
        for place, way, end in (
            (first, "forward", "recv"),
            (last, "forward", "send"),
            (last, "backward", "recv"),
            (first, "backward", "send"),
        )
    )
    keys = ["step", "dp_rank", "stage", "kind", "sequence"]
    result = replay_operations(operations.join(idle, on=keys, how="anti").drop("sequence"))
    assert result.step_s_original == pytest.approx(times, abs=0.02)
    assert result.replay_error < 1e-9


SLOW_WORKER = {"dp_rank": 2, "stage": 1, "kind": "forward-c", "factor": 3}


def test_a_slow_worker_is_found() -> None:
    operations, _ = generate(
        ranks=4,
        stages=4,
        noise=0.01,
        slow={"dp_rank": 2, "stage": 1, "kind": "forward-c", "factor": 3},
    )
    found = worker_slowdown(operations)
    assert found.workers.row(0, named=True)["worker"] == "w6"
    assert found.workers.filter("is_slowest").height == 1
    assert found.m_w > 0.9
    assert abs(found.m_s) < 0.1
    by_worker = slowdown_by(operations, "worker").sort("explained_removal")
    assert by_worker["worker"][-1] == "w6"
    by_kind = slowdown_by(operations, "kind").sort("explained_removal")
    assert by_kind["kind"][-1] == "forward-compute"


def test_a_slow_last_stage_is_found() -> None:
    operations, _ = generate(stages=4, noise=0.01, slow={"stage": 3, "kind": "", "factor": 1.5})
    found = worker_slowdown(operations)
    assert found.m_s > 0.9
    assert slowdown_by(operations, "stage").sort("explained_removal")["stage"][-1] == 3


def test_a_slow_link_is_found() -> None:
    operations, _ = generate(
        stages=4, noise=0.01, slow={"stage": 1, "kind": "forward-send", "factor": 100}
    )
    kinds = slowdown_by(operations, "kind").sort("explained_removal")
    assert kinds["kind"][-1] == "forward-pp-comm"
    assert slowdown_by(operations, "stage").sort("explained_removal")["stage"][-1] in {1, 2}


def test_one_bad_step_is_found() -> None:
    operations, _ = generate(steps=8, noise=0.01, slow={"step": 5, "factor": 2})
    steps = slowdown_by(operations, "step").sort("slowdown")
    assert steps["step"][-1] == 50
    assert steps["explained_removal"][-1] > 0.9


@settings(max_examples=15)
@given(st.integers(0, 1000), st.floats(0, 1), st.integers(0, 2))
def test_shorter_durations_never_lengthen_a_step(rng: int, factor: float, stage: int) -> None:
    operations, _ = generate(rng, stages=3, noise=0.5)
    result = replay_operations(operations, ideal=Scaled(factor, stage=stage))
    assert (result.step_s_ideal <= result.step_s_original + 1e-12).all()


def test_policies_of_groups_add_up() -> None:
    operations, _ = generate(stages=3, noise=0.3)
    job = replay_operations(operations)
    everything = [0, 1, 2]
    for policy in (Ideal(), Ideal(stage=everything), {"stage": everything}):
        assert replay_operations(operations, ideal=policy).step_s_ideal == pytest.approx(
            job.step_s_ideal
        )
    for other in (AsMeasured(), Scaled(1.0), Scaled(0.5, step=[]), Ideal(kind=[])):
        assert replay_operations(operations, ideal=other).step_s_ideal == pytest.approx(
            job.step_s_original
        )
    assert replay_operations(operations, ideal=Scaled(0)).slowdown == float("inf")
    halved = replay_operations(operations, ideal=Scaled(0.5))
    assert halved.step_s_ideal == pytest.approx(job.step_s_original / 2)


def test_a_bad_step_alone_is_repaired_alone() -> None:
    operations, _ = generate(steps=4, slow={"step": 2, "factor": 2})
    job = replay_operations(operations)
    repaired = replay_operations(operations, ideal={"step": 20})
    same = [0, 1, 3]
    assert repaired.step_s_ideal[same] == pytest.approx(job.step_s_original[same])
    assert repaired.step_s_ideal[2] == pytest.approx(job.step_s_ideal[2])


def test_balanced_stages_remove_the_imbalance_of_layers() -> None:
    """Without noise each stage then takes what all would take with the mean number of layers."""
    slow = {"stage": 3, "kind": "forward-c", "factor": 1.4}
    operations, _ = generate(stages=4, noise=0, slow=slow)
    balanced = replay_operations(operations, ideal=BalancedStages())
    even = {"kind": "forward-c", "factor": 1.1}
    _, times = generate(stages=4, noise=0, slow=even)
    assert balanced.step_s_ideal == pytest.approx(times)


@pytest.mark.parametrize("number", [1, 2, 4, 8, 16])
def test_another_number_of_micro_batches_is_the_schedule_of_that_number(number: int) -> None:
    operations, _ = generate(stages=3, micro_batches=4, noise=0)
    result = replay_operations(operations, ideal=MicroBatches(number))
    factor = 4 / number
    expected, _ = generate(stages=3, micro_batches=number, noise=0)
    parts = ["forward-compute", "backward-compute"]
    parts += [f"{a}-{b}" for a in ("forward", "backward") for b in ("send", "recv")]
    scaled = replay_operations(expected, ideal=Scaled(factor, kind=parts))
    assert result.step_s_ideal == pytest.approx(scaled.step_s_ideal)


def test_more_micro_batches_shrink_the_bubble() -> None:
    operations, _ = generate(stages=4, micro_batches=4, noise=0)
    times = [
        replay_operations(operations, ideal=MicroBatches(number)).step_s_ideal.mean()
        for number in (4, 8, 16, 32)
    ]
    assert all(later < sooner for sooner, later in pairwise(times))


def test_durations_without_variation_have_no_slowdown_to_explain() -> None:
    operations = pl.DataFrame(
        {
            "step": 0,
            "dp_rank": 0,
            "stage": 0,
            "kind": ["forward-compute", "backward-compute", "optimizer"],
            "start_s": [0.0, 1.0, 3.0],
            "duration_s": [1.0, 2.0, 1.0],
        }
    )
    frame = slowdown_by(operations, "kind")
    assert frame["slowdown"].to_list() == [1, 1, 1]
    assert frame["explained_removal"].null_count() == 3
    assert np.isnan(worker_slowdown(operations).m_w)


def test_launch_delays_are_part_of_no_what_if() -> None:
    operations, times = generate(noise=0)
    late = pl.when(kind="optimizer").then(pl.col("start_s") + 5).otherwise("start_s")
    result = replay_operations(operations.with_columns(start_s=late))
    assert result.step_s_measured == pytest.approx(times + 5)
    assert result.step_s_original == pytest.approx(times)
    assert result.launch_slowdown == pytest.approx((times + 5).mean() / times.mean())
    assert result.replay_error < 1e-12


def test_transfers_that_were_never_launched_are_matched_with_nothing() -> None:
    """A receive after the last computation and a send before the first one change no step time."""
    operations, times = generate(stages=2, chunks=2, micro_batches=2, ranks=1, steps=1, noise=0)
    last = operations.filter(kind="backward-compute", stage=0)["start_s"].max()
    receive = operations.filter(kind="backward-recv", stage=0).tail(1)
    send = operations.filter(kind="backward-send", stage=0).head(1)
    extra = [
        receive.with_columns(start_s=pl.lit(last) + 0.01, sequence=pl.lit(4, pl.Int64)),
        send.with_columns(
            start_s=pl.lit(0.0), duration_s=pl.lit(0.001), sequence=pl.lit(-1, pl.Int64)
        ),
    ]
    assert replay_operations(pl.concat([operations, *extra])).step_s_original == pytest.approx(
        times
    )


def test_the_first_receive_of_the_first_stage_may_be_missing() -> None:
    operations, times = generate(stages=2, chunks=2, micro_batches=2, noise=0)
    missing = (
        (pl.col("kind") == "forward-recv") & (pl.col("stage") == 0) & (pl.col("sequence") == 0)
    )
    result = replay_operations(operations.filter(~missing))
    # the receive of nothing took its time; computation no longer waits for it
    assert result.step_s_original == pytest.approx(times, abs=0.005)


def without(kind: str, **of: int) -> pl.Expr:
    chosen = pl.col("kind") == kind
    for name, value in of.items():
        chosen &= pl.col(name) == value
    return ~chosen


Spoil = Callable[[pl.DataFrame], pl.DataFrame]
HOSTILE: dict[str, tuple[Spoil, str]] = {
    "two jobs": (
        lambda rows: pl.concat([rows, rows.with_columns(job_id=pl.lit("other"))]),
        "2 jobs (generated, other)",
    ),
    "an operation lost": (
        lambda rows: rows.filter(without("forward-recv", step=10, sequence=1, dp_rank=1, stage=1)),
        "step 10, worker w3: forward-recv 1 occurs 0 times",
    ),
    "an operation more": (
        lambda rows: rows.filter(without("forward-recv", step=0, sequence=1, stage=1, dp_rank=0)),
        "step 0, worker w2: forward-recv 1 occurs 0 times",
    ),
    "an operation twice": (
        lambda rows: pl.concat([rows, rows.filter(~without("gc", step=10, dp_rank=0, stage=1))]),
        "step 10, worker w2: gc 0 occurs 2 times",
    ),
    "a partner lost": (
        lambda rows: rows.filter(without("forward-recv", stage=1, sequence=3)),
        "step 0, worker w0: 4 forward-send for 3 forward-recv of worker w2",
    ),
    "transfers lost": (
        lambda rows: rows.filter(
            without("forward-recv", stage=1, sequence=3),
            without("forward-recv", stage=1, sequence=2),
        ),
        "step 0, worker w2: 2 forward-recv for 4 forward-compute",
    ),
    "no transfers": (
        lambda rows: rows.filter(~pl.col("kind").str.contains("send|recv")),
        "step 0, worker w0: 0 forward-send for 4 forward-compute; each needs one",
    ),
    "other numbers of micro-batches": (
        lambda rows: rows.filter((pl.col("step") == 0) | (pl.col("sequence") < 3)),
        "step 10, worker w0: forward-compute 3 occurs 0 times",
    ),
    "half of a collective": (
        lambda rows: rows.filter(without("embedding-grads-all-reduce", stage=1)),
        "step 0, worker w0: embedding-grads-all-reduce 0 joins the first and last stage",
    ),
    "a stage out of step": (
        lambda rows: rows.filter(without("optimizer-clip-main-grad", stage=0)),
        "optimizer-clip-main-grad 0 joins all stages, but worker w0 (stage 0) lacks it",
    ),
    "a circle": (
        lambda rows: rows.with_columns(
            start_s=pl.when(stage=0, kind="backward-compute", sequence=0)
            .then(pl.col("start_s") - 5)
            .otherwise("start_s")
        ),
        "step 0: operations wait for one another in a circle",
    ),
    "an unknown kind": (
        lambda rows: rows.with_columns(kind=pl.lit("coffee")),
        "kind 'coffee' is unknown",
    ),
    "no optimizer": (lambda rows: rows.filter(without("optimizer")), "no optimizer"),
    "no computation": (
        lambda rows: rows.filter(without("backward-compute")),
        "step 0, worker w0: no backward-compute",
    ),
    "a stage skipped": (
        lambda rows: rows.with_columns(stage=pl.col("stage") * 2),
        "stages must be 0, 1, 2",
    ),
    "a null": (
        lambda rows: rows.with_columns(
            duration_s=pl.when(kind="optimizer", step=10, stage=1, dp_rank=1)
            .then(None)
            .otherwise("duration_s")
        ),
        "step 10, worker w3: optimizer 0 has start_s 1001.612 and duration_s nan",
    ),
    "a negative duration": (
        lambda rows: rows.with_columns(duration_s=-pl.col("duration_s") - 1),
        "both must be finite, and the duration 0 or more",
    ),
    "a time beyond a float of 32 bits": (
        lambda rows: rows.with_columns(start_s=pl.lit(1e300)),
        "has start_s 1e+300 and duration_s",
    ),
    "a step without a number": (
        lambda rows: rows.with_columns(step=pl.lit(None, pl.Int64)),
        "column step has",
    ),
    "half a step": (
        lambda rows: rows.with_columns(step=pl.lit(0.5)),
        "column step holds fractions",
    ),
    "two workers in one place": (
        lambda rows: rows.with_columns(
            worker_id=pl.when(step=10, stage=1).then(pl.lit("x")).otherwise("worker_id")
        ),
        "workers w2 and x are both data-parallel rank 0 of stage 1",
    ),
    "a worker in two places": (
        lambda rows: rows.with_columns(worker_id=pl.lit("x")),
        "worker x has several data-parallel ranks or stages",
    ),
    "durations of 0": (
        lambda rows: rows.with_columns(duration_s=pl.lit(0.0)),
        "duration_s is 0 in all forward-compute and backward-compute",
    ),
    "no rows": (lambda rows: rows.clear(), "the frame has no rows"),
    "no column": (lambda rows: rows.drop("stage"), "column stage is missing"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bad_graph_is_one_clear_line(name: str) -> None:
    spoil, message = HOSTILE[name]
    operations, _ = generate(steps=2, noise=0)
    with pytest.raises(DataError) as raised:
        replay_operations(spoil(operations))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_numbers_that_run_on_over_the_steps_cost_no_memory() -> None:
    operations, _ = generate(steps=300, ranks=1, noise=0)
    on = operations.with_columns(sequence=pl.col("sequence") + pl.col("step"))
    tracemalloc.start()
    with pytest.raises(DataError, match="step 10, worker w0: forward-compute 0 occurs 0 times"):
        replay_operations(on)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 8 * operations.height


@pytest.mark.parametrize(
    ("ideal", "message"),
    [
        ({"stage": 9}, "no stage is 9; found 0, 1"),
        ({"kind": "coffee"}, "no kind is 'coffee'"),
        ({"color": 1}, "with keys of kind"),
        ({}, "with keys of kind"),
        ("stage=3", "ideal must be None, a policy"),
    ],
)
def test_a_what_if_of_nothing_is_refused(ideal: object, message: str) -> None:
    operations, _ = generate(steps=1)
    with pytest.raises(DataError, match=message):
        replay_operations(operations, ideal=ideal)  # type: ignore[arg-type]


def test_numbers_of_policies_are_checked() -> None:
    for bad in (-1, float("nan"), "2"):
        with pytest.raises(DataError, match="factor must be"):
            Scaled(bad)  # type: ignore[arg-type]
    for number in (0, 1.5, 10**9):
        with pytest.raises(DataError, match="number of micro-batches"):
            MicroBatches(number)  # type: ignore[arg-type]
    operations, _ = generate(stages=2, chunks=2, micro_batches=4)
    with pytest.raises(DataError, match="one chunk of the model per stage; there are 2"):
        replay_operations(operations, ideal=MicroBatches(2))
    with pytest.raises(DataError, match="by must be of"):
        slowdown_by(operations, "color")


def test_optional_columns_may_be_absent() -> None:
    operations, times = generate()
    needed = operations.select("step", "dp_rank", "stage", "kind", "start_s", "duration_s")
    result = replay_operations(needed.lazy())
    assert result.step_s_original == pytest.approx(times)
    assert worker_slowdown(needed).workers["worker"].sort().to_list() == [
        "0-0",
        "0-1",
        "1-0",
        "1-1",
    ]


def test_other_engines_and_types_give_the_same() -> None:
    operations, times = generate()
    pandas = operations.to_pandas()
    assert replay_operations(pandas).step_s_original == pytest.approx(times)
    assert replay_operations(operations.to_arrow()).step_s_original == pytest.approx(times)
    small = operations.with_columns(
        pl.col("kind").cast(pl.Categorical),
        pl.col("dp_rank", "stage").cast(pl.Int8),
        pl.col("chunk").fill_null(-1).cast(pl.Int16),
    )
    assert replay_operations(small).step_s_original == pytest.approx(times)
