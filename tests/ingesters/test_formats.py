"""SWF logs, lists of Kubernetes pods, JSON arrays, and readers of other packages."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingesters.conftest import Write
from traceana.errors import DataError, SourceError
from traceana.ingesters import ingest
from traceana.ingesters.readers.kubectl import read_quantity
from traceana.ingesters.readers.reader import readers
from traceana.questions.trends.capacity import cpus_allocated
from traceana.store import Store, TableEntry


def read(file: Path, store: Path, **options: Any) -> tuple[pl.DataFrame, TableEntry]:
    (entry,) = ingest(file, store=store, **options).entries
    return Store(store).scan(entry.trace, "jobs").collect(), entry


SWF = """; Version: 2.2
; Computer: IBM SP2
; Installation: KTH
; UnixStartTime: 843458400
; TimeZoneString: Europe/Stockholm
  1    0   10  100   4  80 1024   8  200  2048  1  3  1  5  1 -1 -1 -1
  2    5   -1   -1  -1  -1   -1   4   -1    -1  5 -1  1 -1  1 -1 -1 -1
  3    6    0   50   4  80 1024   8  200  2048  2  3  1  5  1 -1 -1 -1
  4    7    0   50   4  80 1024  -1  200  2048  0  3  1  5  1 -1 -1 -1
; a comment
  5    8    0
