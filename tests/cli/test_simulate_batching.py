"""``traceana simulate batching``: a job, the sweep, and the replay of the synthetic sample."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana import open_store, replay_batching, simulate_batching
from traceana.cli import app
from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.simulate import Static

SWEEP = ("--sweep", "--seeds", "2", "--steps", "5", "--overheads", "0", "--noise", "0.1")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minibatch")
    files = write_sample(folder / "sample", traces="alibaba-minibatch-2020", scale=0.05)
    ingest(files, store=folder / "store")
    return folder / "store"


def run(*asked: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "batching", *asked])
    if isinstance(done.exception, DataError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_job_of_cores_is_simulated_under_every_controller() -> None:
    shown = run("--cores", "12,12,8,16", "--rate", "4", "--overheads", "0.1")
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert list(rows) == [
        *(
            "Controller",
            "uniform",
            "static",
            "measured",
            "proportional",
            "smoothed",
            "damped",
            "omnilearn",
        ),
        "oracle",
    ]
    crew = [(0.1, 4.0 * cores) for cores in (12, 12, 8, 16)]
    job = simulate_batching(crew, controller=Static([12, 12, 8, 16]))
    assert f"{job.speedup:.3f}" in rows["static"]
    assert rows["static"].endswith("64, 64, 43, 85")


def test_the_estimate_need_not_be_the_truth(tmp_path: Path) -> None:
    out = tmp_path / "batches.parquet"
    told = json.loads(
        run(
            *("--devices", "t4,t4,p4,p4", "--throughputs", "8,8,1,1", "--json"),
            *("--controllers", "static,oracle", "--out", str(out), "--max-batch", "120"),
        )
    )
    static, oracle = told["results"]
    assert [each["batch"] for each in static["batches"]] == [118, 118, 10, 10]  # 65 to 5.5
    assert [each["batch_last"] for each in oracle["workers"]] == [114, 114, 14, 14]
    assert told["uniform_time_s"] == pytest.approx(6400)
    written = pl.read_parquet(out)
    assert written["controller"].unique(maintain_order=True).to_list() == ["static", "oracle"]
    assert written.filter(controller="oracle").drop("controller").to_dicts() == oracle["batches"]


def test_a_sweep(tmp_path: Path) -> None:
    out = tmp_path / "sweep.csv"
    told = json.loads(run(*SWEEP, "--json", "--out", str(out)))
    assert pl.read_csv(out).height == len(told["runs"]) == 8 * 2 * 7
    assert {row["n"] for row in told["summary"]} == {2}
    shown = run(*SWEEP)
    (row,) = (row for row in told["summary"] if row["level"] == "6/6/4/32" and
              row["controller"] == "oracle")  # fmt: skip
    (line,) = (line for line in shown.splitlines() if line.startswith("6/6/4/32"))
    assert line.endswith(f"{row['speedup']:.3f}")


def test_a_replay_says_that_it_is_synthetic(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    asked = ("--replay", "--store", str(store), "--controllers", "proportional,oracle")
    told = json.loads(run(*asked, "--json", "--within", "0.2", "--out", str(out)))
    samples = open_store(store).scan("alibaba-minibatch-2020", "worker_samples")
    replay = replay_batching(samples, controllers=["proportional", "oracle"])
    assert told["synthetic"]
    assert told["within"] == 0.2
    assert told["jobs"] == replay.jobs.to_dicts()
    assert pl.read_csv(out).height == replay.steps.height
    named = ("alibaba-minibatch-2020", *asked[1:], "--json", "--within", "0.2")
    assert json.loads(run(*named)) == told
    shown = run(*asked).splitlines()
    assert shown[0].startswith("SYNTHETIC")
    assert shown[2].split() == ["Job", "Steps", "proportional", "oracle"]
    assert sum(line.startswith("job_") for line in shown) >= replay.jobs["job_id"].n_unique()


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ((), "the workers are missing; pass --throughputs, --cores or --devices"),
        (("--cores", "1,x"), "--cores '1,x': expected numbers separated by commas"),
        (("--cores", "0,1"), "every throughput must be a number of samples/s above 0"),
        (("--devices", "t4,h100"), "no device is called 'h100'; the devices are t4, p4, p100"),
        (("--devices", "t4", "--cores", "2"), "--cores and --devices exclude each other"),
        (("--cores", "1,2", "--controllers", "magic"), "no controller is called 'magic'"),
        (("--throughputs", "1,2", "--controllers", "static"), "static needs an estimate"),
        (("--cores", "1,2", "--overheads", "1,2,3"), "one per worker .2.; found 3"),
        (("--cores", "1,2,3", "--global-batch", "2"), "3 or more can"),
        (("--cores", "1,2", "--max-batch", "3"), "2 to 6 can"),
        (("--cores", "1,2", "--noise", "0.1"), "--noise: only with --sweep or --replay"),
        (("--sweep", "--cores", "1,2"), "--cores: --sweep has its own workers"),
        (("--sweep", "--replay"), "pass one of them"),
        (("--replay", "--steps", "3"), "--steps: --replay uses the recorded workers"),
        (("--replay", "--controllers", "static"), "pass measured instead"),
        (("--cores", "1,2", "--out", "x.txt"), "the ending must be one of"),
    ],
)
def test_a_users_mistake(asked: tuple[str, ...], line: str) -> None:
    with pytest.raises(DataError, match=line) as told:
        run(*asked)
    assert "\n" not in str(told.value)


def test_no_cell_is_cropped_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    shown = run(*SWEEP) + run("--cores", "12,12,8,16")
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "proportional" in shown


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken.csv").mkdir()
    for ending in ("csv", "json", "parquet"):
        out = tmp_path / f"taken.{ending}"
        out.mkdir(exist_ok=True)
        with pytest.raises(DataError, match=r"cannot be written \(.*directory.*\); name another"):
            run("--throughputs", "1,2", "--steps", "2", "--out", str(out))


def test_a_rate_that_nothing_uses_is_refused() -> None:
    with pytest.raises(DataError, match="--rate: --throughputs are in samples/s"):
        run("--throughputs", "1,2", "--rate", "2")


def test_throughput_that_changes_over_time(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b\n10,20\n10,20\n10,5\n")
    asked = ("--controllers", "uniform", "--json")
    (of_file,) = json.loads(run("--throughputs", str(file), *asked))["results"]
    assert [row["worker_id"] for row in of_file["workers"]] == ["a", "b"]
    assert of_file["time_s"] == pytest.approx(6.4 + 6.4 + 12.8)
    slowed = ("--throughputs", "10,20", "--steps", "3", "--slowdown", "1:2-2:0.25")
    (of_option,) = json.loads(run(*slowed, *asked))["results"]
    assert of_option["time_s"] == of_file["time_s"]


def test_own_controllers_devices_and_saturation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_controller.py").write_text(
        "from traceana.simulate import Proportional\n"
        "once = Proportional(dead_band=0.5, name='once')\n"
    )
    monkeypatch.chdir(tmp_path)
    names = ("--controllers", "uniform,own_controller:once")
    told = json.loads(run("--devices", "a=10,b=30", "--half-batch", "64", *names, "--json"))
    uniform, once = told["results"]
    assert once["controller"] == "once"
    # 64 samples at half of the throughput: 64 / 5 s a step
    assert uniform["time_s"] == pytest.approx(1280)
    with pytest.raises(DataError, match="--controllers own_controller:none"):
        run("--cores", "1,2", "--controllers", "own_controller:none")


def test_the_published_clusters() -> None:
    told = json.loads(run("--published", "--steps", "50", "--json"))
    assert {row["workers"] for row in told["clusters"]} >= {"published", "homogeneous"}
    assert len(told["gains"]) == 10
    assert "Device pairs that reach it" in run("--published")


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (("--throughputs", "1,2", "--steps", "1000000000"), "GiB of memory"),
        (("--throughputs", "1,2", "--steps", "9" * 30), "steps must be a whole number"),
        (("--throughputs", "1,2", "--global-batch", "9" * 30), "global_batch must be a whole"),
        (("--throughputs", "1,2", "--max-batch", "9" * 30), "bounds must be whole"),
        (("--sweep", "--seeds", "9" * 30), "seeds must be at most"),
        (("--sweep", "--steps", "9" * 30), "steps must be a whole number"),
        (("--cores", "1e308,1e308"), "every throughput must be"),
        (("--throughputs", "1,2", "--cores", "1e308,1"), "static estimate must be"),
        (("--throughputs", "1,2", "--overheads", "1e308"), "every overhead must be"),
        (("--throughputs", "1,2", "--half-batch", "1e308"), "half_batch must be from 0"),
        (("--throughputs", "1,2", "--slowdown", "0:0-1:1e308"), "expected WORKER:FROM-TO:FACTOR"),
        (("--throughputs", "1,2", "--slowdown", "5:0-1:1"), "a worker from 0 to 1"),
        (("--throughputs", "nothing.csv"), "cannot be read"),
        (("--published", "--cores", "1,2"), "--published has its own clusters"),
    ],
)
def test_numbers_of_any_size_are_one_line(asked: tuple[str, ...], line: str) -> None:
    with pytest.raises(DataError, match=line) as told:
        run(*asked)
    assert "\n" not in str(told.value)
