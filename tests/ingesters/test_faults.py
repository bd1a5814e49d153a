"""Logs of faults: events that are paired, and logs with one row per failure."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.errors import SourceError
from traceana.ingesters import IngestError, ingest
from traceana.store import open_store

_EVENTS = """
[trace]
reader = "fault_events"
[faults]
machine_id = "node"
start_s = { time = "start", unit = "h" }
end_s = { time = "end", unit = "h" }
class = "what"
"""
_LANL = """
[trace]
title = "Failures of a cluster"
timezone = "America/Denver"
[trace.capacity]
all = { nodes = 49, gpus_per_node = 0 }
[faults]
machine_id = "'system ' || System || ' node ' || nodenum"
start_s = { time = "Prob Started", format = "%m/%d/%y %H:%M" }
downtime_s = { duration = "Down Time", unit = "min" }
class = "CASE WHEN Hardware IS NULL THEN 'other' ELSE 'hardware' END"
description = "COALESCE(Hardware, Software)"
"""


def events(*rows: tuple[str, float, str, str]) -> list[dict[str, object]]:
    return [
        {"node": node, "event_time": time, "event_type": f"fault_{kind}", "what": what}
        for node, time, kind, what in rows
    ]


_PLANTED = events(
    ("a", 1, "start", "gpu"),
    ("a", 2, "start", "nic"),  # two faults of one machine at once
    ("b", 2, "start", "gpu"),
    ("a", 3, "end", "gpu"),
    ("a", 4, "end", "nic"),
    ("a", 5, "start", "gpu"),
    ("a", 6, "start", "gpu"),  # twice the same: the first end belongs to the first
    ("a", 7, "end", "gpu"),
    ("a", 9, "end", "gpu"),
    ("c", 9, "start", "gpu"),  # not repaired
)


@pytest.mark.parametrize("name", ["log.json", "log.jsonl", "log.csv", "log.parquet"])
def test_starts_and_ends_are_paired_in_every_format(tmp_path: Path, name: str) -> None:
    frame, path = pl.DataFrame(_PLANTED), tmp_path / name
    if name.endswith("json"):
        path.write_text(json.dumps(_PLANTED))
    elif name.endswith("jsonl"):
        frame.write_ndjson(path)
    elif name.endswith("csv"):
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    (entry,) = ingest(path, mapping=_EVENTS, trace="mine", store=tmp_path).entries
    assert (entry.rows_read, entry.rows_kept) == (6, 6)
    assert sum(file.rows_not_applicable for file in entry.files) == 4
    found = open_store(tmp_path).scan("mine", "faults").collect()
    hours = found.select("machine_id", pl.col("start_s", "end_s", "downtime_s") / 3600, "class")
    assert hours.sort("start_s", "machine_id").rows() == [
        ("a", 1, 3, 2, "gpu"),
        ("a", 2, 4, 2, "nic"),
        ("b", 2, None, None, "gpu"),
        ("a", 5, 7, 2, "gpu"),
        ("a", 6, 9, 3, "gpu"),
        ("c", 9, None, None, "gpu"),
    ]


def test_a_member_without_a_name_is_a_column(tmp_path: Path) -> None:
    rows = [{**event, "": place} for place, event in enumerate(_PLANTED[:1])]
    (tmp_path / "log.json").write_text(json.dumps(rows))
    mapping = _EVENTS.replace('"what"', "'\"\"'")
    (entry,) = ingest(tmp_path / "log.json", mapping=mapping, trace="t", store=tmp_path).entries
    assert entry.rows_kept == 1


def test_events_that_are_not_paired_are_rejected_with_their_text(tmp_path: Path) -> None:
    rows = events(("a", 1, "end", "gpu"), ("a", 2, "start", "gpu"), ("a", 3, "pause", "gpu"))
    (tmp_path / "log.json").write_text(json.dumps([*rows, 7]))
    (entry,) = ingest(tmp_path / "log.json", mapping=_EVENTS, trace="mine", store=tmp_path).entries
    assert (entry.rows_read, entry.rows_kept) == (4, 1)
    bad = pl.read_parquet(tmp_path / "mine" / "rejected" / "faults.parquet")
    assert bad.select("line", "rule").rows() == [
        (1, "end_without_start"),
        (3, "event_type|not_a_fault_event"),
        (4, "no_object"),
    ]
    assert json.loads(bad["text"][0]) == rows[0]
    (tmp_path / "other.json").write_text('[{"a": 1}]')
    with pytest.raises(IngestError, match="it lacks event_type, event_time"):
        ingest(tmp_path / "other.json", mapping=_EVENTS, trace="other", store=tmp_path)


def test_a_log_with_one_row_per_failure_needs_a_mapping_only(tmp_path: Path) -> None:
    (tmp_path / "failures.csv").write_text(
        "System,nodenum,Prob Started,Prob Fixed,Down Time,Hardware,Software\n"
        "20,7,6/1/05 12:30,6/1/05 14:30,120,Memory Dimm,\n"
        "20,7,6/2/05 00:00,6/2/05 00:30,30,,Kernel\n"
        "20,8,6/3/05 00:00,,,,\n"
        "20,9,never,,5,,\n"
    )
    ledger = ingest(tmp_path / "failures.csv", mapping=_LANL, trace="lanl", store=tmp_path)
    assert ledger.entries[0].rejected == {"Prob Started|not_a_time": 1}
    found = open_store(tmp_path).scan("lanl", "faults").collect()
    noon = 1_117_650_600.0  # 2005-06-01 12:30 in Denver, 18:30 UTC
    assert found.drop("description", "level").rows() == [
        ("system 20 node 7", noon, noon + 7200, 7200, "hardware"),
        ("system 20 node 7", noon + 41_400, noon + 43_200, 1800, "other"),
        ("system 20 node 8", noon + 127_800, None, None, "other"),
    ]
    assert open_store(tmp_path).manifest("lanl").capacity["all"].nodes == 49


def test_a_frame_needs_no_mapping_and_must_not_end_before_it_starts(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"machine_id": ["a", "b"], "start_s": [5.0, 5.0], "end_s": [7.0, 4.0], "class": "gpu"}
    )
    ledger = traceana.add_table(frame, trace="mine", table="faults", store=tmp_path)
    assert ledger.entries[0].rejected == {"end_not_before_start": 1}
    with pytest.raises(SourceError, match="none of 1 rows could be kept"):
        traceana.add_table(frame[1:], trace="bad", table="faults", store=tmp_path)


def test_the_published_trace_has_the_publishers_counts(
    published_faults: Path, tmp_path: Path
) -> None:
    ledger = ingest(published_faults, store=tmp_path)
    assert [(one.trace, one.rows_kept) for one in ledger.entries] == [("infinitehbd-2025", 584)]
    found = open_store(tmp_path).scan("infinitehbd-2025", "faults").collect()
    counted = Counter(found.select("level", "class", "description").rows())
    stated = json.loads((published_faults / "fault_statistics.json").read_text())
    assert counted == {
        (level, name, what): count
        for level, classes in stated.items()
        for name, kinds in classes.items()
        if name != "LevelTotal"
        for what, count in kinds.items()
        if what != "ClassTotal"
    }
    # the events, added up without pairing them
    published = json.loads((published_faults / "fault_trace.json").read_text())
    sign = {"fault_start": -1, "fault_end": 1}
    days = sum(sign[one["event_type"]] * one["event_time"] for one in published)
    assert found["downtime_s"].sum() == pytest.approx(86_400 * days)
    assert not found["end_s"].has_nulls()


def test_a_mapping_is_proposed_for_a_fault_log(tmp_path: Path) -> None:
    (tmp_path / "failures.csv").write_text(
        "System,nodes,nodenum,Prob Started,Prob Fixed,Down Time,Hardware\n"
        "2,49,0,06/21/2005 10:54,06/21/2005 11:00,6,Memory\n"
        "2,49,22,07/17/2005 08:41,07/17/2005 10:00,79,\n"
    )
    text = traceana.propose_mapping(tmp_path / "failures.csv")
    assert "state the number of all machines" in text
    ingest(tmp_path / "failures.csv", mapping=text, trace="lanl", store=tmp_path)
    found = open_store(tmp_path).scan("lanl", "faults").collect()
    assert found.select("machine_id", "downtime_s").rows() == [("0", 360.0), ("22", 4740.0)]
    assert (found["end_s"] - found["start_s"]).to_list() == [360.0, 4740.0]
    (tmp_path / "other.csv").write_text("host,fault_start,repair_time\nn1,1577836800,3600\n")
    assert 'downtime_s = "repair_time"' in traceana.propose_mapping(tmp_path / "other.csv")
    # a job log with a reason of failure stays one
    (tmp_path / "jobs.csv").write_text("job,node,start_time,fail_reason\na,n1,1577836800,oom\n")
    assert "[jobs]" in traceana.propose_mapping(tmp_path / "jobs.csv")


_ONE_ROW_EACH = """node,start,end,reason
n1,2026-03-01 04:00:00,2026-03-01 06:30:00,GPU
n2,2026-03-02 04:00:00,,cable
"""
_SINGLE = """timestamp,hostname,error
2026-03-01 04:00:00,n1,XID 79
2026-03-02 04:00:00,n2,XID 48
"""
_CLASSES = """machine,start,end,class
m1,2026-03-01 04:00:00,2026-03-01 05:00:00,gpu
m2,2026-03-02 04:00:00,,net
"""
_STARTS_AND_ENDS = """node_id,event_time,event_type,fault_class
a,1.5,fault_start,GPU
b,2,fault_start,NIC
a,3.5,fault_end,GPU
b,9,fault_end,NIC
"""


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (
            _ONE_ROW_EACH,
            {"machine_id": "node", "start_s": "start", "end_s": "end", "description": "reason"},
        ),
        (
            _CLASSES,
            {"machine_id": "machine", "start_s": "start", "end_s": "end", "class": "class"},
        ),
        (_SINGLE, {"machine_id": "hostname", "start_s": "timestamp", "description": "error"}),
        (
            _STARTS_AND_ENDS,
            {"machine_id": "node_id", "start_s": "start", "end_s": "end", "class": "fault_class"},
        ),
    ],
)
def test_a_log_of_machines_times_and_reasons_is_one_of_faults(
    tmp_path: Path, text: str, columns: dict[str, str]
) -> None:
    (tmp_path / "log.csv").write_text(text)
    mapping = tomllib.loads(traceana.propose_mapping(tmp_path / "log.csv"))
    proposed = {
        name: value["time"] if isinstance(value, dict) else value
        for name, value in mapping["faults"].items()
    }
    assert proposed == columns
    ingest(
        tmp_path / "log.csv",
        mapping=traceana.propose_mapping(tmp_path / "log.csv"),
        trace="own",
        store=tmp_path,
    )
    found = open_store(tmp_path).scan("own", "faults").collect()
    assert found["machine_id"].to_list() == [*found["machine_id"].unique().sort()]
    assert found.height == 2


def test_a_log_with_nodes_and_what_was_requested_is_one_of_jobs(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "node,user,start,end,reason\nn1,ann,2026-03-01 04:00:00,2026-03-01 06:30:00,oom\n"
    )
    assert "[jobs]" in traceana.propose_mapping(tmp_path / "log.csv")
