from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.simulate.placement import naive
from traceana import PlacementNodes, PlacementRequest, simulate_placement
from traceana.errors import DataError
from traceana.simulate.placement.cluster import POLICIES

SHARED = Path(__file__).parents[4] / "shared"
PUBLISHED = SHARED / "published" / "placement"
DETERMINISTIC = [name for name in POLICIES if name != "random"]

jobs_of = st.lists(
    st.fixed_dictionaries(
        {
            "gpus": st.sampled_from([0.0, 0.25, 0.46, 0.5, 1.0, 2.0, 4.0, 8.0, None]),
            "cpus": st.sampled_from([0.0, 1.0, 4.0, 8.5, 200.0, None]),
            "memory_gib": st.sampled_from([0.0, 1.0, 3.5, 1e6, None]),
            "gpu_type": st.sampled_from([None, "", "T4", "V100|T4", "|A10|"]),
        }
    ),
    min_size=1,
    max_size=40,
)
machines_of = st.lists(
    st.fixed_dictionaries(
        {
            "gpus": st.sampled_from([0.0, 1.0, 2.0, 8.0, None]),
            "cpus": st.sampled_from([4.0, 16.0, 96.0, None]),
            "memory_gib": st.sampled_from([8.0, 64.0, None]),
            "gpu_type": st.sampled_from(["T4", "V100", None]),
        }
    ),
    min_size=1,
    max_size=8,
)
SCHEMA = {"gpus": pl.Float64, "cpus": pl.Float64, "memory_gib": pl.Float64, "gpu_type": pl.String}


def frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def some(jobs: pl.DataFrame, machines: pl.DataFrame) -> bool:
    """Return whether a job requests GPUs and a machine has some."""
    return bool((jobs["gpus"] > 0).any()) and bool((machines["gpus"] > 0).any())


class Watching:
    """Checks that no machine is over its capacity, and places on the machine last in order."""

    def __init__(self) -> None:
        self.calls = 0

    def score(self, request: PlacementRequest, nodes: PlacementNodes) -> np.ndarray:
        self.calls += 1
        assert (nodes.cpu_milli >= request.cpu_milli).all()
        assert ((nodes.gpu_milli >= 0) & (nodes.gpu_milli <= 1000)).all()
        assert (nodes.fragment() <= nodes.free_gpu_milli + 1e-6).all()
        assert nodes.fits(request).all()
        return np.arange(len(nodes.gpus))


@settings(max_examples=30)
@given(
    jobs_of, machines_of, st.sampled_from([*POLICIES, "own"]), st.sampled_from(["name", "random"])
)
@example([{"gpus": 0.25, "cpus": 1.0}], [{"gpus": 1.0, "cpus": None}], "dotprod", "name")
def test_nothing_exceeds_capacity_or_shrinks(
    jobs: list[dict[str, object]], machines: list[dict[str, object]], name: str, ties: str
) -> None:
    jobs_, machines_ = frame(jobs), frame(machines)
    policy = Watching() if name == "own" else name
    if not some(jobs_, machines_):
        with pytest.raises(DataError, match=r"no job requests a GPU|no machine has a GPU"):
            simulate_placement(jobs_, machines_, policy=policy)
        return
    found = simulate_placement(jobs_, machines_, policy=policy, ties=ties)  # type: ignore[arg-type]
    assert found["arrived"].to_list() == list(range(10, 131, 10))
    allocated, fragment = found["allocated"], found["fragment"]
    assert (allocated.diff().drop_nulls() >= -1e-9).all()
    assert (allocated <= found["arrived"] + 0.5 + 1e-9).all()
    assert allocated.is_between(0, 100 + 1e-9).all()
    assert (fragment >= -1e-9).all()
    assert (allocated + fragment <= 100 + 1e-6).all()
    again = simulate_placement(jobs_, machines_, policy=policy, ties=ties)  # type: ignore[arg-type]
    assert again.equals(found)


