"""Mutated files and odd tables: each is ingested with every row accounted for, or refused.

``python -m tests.fuzz --minutes N [--seed S]`` runs until the time is over or a case fails; the
file of a failing case stays in the folder that is printed. A case is told by its seed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.odd_tables import draw_table
from traceana.errors import TraceanaError
from traceana.ingesters import IngestError, add_table, ingest
from traceana.ingesters.readers.csv import Block
from traceana.report import build_report
from traceana.schema import TABLES
from traceana.store import Store, TableEntry, open_store

MAPPING = """
[jobs]
job_id = "id"
gpus = "CAST(g AS INT)"
runtime_s = "CASE WHEN r = '' THEN 0 ELSE 1 END"
submit_s = { time = "t" }
memory_gib = { size = "m" }
status = "s"
"""
IDS = ("id", "g", "r", "t", "m", "s")
ROWS = [
    (f"j{i}", str(i % 8), f"{i}.5", f"2026-03-02 08:00:{i:02d}", f"{i}G", "completed")
    for i in range(12)
]


def _pod(name: str) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": "2"}}}
    state = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": "2026-03-02T08:05:00Z"}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "nlp", "ownerReferences": [{"name": "bert"}]},
        "spec": {"containers": [container], "nodeSelector": {"accelerator": "a100"}},
        "status": {"phase": "Failed", "containerStatuses": [{"state": state}]},
    }


def _job(name: str) -> dict[str, Any]:
    """Return a Job of two pods, as kubectl prints it."""
    status = {
        "startTime": "2026-03-02T08:00:00Z",
        "completionTime": "2026-03-02T09:00:00Z",
        "failed": 1,
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    spec = {"parallelism": 2, "template": {"spec": _pod(name)["spec"]}}
    return {"kind": "Job", "metadata": {"name": f"{name}-1772438400"}, "spec": spec} | {
        "status": status
    }


def _tar(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def _parquet() -> bytes:
    made = io.BytesIO()
    pl.DataFrame(ROWS, schema=list(IDS), orient="row").write_parquet(made)
    return made.getvalue()


_SACCT = "JobID|JobName|User|State|Submit|Start|End|Elapsed|ReqMem|AllocTRES|MaxRSS|ConsumedEnergy"
_TIMES = "2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00"
_RECORDS = [
    f"{job}|train|u|COMPLETED|{_TIMES}|4000Mc|cpu=8,mem=4G,gres/gpu:a100=2||\n"
    f"{job}.batch|batch||COMPLETED|{_TIMES}|||2048K|1K\n"
    for job in ("1", "2_[3-5]", "7+0", "1")
]
_SWF = "".join(
    f"{i} {i} 10 100 4 80 1024 8 200 2048 {i % 6} 3 1 5 1 -1 -1 -1\n" for i in range(1, 9)
)
_OBJECTS = [json.dumps(dict(zip(IDS, row, strict=True))) for row in ROWS]
_WORKERS = "".join(f"{i},{i % 3},25,{10 * i + 1},{100 + i}\n" for i in range(12))
SEEDS = {
    "x.csv": "\n".join(",".join(row) for row in [IDS, *ROWS]).encode(),
    "x.jsonl": "\n".join(_OBJECTS).encode(),
    "x.json": f"[{', '.join(_OBJECTS)}]".encode(),
    "x.parquet": _parquet(),
    "x.txt": (_SACCT + "\n" + "".join(_RECORDS)).encode(),
    "x.swf": f"; UnixStartTime: 843458400\n{_SWF}".encode(),
    "pods.json": json.dumps({"kind": "List", "items": [_pod(f"p{i}") for i in range(4)]}).encode(),
    "job_1_norm.csv": f",worker,gpu,time,batch_time_norm\n{_WORKERS}".encode(),
    "pai_machine_spec.tar.gz": _tar({"pai_machine_spec.csv": b"m1,T4,96,512,2\nm2,CPU,64,256,0\n"}),
    "jobs.json": json.dumps({"kind": "List", "items": [_job(f"b{i}") for i in range(4)]}).encode(),
    "pods.jsonl": "\n".join(json.dumps(_pod(f"p{i}")) for i in range(4)).encode(),
}
TOKENS = [
    b"",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b'"',
    b'""',
    b",",
    b"|",
    b";",
    b"\t",
    b" ",
    b"=cmd()",
    b"<script>",
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"9" * 30,
    b"\x1b[31m",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b'"\\ud800"',
    b"\\",
    b"," * 50,
    b"\n" * 50,
    b"x" * 5000,
    b"1-00:00:00",
    b"9999999-99:99:99",
    b"9999-12-31T23:59:59",
    b"\0line",
    b"id",
    b"\xe2\x80\xa8",
    b"9" * 18,
    b"1E400G",
    b"0000-00-00",
    b"-9223372036854775808",
    b"2_[1-9]",
    b"\x1f",
]
PAST = {
    "a lone surrogate in JSON lines": ("x.jsonl", _OBJECTS[0].encode() + b'\n{"id":"\\ud800"}\n'),
    "a lone surrogate in a JSON array": ("x.json", b'[{"id":"\\ud800","g":"1"}]'),
    "a member that is named with one": ("x.jsonl", b'{"\\ud800":1,"id":"a"}\n'),
    "a name with a NUL": ("x.csv", b"id,\0line,g,r,t,m,s\na,1,1,1,,,\n"),
    "trailing commas": ("x.csv", SEEDS["x.csv"] + b"\n" + b"a,1,1,1,1,\n" * 5000),
    "blank lines": ("x.csv", SEEDS["x.csv"] + b"\n" * 5000),
    "a header with empty names": ("x.txt", SEEDS["x.txt"].replace(b"|ReqMem|", b"|||", 1)),
    "doubled separators": ("x.csv", SEEDS["x.csv"].replace(b",", b",,")),
    "blank records": ("x.txt", SEEDS["x.txt"] + b"\n" * 5000),
    "a resource three times": (
        "x.txt",
        SEEDS["x.txt"].replace(b"|cpu=8", b"|cpu=0|cpu=0|cpu=8", 1),
    ),
    "deep nesting": (
        "x.jsonl",
        _OBJECTS[0].encode() + b"\n" + b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ),
    "a long number": ("x.jsonl", b'{"id":"a","g":' + b"9" * 5000 + b"}\n"),
    "a year past all": ("x.csv", SEEDS["x.csv"] + b"\nz,1,1,9999999-12-31 00:00:00,1G,completed"),
    "a size past all": ("x.csv", SEEDS["x.csv"] + b"\nz,1,1,,1e999G,completed"),
}
# Parquet that panicked (twice) and that ended the process; an empty name of sacct's; short lines
# and a long one that have all marks together
PAST_SEEDS = (777094, 60604, 90720, 4246049, 20261144, 5302543)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return data with a few bytes, tokens or lines changed."""
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        b = min(b, a + rng.choice((0, 1, 8, 200)))
        match rng.randrange(6):
            case 0:
                data = data[:a] + bytes([rng.randrange(256)]) + data[a + 1 :]
            case 1:
                data = data[:a] + data[b:]
            case 2:
                data = data[:a] + data[a:b] * rng.randrange(2, 5) + data[b:]
            case 3 if data:
                lines = data.split(b"\n")
                lines.insert(rng.randrange(len(lines)), rng.choice(lines))
                data = b"\n".join(lines)
            case 4 if rng.random() < 0.2:
                data = data[:a]
            case _:
                data = data[:a] + rng.choice(TOKENS) + data[b:]
    return data


