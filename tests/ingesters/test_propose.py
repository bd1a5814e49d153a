"""A mapping is proposed from names, types and values, with its doubts, and it runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from tests.ingesters.conftest import Write
from traceana.cli import app
from traceana.errors import DataError, SourceError
from traceana.ingesters import ingest
from traceana.store import Store

HEADER = "id;project;owner;state;submitted;began;finished;elapsed;gpu_count;mem"
LOG = f"""{HEADER}
1001;vision;a;DONE;2026-03-02 08:00:00;2026-03-02 08:00:30;2026-03-02 09:00:30;3600000;4;32768
1002;speech;b;CANCELLED by 17;2026-03-02 08:05:00;;;;2;16384
1003;vision;a;ERR;2026-03-03 01:59:00;2026-03-03 03:01:00;2026-03-03 03:02:00;60000;8;65536
1004;vision;c;LOST;2026-03-02 09:00:00;2026-03-02 09:00:00;2026-03-02 09:00:10;10000;1;32768
"""


def propose(write: Write, text: str, name: str = "log.csv") -> str:
    return traceana.propose_mapping(write(name, text) / name)


def ingested(write: Write, tmp_path: Path, text: str, table: str = "jobs") -> pl.DataFrame:
    mapping = propose(write, text)
    ingest(tmp_path / "files/log.csv", mapping=mapping, trace="mine", store=tmp_path / "store")
    return Store(tmp_path / "store").scan("mine", table).collect()


def test_a_proposed_mapping_reads_the_log(write: Write, tmp_path: Path) -> None:
    jobs = ingested(write, tmp_path, LOG)
    assert jobs["job_id"].to_list() == ["1001", "1002", "1003", "1004"]
    assert jobs["status"].to_list() == ["completed", "cancelled", "failed", "unknown"]
    assert jobs["runtime_s"].to_list() == [3600.0, None, 60.0, 10.0]
    assert jobs["memory_gib"].to_list() == [32.0, 16.0, 64.0, 32.0]
    assert jobs["account"].to_list() == ["vision", "speech", "vision", "vision"]
    assert jobs["submit_s"][0] == 1772438400.0
    assert jobs["gpus"].sum() == 15


def test_doubts_state_their_evidence(write: Write) -> None:
    mapping = propose(write, LOG)
    for doubt in (
        "# unsure: elapsed is 1e+03 times end minus start (median of 3 rows), so its unit is ms",
        "# unsure: the largest mem is 65,536, too much in GiB; MiB is taken",
        "# unsure: submitted states no time zone",
        "# unsure: the meaning of 'LOST'",
    ):
        assert doubt in mapping
    rows = "\n".join(f"{i},{1772438400 + i},{1772438500 + i},{{}}" for i in range(3))
    for elapsed, times in ((150, "1.5"), (112, "1.12"), (108, None)):
        log = f"job_id,start,end,elapsed\n{rows.format(*[elapsed] * 3)}\n"
        found = [line for line in propose(write, log).splitlines() if "times end minus" in line]
        text = f"# unsure: elapsed is {times} times end minus start (median of 3 rows)"
        assert found == ([text] if times else [])


@pytest.mark.parametrize(
    ("column", "values", "line"),
    [
        ("runtime_ms", "1000,2000", 'runtime_s = { duration = "runtime_ms", unit = "ms" }'),
        ("duration", "01:00:00,1-00:00:00", 'runtime_s = { duration = "duration" }'),
        ("walltime_limit", "60,90", 'time_limit_s = "walltime_limit"'),
        ("start", "1772438400,1772438401", 'start_s = { time = "start", unit = "s" }'),
        ("start", "1772438400123,1772438401123", 'start_s = { time = "start", unit = "ms" }'),
        ("start", "946684801,946684801", '[jobs]\njob_id = "job_id"\nstart_s = { time'),
        ("start", "946684800,946684800", "is taken as seconds on the log's own clock"),
        ("start", "3786739199,3786739199", '[jobs]\njob_id = "job_id"\nstart_s = { time'),
        ("start", "3786739200,3786739200", "is taken as seconds on the log's own clock"),
        (
            "start",
            "1500000000000,2131152000000",
            '"job_id"\nstart_s = { time = "start", unit = "ms',
        ),
        ("start", "1500000000000,2131152002000", "as ms the values of start span 20 years"),
        ("start", "1500000000000000,1500000000000001", 'start_s = { time = "start", unit = "us" }'),
        ("start", "1500000000000000000,1500000000000000001", 'time = "start", unit = "ns" }'),
        ("start_ms", "500,900", '"job_id"\nstart_s = { time = "start_ms", unit = "ms" }'),
        ("start", "soon,later", "# unsure: the format of \"start\" for start_s: 'soon'"),
        ("start", "03/04/2026 08:00,03/05/2026 08:00", "# unsure: %d/%m/%Y %H:%M fits as well"),
        ("elapsed", "0,0", "# unsure: elapsed is taken as seconds: its median is 0"),
        ("elapsed", "0,3", "# unsure: elapsed is taken as seconds: its median is 1.5"),
        ("elapsed", "a,b", '# unsure: the format of "elapsed" for runtime_s'),
        ("elapsed_s", "1,2", 'job_id = "job_id"\nruntime_s = "elapsed_s"'),
        ("gpu_util", "0.5,1", 'gpu_utilization = "gpu_util"'),
        ("gpu_util", "0.5,1.1", "# unsure: gpu_util is taken as a percentage: it is above 1"),
        ("gpu util", "1,100", 'gpu_utilization = "\\"gpu util\\" / 100"'),
        ("num_gpus", "a,b", '# unsure: "num_gpus" has the name of gpus, but few numbers'),
        ("startTime", "2026-03-02T08:00:00Z,2026-03-02T09:00:00Z", '{ time = "startTime" }'),
        ("start", "13/03/2026 08:00,14/03/2026 08:00", 'format = "%d/%m/%Y %H:%M" }'),
        ("mem_gb", "16,32", 'memory_gib = { size = "mem_gb", unit = "GiB" }'),
        ("memory", "16G,512M", 'memory_gib = { size = "memory" }'),
        ("memory", "34359738368,17179869184", 'memory_gib = { size = "memory", unit = "B" }'),
        ("mem", "0,512", 'memory_gib = { size = "mem", unit = "MiB" }'),
        ("mem", "256,16384", "# unsure: every mem is a multiple of 256, which suggests MiB"),
        ("mem", "255,510", "# unsure: mem is taken as GiB: its median is 382.5"),
        ("mem", "1,512", 'memory_gib = { size = "mem", unit = "GiB" }'),
        ("mem", "128,256", 'memory_gib = { size = "mem", unit = "GiB" }'),
        ("mem", "512,1000", 'memory_gib = { size = "mem", unit = "GiB" }'),
        ("mem", "1,16385", 'memory_gib = { size = "mem", unit = "MiB" }'),
        ("mem", "1,16777216", 'memory_gib = { size = "mem", unit = "MiB" }'),
        ("mem", "1,16777217", 'memory_gib = { size = "mem", unit = "KiB" }'),
        ("mem", "1,17179869184", 'memory_gib = { size = "mem", unit = "KiB" }'),
        ("mem", "1,17179869185", 'memory_gib = { size = "mem", unit = "B" }'),
        ("mem_mb", "1,16384000", 'memory_gib = { size = "mem_mb", unit = "MiB" }'),
        ("memory", "16G,", 'memory_gib = { size = "memory" }'),
        ("memory", "16G,x", '# unsure: the format of "memory" for memory_gib'),
        ("cpu_milli", "500,1000", 'cpus = "cpu_milli / 1000"'),
        ("numGpus", "1,2", 'gpus = "numGpus"'),
        ("NumAccel", "1,2", 'gpus = "NumAccel"'),
        ("gpu", "A100,H100", 'gpu_type = "gpu"'),
        ("queued_at", "2026-03-02 08:00,2026-03-02 09:00", 'submit_s = { time = "queued_at"'),
        ("queued", "1772438400,1772438401", 'submit_s = { time = "queued", unit = "s" }'),
        ("queued", "12,340", 'keep = ["queued"]'),
        ("queued", "946684800,946684800", 'keep = ["queued"]'),
        ("enqueued", "2026-03-02T08:00:00Z,2026-03-02T09:00:00Z", '{ time = "enqueued" }'),
        ("card", "A100,H100", 'gpu_type = "card"'),
        ("card", "4,8", 'gpus = "card"'),
        ("cards", "4,8", 'gpus = "cards"'),
        ("accelerator", "1,2", 'gpus = "accelerator"'),
        ("accelerator", "TPUv4,TPUv5", 'gpu_type = "accelerator"'),
        ("device", "V100,T4", 'gpu_type = "device"'),
        ("GPU Count", "1,2", 'gpus = "GPU Count"'),
        ("gpu_util", "35,80", 'gpu_utilization = "gpu_util / 100"'),
        ("Resource_List.walltime", "01:00:00,02:00:00", 'time_limit_s = { duration = "Res'),
        ("resources_used.walltime", "01:00:00,02:00:00", 'runtime_s = { duration = "res'),
        ("Resource_List.ncpus", "4,8", 'cpus = "Resource_List.ncpus"'),
        ("qtime", "1772438400,1772438401", 'submit_s = { time = "qtime", unit = "s" }'),
        ("FINISH_TIME", "2026-03-02 08:00:00,2026-03-02 09:00:00", "end_s = { time"),
        ("Mem (MiB)", "300,500", 'memory_gib = { size = "Mem (MiB)", unit = "MiB" }'),
        ("memGiB", "3,5", 'memory_gib = { size = "memGiB", unit = "GiB" }'),
        ("start", "03/25/2026 05:17:54 PM,03/26/2026 01:06:48 AM", '%m/%d/%Y %I:%M:%S %p" }'),
        ("exit status", "SUCCESS,NODE_LOST", '"NODE_LOST" = "failed"'),
        ("exit_code", "0,137", 'status = { column = "exit_code", values = { 0 = "completed", "*"'),
        ("owner.name", "x,y", 'user = "owner.name"'),
        ("res.gpu.count", "1,2", 'gpus = "res.gpu.count"'),
    ],
)
def test_columns(write: Write, column: str, values: str, line: str) -> None:
    first, second = values.split(",")
    assert line in propose(write, f"job_id,{column}\na,{first}\nb,{second}\n")


def test_many_values_are_no_status(write: Write) -> None:
    for words, expected in ((40, "status = {"), (41, "# unsure: state has 41 values, too many")):
        rows = "".join(f"{row},w{row}\n" for row in range(words))
        assert expected in propose(write, f"job_id,state\n{rows}")


def test_nine_tenths_of_the_values_have_to_fit(write: Write) -> None:
    for words, expected in ((1, 'runtime_s = "elapsed_s"'), (2, "# unsure: the format of")):
        values = ["x"] * words + ["60"] * (10 - words) + [""] * 5
        rows = "".join(f"{row},{value}\n" for row, value in enumerate(values))
        assert expected in propose(write, f"job_id,elapsed_s\n{rows}")
    for words, expected in ((1, '"%Y/%m/%d %H:%M" }'), (2, "# unsure: the format of")):
        values = ["x"] * words + ["2026/03/02 08:00"] * (10 - words)
        rows = "".join(f"{row},{value}\n" for row, value in enumerate(values))
        assert expected in propose(write, f"job_id,start\n{rows}")
    for words, expected in ((1, '{ size = "mem" }'), (2, "# unsure: the format of")):
        values = ["x"] * words + ["4G"] * (10 - words)
        rows = "".join(f"{row},{value}\n" for row, value in enumerate(values))
        assert expected in propose(write, f"job_id,mem\n{rows}")
    for odd, unit in ((1, "MiB"), (2, "GiB")):  # more than nine tenths are multiples of 256
        rows = "".join(f"{row},{500 if row < odd else 512}\n" for row in range(11 + 9 * (odd - 1)))
        assert f'unit = "{unit}"' in propose(write, f"job_id,mem\n{rows}")


@pytest.mark.parametrize("codes", [("alpha,code", "0,1"), ("exit status,beta", "SUCCESS,LOST")])
def test_the_first_column_of_distinct_words_is_the_id_and_counts_as_used(
    write: Write, codes: tuple[str, str]
) -> None:
    first, second = codes[1].split(",")
    mapping = propose(write, f"run,other,{codes[0]}\na,c,{first},1\nb,d,{second},1\n")
    assert 'job_id = "run"' in mapping
    assert 'keep = ["other"' in mapping


def test_a_runtime_is_compared_to_end_minus_start_where_both_are_known(write: Write) -> None:
    day = 1772438400
    for cases, unit in (
        ([(0.5, 1800)], "h"),
        ([(500, 0.5)], "ms"),
        ([(1000, 1), (2000, 2), (0, 50), (0, 60), (0, 70)], "ms"),
        ([(1000, 1), (2000, 2), (50, 0), (60, 0), (70, 0)], "ms"),
        ([(1, 86400)], "d"),
        ([(3, 3)], None),
        ([(0, 3)], None),
    ):
        rows = "".join(f"{n},{day + n},{day + n + b},{a}\n" for n, (a, b) in enumerate(cases))
        mapping = propose(write, f"job_id,start,end,elapsed\n{rows}")
        found = [line for line in mapping.splitlines() if "so its unit is" in line]
        assert bool(found) == (unit is not None)
        assert f'unit = "{unit}" }}' in mapping if unit else 'runtime_s = "elapsed"' in mapping


def test_runtimes_that_all_differ_by_an_hour_are_no_change_of_the_clock(write: Write) -> None:
    rows = "".join(f"{row},{row},{row + 5400},1800\n" for row in range(20))
    assert "exactly 1 h" not in propose(write, f"id,start,end,runtime\n{rows}")


def test_words_among_exit_codes_leave_the_other_columns(write: Write) -> None:
    mapping = propose(write, "job_id,owner,exit status\na,x,OK\nb,y,ERROR\n")
    assert 'user = "owner"' in mapping
    assert 'status = { column = "exit status"' in mapping
    assert "exit_code" not in mapping
    mapping = propose(write, "job_id,exit status\na,0:0\nb,1:0\n")
    assert mapping.endswith('exit_code = "exit status"\n')


def test_german_headings_and_statuses_are_proposed(write: Write) -> None:
    names = "JobID;Nutzer;eingereicht_at;gestartet;beendet;Status;Knoten;GPUs"
    day = "01.03.2026"
    rows = [
        f"{i};u{i};{day} 10:00:00;{day} 10:05:00;{day} 11:05:00;{status};1;2"
        for i, status in enumerate(("fertig", "fehlgeschlagen", "abgebrochen", "läuft", "wartend"))
    ]
    text = propose(write, "\n".join([names, *rows]))
    proposed = tomllib.loads(text)["jobs"]
    assert (proposed["user"], proposed["nodes"]) == ("Nutzer", "Knoten")
    times = [proposed[name]["time"] for name in ("submit_s", "start_s", "end_s")]
    assert times == ["eingereicht_at", "gestartet", "beendet"]
    assert [*proposed["status"]["values"].values()] == [
        "completed",
        "failed",
        "cancelled",
        "running",
        "pending",
    ]


def test_a_time_without_a_worker_is_of_one(write: Write) -> None:
    mapping = propose(write, "job_id,step,batch_time\na,0,0.5\na,1,0.6\n")
    assert 'worker_samples]\njob_id = "file_name"\nworker_id = "rank"\n' in propose(
        write, "rank,step,batch_time\n0,0,0.5\n1,0,0.6\n"
    )
    doubt = "# unsure: no column names the worker; one worker is taken"
    assert f"[worker_samples]\n{doubt}\nworker_id = \"'0'\"\n" in mapping


@pytest.mark.parametrize(("zone", "doubted"), [(None, True), ("UTC", False)])
def test_a_time_of_parquet_may_lack_a_zone(
    tmp_path: Path, zone: str | None, *, doubted: bool
) -> None:
    started = pl.from_epoch(pl.Series("started", [1.7e9, 1.7e9])).dt.replace_time_zone(zone)
    pl.DataFrame({"id": ["a", "b"], "started": started}).write_parquet(tmp_path / "x.parquet")
    mapping = traceana.propose_mapping(tmp_path / "x.parquet")
    assert ("# unsure: started states no time zone" in mapping) == doubted


def test_a_name_without_a_unit_comes_first(write: Write) -> None:
    mapping = propose(write, "job_id,runtime_ms,runtime\na,1000,1\nb,2000,2\n")
    assert 'runtime_s = "runtime"' in mapping
    assert 'keep = ["runtime_ms"]' in mapping


def test_of_two_columns_for_gpus_the_values_decide(write: Write) -> None:
    text = propose(write, "job_id,gpu,num_gpus\na,A100,2\nb,H100,4\n")
    assert 'gpus = "num_gpus"' in text
    assert 'gpu_type = "gpu"' in text
    pbs = "job_id,Resource_List.walltime,resources_used.walltime\na,60,50\nb,90,80\n"
    text = propose(write, pbs)
    assert 'time_limit_s = "Resource_List.walltime"' in text
    assert 'runtime_s = "resources_used.walltime"' in text


def test_times_of_two_zones_are_flagged(write: Write) -> None:
    rows = [f"{i},2026-03-02T1{i}:00:00,2026-03-02T0{i}:00:30Z" for i in range(8)]
    mapping = propose(write, "\n".join(["id,submit_time,start_time", *rows]) + "\n")
    assert "start_s is before submit_s in 100% of the rows (median -10 h)" in mapping
    apart = "id,submit_time,start_time\na,2026-03-02T11:00:00,\nb,,2026-03-02T01:00:30Z\n"
    assert "is before" not in propose(write, apart)
    shifted = [f"{i},2026-03-02 0{i}:00:00,2026-03-02 0{i}:30:00,1800" for i in range(9)]
    shifted += [f"{i},2026-03-03 0{i}:00:00,2026-03-03 0{i}:30:00,1800" for i in range(9)]
    shifted.append("99,2026-03-29 01:30:00,2026-03-29 03:00:00,1800")
    mapping = propose(write, "\n".join(["id,start,end,runtime", *shifted]) + "\n")
    assert "exactly 1 h in 1 rows" in mapping


def test_step_times_become_worker_samples(write: Write, tmp_path: Path) -> None:
    text = "step,rank,seconds,compute_seconds,host\n0,0,1.0,0.9,n1\n0,1,1.0,0.5,n2\n"
    samples = ingested(write, tmp_path, text, "worker_samples")
    assert samples["job_id"].to_list() == ["log", "log"]
    assert samples["worker_id"].to_list() == ["0", "1"]
    assert samples["batch_time"].to_list() == [0.9, 0.5]  # before the barrier
    assert samples["seconds"].to_list() == [1.0, 1.0]
    assert samples["host"].to_list() == ["n1", "n2"]


def test_times_of_workers_without_steps_become_worker_samples(write: Write, tmp_path: Path) -> None:
    text = "job_id,worker_id,time_s,batch_time\na,w0,0,0.5\na,w1,0,0.9\na,w0,10,0.5\n"
    samples = ingested(write, tmp_path, text, "worker_samples")
    assert samples["time_s"].to_list() == [0.0, 0.0, 10.0]
    assert samples["batch_time"].to_list() == [0.5, 0.9, 0.5]


def test_other_formats(write: Write) -> None:
    items = [{"jobid": "a", "user": "x", "run": {"gpus": 2}}, {"jobid": "b", "run": {"gpus": 1}}]
    mapping = propose(write, json.dumps(items), "x.json")
    assert 'reader = "json"' in mapping
    assert 'gpus = "run.gpus"' in mapping
    folder = write("x.parquet", b"")
    frame = pl.DataFrame({"id": [1, 2], "started": [1.7e9, 1.7e9]})
    frame.with_columns(pl.from_epoch("started")).write_parquet(folder / "y.parquet")
    assert 'start_s = { time = "started" }' in traceana.propose_mapping(folder / "y.parquet")
    known = propose(write, "; Version: 2\n" + "1 " * 18 + "\n", "z.swf")
    assert known.startswith("# files of the format swf need no mapping")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "^", "~", ":", " ", "\x1f"])
def test_any_separator(write: Write, tmp_path: Path, separator: str) -> None:
    jobs = ingested(write, tmp_path, "id,gpus\na,2\nb,1\n".replace(",", separator))
    assert jobs.select("job_id", "gpus").rows() == [("a", 2.0), ("b", 1.0)]


def test_nested_records_and_structs(write: Write, tmp_path: Path) -> None:
    attempts = [
        {"start_time": "2026-03-02T08:00:00Z", "end_time": "2026-03-02T09:00:00Z"},
        {"start_time": "2026-03-02T10:00:00Z", "end_time": "2026-03-02T12:00:00Z"},
    ]
    log = [{"jobid": "a", "attempts": attempts}, {"jobid": "b", "attempts": []}]
    mapping = propose(write, json.dumps(log), "log.json")
    ingest(tmp_path / "files/log.json", mapping=mapping, trace="n", store=tmp_path / "store")
    jobs = Store(tmp_path / "store").scan("n", "jobs").collect()
    assert jobs["runtime_s"].to_list() == [4 * 3600.0, None]  # first start to last end
    res = [{"gpu": {"count": 4}}, {"gpu": {"count": 2}}]
    frame = pl.DataFrame({"id": ["a", "b"], "res": res, "ms": [1500, 2000]})
    frame = frame.with_columns(runtime=pl.duration(milliseconds="ms")).drop("ms")
    path = tmp_path / "files/odd.parquet"
    frame.write_parquet(path)
    mapping = traceana.propose_mapping(path)
    ingest(path, mapping=mapping, trace="p", store=tmp_path / "store")
    jobs = Store(tmp_path / "store").scan("p", "jobs").collect()
    assert jobs.select("gpus", "runtime_s").rows() == [(4.0, 1.5), (2.0, 2.0)]


def test_control_characters_of_a_file_name_do_not_end_the_comment(write: Write) -> None:
    mapping = propose(write, LOG, "a\n\x1b[2J\u202e.csv")
    assert mapping.startswith("# proposed from a\\n\\x1b[2J\\u202e.csv; check")


def test_mistakes_are_named(write: Write, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column has a name that is known"):
        propose(write, "a,b\n1,1\n1,1\n")
    with pytest.raises(SourceError, match="no such file"):
        traceana.propose_mapping(tmp_path / "none.csv")
    with pytest.raises(SourceError, match="the file is empty"):
        propose(write, "")
    with pytest.raises(SourceError, match="its first line is not text"):
        propose(write, "a\x7f\x01,b\n1,2\n")
    with pytest.raises(SourceError, match="a folder; name one file"):
        traceana.propose_mapping(tmp_path)
    with pytest.raises(SourceError, match=r"no row in its beginning can be read$"):
        propose(write, "a,b\n")
    with pytest.raises(SourceError, match="long_row: '1,2,', where the header names 2 columns"):
        propose(write, "a,b\n1,2,\n3,4,\n")


@pytest.mark.parametrize(
    "text", ["job_id;;gpus;;user\na;;2;;x\nb;;4;;y\n", "job_id,gpus,user,,\na,2,x,,\nb,4,y,,\n"]
)
def test_columns_without_a_name_are_not_read(write: Write, tmp_path: Path, text: str) -> None:
    assert "not kept" not in propose(write, text)
    jobs = ingested(write, tmp_path, text)
    assert jobs.select("job_id", "gpus", "user").rows() == [("a", 2, "x"), ("b", 4, "y")]


def test_the_command_previews_rows(write: Write, tmp_path: Path) -> None:
    file = write("log.csv", LOG) / "log.csv"
    result = CliRunner().invoke(app, ["map", str(file), "--out", str(tmp_path / "m.toml")])
    assert result.exit_code == 0
    assert (tmp_path / "m.toml").read_text() == traceana.propose_mapping(file)
    assert "4 rows read = 4 kept + 0 rejected" in result.stderr
    assert "check what is marked unsure: 4 lines" in result.stderr
    assert "CANCELLED" not in result.stderr
    assert CliRunner().invoke(app, ["map", str(file)]).stdout == traceana.propose_mapping(file)


def test_a_first_line_of_values_is_not_taken_for_names(write: Write) -> None:
    with pytest.raises(DataError, match="its first line has values such as '03/02/2026 08:00:00'"):
        propose(write, "03/02/2026 08:00:00;E;7.pbs;user=a\n03/02/2026 08:01:00;E;8.pbs;user=b\n")


def test_a_request_log_is_submitted_at_its_timestamp(write: Write, tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:03.9799600,4808\n2023-11-16 18:17:04.0319600,3180\n"
    jobs = ingested(write, tmp_path, f"TIMESTAMP,ContextTokens\n{rows}")
    assert jobs["submit_s"].to_list() == pytest.approx([1700158623.97996, 1700158624.03196])


def test_the_preview_has_columns_whose_values_begin_late(write: Write) -> None:
    early = "".join(f"{row},{row * 10 + 1000},\n" for row in range(6))
    file = write("log.csv", f"job,submitted,finished\n{early}6,1100,1200\n") / "log.csv"
    shown = CliRunner().invoke(app, ["map", str(file)]).stderr
    assert "end_s" in shown
    assert "runtime_s" not in shown
