"""An anonymized store holds no name, and answers the same questions."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import traceana
from traceana.cli import app
from traceana.cohorts.ends import without_numbers
from traceana.errors import DataError
from traceana.exchange.anonymize import Disclosure
from traceana.questions.failures.analyze import fit_failure_model
from traceana.schema import TABLES, describe_table, privacy_of

KEY = b"0123456789abcdef"
NAMES = ("alice", "bob", "secretlab", "gpu-prod", "train-merger", "node17", "node19", "j-1001")
MAPPING = """
[trace]
title = "The secretlab cluster"
timezone = "Europe/Berlin"
independent_unit = "user"
notes = ["Ask alice"]
keep = ["NodeList"]
[jobs]
job_id = "id"
user = "user"
account = "account"
queue = "queue"
qos = "'node19 first'"
job_name = "name"
end_reason = "reason"
gpus = "gpus"
submit_s = "t"
start_s = "t + 60"
end_s = "t + 60 + d"
runtime_s = "d"
status = "status"
[jobs.about]
groups = ["queue"]
notes = ["alice owns it"]
"""
MONDAY = datetime(2026, 3, 2, 8, 0, tzinfo=UTC).timestamp()
JOBS = pl.DataFrame(
    {
        "id": ["j-1001", "j-1002", "j-1003"],
        "user": ["alice", "alice", "bob"],
        "account": ["secretlab", "secretlab", None],
        "queue": ["gpu-prod"] * 3,
        "name": ["train-merger", "x", "y"],
        "reason": ["COMPLETED", "CANCELLED by alice", "NODE_FAIL"],
        "gpus": [1.0, 1.0, 8.0],
        "t": [MONDAY, MONDAY + 3600, MONDAY + 90_061],
        "d": [59.0, 125.0, 3600.0],
        "status": ["completed", "cancelled", "failed"],
        "NodeList": ["node17", "node17", "node18,node19"],
    }
)
STEPS = pl.DataFrame(
    {
        "job_id": ["j-1001"] * 4,
        "worker_id": ["worker_0", "worker_1"] * 2,
        "host": ["node17", "node18"] * 2,
        "time_s": [0.0, 0.0, 10.0, 10.0],
        "batch_time": [1.0, 1.5, 1.0, 1.6],
    }
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    traceana.add_table(JOBS, trace="mine", table="jobs", mapping=MAPPING, store=folder)
    traceana.add_table(STEPS, trace="mine", table="worker_samples", store=folder)
    return folder


def anonymized(store: Path, out: Path, **options: object) -> tuple[pl.DataFrame, pl.DataFrame]:
    left = traceana.anonymize("mine", store=store, out=out, **{"key": KEY} | options)  # type: ignore[arg-type]
    return traceana.open_store(out).scan("mine", "jobs").collect(), left


def test_no_name_is_left_in_any_file(store: Path, tmp_path: Path) -> None:
    anonymized(store, tmp_path / "out")
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"jobs.parquet", "manifest.json", "ledger.json"}
    for path in files:
        held = path.read_bytes()
        if path.suffix == ".parquet":
            held += pl.read_parquet(path).write_csv().encode()
        assert not [name for name in NAMES if name.encode() in held], path


def test_identifiers_become_keyed_digests_that_agree_between_tables(
    store: Path, tmp_path: Path
) -> None:
    jobs, _ = anonymized(store, tmp_path / "out")
    steps = traceana.open_store(tmp_path / "out").scan("mine", "worker_samples").collect()
    key = hashlib.sha256(KEY).digest()
    expected = hashlib.blake2b(b"id alice", digest_size=8, key=key).hexdigest()
    assert jobs["user"].to_list()[:2] == [expected] * 2
    assert jobs["user"][2] != expected
    assert jobs["account"].null_count() == 1
    assert steps["job_id"].unique().to_list() == [jobs["job_id"][0]]
    assert steps["host"][0] == jobs["NodeList"][0]
    assert steps["worker_id"].to_list() == STEPS["worker_id"].to_list()  # they only number
    again, _ = anonymized(store, tmp_path / "again")
    assert again.equals(jobs)
    other, _ = anonymized(store, tmp_path / "other", key=None)
    assert not set(other["user"]) & set(jobs["user"])


def test_hour_weekday_and_every_difference_of_times_stay(store: Path, tmp_path: Path) -> None:
    before = traceana.open_store(store).scan("mine", "jobs").collect()
    after, _ = anonymized(store, tmp_path / "out")
    shifts = {
        shift
        for name in ("submit_s", "start_s", "end_s")
        for shift in (before[name] - after[name]).to_list()
    }
    assert len(shifts) == 1
    [shift] = shifts
    assert shift > 0
    assert shift % (7 * 86_400) == 0
    first = datetime.fromtimestamp(after["submit_s"][0], UTC)
    assert (first.weekday(), first.hour) == (0, 8)
    steps = traceana.open_store(tmp_path / "out").scan("mine", "worker_samples").collect()
    assert steps["time_s"].equals(STEPS["time_s"])  # seconds of the job, no date in them


def test_the_window_of_an_export_stays_as_long(tmp_path: Path) -> None:
    # a job that was held for weeks is listed; the export begins with the first end
    lines = ["JobID|User|State|Submit|Start|End", "1|u|COMPLETED|2026-02-01T00:00:00|"]
    lines[1] += "2026-03-01T00:30:00|2026-03-01T01:00:00"
    lines += [
        f"{job}|u|COMPLETED|2026-03-{1 + job // 24:02d}T{job % 24:02d}:30:00|"
        f"2026-03-{1 + job // 24:02d}T{job % 24:02d}:31:00|2026-03-{1 + job // 24:02d}"
        f"T{job % 24:02d}:50:00"
        for job in range(2, 400)
    ]
    (tmp_path / "mine.txt").write_text("\n".join(lines) + "\n")
    traceana.ingest(tmp_path / "mine.txt", store=tmp_path / "store")
    for options in ({}, {"round_s": 600.0}):
        anonymized(tmp_path / "store", tmp_path / f"out{len(options)}", **options)
        of_each = [traceana.open_store(tmp_path / name) for name in ("store", f"out{len(options)}")]
        before, after = (one.manifest("mine") for one in of_each)
        length, same = (
            (one.window_end_s or 0) - (one.window_start_s or 0) for one in (before, after)
        )
        assert 16 * 86_400 < length < 17 * 86_400
        assert abs(same - length) <= 600 * len(options)
        assert after.window == "derived"


def test_what_the_analyses_need_stays(store: Path, tmp_path: Path) -> None:
    jobs, _ = anonymized(store, tmp_path / "out")
    assert jobs["runtime_s"].to_list() == [59, 125, 3600]
    assert jobs["status"].to_list() == ["completed", "cancelled", "failed"]
    key = hashlib.sha256(KEY).digest()
    digest = hashlib.blake2b(b"id CANCELLED by alice", digest_size=8, key=key).hexdigest()
    assert jobs["end_reason"].to_list() == ["COMPLETED", digest, "NODE_FAIL"]
    manifest = traceana.open_store(tmp_path / "out").manifest("mine")
    assert (manifest.timezone, manifest.independent_unit) == ("Europe/Berlin", "user")
    assert manifest.tables["jobs"].groups == ("queue",)
    assert manifest.title == "mine (anonymized)"


def test_names_and_reasons_stay_as_alike_as_they_were(tmp_path: Path) -> None:
    names = [
        "train-1",
        "train-2",
        "train1",
        "train",
        "v2x-1",
        "v3x-1",
        "v3x-7",
        "v2x",
        "run-a7f",
        "9",
    ]
    reasons = ["Out of memory", "Out of memory (ann)", "time limit of ann", "ann did it"]
    jobs = pl.DataFrame(
        {"job_id": map(str, range(10)), "job_name": names, "end_reason": (reasons * 3)[:10]},
    ).with_columns(status=pl.lit("failed"), runtime_s=60.0)
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store")
    found, _ = anonymized(tmp_path / "store", tmp_path / "out")
    for column in (pl.col("job_name"), *without_numbers(pl.col("job_name"))):
        before, after = (
            one.select(column.rank("dense")).to_series().to_list() for one in (jobs, found)
        )
        assert len({*zip(before, after, strict=True)}) == len({*before}) == len({*after})
    assert not [name for name in found["job_name"] if "train" in name or "run" in name]
    classes = [traceana.with_end_class(one)["end_class"].to_list() for one in (jobs, found)]
    assert classes[0] == classes[1]
    assert classes[0][:4] == ["user limit", "user limit", "job", "job"]
    assert found["end_reason"].n_unique() == 4
    assert "ann" not in "".join(found["end_reason"])


@pytest.mark.parametrize("key", [bytes([one]) * 16 for one in range(8)])
def test_shifted_times_are_still_read_as_dates(tmp_path: Path, key: bytes) -> None:
    # 1991 and 2026: no key moves them to where the clock's phase is no longer known
    for year in (1991, 2026):
        first = datetime(year, 3, 2, 8, tzinfo=UTC).timestamp()
        jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [first, first + 3600.0]})
        folder = tmp_path / str(year)
        traceana.add_table(jobs, trace="mine", table="jobs", store=folder)
        traceana.anonymize("mine", store=folder, out=folder / "out", key=key)
        store = traceana.open_store(folder / "out")
        assert store.manifest("mine").absolute_times
        moved = store.scan("mine", "jobs").collect()["submit_s"][0] - first
        assert moved < 0
        assert moved % (7 * 86_400) == 0


def test_no_result_depends_on_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 3000
    submit = np.sort(MONDAY + rng.uniform(0, 60 * 86_400, n)).round()
    user = rng.integers(0, 30, n)
    regressed = (user == 3) & (submit > MONDAY + 30 * 86_400)
    runtime = (np.exp(rng.normal(8, 0.2, n)) * np.where(regressed, 2, 1)).round()
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{one}" for one in range(n)],
            "user": [f"user{one}" for one in rng.permutation(30)[user]],
            "job_name": [f"train-{one}" for one in user],
            "gpu_type": np.where(rng.random(n) < 0.5, "A100", "H100"),
            "gpus": 1.0,
            "submit_s": submit,
            "start_s": submit + 60,
            "end_s": submit + 60 + runtime,
            "runtime_s": runtime,
            "status": np.where(rng.random(n) < 0.2, "failed", "completed"),
        }
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store")
    traceana.anonymize("mine", store=tmp_path / "store", out=tmp_path / "out", key=KEY)
    traces = [traceana.open_store(tmp_path / one).trace("mine") for one in ("store", "out")]
    models = [fit_failure_model(trace)[0] for trace in traces]
    assert models[0] is not None
    assert models[1] is not None
    assert_frame_equal(models[0].odds_ratios, models[1].odds_ratios)
    assert_frame_equal(models[0].fit, models[1].fit)
    changes = [traceana.level_changes(trace.scan("jobs")) for trace in traces]
    columns = ["measure", "effect", "ci_low", "ci_high", "n", "n_rest", "pvalue"]
    assert changes[0].filter(pl.col("user").is_not_null()).height == 1
    assert_frame_equal(*(one.select(columns) for one in changes))
    scores = [traceana.predict_runtimes(trace.scan("jobs"), cluster="user") for trace in traces]
    assert_frame_equal(*scores)


def test_rounding_is_down_to_multiples(store: Path, tmp_path: Path) -> None:
    jobs, left = anonymized(store, tmp_path / "out", round_s=60)
    assert jobs["runtime_s"].to_list() == [0, 120, 3600]
    assert all(second % 60 == 0 for second in jobs["end_s"])
    assert left.filter(column="runtime_s")["treatment"].to_list() == ["rounded"]


def test_a_label_with_a_name_is_a_digest(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["1", "2", "3", "4"],
            "user": ["ann", "Bob", "al", "137"],
            "workload": ["BERT of ann", "bob_tuning", "annual", "al"],
            "gpu_type": ["A100", "A100", "ann", "T4"],
            "exit_code": ["137:0", "0:0", "0:0", "0:9"],
        }
    )
    faults = {"machine_id": ["node17"], "start_s": [5.0], "class": ["Xid 79 on NODE17:gpu0"]}
    for table, rows in (("jobs", jobs), ("faults", pl.DataFrame(faults))):
        traceana.add_table(rows, trace="mine", table=table, store=tmp_path / "store")
    traceana.anonymize("mine", store=tmp_path / "store", out=tmp_path / "out", key=KEY)
    store = traceana.open_store(tmp_path / "out")
    found = store.scan("mine", "jobs").collect()
    assert found["workload"].str.contains("^[0-9a-f]{16}$").to_list() == [True, True, False, True]
    assert found["gpu_type"].to_list()[:2] == ["A100", "A100"]
    assert found["gpu_type"][2] == found["user"][0]
    assert found["exit_code"].to_list() == jobs["exit_code"].to_list()
    assert "ode" not in store.scan("mine", "faults").collect()["class"].item().lower()


@pytest.mark.parametrize(
    "name", ["ann.m@lab.org", "jo-smith", "O'Brien", "LAB\\bob1", "dr smith", "王伟", "_svc_7"]
)
def test_a_name_of_several_words_is_found_in_labels_and_reasons(tmp_path: Path, name: str) -> None:
    host = "gpu-node-17.lab"
    jobs = pl.DataFrame(
        {
            "job_id": ["1", "2"],
            "user": [name, "svc"],
            "workload": [f"bert_{name}-2", "smith"],
            "qos": [f"({host})", "gpu"],
            "end_reason": ["svc", "OOM"],
        }
    )
    faults = pl.DataFrame({"machine_id": [host], "start_s": [5.0], "class": ["Xid 79"]})
    for table, rows in (("jobs", jobs), ("faults", faults)):
        traceana.add_table(rows, trace="mine", table=table, store=tmp_path / "store")
    found, _ = anonymized(tmp_path / "store", tmp_path / "out")
    first, second = found.select("workload", "qos", "end_reason").rows()
    assert all(set(cell) <= set("0123456789abcdef") for cell in first)
    assert second == ("smith", "gpu", "OOM")


def test_what_is_left_is_counted(store: Path, tmp_path: Path) -> None:
    _, left = anonymized(store, tmp_path / "out")
    assert left.columns == list(Disclosure.columns())
    rows = {(r["table"], r["column"]): r for r in left.rows(named=True)}
    gpus = rows["jobs", "gpus"]  # 1, 1 and 8
    assert (gpus["treatment"], gpus["distinct"], gpus["single"]) == ("kept", 2, 1)
    assert rows["jobs", "submit_s"]["treatment"] == "shifted"
    assert rows["jobs", None]["single"] == 3  # all three have another submission time


def test_every_text_and_time_column_is_classified() -> None:
    for table in TABLES:
        for column, dtype, unit in describe_table(table).select("column", "dtype", "unit").rows():
            kind = privacy_of(table)[column]
            assert kind or dtype != "String" or unit != "text", f"{table}.{column}"
            if column.endswith(("submit_s", "start_s", "end_s")):
                assert kind == "time", f"{table}.{column}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": b"short"}, "key has 5 bytes; at least 16 are needed"),
        *(
            ({"round_s": bad}, "round_s must be a number of seconds from 0.001 to 31,622,400")
            for bad in (0.0, float("nan"), 1e-320, 1e308, "1")
        ),
    ],
)
def test_mistakes_are_one_line(
    store: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        anonymized(store, tmp_path / "out", **options)
    with pytest.raises(DataError, match="this is the store itself"):
        anonymized(store, store)


def test_the_command_lists_what_is_left(store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_bytes(KEY)
    out = tmp_path / "out"
    command = ["anonymize", "mine", "--store", str(store), "--out", str(out)]
    result = CliRunner().invoke(app, [*command, "--key", str(secret)])
    assert result.exit_code == 0
    assert "digest" in result.stdout
    jobs, _ = anonymized(store, tmp_path / "same")
    assert traceana.open_store(out).scan("mine", "jobs").collect().equals(jobs)
    missing = CliRunner().invoke(app, [*command, "--key", str(tmp_path / "none")])
    assert isinstance(missing.exception, DataError)


def test_a_table_without_a_row_has_nothing_to_disclose(tmp_path: Path) -> None:
    empty = pl.DataFrame(schema={"job_id": pl.String, "gpus": pl.Int64})
    traceana.add_table(empty, trace="t", table="jobs", store=tmp_path / "store")
    left = traceana.anonymize("t", store=tmp_path / "store", out=tmp_path / "out")
    assert left.is_empty()
    assert traceana.open_store(tmp_path / "out").scan("t", "jobs").collect().is_empty()


@pytest.mark.parametrize("key", ["/dev/zero", "pipe", "folder"])
def test_a_key_that_does_not_end_is_not_read(store: Path, tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    command = ["anonymize", "mine", "--store", str(store), "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, [*command, "--key", str(tmp_path / key)])
    assert isinstance(refused.exception, DataError)
    assert str(refused.exception).endswith("not a file")
