"""What is not there, not whole, not real or not as published, and what that changes."""

from __future__ import annotations

import lzma
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import traceana
from tests.claims.conftest import CLAIMS, ONE_PAPER, as_if_real, itp_store, planted, verdicts
from traceana.claims import (
    VERDICTS,
    Claim,
    ClaimResults,
    Judgement,
    check_claims,
    decide,
    papers,
)
from traceana.claims.undecided import undecided
from traceana.cohorts import tasks as job_sample
from traceana.errors import DataError
from traceana.ingesters import add_table, ingest
from traceana.store import Store, Trace, open_store
from traceana.store.cache import FOLDER

ITP = ("microsoft-itp-2021", "jobs")
NO_DATA = {name for name, claim in CLAIMS.items() if not claim.needs}
FOUND = decide(holds=True, measured="10")


def test_a_store_without_tables_leaves_only_what_is_judged_by_itself(tmp_path: Path) -> None:
    results = check_claims(Store(tmp_path))
    tested = {name for name, verdict in verdicts(results).items() if verdict != "untested"}
    assert tested <= NO_DATA
    told = results.table.filter(pl.col("source").is_not_null())
    assert set(told["verdict"]) == {"untested"}
    assert told["measured"].null_count() == told.height
    assert told["reason"].str.starts_with("not in the store: ").all()


def test_synthetic_rows_neither_bear_out_nor_refute(sample: Store) -> None:
    results = check_claims(sample)
    tested = {name for name, verdict in verdicts(results).items() if verdict != "untested"}
    assert tested <= NO_DATA
    notes = dict(results.table.select("id", "reason").rows())
    assert notes["zeus-ratio-mean"] == "the store's rows of zeus-2023 are synthetic"
    assert notes["pai-jobs"] == "the store's rows of alibaba-pai-2020 are synthetic"


def test_a_trace_that_lacks_a_file_is_not_whole(tmp_path: Path) -> None:
    results = check_claims(itp_store(tmp_path, range(1, 10)), paper="microsoft-itp-2021")
    note = results.table.filter(id="itp-jobs")["reason"].item()
    assert note == "files of the trace are not in the store: cluster10.csv"
    assert set(verdicts(results).values()) == {"untested"}


def test_a_claim_that_fails_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_data: Store, _claim: Claim) -> float:
        return float(None)  # type: ignore[arg-type]

    def judge(_data: Store, _claim: Claim) -> float:
        return 1.0

    claims = (
        Claim(name, ONE_PAPER, "", "1", ("/".join(ITP),), m)
        for name, m in (("a", fail), ("b", judge))
    )
    planted(monkeypatch, *claims)
    store = as_if_real(itp_store(tmp_path), tmp_path / "real")
    results = check_claims(store, paper=ONE_PAPER)
    assert verdicts(results) == {"a": "untested", "b": "reproduced"}
    reason = results.table["reason"].item(0)
    assert reason.startswith("it could not be computed. Please report it with these words: ")
    assert ", claim a, TypeError in " in reason


def test_result_files_of_a_job_that_is_missing_refute_nothing(
    real_data: Path, tmp_path: Path
) -> None:
    folder = real_data / "bytedance-stragglers-2025"
    ingest(folder / "trace-ST.parquet", store=tmp_path / "store")
    table = check_claims(open_store(tmp_path / "store"), paper="bytedance-stragglers").table
    assert table.filter(verdict="differs").is_empty()
    told = dict(table.select("id", "reason").rows())
    missing = "not among the jobs of bytedance-stragglers-2025/operations: AR"
    assert told["bytedance-all-kind-by-step"] == missing
    assert table.filter(id="bytedance-s-st")["verdict"].item() == "reproduced"


def test_other_rows_than_the_published_ones_refute_nothing(tmp_path: Path) -> None:
    results = check_claims(itp_store(tmp_path), paper="microsoft-itp-2021")
    assert set(verdicts(results).values()) == {"untested"}
    note = results.table.filter(id="itp-jobs")["reason"].item()
    assert note == "a part of microsoft-itp-2021/jobs is in the store: 20 of 69,351 published rows"
    assert results.altered == ("microsoft-itp-2021/raw-traces.tar.gz",)


