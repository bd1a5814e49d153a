"""The manifest states what a trace is, and which traces have values where."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.ingesters.conftest import Write, itp_archive, worker_times
from traceana.catalog.model import get_trace
from traceana.errors import DataError, StoreError
from traceana.exchange import select_jobs
from traceana.ingesters import add_table, ingest
from traceana.ingesters.plan import checked_facts
from traceana.store import Store, open_store
from traceana.store.manifest import Capacity, Manifest

JOBS = "j1,i1,u1,Terminated,100.0,200.0\nj2,i2,,Failed,50.0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\np1,1000,1024,1,500,,LS,Succeeded,0,900,10\n"
)


@pytest.fixture
def store(write: Write, tmp_path: Path) -> Store:
    write("pai_job_table.csv", JOBS)
    write("openb_pod_list_default.csv", PODS)
    write("job_1_norm.csv", worker_times())
    folder = write("elsewhere/job_2_norm.csv", worker_times())
    itp_archive(folder)
    ingest(folder, store=tmp_path / "store")
    return open_store(tmp_path / "store")


def test_traces_are_found_by_table_and_columns_with_values(store: Store) -> None:
    assert store.traces() == [
        "alibaba-minibatch-2020",
        "alibaba-openb-2023",
        "alibaba-pai-2020",
        "microsoft-itp-2021",
    ]
    assert store.traces("jobs") == store.traces()[1:]
    assert store.traces(table="jobs", columns=("gpus", "runtime_s")) == [
        "alibaba-openb-2023",
        "microsoft-itp-2021",
    ]
    assert store.traces("jobs", ["user", "status"]) == ["alibaba-pai-2020"]
    assert store.traces("jobs", ["gpu_type"]) == []
    assert store.traces("power_profiles") == []


def test_a_manifest_states_times_failures_and_columns(store: Store) -> None:
    manifest = store.manifest("alibaba-pai-2020")
    known = get_trace("alibaba-pai-2020")
    assert (manifest.title, manifest.license) == (known.title, "CC BY 4.0")
    assert (manifest.source, manifest.synthetic) == ("catalog", False)
    assert (manifest.timezone, manifest.absolute_times, manifest.utc_offset_h) == (None, False, 8)
    assert (manifest.window_start_s, manifest.window_end_s, manifest.window) == (50, 200, "derived")
    assert manifest.independent_unit == "user"
    assert set(manifest.failure_statuses) == {
        "failed",
        "cancelled",
        "running",
        "pending",
        "unknown",
    }
    jobs = manifest.tables["jobs"]
    assert (jobs.rows, jobs.unit_noun, jobs.generated) == (2, "jobs", False)
    assert set(jobs.columns) == {"job_id", "inst_id", "user", "status", "submit_s", "end_s"}
    pods = store.manifest("alibaba-openb-2023")
    assert pods.lists_only_survivors
    assert (pods.tables["jobs"].unit_noun, pods.tables["jobs"].groups) == ("pods", ("qos",))
    samples = store.manifest("alibaba-minibatch-2020").tables["worker_samples"]
    assert (samples.units, samples.values_held) == ({"batch_time": "relative"}, True)
    assert store.manifest("microsoft-itp-2021").tables["jobs"].left_truncated


def test_a_manifest_can_be_read_without_traceana(store: Store) -> None:
    path = store.path / "microsoft-itp-2021" / "manifest.json"
    stored = json.loads(path.read_text())
    assert stored["tables"]["jobs"]["rows"] == 30
    assert stored["window_start_s"] == 0
    assert "[trace]" in stored["mapping"]
    path.write_text("{}")
    with pytest.raises(StoreError, match="not a manifest that this version can read"):
        store.manifest("microsoft-itp-2021")
    with pytest.raises(StoreError, match="not in the store"):
        store.manifest("zeus-2023")


def test_a_changed_catalog_entry_builds_its_tables_anew(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write("job_1_norm.csv", worker_times())
    assert str(ingest(folder, store=tmp_path / "store")).endswith("(written)")
    assert str(ingest(folder, store=tmp_path / "store")).endswith("(unchanged)")
    known = get_trace("alibaba-minibatch-2020")
    monkeypatch.setitem(known.__dict__, "text", known.text.replace("Mini-batch time", "Time"))
    assert str(ingest(folder, store=tmp_path / "store")).endswith("(written)")
    description = open_store(tmp_path / "store").manifest(known.id).description
    assert description.startswith("Time of each worker")


@pytest.mark.parametrize(("second", "absolute"), [(631_152_000, True), (631_151_999, False)])
def test_times_from_1990_on_are_absolute(second: int, absolute: bool, tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_s": [second + 5.0, second],
            "start_s": [None, second + 7],
            "end_s": [second + 90.0, None],
            "status": "completed",
        }
    )
    add_table(jobs, trace="own", table="jobs", store=tmp_path)
    manifest = open_store(tmp_path).manifest("own")
    assert manifest.absolute_times == absolute
    assert (manifest.window_start_s, manifest.window_end_s) == (second, second + 90)
    assert (manifest.window, manifest.source, manifest.title) == ("derived", "api", "own")
    assert manifest.tables["jobs"].rows == 2


@pytest.mark.parametrize(
    ("facts", "window", "found"),
    [
        ("window_start_s = 1\nwindow_end_s = 9", "stated", (1, 9)),
        ('window_start_s = 1\nwindow_end_s = 9\ntitle = "x"', "stated", (1, 9)),
        ("window_start_s = 1", "derived", (1, 7)),
        ("", "derived", (5, 7)),
    ],
)
def test_a_window_is_stated_by_both_of_its_ends(
    tmp_path: Path, facts: str, window: str, found: tuple[float, float]
) -> None:
    mapping = f'[trace]\n{facts}\n[jobs]\njob_id = "id"\nsubmit_s = "t"\n'
    jobs = pl.DataFrame({"id": ["a", "b"], "t": [5.0, 7.0]})
    add_table(jobs, trace="own", table="jobs", mapping=mapping, store=tmp_path)
    manifest = open_store(tmp_path).manifest("own")
    assert manifest.window == window
    assert (manifest.window_start_s, manifest.window_end_s) == found


def test_facts_of_other_tables_stay_and_those_of_the_same_one_are_replaced(tmp_path: Path) -> None:
    jobs = '[trace]\ntitle = "first"\nlicense = "MIT"\n[jobs]\njob_id = "id"\n'
    jobs += '[jobs.about]\nunit_noun = "pods"\n'
    frame = pl.DataFrame({"id": ["a", "b"]})
    add_table(frame, trace="own", table="jobs", mapping=jobs, store=tmp_path)
    machines = '[trace]\ntitle = "second"\n[machines]\nmachine_id = "id"\ngpus = "1"\n'
    add_table(frame, trace="own", table="machines", mapping=machines, store=tmp_path)
    manifest = open_store(tmp_path).manifest("own")
    assert (manifest.title, manifest.license) == ("second", "MIT")
    nouns = {name: table.unit_noun for name, table in manifest.tables.items()}
    assert nouns == {"jobs": "pods", "machines": "machines"}
    assert manifest.tables["jobs"].mapping == jobs
    again = jobs.replace("pods", "runs")
    add_table(frame, trace="own", table="jobs", mapping=again, store=tmp_path)
    manifest = open_store(tmp_path).manifest("own")
    assert manifest.tables["jobs"].unit_noun == "runs"
    assert manifest.tables["machines"].mapping == machines


def test_a_trace_from_0_on_begins_at_a_positive_zero(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0.0, 7.0]})  # Parquet's least is -0
    add_table(jobs, trace="own", table="jobs", store=tmp_path)
    assert str(open_store(tmp_path).manifest("own").window_start_s) == "0.0"


@pytest.mark.parametrize("found", ["trace", "source", "synthetic", "window", "tables"])
def test_what_is_found_in_the_files_cannot_be_stated(tmp_path: Path, found: str) -> None:
    mapping = f'[trace]\n{found} = "x"\n[jobs]\njob_id = "id"\n'
    with pytest.raises(DataError, match=rf"no fact is called '{found}'.*; use title, ") as error:
        add_table(
            pl.DataFrame({"id": ["a"]}), trace="own", table="jobs", mapping=mapping, store=tmp_path
        )
    listed = str(error.value).partition("; use ")[2].split(", ")
    assert found not in listed
    assert "rows" not in listed


def test_a_table_is_added_to_a_copied_trace_of_unknown_facts(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [5.0, 90.0]})
    add_table(jobs, trace="own", table="jobs", store=tmp_path / "a")
    copy = select_jobs("own", store=tmp_path / "a", out=tmp_path / "b", since=60)
    machines = pl.DataFrame({"machine_id": ["m"], "gpus": [8]})
    add_table(machines, trace="own", table="machines", store=copy)
    manifest = open_store(copy).manifest("own")
    assert (manifest.timezone, manifest.window_start_s) == (None, 60)
    assert set(manifest.tables) == {"jobs", "machines"}


def test_a_fact_may_be_unknown_where_its_type_says_so() -> None:
    assert checked_facts({"window_start_s": None}, Manifest, "m") == {"window_start_s": None}
    for wrong in ({"window_start_s": "x"}, {"title": None}):
        with pytest.raises(DataError, match=f"m: {next(iter(wrong))}: "):
            checked_facts(wrong, Manifest, "m")


def test_a_fact_may_be_missing_where_its_type_allows_it() -> None:
    assert checked_facts({"timezone": None, "title": "x"}, Manifest, "m") == {
        "timezone": None,
        "title": "x",
    }
    with pytest.raises(DataError, match=r"^m: title: 'None' is not"):
        checked_facts({"title": None}, Manifest, "m")


CAPACITY = """[trace.capacity]
west = { nodes = 16, gpus_per_node = 8, gpu_type = "V100" }
"vc 2" = { nodes = 2, gpus_per_node = 4 }
[jobs]
job_id = "id"
"""


def test_a_mapping_states_the_machines_of_each_group(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["a", "b"]})
    add_table(frame, trace="own", table="jobs", mapping=CAPACITY, store=tmp_path / "a")
    expected = {
        "west": Capacity(nodes=16, gpus_per_node=8, gpu_type="V100"),
        "vc 2": Capacity(nodes=2, gpus_per_node=4),
    }
    assert open_store(tmp_path / "a").manifest("own").capacity == expected
    assert expected["west"].gpus == 128
    copy = select_jobs("own", store=tmp_path / "a", out=tmp_path / "b")
    assert open_store(copy).manifest("own").capacity == expected


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ("{ nodes = 2 }", "state nodes, gpus_per_node, gpu_type"),
        ("{ nodes = 2, gpus_per_node = 8, gpu = 'A' }", "no fact is called 'gpu'"),
        ("{ nodes = 2.5, gpus_per_node = 8 }", "nodes: '2.5' is not a whole number"),
        ("{ nodes = -2, gpus_per_node = 8 }", "nodes is -2, below 0"),
        ("8", "'8' is not a table"),
    ],
)
def test_a_capacity_without_a_number_of_gpus_is_refused(
    tmp_path: Path, stated: str, reason: str
) -> None:
    mapping = f"[trace.capacity]\nwest = {stated}\n[jobs]\njob_id = 'id'\n"
    with pytest.raises(DataError, match=reason):
        add_table(
            pl.DataFrame({"id": ["a"]}), trace="own", table="jobs", mapping=mapping, store=tmp_path
        )