def draw(seed: int) -> tuple[list[naive.Pod], list[naive.Node], pl.DataFrame, pl.DataFrame]:
    """Return a random workload that requests at least 130 % of the GPUs of its machines."""
    rng = np.random.default_rng(seed)
    nodes = [
        (int(rng.choice([8, 32, 64])), int(rng.choice([1, 2, 8])), str(rng.choice(["T4", "A10"])))
        for _ in range(rng.integers(3, 9))
    ]
    kinds = [
        (0, 0, ""),
        *((int(share), 1, "") for share in (125, 330, 500, 810)),
        *((1000, gpus, types) for gpus in (1, 2, 4) for types in ("", "T4", "T4|A10")),
    ]
    pods: list[naive.Pod] = []
    while sum(p.share * p.gpus for p in pods) < 1300 * sum(gpus for _, gpus, _ in nodes):
        share, gpus, types = kinds[rng.integers(len(kinds))]
        cpu = int(rng.choice([1000, 2000, 6500]))
        pods.append(naive.Pod(cpu, share, gpus, types, int(rng.choice([0, 1024, 3000]))))
    jobs = pl.DataFrame(
        {
            "gpus": [p.share * p.gpus / 1000 for p in pods],
            "cpus": [p.cpu / 1000 for p in pods],
            "memory_gib": [p.memory / 1024 for p in pods],
            "gpu_type": [p.types for p in pods],
        }
    )
    machines = pl.DataFrame(
        {
            "machine_id": [f"node-{i}" for i in range(len(nodes))],
            "gpus": [gpus for _, gpus, _ in nodes],
            "cpus": [cpu for cpu, _, _ in nodes],
            "memory_gib": [16] * len(nodes),
            "gpu_type": [kind for *_, kind in nodes],
        }
    )
    own = [
        naive.Node(cpu * 1000, 16 * 1024, [1000] * gpus, kind, Counter())
        for cpu, gpus, kind in nodes
    ]
    return pods, own, jobs, machines


@pytest.mark.parametrize("policy", DETERMINISTIC)
@pytest.mark.parametrize("seed", range(6))
def test_equals_a_plain_simulation(policy: str, seed: int) -> None:
    pods, nodes, jobs, machines = draw(seed)
    total = sum(len(node.free) for node in nodes) * 1000
    states = naive.simulate(pods, nodes, policy, seed, fill=1.3)
    order = np.random.default_rng(seed)
    order.permutation(len(nodes))
    arrived = jobs["gpus"].to_numpy()[order.permutation(len(pods))].cumsum() * 1e5 / total
    near = np.round(arrived[: len(states)])
    found = simulate_placement(jobs, machines, policy=policy, rng=seed)
    for at, allocated, fragment in found.iter_rows():
        here = [states[i] for i in np.flatnonzero(near == at)]
        if here:
            assert allocated == pytest.approx(np.mean([a for a, _ in here]) / total * 100)
            assert fragment == pytest.approx(np.mean([f for _, f in here]) / total * 100)


def test_fragment_of_the_definition() -> None:
    # 4 of 5 jobs share half a GPU, 1 requests 2 GPUs: on a machine with one GPU the latter cannot
    # run, so a fifth of its free share is a fragment
    jobs = pl.DataFrame({"gpus": [0.5, 0.5, 0.5, 0.5, 2.0]})
    machines = pl.DataFrame({"gpus": [1] * 100})
    first = simulate_placement(jobs, machines, policy="fgd", fill=0.1)
    assert first["fragment"].item() == pytest.approx((100 - first["allocated"].item()) / 5, abs=0.1)


def test_a_job_larger_than_every_machine_is_lost() -> None:
    jobs = pl.DataFrame({"gpus": [8.0, 8.0]})
    found = simulate_placement(jobs, pl.DataFrame({"gpus": [4, 4, 4, 4]}), policy="bestfit")
    assert (found["allocated"] == 0).all()
    assert found.filter(arrived=100)["fragment"].item() == 100


def test_rows_of_machines_may_be_in_any_order() -> None:
    _, _, jobs, machines = draw(1)
    there = simulate_placement(jobs, machines, policy="packing")
    assert simulate_placement(jobs, machines.reverse(), policy="packing").equals(there)


def test_lists_with_fewer_columns_are_read() -> None:
    found = simulate_placement(
        pl.DataFrame({"gpus": [0.5, 1.0]}), pl.DataFrame({"gpus": [2, 2]}), policy="dotprod"
    )
    assert found.filter(arrived=100)["allocated"].item() == 100