def accounts(store: Path) -> list[Any]:
    """Check the accounts of every table against its files, and return them with the rows."""
    found: list[Any] = []
    assert not list(store.rglob("*.tmp"))
    opened = Store(store)
    for trace in opened.traces():
        for entry in opened.ledger(trace).entries:
            rows = opened.scan(trace, entry.table).collect()
            rejected = opened.scan_rejected(trace, entry.table).collect()
            assert entry.rows_read == entry.rows_kept + entry.rows_rejected
            assert (rows.height, rejected.height) == (entry.rows_kept, entry.rows_rejected)
            assert rejected["rule"].null_count() == 0
            found.append((_rules(entry), entry.unknown_words, rows.rows(), rejected.rows()))
    return found


def _rules(entry: TableEntry) -> object:
    return entry.table, entry.rejected, entry.rows_not_applicable


def _assert_one_line(messages: list[str]) -> None:
    assert not any("\n" in line or "\r" in line for line in messages), messages


def ingest_one(name: str, data: bytes, folder: Path) -> list[Any] | str:
    """Ingest a file; return its accounts, or the one line that says what is wrong."""
    (folder / name).write_bytes(data)
    options: dict[str, Any] = {"mapping": MAPPING, "trace": "t"} if name.startswith("x.") else {}
    if name in ("x.txt", "x.swf"):
        options = {"reader": "sacct" if name == "x.txt" else "swf"}
    try:
        ingest(folder / name, store=folder / "store", **options)
    except TraceanaError as error:
        failures = error.ledger.failures if isinstance(error, IngestError) else [("", str(error))]
        _assert_one_line([line for _, line in failures])
        accounts(folder / "store")
        return str(error).replace(str(folder), "")
    return accounts(folder / "store")


def check(name: str, data: bytes) -> None:
    """Ingest a file as ever, and again reading each row carefully: both must agree."""
    with tempfile.TemporaryDirectory() as fast, tempfile.TemporaryDirectory() as careful:
        at_once = ingest_one(name, data, Path(fast))
        with patch.object(Block, "at_once", lambda *_: None):
            by_row = ingest_one(name, data, Path(careful))
        assert at_once == by_row, (at_once, by_row)


def check_mutant(seed: int) -> None:
    """Check the mutant of a seed."""
    rng = random.Random(seed)
    name = rng.choice(list(SEEDS))
    data = mutate(SEEDS[name], rng)
    kept = Path(tempfile.gettempdir()) / f"fuzz-{seed}-{name}"
    kept.write_bytes(data)  # stays if the whole process ends
    try:
        check(name, data)
    except BaseException:
        sys.stderr.write(f"seed {seed} failed; its file is {kept}\n")
        raise
    kept.unlink()


