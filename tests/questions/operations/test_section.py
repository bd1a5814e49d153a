"""The section and the command on stored operations: planted causes are named."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.generator.operations import sample_operations
from tests.simulate.operations.generate import generate
from traceana import add_table, open_store, replay_operations
from traceana.cli import app
from traceana.figures import plot_step_timeline, plot_worker_slowdown
from traceana.page.blocks import Content
from traceana.page.section import Context, DataSource
from traceana.questions.operations.section import SECTION
from traceana.report.arrange import content_of

BROKEN = (
    sample_operations().filter(pl.col("kind") != "optimizer").with_columns(job_id=pl.lit("broken"))
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    slow = {"stage": 1, "kind": "", "factor": 2}
    stage = generate(stages=2, slow=slow)[0].with_columns(job_id=pl.lit("slow stage"))
    even = generate(noise=0.01)[0].with_columns(job_id=pl.lit("even"))
    frame = pl.concat([sample_operations(), stage, even, BROKEN], how="diagonal_relaxed")
    add_table(frame, trace="mine", table="operations", store=folder, title="Mine")
    return folder


def content(store: Path) -> Content:
    context = open_context(store)
    assert [trace.id for trace in SECTION.traces(context)] == ["mine"]
    return content_of(SECTION, context)


def test_the_cause_of_each_job_is_named(store: Path) -> None:
    built = content(store)
    text = "\n".join(built.findings) + str(built.blocks)
    assert "the slowest worker (5) explains" in text
    assert "low operations make job slow stage take" in text
    assert "stage 1 explains" in text
    # ideal durations are means of the slow stage and the other, which is faster
    assert "operations elsewhere that are faster than ideal stay so" in text
    assert "no optimizer; a step ends with it" in str(built)


def test_the_figures_draw_the_job(store: Path) -> None:
    drawings = SECTION.more([open_store(store).trace("mine")]) if SECTION.more else []
    assert {one.figure for one in drawings} == {"worker-slowdown", "step-timeline"}
    worker, timeline = drawings[0].result, drawings[1].result
    assert plot_worker_slowdown(worker).get_xlabel() == "Data-parallel rank"
    ax = plot_step_timeline(timeline)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "measured 0"
    assert labels[-1].startswith("ideal ")


def open_context(store: Path) -> Context:
    return Context(open_store(store), DataSource(store, is_sample=False))


def run(store: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        app, ["simulate", "operations", "mine", "--store", str(store), *options]
    )
    return result.exit_code, result.output if result.exception is None else str(result.exception)


def test_the_command_prints_what_the_function_returns(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "steps.json.gz"
    options = ("--job", "SYNTHETIC-job", "--ideal", "dp_rank=1,stage=2", "--json")
    code, output = run(store, *options, "--timeline", str(file))
    assert code == 0
    printed = json.loads(output)
    (row,) = printed["results"]
    expected = replay_operations(sample_operations(), ideal={"dp_rank": 1, "stage": 2})
    assert row["slowdown"] == pytest.approx(expected.slowdown)
    assert row["t_ideal"] == pytest.approx(expected.step_s_ideal.mean())
    assert row["slowest_workers"] == ["5"]
    assert {one["stage"] for one in row["slowdown_by_stage"]} == {0, 1, 2, 3}
    assert printed["ideal"] == "stage 2, dp_rank 1 ideal"
    assert file.exists()
    code, output = run(store, "--job", "SYNTHETIC-job")
    assert code == 0
    assert "forward-compute" in output


def test_a_job_that_cannot_be_replayed_is_left_out(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "operations", "mine", "--store", str(store), "--json"]
    with pytest.raises(SystemExit, match="0"):
        app(command)
    printed = capsys.readouterr()
    replayed = {row["job"] for row in json.loads(printed.out)["results"]}
    assert replayed == {"SYNTHETIC-job", "slow stage", "even"}
    (note,) = printed.err.splitlines()
    assert note.startswith("traceana: note: job broken is left out: operations: step 0, worker 0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--job", "x"), "mine has no such job; its jobs are SYNTHETIC-job, broken, even"),
        (("--ideal", "stage"), "expected name=value, such as stage=3"),
        (("--job", "even", "--ideal", "stage=9"), "no stage is '9'; found 0, 1"),
        (("--ideal", "color=3"), "with keys of kind"),
        (("--timeline", "t.json"), "--timeline: pass --job, one of SYNTHETIC-job"),
        (("--job", "broken"), "no optimizer"),
    ],
)
def test_the_command_names_what_is_wrong(
    store: Path, options: tuple[str, ...], message: str
) -> None:
    code, output = run(store, *options)
    assert code != 0
    assert message in output