"""


def test_swf_times_are_absolute_and_minus_one_is_missing(write: Write, tmp_path: Path) -> None:
    jobs, entry = read(write("kth.swf", SWF) / "kth.swf", tmp_path / "store")
    assert (entry.rows_read, entry.rows_kept, entry.rows_not_applicable) == (4, 3, 1)
    assert entry.rejected == {"short_row": 1}
    assert jobs["status"].to_list() == ["completed", "cancelled", "failed"]
    first = jobs.row(0, named=True)
    expected = {
        "job_id": "1",
        "submit_s": 843458400.0,
        "start_s": 843458410.0,
        "end_s": 843458510.0,
        "runtime_s": 100.0,
        "time_limit_s": 200.0,
        "cpus": 8.0,
        "cpu_time_s": 320.0,
        "user": "3",
        "memory_gib": 8 * 2048 / 1024**2,
        "memory_gib_used": 4 * 1024 / 1024**2,
        "queue": "1",
    }
    assert {name: first[name] for name in expected} == expected
    assert jobs.row(1, named=True)["start_s"] is None
    assert jobs["cpus"].to_list() == [8.0, 4.0, 4.0]  # not requested: those allocated
    manifest = Store(tmp_path / "store").manifest("kth")
    assert (manifest.title, manifest.timezone) == ("IBM SP2, KTH", "Europe/Stockholm")


def test_swf_without_a_start_is_on_its_own_clock(write: Write, tmp_path: Path) -> None:
    lines = [line for line in SWF.splitlines() if "Unix" not in line]
    jobs, _ = read(write("a.swf", "\n".join(lines)) / "a.swf", tmp_path / "store")
    assert jobs["submit_s"].to_list() == [0.0, 5.0, 7.0]
    with pytest.raises(SourceError, match="UnixStartTime is 'soon'"):
        read(write("b.swf", SWF.replace("843458400", "soon")) / "b.swf", tmp_path / "store")


@pytest.mark.parametrize(
    ("header", "nodes", "cpus"),
    [
        ("; MaxNodes: 100\n; MaxProcs: 200\n", 100, 200),
        ("; MaxProcs: 430 (of which 14 are for logins)\n", 1, 430),
        ("; MaxNodes: 100\n; MaxProcs: unknown\n", None, None),
        ("; MaxNodes: 0\n; MaxProcs: 7\n", 1, 7),
    ],
)
def test_swf_states_the_capacity(
    write: Write, tmp_path: Path, header: str, nodes: int | None, cpus: int | None
) -> None:
    path = write("a.swf", header + SWF) / "a.swf"
    read(path, tmp_path / "store")
    trace = Store(tmp_path / "store").trace("a")
    if cpus is None:
        assert not trace.manifest.capacity
        return
    assert trace.manifest.capacity["all"].nodes == nodes
    found = cpus_allocated(trace)
    assert found is not None
    # 100 s of 8 processors and 50 s of 4, from the first submission to the last end at 110 s
    assert found[:2] == pytest.approx((cpus, (100 * 8 + 50 * 4) / (cpus * 110)))
    assert found[2] == "as stated"
    own = tmp_path / "own.toml"
    text = (files("traceana.ingesters.mappings") / "swf.toml").read_text()
    more = "[trace.capacity]\nall = { nodes = 3, gpus_per_node = 0, cpus_per_node = 8 }\n[jobs]"
    own.write_text(text.replace("[jobs]", more, 1))
    ingest(path, trace="mine", mapping=own, store=tmp_path / "store")
    assert Store(tmp_path / "store").trace("mine").manifest.capacity["all"].nodes == 3


def test_swf_labels_stand_before_the_first_job(write: Write, tmp_path: Path) -> None:
    text = SWF.replace("; Computer", "\n  \n; Computer")
    jobs, entry = read(write("log.txt", text) / "log.txt", tmp_path / "store")
    assert entry.trace == "log"
    assert jobs["submit_s"].to_list() == [843458400.0, 843458405.0, 843458407.0]
    lines = SWF.splitlines(keepends=True)
    late = "".join([lines[0], *lines[5:8], lines[3], *lines[8:]])
    jobs, _ = read(write("late.swf", late) / "late.swf", tmp_path / "late")
    assert jobs["submit_s"].to_list() == [0.0, 5.0, 7.0]
    named = "1 0 10\n" + "".join(lines[5:])
    _, entry = read(write("named.swf", named) / "named.swf", tmp_path / "named")
    assert (entry.rows_kept, entry.rejected) == (3, {"short_row": 2})


def pod(name: str, phase: str, *containers: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "nlp",
            "creationTimestamp": "2026-03-02T08:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": "bert-28432890"}],
        },
        "spec": {"nodeName": "n1", "containers": list(containers)},
        "status": {"phase": phase, **status},
    }


def container(**resources: dict[str, str]) -> dict[str, Any]:
    return {"name": "main", "resources": resources}


def pods(*items: object, indent: int | None = 4) -> str:
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=indent)


ENDED = {
    "restartCount": 2,
    "state": {
        "terminated": {
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": "2026-03-02T08:10:00Z",
            "finishedAt": "2026-03-02T08:20:00Z",
        }
    },
    "lastState": {
        "terminated": {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": "2026-03-02T08:05:00Z",
            "finishedAt": "2026-03-02T08:09:00Z",
        }
    },
}


@pytest.mark.parametrize("indent", [4, None])
def test_pods_become_jobs(write: Write, tmp_path: Path, indent: int | None) -> None:
    text = pods(
        pod(
            "a",
            "Failed",
            container(requests={"cpu": "500m", "memory": "1Gi"}, limits={"nvidia.com/gpu": "2"}),
            container(requests={"cpu": "1", "memory": "512Mi"}),
            containerStatuses=[ENDED],
        ),
        pod("b", "Failed", reason="Evicted"),
        pod("c", "Failed", reason="Preempting"),
        pod("d", "Pending", container(requests={"cpu": "2"})),
        {"kind": "Service", "metadata": {"name": "web"}},
        pod("e", "Running", container(limits={"cpu": "many"})),
        "what",
        indent=indent,
    )
    jobs, entry = read(write("pods.json", text) / "pods.json", tmp_path / "store")
    assert (entry.rows_read, entry.rows_kept, entry.rows_not_applicable) == (6, 4, 1)
    assert entry.rejected == {"malformed": 1, "no_object": 1}
    assert jobs["status"].to_list() == ["failed", "cancelled", "cancelled", "pending"]
    assert jobs["end_reason"].to_list() == ["OOMKilled", "Evicted", "Preempting", None]
    first = jobs.row(0, named=True)
    expected = {
        "job_id": "nlp/a",
        "job_name": "bert-28432890",
        "group": "nlp/bert",
        "account": "nlp",
        "cpus": 1.5,
        "memory_gib": 1.5,
        "gpus": 2.0,
        "restarts": 2,
        "exit_code": "137",
        "runtime_s": 900.0,
        "node": "n1",
    }
    assert {name: first[name] for name in expected} == expected
    assert first["end_s"] - first["submit_s"] == 1200


@pytest.mark.parametrize(
    ("limits", "gpus", "kind"),
    [
        ({"nvidia.com/gpu": "4"}, 4, None),
        ({"amd.com/gpu": "1"}, 1, None),
        ({"gpu.intel.com/i915": "2"}, 2, None),
        ({"google.com/tpu": "8"}, 8, None),
        ({"nvidia.com/mig-1g.5gb": "2"}, 2 / 7, "1g.5gb"),
        ({"nvidia.com/mig-3g.20gb": "1", "nvidia.com/mig-2g.10gb": "1"}, 5 / 7, "2g.10gb+3g.20gb"),
        ({"nvidia.com/gpu.shared": "1"}, 1, None),
        ({"cpu": "4", "ephemeral-storage": "1Gi"}, 0, None),
    ],
)
def test_gpus_of_several_vendors(
    write: Write, tmp_path: Path, limits: dict[str, str], gpus: float, kind: str | None
) -> None:
    folder = write("pods.json", pods(pod("a", "Running", container(limits=limits))))
    jobs, _ = read(folder / "pods.json", tmp_path / "store")
    assert jobs["gpus"][0] == pytest.approx(gpus)
    assert jobs["gpu_type"][0] == kind


def test_an_array_of_pods_and_a_sidecar(write: Write, tmp_path: Path) -> None:
    one = pod("a", "Running", container(requests={"cpu": "1"}))
    sidecar = container(requests={"cpu": "2"}) | {"restartPolicy": "Always"}
    one["spec"]["initContainers"] = [sidecar, container(requests={"cpu": "2500m"})]
    jobs, _ = read(write("pods.json", json.dumps([one])) / "pods.json", tmp_path / "store")
    assert jobs["cpus"].to_list() == [3.0]


@pytest.mark.parametrize("indent", [None, 2])
def test_pods_one_after_the_other(write: Write, tmp_path: Path, indent: int | None) -> None:
    items = [pod(name, "Running", container(requests={"cpu": "1"})) for name in "abc"]
    first, *others = (json.dumps(one, indent=indent) for one in items)
    text = "\n".join([first, '{"kind": "Pod", cut', *others]) + "\n"
    jobs, entry = read(write("pods.jsonl", text) / "pods.jsonl", tmp_path / "store")
    assert jobs["job_id"].to_list() == ["nlp/a", "nlp/b", "nlp/c"]
    assert (entry.rows_read, entry.rejected) == (4, {"not_json": 1})


def test_a_list_of_jobs(write: Write, tmp_path: Path) -> None:
    def job(name: str, parallelism: int, **status: object) -> dict[str, object]:
        spec = {"containers": [container(requests={"cpu": "2"}, limits={"nvidia.com/gpu": "4"})]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "nlp"},
            "spec": {"parallelism": parallelism, "template": {"spec": spec}},
            "status": status,
        }

    begun = "2026-03-02T08:00:00Z"
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "lastTransitionTime": "2026-03-02T08:02:00Z",
    }
    done = {"type": "Complete", "status": "True"}
    text = pods(
        job(
            "a-28432890",
            3,
            startTime=begun,
            completionTime="2026-03-02T08:01:30Z",
            conditions=[done],
        ),
        job("b", 1, startTime=begun, failed=7, conditions=[failed]),
        job("c", 2, startTime=begun, active=2),
        job("d", 1),
    )
    jobs, entry = read(write("jobs.json", text) / "jobs.json", tmp_path / "store")
    assert entry.rows_kept == 4
    assert jobs["status"].to_list() == ["completed", "failed", "running", "pending"]
    assert jobs["runtime_s"].to_list() == [90, 120, None, None]
    assert jobs["gpus"].to_list() == [12, 4, 8, 4]
    assert jobs["cpus"].to_list() == [6, 2, 4, 2]
    assert jobs["restarts"].to_list() == [0, 7, 0, 0]
    assert jobs["end_reason"].to_list() == [None, "BackoffLimitExceeded", None, None]
    assert jobs["group"][0] == "nlp/a"


def test_quantities() -> None:
    texts = ("500m", "2", "1Gi", "2G", "1.5", "1e3", "128974848", "0.5Ti", "lots", "", None)
    found = [read_quantity(text) for text in texts]
    assert found == [0.5, 2, 2**30, 2e9, 1.5, 1000, 128974848, 2**39, None, None, None]


MAPPING = """
[jobs]
job_id = "id"
gpus = "attempt.gpus * 2"
user = "attempt.who.name"
"""


@pytest.mark.parametrize("before", ["", '{"version": 1, "meta": {"a": 2}, "jobs": '])
def test_json_arrays_with_nested_records(write: Write, tmp_path: Path, before: str) -> None:
    items = [{"id": f"j{i}", "attempt": {"gpus": i, "who": {"name": "eva"}}} for i in range(3)]
    text = before + json.dumps(items, indent=1) + ("}" if before else "")
    jobs, entry = read(
        write("x.json", text) / "x.json", tmp_path / "store", mapping=MAPPING, trace="mine"
    )
    assert jobs["gpus"].to_list() == [0.0, 2.0, 4.0]
    assert jobs["user"].to_list() == ["eva"] * 3
    assert entry.rows_read == 3


def test_an_array_that_is_cut_off_keeps_what_is_whole(write: Write, tmp_path: Path) -> None:
    text = json.dumps(
        [{"id": f"j{i}", "attempt": {"gpus": i, "who": {"name": "x" * 50}}} for i in range(9)]
    )
    jobs, entry = read(
        write("x.json", text[:-40]) / "x.json", tmp_path / "store", mapping=MAPPING, trace="mine"
    )
    assert (jobs.height, entry.rejected) == (8, {"not_json": 1})
    with pytest.raises(SourceError, match="no list of JSON objects"):
        read(write("y.json", "{\n") / "y.json", tmp_path / "s", mapping=MAPPING, trace="mine")
    with pytest.raises(SourceError, match="has no JSON object"):
        read(write("z.json", "[1, 2]") / "z.json", tmp_path / "s", mapping=MAPPING, trace="mine")


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.one_of(st.none(), st.integers(), st.text(max_size=5), st.just({"id": "x"})), min_size=1
    )
)
def test_every_element_of_an_array_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, items: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("json")
    whole = [{"id": "first", "attempt": {"gpus": 1, "who": {"name": "a"}}}, *items]
    (folder / "x.json").write_text(json.dumps(whole))
    _, entry = read(folder / "x.json", folder / "store", mapping=MAPPING, trace="mine")
    assert entry.rows_read == entry.rows_kept + entry.rows_rejected == len(whole)


PLUGIN = '''
import polars as pl
from traceana.ingesters import Reader

def read(file, timezone):
    lines = file.paths[0].read_text().splitlines()[1:]
    return pl.DataFrame([line.split("~") for line in lines], schema=["id", "n"], orient="row")

READER = Reader("tilde", lambda file: file.head == b"#tilde", read, (".tld",), """
[jobs]
job_id = "id"
gpus = "n"
""")
'''


def test_another_package_adds_a_reader(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    info = site / "tilde-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tilde\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[traceana.readers]\ntilde = tilde_plugin:READER\n")
    (site / "tilde_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(site))
    readers.cache_clear()
    folder = write("log.tld", "#tilde\na~1\nb~2\nc~x\n")
    jobs, entry = read(folder / "log.tld", tmp_path / "store")
    assert dict(jobs.select("job_id", "gpus").iter_rows()) == {"a": 1.0, "b": 2.0, "c": None}
    assert entry.nulled == {"n|not_a_number": 1}
    (info / "entry_points.txt").write_text("[traceana.readers]\ntilde = tilde_plugin:NONE\n")
    readers.cache_clear()
    with pytest.raises(DataError, match=r"reader tilde \(tilde_plugin:NONE\): not loaded"):
        read(folder / "log.tld", tmp_path / "other")
    monkeypatch.undo()
    readers.cache_clear()
    sys.modules.pop("tilde_plugin")


def test_of_a_long_label_the_beginning_is_the_title(tmp_path: Path) -> None:
    header = f"; Computer: {'N' * 10**6}\n; Installation: here\n"
    (tmp_path / "mine.swf").write_text(header + "1 0 10 100 4 -1 -1 4 3600 -1 1 1 1 1 1 -1 -1 -1\n")
    ingest(tmp_path / "mine.swf", store=tmp_path / "store")
    assert Store(tmp_path / "store").manifest("mine").title == "N" * 200 + ", here"
