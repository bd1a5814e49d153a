"""What is not there, not whole, not real or not as published, and what that changes."""

from __future__ import annotations

import lzma
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

import traceana
from tests.conftest import NO_FILES
from tests.generator import write_sample
from tests.ingesters.conftest import tar_gz
from traceana import simulate
from traceana.catalog import load_catalog
from traceana.claims import (
    PAPERS,
    VERDICTS,
    Claim,
    ClaimResults,
    Judgement,
    Paper,
    check_claims,
    decide,
    papers,
)
from traceana.claims.undecided import undecided
from traceana.cohorts import tasks as job_sample
from traceana.errors import DataError
from traceana.ingesters import add_table, ingest
from traceana.questions.energy.savings import defaults
from traceana.store import Store, Trace, open_store
from traceana.store.cache import FOLDER

ITP = ("microsoft-itp-2021", "jobs")
CLAIMS = {claim.id: claim for paper in PAPERS.values() for claim in paper.claims}
NO_DATA = {name for name, claim in CLAIMS.items() if not claim.needs}
ONE_PAPER = "made-up"
FOUND = decide(holds=True, measured="10")


def verdicts(results: ClaimResults) -> dict[str, str]:
    return dict(results.table.select("id", "verdict").rows())


def itp_store(folder: Path, clusters: range = range(1, 11), gpus: int = 2) -> Store:
    """Clusters of two jobs, of 1 and (by default) 2 GPUs."""
    header = "job_id,submission_time,duration,num_gpu"
    files = {
        f"cluster{i:02d}.csv": f"{header}\nc{i}-a,10,3600,1\nc{i}-b,20,1800,{gpus}".encode()
        for i in clusters
    }
    ingest(tar_gz(folder / "files" / "raw-traces.tar.gz", files), store=folder / "store")
    return open_store(folder / "store")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Synthetic PAI and Zeus rows."""
    folder = tmp_path_factory.mktemp("claims")
    traces = ["alibaba-pai-2020", "zeus-2023"]
    ingest(write_sample(folder / "files", scale=0.002, traces=traces), store=folder / "store")
    return open_store(folder / "store")


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
    assert measured["zeus-example"] == "no such row; nor one with this time and power"


def as_if_real(store: Store, folder: Path) -> Store:
    """The same rows with ledgers that call them published."""
    shutil.copytree(store.path, folder)
    for path in folder.glob("*/ledger.json"):
        text = path.read_text().replace('"synthetic": true', '"synthetic": false')
        path.write_text(re.sub('"as_published": (false|null)', '"as_published": true', text))
    return open_store(folder)


def test_claims_on_pai_against_a_count_by_hand(sample: Store, tmp_path: Path) -> None:
    store = as_if_real(sample, tmp_path / "store")
    results = check_claims(store, paper="pai")
    found = {row["id"]: row for row in results.table.iter_rows(named=True)}
    assert {found[name]["verdict"] for name in found if name.startswith("pai-f")} == {"differs"}
    tasks, instances = (
        store.scan("alibaba-pai-2020", table).collect() for table in ("tasks", "instances")
    )
    known = instances.drop_nulls(["start_s", "end_s"]).group_by("job_id", "task_name")
    runtime = (pl.col("end_s").max() - pl.col("start_s").min()).alias("runtime_s")
    joined = tasks.select("job_id", "task_name", "status", "gpus", "gpu_type").join(
        known.agg(runtime), on=["job_id", "task_name"]
    )
    done = joined.filter(status="completed")
    points = done.drop_nulls("gpus").group_by("gpus").agg(pl.col("runtime_s").mean())
    r = points.select(pl.corr("gpus", "runtime_s")).item()
    assert f"; drop: r = {r:.2f} (p = " in found["pai-success-gpu"]["measured"]
    assert found["pai-success-gpu"]["reason"].startswith(
        "No end_imputation gives the printed numbers"
    )
    t4 = done.filter(gpu_type="T4").select(pl.col("runtime_s").mean()).item()
    assert "; drop: MISC " in found["pai-success-runtime"]["measured"]
    assert f"T4 {t4:,.1f}, V100 " in found["pai-success-runtime"]["measured"]
    jobs = store.scan("alibaba-pai-2020", "jobs").collect().height
    most = int(instances["job_id"].value_counts()["count"].to_numpy().max())
    assert found["pai-jobs"]["measured"] == f"{jobs:,}"
    assert found["pai-instances-per-job-most"]["measured"] == f"{most:,}"


def pai_store(folder: Path, published: Path, end: str = "") -> Store:
    """Four completed tasks of 10 to 40 % of a GPU whose second instance has lost its end.

    Their runtimes are 100, 200, 400 and 500 s if the end is that of the task, else 100 s.
    """
    tasks, instances = [], []
    for i, whole in enumerate((100, 200, 400, 500), 1):
        tasks.append(f"j{i},t,2,Terminated,1000,{1000 + whole},600,1,{10 * i},T4")
        instances.append(f"j{i},t,a,w{i}a,i{i},Terminated,1000,1100,m")
        instances.append(f"j{i},t,b,w{i}b,i{i},Terminated,1000,{end},m")
    folder.mkdir(exist_ok=True)
    files = {"pai_task_table": tasks, "pai_instance_table": instances}
    for name, rows in files.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
        shutil.copy(published / f"{name}.header", folder)
    ingest(folder, store=folder / "store")
    return open_store(folder / "store")


def test_correlations_are_compared_under_every_imputation(
    tmp_path: Path, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pai_store(tmp_path, real_data / "alibaba-pai-2020")
    # r of (10, 20, 30, 40) with (100, 200, 400, 500) is 70 / sqrt(500 * 10)
    r, p = f"{70 / (500 * 10) ** 0.5:.2f}", "1.01e-02"
    values = {"outcome": "success", "x": "gpus", "r": r, "p": p}
    claim = replace(CLAIMS["pai-success-gpu"], values=values, every_file=False, paper=ONE_PAPER)
    planted(monkeypatch, claim)
    (row,) = check_claims(store, paper=ONE_PAPER).table.iter_rows(named=True)
    assert row["verdict"] == "reproduced", row
    assert row["reason"] == "The printed numbers fit end_imputation task."
    assert f"; task: r = {r} (p = {p})" in row["measured"]
    monkeypatch.undo()
    planted(monkeypatch, replace(claim, values=values | {"r": "0.44"}))
    store = as_if_real(store, tmp_path / "real")
    (row,) = check_claims(store, paper=ONE_PAPER).table.iter_rows(named=True)
    assert row["verdict"] == "differs"


def test_runtimes_of_terminated_tasks_are_compared_with_the_task_table(
    tmp_path: Path, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = replace(CLAIMS["pai-terminated-runtime"], every_file=False, paper=ONE_PAPER)
    planted(monkeypatch, claim)
    (lost, known) = (
        pai_store(tmp_path / name, real_data / "alibaba-pai-2020", end)
        for name, end in (("lost", ""), ("known", "1050"))
    )
    assert verdicts(check_claims(lost, paper=ONE_PAPER)) == {claim.id: "untested"}
    known = as_if_real(known, tmp_path / "real")
    (row,) = check_claims(known, paper=ONE_PAPER).table.iter_rows(named=True)
    # the instances end after 100 s; the tasks after 100, 200, 400 and 500 s
    assert row["verdict"] == "differs"
    assert row["measured"].startswith("1 of 4 are equal to the second; the differences are up to 4")


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


def test_savings_of_groups_and_profiling_by_hand(sample: Store, tmp_path: Path) -> None:
    store = as_if_real(sample, tmp_path / "store")
    table = check_claims(store, paper="zeus").table
    measured = dict(table.select("id", "measured").rows())
    runs, power, jobs = (
        store.scan("zeus-2023", name).collect()
        for name in ("training_runs", "power_profiles", "recurring_jobs")
    )
    known = store.trace("zeus-2023").once(defaults)
    options: dict[str, Any] = {"gpu": "v100", "defaults": known}
    groups = simulate.simulate_recurring_groups(runs, power, jobs, **options).groups
    names = ("dataset", "energy_j", "default_energy_j")
    energies: dict[str, list[tuple[float, float]]] = {}
    for dataset, taken, default in groups.drop_nulls(names).select(names).iter_rows():
        energies.setdefault(dataset, []).append((taken, default))
    saved = {
        name: 100 * (1 - sum(taken for taken, _ in own) / sum(default for _, default in own))
        for name, own in energies.items()
    }
    parts = [f"{name} {saved[name]:.1f} %" for name in sorted(saved)]
    assert measured["zeus-groups-least"] == measured["zeus-groups-most"]
    assert measured["zeus-groups-least"] == f"saved: {', '.join(parts)}"
    assert measured["zeus-groups-time-most"] != measured["zeus-groups-most"]
    # an epoch of t s at P W; five seconds at each limit train 5 / t epochs
    energy = traceana.energy_to_accuracy(runs, power, dataset="librispeech", **options)
    lost = []
    for _, limits in energy.drop_nulls("cost_j").group_by("batch_size"):
        best = limits.sort("cost_j").row(0, named=True)
        training_s = best["epochs_mean"] * best["epoch_s"]
        lost.append(sum(5 - 5 * best["epoch_s"] / one for one in limits["epoch_s"]) / training_s)
    low, high = (f"{100 * end(lost):.3f}" for end in (min, max))
    told = f"{low} to {high} % of the time over {len(lost)} batch sizes"
    assert measured["zeus-profiling-time"] == told


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


def planted(monkeypatch: pytest.MonkeyPatch, *claims: Claim) -> None:
    monkeypatch.setattr(papers, "_WHOLE", 0)  # rows of a test are not the published ones
    monkeypatch.setitem(PAPERS, ONE_PAPER, Paper("A paper that does not exist", lambda: claims))


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


def test_an_unknown_paper(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'zues'; the papers are acme, .* \(did you mean zeus\?\)"):
        check_claims(Store(tmp_path), paper="zues")


def test_instances_of_recommendation_models_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "_COUNTED", 0)  # rows of a test are not the published ones
    header = (
        "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,"
        "rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,"
        "creation_time,scheduled_time,deletion_time"
    )
    lines = [  # app_0 has 72 cores for 3 GPUs, app_1 no GPU, app_2 8 cores for 1 GPU
        header,
        "instance_1,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,,,",
        "instance_2,CN,app_0,36,36,0,0,25,25,120.0,120.0,680.0,800.0,-1,,,90.0",
        "instance_3,HN,app_0,24,24,2,2,25,25,120.0,120.0,680.0,800.0,8,5.0,7.0,",
        "instance_4,CN,app_1,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,10.0,11.0,20.0",
        "instance_5,HN,app_2,8,8,1,1,25,25,32.0,32.0,85.0,100.0,2,10.0,12.0,30.0",
    ]
    (tmp_path / "disaggregated_DLRM_trace.csv").write_text("\n".join(lines) + "\n")
    (entry,) = ingest(tmp_path / "disaggregated_DLRM_trace.csv", store=tmp_path / "store").entries
    assert (entry.rows_kept, entry.rows_rejected) == (5, 0)
    table = check_claims(open_store(tmp_path / "store"), paper="prism").table
    assert dict(table.select("id", "measured").rows()) == {
        "prism-services": "3",
        "prism-instances": "5",
        "prism-cpu-nodes": "2",
        "prism-gpu-nodes": "3",
        "prism-cpus": "50.0 % of 2 services",
    }
    assert set(table["verdict"]) == {"untested"}


def test_deadlines_met_on_the_trace_of_philly_are_the_printed_ones(
    real_data: Path, tmp_path: Path
) -> None:
    file = real_data.parent / "published" / "elasticflow" / "philly_103959.csv"
    if not file.is_file():
        pytest.skip(NO_FILES)
    ingest(file, store=tmp_path)
    results = check_claims(open_store(tmp_path), paper="itp-elasticflow")
    assert not results.altered
    name, found = "elasticflow-figure-8b-philly", verdicts(results)
    printed = {"edf": 0.01, "tiresias": 0.32, "elasticflow": 0.87}  # figure 8b
    for policy, fraction in printed.items():
        simulated = results.evidence[f"{name}-{policy}"]["simulated"].item()
        assert simulated == pytest.approx(fraction, abs=0.005)
        assert found[f"{name}-{policy}"] == "reproduced"
    rivals = {rival: found[f"{name}-{rival}"] for rival in ("gandiva", "themis")}
    assert rivals == {"gandiva": "differs", "themis": "reproduced"}  # .215 and .312, of .15 and .33


def test_a_series_is_one_claim_of_each_printed_number(tmp_path: Path) -> None:
    text = """