@pytest.mark.parametrize(
    ("table", "rows", "name"),
    [
        ("microsoft-itp-2021/jobs", 69_000, "itp-span"),
        # a claim on one job, which needs no file of the others
        ("alibaba-minibatch-2020/worker_samples", 29_000, "antman-job2"),
    ],
)
def test_a_part_of_a_frame_decides_nothing(
    tmp_path: Path, table: str, rows: int, name: str
) -> None:
    trace, of = table.split("/")
    n = pl.int_range(rows, eager=True).cast(pl.Float64)
    if of == "jobs":
        frame = {"job_id": n, "submit_s": n * 75, "end_s": n * 75 + 1, "gpus": 1}
    else:
        frame = {"job_id": "job_2", "worker_id": "0", "time_s": n, "batch_time": 1.0, "gpus": 0.2}
    add_table(pl.DataFrame(frame), trace=trace, table=of, store=tmp_path)
    found = check_claims(open_store(tmp_path), paper=trace).table.filter(id=name).row(0, named=True)
    assert found["verdict"] == "untested"
    assert found["reason"].startswith(f"a part of {table} is in the store: {rows:,} of ")


def test_a_row_without_a_value_is_no_verdict(tmp_path: Path) -> None:
    text = """
title = "Made up"
[claims.energies]
statement = "an energy each"
published = "2"
values = { columns = ["beta", "energy"], rows = [["1.5", 2.0], ["2", nan]] }
rows = "SELECT beta, CASE WHEN energy > 0 AND energy < 9 THEN energy END AS energy FROM printed"
each = "{beta} {energy:.3f}"
query = "SELECT COUNT(*) AS n FROM rows"
measured = "{n}: {each}"
holds = "n = 2"
"""
    (claim,) = papers.read_paper("made-up", text).claims
    found = papers._measured(claim, Store(tmp_path))
    assert (found.verdict, found.note) == (
        "untested",
        "the rows in the store cannot be analyzed: a row has no value",
    )


@pytest.mark.parametrize(
    ("workers", "cov", "verdict"),
    [((10, 10), 3.1, "not testable"), ((10, 11), 3.1, "differs"), ((10, 10), 3.2, "differs")],
)
def test_a_file_of_other_workers_or_a_variation_beyond_ten_refutes(
    tmp_path: Path, workers: tuple[int, int], cov: float, verdict: str
) -> None:
    samples = [(f"job_{job}", str(w)) for job, n in enumerate(workers) for w in range(n)]
    of_samples = pl.DataFrame(samples, schema=["job_id", "worker_id"], orient="row")
    covs = pl.DataFrame({"job_id": ["job_7"], "sample": [0], "cov": [cov]})
    trace = "alibaba-minibatch-2020"
    times = of_samples.with_columns(time_s=pl.lit(0.0), batch_time=pl.lit(1.0))
    add_table(times, trace=trace, table="worker_samples", store=tmp_path)
    add_table(covs, trace=trace, table="cov_samples", store=tmp_path)
    assert papers._measured(CLAIMS["antman-workers"], open_store(tmp_path)).verdict == verdict