def check_mapping(seed: int) -> None:
    """Ingest a file by a mutated mapping, which is refused in one line or keeps its accounts."""
    text = mutate(MAPPING.encode(), random.Random(seed)).decode(errors="replace")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.csv").write_bytes(SEEDS["x.csv"])
        try:
            ingest(Path(folder) / "x.csv", mapping=text, trace="t", store=Path(folder) / "store")
        except TraceanaError as error:
            ledger = error.ledger.failures if isinstance(error, IngestError) else []
            _assert_one_line([line for _, line in ledger] or [str(error)])
        except BaseException:
            sys.stderr.write(f"mapping {seed} failed:\n{text}\n")
            raise
        else:
            accounts(Path(folder) / "store")


def check_store(seed: int) -> None:
    """Change one file of a store: its tables are read as they were, or refused in one line."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        data = SEEDS["x.csv"] + b"\nq,1,1,yesterday,1G,completed\n"
        before = ingest_one("x.csv", data, Path(folder))
        store = Path(folder, "store")
        file = rng.choice(sorted([*store.rglob("*.parquet"), *store.rglob("*.json")]))
        file.write_bytes(mutate(file.read_bytes(), rng))
        try:
            if file.suffix == ".parquet":
                assert accounts(store) == before
            else:
                opened = open_store(store)
                opened.manifest("t")
                opened.scan("t", opened.ledger("t").entries[0].table).collect()
        except TraceanaError as error:
            _assert_one_line([str(error)])
        except BaseException:
            sys.stderr.write(f"store {seed} failed: {file.name}\n")
            raise


_names = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["job_id", "gpus", "status", "submit_s", "\0line", "\0row", "runtime_s", "memory_gib"]
)
_values: list[st.SearchStrategy[Any]] = [
    st.none() | st.text(max_size=5),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(),
    st.none() | st.datetimes(),
    st.none() | st.timedeltas(),
    st.none() | st.booleans(),
    st.none() | st.binary(max_size=4),
    st.lists(st.integers(0, 9), max_size=2),
]


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """Draw a frame that has a job_id and any other columns."""
    height = draw(st.integers(0, 5))
    made = {"job_id": draw(st.lists(st.text(max_size=3), min_size=height, max_size=height))}
    for name in draw(st.lists(_names, max_size=4, unique=True)):
        values = draw(st.sampled_from(_values))
        made[name] = draw(st.lists(values, min_size=height, max_size=height))
    return pl.DataFrame(made, strict=False)


def check_frames(examples: int, seed: int) -> None:
    """Add frames with any columns to a store."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seed == 0,
        suppress_health_check=list(HealthCheck),
    )
    @given(frames())
    def add(frame: pl.DataFrame) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                add_table(frame, trace="t", table="jobs", store=folder)
            except TraceanaError as error:
                _assert_one_line([str(error)])
            accounts(Path(folder))

    add()


def check_report(seed: int) -> None:
    """Make the report of a store of random tables: no warning, and no error but of the tables."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="error"):
        for table in [name for name in TABLES if rng.random() < 0.4] or ["jobs"]:
            rows = draw_table(table, rng)
            with contextlib.suppress(TraceanaError):  # none of its rows could be kept
                add_table(rows, trace="odd", table=table, store=f"{folder}/store")
        try:
            if Path(folder, "store").is_dir():
                build_report(f"{folder}/store", out=f"{folder}/out")
                page = Path(folder, "out", "index.md").read_text(encoding="utf-8")
                assert "cannot be drawn from this" not in page  # an error that no figure foresaw
        except BaseException:
            sys.stderr.write(f"report {seed} failed\n")
            raise


def check_kill(seed: int) -> None:
    """Kill an ingest at a random moment; the next one makes the store that it would have made."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.swf"
        file.write_bytes(SEEDS["x.swf"] * 500)
        command = [sys.executable, "-m", "traceana", "ingest", str(file), "--store"]
        with subprocess.Popen([*command, f"{folder}/store"], stdout=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.2, 2))
            process.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
        for store in ("store", "whole"):
            subprocess.run([*command, f"{folder}/{store}"], check=True, capture_output=True)
        assert accounts(Path(folder, "store")) == accounts(Path(folder, "whole"))


def run(seconds: float, seed: int, kill_every: int = 200) -> int:
    """Check mutants until the time is over, frames and kills among them; return how many."""
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end:
        check_mutant(seed + done)
        if done % 4 == 0:
            check_mapping(seed + done)
            check_store(seed + done)
        done += 1
        if done % kill_every == 0:
            check_kill(seed + done)
            check_frames(50, seed + done)
            check_report(seed + done)
    return done


def main() -> None:
    """Run for as long as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    options = parser.parse_args()
    sys.stderr.write(f"seed {options.seed}\n")
    for name, data in PAST.values():
        check(name, data)
    sys.stderr.write(f"{run(60 * options.minutes, options.seed):,} mutants\n")


if __name__ == "__main__":
    main()