@pytest.mark.parametrize("policy", POLICIES)
def test_cores_of_jobs_do_not_count_where_machines_state_none(policy: str) -> None:
    machines = pl.DataFrame({"gpus": [2, 4]})
    jobs = pl.DataFrame({"gpus": [0.5, 1.0, 2.0], "cpus": [4.0, 1e5, 64.0]})
    found = simulate_placement(jobs, machines, policy=policy)
    assert found.equals(simulate_placement(jobs.drop("cpus"), machines, policy=policy))


def test_memory_limits() -> None:
    jobs = pl.DataFrame({"gpus": [1.0], "memory_gib": [60.0]})
    machines = pl.DataFrame({"gpus": [2], "memory_gib": [100.0]})
    found = simulate_placement(jobs, machines, policy="fgd")
    assert found["allocated"].max() == 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "best"}, "policy must be one of random, dotprod"),
        ({"policy": object()}, r"or have a method score\(request, nodes\)"),
        ({"ties": "none"}, "ties must be one of name, random"),
        ({"fill": 0}, "fill must be from 0.1 to 10"),
        ({"rng": "a"}, "rng must be a whole number"),
        ({"jobs": pl.DataFrame({"gpus": [-1.0]})}, "jobs: column gpus must not be negative"),
        ({"jobs": pl.DataFrame({"gpus": [None]})}, "no job requests a GPU"),
        ({"jobs": pl.DataFrame({"cpus": [1.0]})}, "gpus"),
        ({"jobs": pl.DataFrame({"gpus": [1e-9]})}, "needs about"),
        ({"machines": pl.DataFrame({"gpus": [0]})}, "no machine has a GPU"),
        ({"machines": pl.DataFrame({"gpus": [1e9]})}, "must be 10,000 at most"),
    ],
)
def test_errors_name_the_fault(change: dict[str, object], message: str) -> None:
    arguments = {
        "jobs": pl.DataFrame({"gpus": [1.0]}),
        "machines": pl.DataFrame({"gpus": [10_000]}),
        "policy": "fgd",
        **change,
    }
    jobs, machines = arguments.pop("jobs"), arguments.pop("machines")
    with pytest.raises(DataError, match=message):
        simulate_placement(jobs, machines, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ["x", [1.0], [[1.0, 2.0]], [1.0, None], [float("nan")] * 2])
def test_scores_that_are_no_number_per_machine_are_refused(answer: object) -> None:
    policy = type("Wrong", (), {"score": lambda _, request, nodes: answer})()  # noqa: ARG005
    jobs, machines = pl.DataFrame({"gpus": [1.0]}), pl.DataFrame({"gpus": [2, 2]})
    with pytest.raises(DataError, match="score must return one number for each machine"):
        simulate_placement(jobs, machines, policy=policy)


def pod_list(path: Path) -> pl.DataFrame:
    pods = pl.read_csv(path)
    of = pl.col("gpu_spec") if "gpu_spec" in pods.columns else pl.lit(None)
    return pods.select(
        gpus=pl.col("num_gpu") * pl.col("gpu_milli") / 1000,
        cpus=pl.col("cpu_milli") / 1000,
        memory_gib=pl.col("memory_mib") / 1024,
        gpu_type=of.cast(pl.String),
    )


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the publisher's placement results are absent")
@pytest.mark.parametrize(
    ("workload", "policy", "printed"),
    [("default", "fgd", "06-FGD"), ("multigpu20", "bestfit", "05-BestFit")],
)
def test_the_publishers_results(workload: str, policy: str, printed: str) -> None:
    name = f"openb_pod_list_{workload}"
    folder = SHARED / "data" / "alibaba-openb-2023" if workload == "default" else PUBLISHED
    machines = pl.read_csv(PUBLISHED / "openb_node_list_gpu_node.csv").select(
        machine_id="sn",
        gpus="gpu",
        gpu_type="model",
        cpus=pl.col("cpu_milli") / 1000,
        memory_gib=pl.col("memory_mib") / 1024,
    )
    found = simulate_placement(pod_list(folder / f"{name}.csv"), machines, policy=policy)
    for quantity in ("allocated", "fragment"):
        rows = pl.read_csv(PUBLISHED / f"{quantity}.csv").filter(workload=name, sc_policy=printed)
        for at in (50, 80, 100, 120):
            value = found.filter(arrived=at)[quantity].item()
            spread = rows[str(at)].std()
            assert isinstance(spread, float)
            # one run: four standard deviations of the publisher's ten, and rounding
            assert value == pytest.approx(rows[str(at)].mean(), abs=4 * spread + 0.01)