@pytest.mark.parametrize("name", ["zeus-convex", "zeus-tta-variation", "zeus-early-stopping"])
def test_runs_that_never_reach_their_target_decide_nothing(
    sample: Store, tmp_path: Path, name: str
) -> None:
    runs, power = (sample.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    never = runs.with_columns(target_epoch=pl.lit(None, pl.Int64)).collect()
    add_table(never, trace="zeus-2023", table="training_runs", store=tmp_path)
    add_table(power.collect(), trace="zeus-2023", table="power_profiles", store=tmp_path)
    assert papers._measured(CLAIMS[name], open_store(tmp_path)).verdict == "untested"


def test_one_row_of_each_table_ends_no_check(sample: Store, tmp_path: Path) -> None:
    traces = {"zeus-2023": sample, "elasticflow-2023": traceana.open_sample()}
    for trace, store in traces.items():
        for table in store.trace(trace).manifest.tables:
            row = store.scan(trace, table).head(1).collect()
            add_table(row, trace=trace, table=table, store=tmp_path)
    store = open_store(tmp_path)
    for claim in CLAIMS.values():
        if claim.tables and all(trace in traces for trace, _ in claim.tables):
            assert papers._measured(claim, store).verdict in VERDICTS, claim.id


def test_a_tampered_file_decides_nothing_and_changes_no_other_claim(
    results: ClaimResults, real_data: Path, real_store: Store, tmp_path: Path
) -> None:
    store, files = tmp_path / "store", tmp_path / "files"
    shutil.copytree(real_store.path, store)
    for trace in ("alibaba-minibatch-2020", "zeus-2023"):
        shutil.copytree(real_data / trace, files / trace)
        shutil.rmtree(store / trace)
    job, power = (
        files / "alibaba-minibatch-2020" / "job_3_norm.csv",
        files / "zeus-2023" / "summary_power_a40.csv",
    )
    lines = job.read_text().splitlines()
    # another GPU request in the one, another time of the example's row in the other
    job.write_text("\n".join(lines[:1] + [line.replace(",25,", ",30,") for line in lines[1:]]))
    power.write_text(power.read_text().replace("11198.95", "11198.96"))
    ingest(files, store=store)
    tampered = check_claims(open_store(store))
    assert set(tampered.altered) == {
        "alibaba-minibatch-2020/job_3_norm.csv",
        "zeus-2023/summary_power_a40.csv",
    }
    names = ["id", "measured", "verdict", "reason"]
    before, after = (set(each.table.select(names).rows()) for each in (results, tampered))
    changed = {name for name, *_ in before ^ after}
    of_altered = pl.col("source").str.contains("2020/worker_samples|power_profiles")
    judged = pl.col("verdict").is_in(["reproduced", "differs", "observation"])
    assert changed == {*results.table.filter(of_altered, judged)["id"]}
    assert {"antman-job3", "zeus-example", "zeus-pairs"} <= changed
    assert {verdicts(tampered)[name] for name in changed} == {"untested"}
    told = dict(tampered.table.select("id", "reason").rows())
    altered = "is not the published file (its sha256 differs)"
    assert told["antman-job3"] == f"job_3_norm.csv {altered}"
    measured = dict(tampered.table.select("id", "measured").rows())
    assert measured["antman-job3"].startswith("GPU request 30 %;")
    assert measured["zeus-example"] == "no such row; nor one of its key"


def test_a_claim_judged_from_a_sample_of_jobs_says_so(
    sample: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = as_if_real(sample, tmp_path / "store")
    whole = check_claims(store, paper="pai").table
    assert not whole["reason"].str.contains("of a sample").any()
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    monkeypatch.setattr(job_sample, "MAX_TASKS", 2000)
    monkeypatch.setattr(job_sample, "SAMPLED_TASKS", 1500)
    drawn = check_claims(Store(store.path), paper="pai").table
    told = drawn.filter(
        pl.concat_str("reason", "measured").str.contains(r"[Oo]f a sample: 1,\d{3} of [\d,]+ tasks")
    )
    of_tasks = {name for name in drawn["id"] if name.startswith(("pai-success", "pai-failure"))}
    assert set(told["id"]) == {"pai-terminated-runtime", *of_tasks}
    # what is counted is counted in all rows
    jobs = store.scan("alibaba-pai-2020", "jobs").collect().height
    assert drawn.filter(id="pai-jobs").equals(whole.filter(id="pai-jobs"))
    assert drawn.filter(id="pai-jobs")["measured"].item() == f"{jobs:,}"


@pytest.mark.parametrize(("other", "verdict"), [(0.8220594235, "reproduced"), (0.9, "untested")])
def test_claims_on_groups(tmp_path: Path, other: float, verdict: str) -> None:
    group = "0001086788b7de0f13804d22a12a27db,1427642.0,1446915.0,squad,1.1779405764729405"
    rows = f"group,start_time,end_time,dataset,runtime_ratio\n{group}\nb,1.0,2.0,squad,{other}\n"
    (tmp_path / "alibaba_groups.csv.xz").write_bytes(lzma.compress(rows.encode()))
    ingest(tmp_path / "alibaba_groups.csv.xz", store=tmp_path / "store")
    found = verdicts(check_claims(open_store(tmp_path / "store"), paper="zeus-2023"))
    assert found["zeus-ratio-mean"] == verdict
    assert found["zeus-group-example"] == "reproduced"
    assert found["zeus-pairs"] == "untested"


GROUPS = pl.DataFrame(
    {
        "group": [f"g{i % 7}" for i in range(40)],
        "start_time": [100.0 * i for i in range(40)],
        "end_time": [100.0 * i + 50 + i * i for i in range(40)],
        "dataset": ["squad", "cifar100"] * 20,
    }
)
MEAN = (pl.col("end_time") - pl.col("start_time")).mean().over("dataset")
RATIO = (pl.col("end_time") - pl.col("start_time")) / MEAN


@pytest.mark.parametrize(
    ("groups", "mean", "rows"),
    [
        (GROUPS.with_columns(runtime_ratio=RATIO), "reproduced", "reproduced"),
        (GROUPS.with_columns(runtime_ratio=RATIO).head(8), "untested", "untested"),
        (
            # in another order, but of the same mean
            GROUPS.with_columns(runtime_ratio=RATIO.reverse().over("dataset")),
            "reproduced",
            "untested",
        ),
        (
            GROUPS.with_columns(runtime_ratio=RATIO * pl.int_range(1, pl.len() + 1)),
            "untested",
            "untested",
        ),
    ],
    ids=["whole", "a part", "shuffled", "altered"],
)
def test_runtime_ratios_row_by_row(
    tmp_path: Path, groups: pl.DataFrame, mean: str, rows: str
) -> None:
    (tmp_path / "alibaba_groups.csv.xz").write_bytes(lzma.compress(groups.write_csv().encode()))
    ingest(tmp_path / "alibaba_groups.csv.xz", store=tmp_path / "store")
    table = check_claims(open_store(tmp_path / "store"), paper="zeus-2023").table
    found = dict(table.select("id", "verdict").rows())
    assert (found["zeus-ratio-mean"], found["zeus-ratio-rows"]) == (mean, rows)
    if rows == "untested":
        row = table.row(by_predicate=pl.col("id") == "zeus-ratio-rows", named=True)
        assert row["measured"].endswith(f" of {groups.height} rows")
        assert row["reason"].startswith("whether alibaba_groups.csv.xz is the published file is")


def test_a_verdict_is_kept_until_its_claim_or_its_tables_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    calls = []

    def measured(claim: Claim, _store: Store) -> Judgement:
        calls.append(claim.id)
        return FOUND

    monkeypatch.setattr(papers, "_measured", measured)
    claim = replace(CLAIMS["itp-clusters"], measure=undecided)
    planted(monkeypatch, claim, replace(claim, published="11"))
    store = itp_store(tmp_path, gpus=10)
    for _ in range(2):
        check_claims(Store(store.path), paper=ONE_PAPER)
        assert len(calls) == 2
    shutil.rmtree(tmp_path / "files")
    check_claims(itp_store(tmp_path, gpus=11), paper=ONE_PAPER)
    assert len(calls) == 4


def test_what_two_claims_need_is_computed_once_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def count(trace: Trace) -> int:
        calls.append(trace)
        return trace.scan(ITP[1]).collect().height

    def judge(data: Store, _claim: Claim) -> Judgement:
        return decide(holds=data.trace(ITP[0]).once(count) == 20, measured="", note="")

    planted(
        monkeypatch, *(Claim(name, ONE_PAPER, "", "", ("/".join(ITP),), judge) for name in "ab")
    )
    store, shares = as_if_real(itp_store(tmp_path), tmp_path / "real"), list[float]()
    for _ in (1, 2):
        found = check_claims(store, paper=ONE_PAPER, progress=shares.append)
        assert verdicts(found) == {"a": "reproduced", "b": "reproduced"}
        assert len(calls) == 1, "what an open store has is kept"
    assert shares == [0.5, 1.0] * 2


def test_rows_that_cannot_be_analyzed_are_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_data: Store, _claim: Claim) -> float:
        raise DataError("a column is constant")

    planted(monkeypatch, Claim("refused", ONE_PAPER, "", "", ("/".join(ITP),), refuse))
    (row,) = check_claims(itp_store(tmp_path), paper=ONE_PAPER).table.iter_rows(named=True)
    assert row["verdict"] == "untested"
    assert row["reason"] == "the rows in the store cannot be analyzed: a column is constant"
