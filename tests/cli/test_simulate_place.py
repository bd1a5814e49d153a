"""``traceana simulate place``: the synthetic sample, and a list of pods with fewer columns."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from traceana import add_table, open_store, simulate_placement
from traceana.cli import app
from traceana.cli.options import qualifying_trace
from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.store import Store

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"pod-{i},{cpu},1024,{gpus},{milli}\n"
    for i, (cpu, gpus, milli) in enumerate([(4000, 1, 500), (8000, 1, 1000), (1000, 0, 0)] * 9)
)
NODES = (
    "sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,65536,8,T4\nn-2,64000,65536,2,\nn-3,64000,1,0,\n"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pods")
    (folder / "short").mkdir()
    (folder / "short" / "openb_pod_list_short.csv").write_text(PODS)
    (folder / "short" / "openb_node_list_gpu_node.csv").write_text(NODES)
    ledger = ingest(folder / "short", store=folder / "store")
    assert [(e.table, e.rows_kept, e.rows_rejected) for e in ledger.entries] == [
        ("jobs", 27, 0),
        ("machines", 3, 0),
    ]
    return folder / "store"


def run(*asked: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "place", *asked])
    if isinstance(done.exception, DataError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_json_has_one_row_per_policy_seed_and_percentage(store: Path) -> None:
    found = json.loads(
        run("short", "--policy", "fgd,random", "--seeds", "2", "--json", "--store", str(store))
    )
    rows = found["results"]
    assert [*rows[0]] == ["policy", "seed", "ties", "arrived", "allocated", "fragment"]
    assert len(rows) == 2 * 2 * 13
    assert (found["jobs"], found["machines"], found["gpus"]) == (27, 2, 10)
    frames = [open_store(store).scan("short", table) for table in ("jobs", "machines")]
    same = simulate_placement(*frames, policy="random", rng=2)
    of_run = [row for row in rows if (row["policy"], row["seed"]) == ("random", 2)]
    assert [row["allocated"] for row in of_run] == same["allocated"].to_list()


def test_table_has_means_over_seeds(store: Path) -> None:
    shown = run("short", "--policy", "bestfit", "--ties", "random", "--store", str(store))
    assert shown.startswith("short: 27 jobs on 2 machines with 10 GPUs\n")
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("bestfit")] == [
        ["bestfit", "random", str(at), "3"] for at in (50, 80, 100, 120)
    ]


def test_jobs_that_fit_on_no_empty_machine_are_counted(tmp_path: Path) -> None:
    # too many GPUs, cores, memory; a type that no machine has; one type where memory lacks
    jobs = (
        pl.DataFrame(
            {
                "gpus": [4.0, 1.0, 1.0, 0.5, 1.0, 2.0, 0.5, 0.0],
                "cpus": [1, 65, 1, 1, 1, 64, None, 1],
                "memory_gib": [1, 1, 33, 1, 20, 8, None, 33],
                "gpu_type": [None, None, None, "H100", "A10|T4", "T4", "H100|A10", "A10"],
            }
        )
        .with_row_index("job_id")
        .cast({"job_id": pl.String})
    )
    machines = pl.DataFrame(
        {
            "machine_id": ["a", "b"],
            "gpus": [2, 3],
            "cpus": [64, 64],
            "memory_gib": [8, 32],
            "gpu_type": ["T4", "A10"],
        }
    )
    for table, frame in (("jobs", jobs), ("machines", machines)):
        add_table(frame, trace="mine", table=table, store=tmp_path)
    asked = ("mine", "--policy", "fgd", "--seeds", "1", "--store", str(tmp_path))
    head = run(*asked).splitlines()[0]
    assert head.endswith("5 GPUs; 5 jobs fit on no machine, even if all are empty")
    assert json.loads(run(*asked, "--json"))["jobs_that_fit_on_no_machine"] == 5


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--policy", "worst"), "policy must be one of"),
        (("--seeds", "0"), "--seeds must be a whole number from 1"),
        (("--ties", "none"), "--ties must be one of name, random"),
        (("--policy", "os:getcwd"), "have a method score"),
    ],
)
def test_errors(store: Path, asked: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        run("short", *asked, "--store", str(store))


def test_a_column_that_is_there_is_not_stated_as_missing(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [0], "gpus": [1]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    with pytest.raises(DataError, match=r"^mine has no values in jobs \(runtime_s\)$"):
        qualifying_trace(Store(tmp_path), "mine", [{"jobs": ("submit_s", "runtime_s", "gpus")}])


def test_a_trace_without_machines_states_what_it_lacks(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [0], "runtime_s": [1], "gpus": [1]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    with pytest.raises(DataError, match=r"^mine has no values in machines \(gpus\)$"):
        run("mine", "--policy", "fgd", "--store", str(tmp_path))


@pytest.mark.parametrize(
    ("pods", "nodes", "types"),
    [
        ("name,num_gpu,gpu_milli\na,1,500\nb,2,1000\n", "sn,gpu\nn,4\n", [None, None]),
        (
            "gpu_spec,gpu_milli,num_gpu,name\nT4|A10,500,1,a\nA10,1000,2,b\n",
            "model,gpu,cpu_milli,sn\nA10,4,8000,n\n",
            ["T4|A10", "A10"],
        ),
    ],
)
def test_lists_have_few_columns_in_any_order(
    tmp_path: Path, pods: str, nodes: str, types: list[str | None]
) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "pods.csv").write_text(pods)
    (tmp_path / "few" / "nodes.csv").write_text(nodes)
    ingest(tmp_path / "few", store=tmp_path / "store")
    jobs = open_store(tmp_path / "store").scan("few", "jobs").sort("job_id").collect()
    assert jobs.select("gpus", "gpu_type").rows() == [(0.5, types[0]), (2.0, types[1])]
    found = json.loads(run("few", "--policy", "fgd", "--json", "--store", str(tmp_path / "store")))
    assert (found["jobs"], found["machines"], found["gpus"]) == (2, 1, 4)
    # both jobs, 2.5 of 4 GPUs, fit in either order
    at_the_end = [row["allocated"] for row in found["results"] if row["arrived"] == 130]
    assert at_the_end
    assert min(at_the_end) >= 62.5
