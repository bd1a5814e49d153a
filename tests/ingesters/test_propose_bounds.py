"""What is proposed where names or values just suffice, or just do not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import traceana

MS = 1_772_438_400_000  # 2026-03-02 08:00 UTC


def propose(folder: Path, text: str, name: str = "x.csv") -> str:
    """Return the lines after those of the trace."""
    (folder / name).write_text(text)
    return traceana.propose_mapping(folder / name).partition("\n\n")[2]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("start", '# unsure: the format of "start" for start_s: None\n'),
        ("elapsed", '# unsure: the format of "elapsed" for runtime_s\n'),
        ("mem", '# unsure: the format of "mem" for memory_gib\n'),
        ("gpus", '# unsure: "gpus" has the name of gpus, but few numbers\n'),
    ],
)
def test_a_column_without_values_is_in_doubt(tmp_path: Path, column: str, expected: str) -> None:
    found = propose(tmp_path, f"job_id,{column},x\na,,1\nb,,2\n")
    numbers = '\n[jobs.source]\n"x" = { type = "number" }\n'
    assert found == f'[jobs]\njob_id = "job_id"\n{expected}{numbers}'


def test_units_of_times_and_runtimes_are_compared_in_seconds(tmp_path: Path) -> None:
    head = "job_id,start_ms,end_ms,elapsed_min\n"
    whole = [f"{n},{MS + n},{MS + n + 600_000},10\n" for n in range(11)]
    expected = (
        '[jobs]\njob_id = "job_id"\nstart_s = { time = "start_ms", unit = "ms" }\n'
        'end_s = { time = "end_ms", unit = "ms" }\n'
        'runtime_s = { duration = "elapsed_min", unit = "min" }\n'
    )
    assert propose(tmp_path, head + "".join(whole)) == expected
    later = f"99,{MS},{MS + 600_000 + 3_600_000},10\n"
    found = propose(tmp_path, head + "".join(whole) + later)
    assert found.startswith(expected + "# unsure: end minus start differs from the runtime by")
    assert "exactly 1 h in 1 rows" in found


def test_nine_tenths_of_durations_in_words_have_to_fit(tmp_path: Path) -> None:
    for words, expected in ((1, 'runtime_s = { duration = "elapsed" }'), (2, "# unsure: the form")):
        values = ["x"] * words + ["00:01:00"] * (10 - words)
        rows = "".join(f"{row},{value}\n" for row, value in enumerate(values))
        assert expected in propose(tmp_path, f"job_id,elapsed\n{rows}")


@pytest.mark.parametrize(
    ("header", "table"),
    [
        ("job_id,step,rank,duration", "worker_samples"),
        ("job_id,step,rank,duration,status", "jobs"),
        ("job_id,step,rank,duration,submitted", "jobs"),
        ("job_id,step,rank,gpus", "jobs"),
        ("job_id,timestamp,rank,step_time", "jobs"),  # the time of submission
        ("job_id,time_s,rank,step_time", "worker_samples"),
        ("job_id,time_s,step_time", "jobs"),
        ("job_id,rank,step_time", "jobs"),
    ],
)
def test_steps_of_workers_have_a_time_and_no_status(
    tmp_path: Path, header: str, table: str
) -> None:
    row = ",".join(str(place) for place in range(header.count(",") + 1))
    assert propose(tmp_path, f"{header}\n{row}\n").startswith(f"[{table}]")


def test_columns_of_steps_that_have_another_meaning_are_not_kept(tmp_path: Path) -> None:
    text = "rank,step,compute_time,batch_time,gpus,loss,note\n0,1,0.5,0.6,8,0.1,ok\n"
    (tmp_path / "x.csv").write_text(text)
    found = traceana.propose_mapping(tmp_path / "x.csv")
    assert 'keep = ["loss", "note"]\n' in found
    assert '# not kept: "batch_time", "gpus"\n' in found
    assert found.endswith('\n[worker_samples.source]\n"loss" = { type = "number" }\n')


def test_a_list_in_a_list_is_no_start(tmp_path: Path) -> None:
    for item, start in (
        ({"tries": [{"start": 5}, {"start": 9}]}, "tries.first.start"),
        ({"tasks": [{"tries": [{"start": 5}]}]}, None),
    ):
        text = json.dumps({"id": "a", **item}) + "\n" + json.dumps({"id": "b", **item}) + "\n"
        found = propose(tmp_path, text, "x.jsonl")
        assert ("start_s" in found) == (start is not None)
        assert start is None or f'"{start}"' in found


def test_a_name_without_a_unit_comes_before_one_with_it(tmp_path: Path) -> None:
    found = propose(tmp_path, "job_id,RuntimeMs,runtime\na,1000,1\nb,2000,2\n")
    assert 'runtime_s = "runtime"' in found
    assert found.endswith('[jobs.source]\n"RuntimeMs" = { type = "number" }\n')


@pytest.mark.parametrize(("rows", "repeated"), [("aba", 1), ("abaa", 2), ("abc", 0)])
def test_repeated_ids_are_counted_before_the_id(tmp_path: Path, rows: str, repeated: int) -> None:
    found = propose(tmp_path, "job_id,user\n" + "".join(f"{row},x\n" for row in rows))
    doubt = f"# unsure: {repeated} of {len(rows)} rows repeat a job_id, and are rejected: "
    doubt += "does each row describe a whole job?\n"
    assert found == f'[jobs]\n{doubt if repeated else ""}job_id = "job_id"\nuser = "user"\n'


@pytest.mark.parametrize(
    ("time", "naive"),
    [
        ("1772438400", False),
        ("2026-03-02T08:00:00Z", False),
        ("2026-03-02T08:00:00+0100", False),
        ("2026-03-02T08:00:00", True),
    ],
)
def test_a_time_in_words_needs_a_zone(tmp_path: Path, time: str, *, naive: bool) -> None:
    (tmp_path / "x.csv").write_text(f"job_id,start\na,{time}\nb,{time}\n")
    found = traceana.propose_mapping(tmp_path / "x.csv")
    assert ("states no time zone" in found) == naive
    assert ('timezone = "UTC"' in found) == naive


def test_a_member_has_the_name_of_its_object_before_its_own(tmp_path: Path) -> None:
    rows = [{"id": name, "run": {"time": 5}, "duration": 7} for name in "ab"]
    found = propose(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")
    assert 'runtime_s = "run.time"' in found  # run_time is more specific than duration
    rows = [{"id": name, "gpu": {"count": 5}, "devices": 7} for name in "ab"]
    found = propose(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")
    assert 'gpus = "gpu.count"' in found


def test_microseconds_that_look_like_milliseconds_are_doubted(tmp_path: Path) -> None:
    rows = "".join(f"{i},{600_000_000 + i * 26_790_000_000}\n" for i in range(100))
    assert "# unsure: as ms the values of submit_time span 84 years" in propose(
        tmp_path, f"collection_id,submit_time\n{rows}"
    )


TYPES = {
    "duration": [timedelta(hours=1)],
    "date": [date(2026, 1, 1)],
    "moment": [datetime(2026, 1, 1, tzinfo=UTC)],
    "truth": [True],
    "bytes": [b"x"],
    "list": [[1]],
    "nothing": [None],
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["gpus", "state", "mem", "elapsed", "submit_time", "user", "gres"])
def test_a_column_of_any_type_is_proposed_or_left_out(tmp_path: Path, name: str, kind: str) -> None:
    rows = pl.DataFrame({"job_id": ["a"], name: TYPES[kind]})
    rows.write_parquet(tmp_path / "x.parquet")
    fits = {("elapsed", "duration"), ("submit_time", "date"), ("submit_time", "moment")}
    found = traceana.propose_mapping(tmp_path / "x.parquet")
    if kind in ("duration", "date", "moment"):
        assert ("has the name of" not in found) == ((name, kind) in fits or name == "gres")