title = "Made up"
module = "undecided"
[claims.mean]
statement = "{part} GPUs: {published} jobs, {what}"
values = { columns = ["jobs"], rows = [[2], [4]], least = "{least}" }
query = "SELECT {of}(jobs) FROM printed"
note = "counted"
[claims.mean.series]
1 = { published = "2", what = "few", of = "MIN", least = 1.5 }
8 = { published = "5", what = "many", of = "MAX", least = 3, note = "a misprint" }
"""
    claims = papers.read_paper("made-up", text).claims
    assert [(claim.id, claim.statement) for claim in claims] == [
        ("mean-1", "1 GPUs: 2 jobs, few"),
        ("mean-8", "8 GPUs: 5 jobs, many"),
    ]
    assert [(claim.note, claim.values["least"]) for claim in claims] == [
        ("counted", 1.5),
        ("a misprint", 3),
    ]
    found = [papers._measured(claim, Store(tmp_path)) for claim in claims]
    assert [(one.verdict, one.measured) for one in found] == [
        ("reproduced", "2"),
        ("differs", "4"),
    ]


def test_no_word_of_a_series_is_left_open() -> None:
    for claim in CLAIMS.values():
        of_part = (claim.statement, claim.published, claim.note, claim.reference, claim.section)
        assert not any("{" in text for text in (*of_part, claim.tolerance or "")), claim.id


def test_claims_name_their_paper_and_tables() -> None:
    for name, paper in PAPERS.items():
        assert {claim.paper for claim in paper.claims} == {name}
        if name in load_catalog():
            assert {claim.section for claim in paper.claims} == {"README"}
    needed = {trace for claim in CLAIMS.values() for trace, _ in claim.tables}
    assert needed >= {name for name, trace in load_catalog().items() if trace.tried}


def test_statements_on_instances_against_a_count_by_hand(sample: Store, tmp_path: Path) -> None:
    store = as_if_real(sample, tmp_path / "store")
    table = check_claims(store, paper="mlaas").table
    found = dict(table.select("id", "measured").rows())
    tables = ("tasks", "instances", "instance_usage", "job_tags")
    tasks, instances, usage, tags = (store.scan("alibaba-pai-2020", t).collect() for t in tables)
    user_of = {row["inst_id"]: row["user"] for row in tags.iter_rows(named=True) if row["user"]}
    owned = Counter(user_of[name] for name in instances["inst_id"] if name in user_of)
    top = sorted(owned.values(), reverse=True)[: -(-len(owned) // 20)]
    assert found["mlaas-users"] == f"{100 * sum(top) / owned.total():.0f}"
    task_of = {(row["job_id"], row["task_name"]): row for row in tasks.iter_rows(named=True)}
    keys = [key for key in instances.select("job_id", "task_name").rows() if key in task_of]
    gpus = [task_of[key]["gpus"] for key in keys if task_of[key]["gpus"] is not None]
    assert found["mlaas-gpu-requested"] == f"{median(gpus):.1f}"
    machines = store.scan("alibaba-pai-2020", "machines").collect()
    gpus_of = dict(machines.select("machine_id", "gpus").rows())
    sums: dict[tuple[str, str], list[float]] = {}
    for row in usage.iter_rows(named=True):
        key = (row["job_id"], row["task_name"])
        if key in task_of:  # as utils.py of the notebook: sums without nulls, 0 / 0 is left out
            task, used = task_of[key], row["gpus_used"] or 0
            total = sums.setdefault(key, [0, 0])
            total[0] += (task["gpus"] or 0) - used
            total[1] += gpus_of.get(row["machine_id"], 0)
    unused = [gpus for gpus, capacity in sums.values() if gpus or capacity]
    assert 0 in unused
    assert len(unused) < len(sums)
    for name, n in (("", sum(x > 0 for x in unused)), ("-below", sum(x < 0 for x in unused))):
        assert found[f"mlaas-plan-gpu{name}"] == f"{100 * n / len(unused):.2f}"
