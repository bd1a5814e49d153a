"""The section and the command on a stored fault log with planted facts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana
from tests.cli.command import run_command
from traceana.page.finding import Finding
from traceana.questions.reliability import section

DAY = 86_400.0
MAPPING = """
[trace]
title = "Our cluster"
window_start_s = 0
window_end_s = 8640000
[trace.capacity]
all = { nodes = 60, gpus_per_node = 8 }
[faults]
machine_id = "machine_id"
start_s = "start_s"
end_s = "end_s"
class = "class"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred days of 60 machines: 40 faults at random, and 12 of one machine."""
    rng = np.random.default_rng(8)
    log = pl.DataFrame(
        {
            "machine_id": [f"m{i}" for i in rng.permutation(60)[:40]] + ["worst"] * 12,
            "start_s": [*rng.uniform(0, 90 * DAY, 40), *(np.arange(12) * 8 * DAY)],
            "class": ["gpu"] * 30 + ["nic"] * 22,
        }
    ).with_columns(end_s=pl.col("start_s") + DAY)
    folder = tmp_path_factory.mktemp("store")
    traceana.add_table(log, trace="mine", table="faults", store=folder, mapping=MAPPING)
    return folder


def test_the_page_states_rate_offender_and_time_to_failure(store: Path, tmp_path: Path) -> None:
    traceana.build_report(store, out=tmp_path, only="reliability")
    page = (tmp_path / "index.md").read_text()
    assert "8.67 faults per 1,000 node-days" in page  # 52 of 60 * 100
    assert "Machines are up 99.1 % of the time; a repair takes 1 d on average (median 1 d)" in page
    assert (
        "1 machine fails more often than chance explains, with number of faults: worst (12)" in page
    )
    assert "A job on all 60 machines would fail every" in page
    table = next(line for line in page.splitlines() if line.startswith("| **all**"))
    assert "**52**" in table


def test_the_command_prints_text_and_json(store: Path) -> None:
    done = run_command(
        "reliability",
        "mine",
        "--store",
        store,
        "--machines",
        6,
        *("--checkpoint-cost", 60, "--restart", 600),
    )
    assert done.returncode == 0
    assert "\nworst " in done.stdout
    found = json.loads(
        run_command("reliability", "mine", "--store", store, "--machines", 6, "--json").stdout
    )
    assert (found["total_machines"], found["total_machines_stated"]) == (60, True)
    assert found["results"][0]["rate"] == pytest.approx(1000 * 52 / 6000)
    (job,) = found["job_failure_interval"]
    assert job["mean_s"] == pytest.approx(100 * DAY * 60 / 52 / 6)
    assert found["checkpoint_interval"] is None
    costed = run_command(
        "reliability",
        "mine",
        "--store",
        store,
        "--machines",
        6,
        "--json",
        *("--checkpoint-cost", 60),
    )
    young = json.loads(costed.stdout)["checkpoint_interval"][0]
    assert young["interval_s"] == pytest.approx(np.sqrt(2 * 60 * job["observed_s"]))


def test_mistakes_are_told_on_one_line(store: Path) -> None:
    for words, message in (
        (["absent"], "trace 'absent' is not in the store"),
        (["mine", "--total-machines", 3], "41 machines have a fault"),
        (["mine", "--checkpoint-cost", -1], "checkpoint_s must be above 0"),
    ):
        done = run_command("reliability", *words, "--store", store)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_machines_are_counted_from_their_table(tmp_path: Path) -> None:
    log = pl.DataFrame(
        {"machine_id": ["a", "b"], "start_s": [0.0, 5 * DAY], "end_s": [1.0, 6 * DAY]}
    )
    machines = pl.DataFrame({"machine_id": ["a", "c", "d"], "gpus": [8, 8, 8]})
    traceana.add_table(log, trace="mine", table="faults", store=tmp_path)
    alone = json.loads(run_command("reliability", "mine", "--store", tmp_path, "--json").stdout)
    assert (alone["total_machines"], alone["total_machines_stated"]) == (2, False)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
    found = json.loads(run_command("reliability", "mine", "--store", tmp_path, "--json").stdout)
    assert (found["total_machines"], found["total_machines_stated"]) == (4, True)


def test_a_row_that_lists_machines_is_a_fault_of_each(tmp_path: Path) -> None:
    """Counted by hand: overlapping faults of a, a switch of b and c, an open end of c."""
    log = pl.DataFrame(
        [
            ("a", 0, 10, "gpu"),
            ("a", 5, 20, "net"),
            ("b, c", 96, 102, "switch"),
            ("c", 168, None, "gpu"),
            ("d", 216, 240, "gpu"),
        ],
        schema=["machine_id", "start_s", "end_s", "class"],
        orient="row",
    ).with_columns(pl.col("start_s", "end_s") * 3600.0)
    traceana.add_table(log, trace="mine", table="faults", store=tmp_path)
    found = json.loads(run_command("reliability", "mine", "--store", tmp_path, "--json").stdout)
    overall = found["results"][0]
    assert (found["total_machines"], overall["n"], overall["n_open"]) == (4, 6, 1)
    assert overall["availability"] == pytest.approx(1 - (20 + 6 + 6 + 72 + 24) / (4 * 240))
    assert overall["mttr_s"] / 3600 == pytest.approx((10 + 15 + 6 + 6 + 72 + 24) / 6)


def test_a_failure_of_a_job_on_several_machines_is_one_event_of_no_machine(tmp_path: Path) -> None:
    """Counted by hand: 4 faults, of which 2 are those of n1, and 5 machines that exist."""
    (tmp_path / "faults.csv").write_text(
        "node;time;reason\nn1;0;NODE_FAIL\nn[1-3],n5;86400;NODE_FAIL\nn1;172800;\n"
        "n2,n4;864000;disk\n"
    )
    mapping = (
        '[faults]\nmachine_id = "node"\nstart_s = { time = "time", unit = "s" }\nclass = "reason"\n'
    )
    traceana.ingest(
        tmp_path / "faults.csv", mapping=mapping, trace="mine", reader="csv", store=tmp_path / "s"
    )
    done = run_command("reliability", "mine", "--store", tmp_path / "s", "--json")
    found = json.loads(done.stdout)
    assert found["total_machines"] == 5
    overall = found["results"][0]
    assert (overall["n"], overall["machines_failed"]) == (4, 1)
    assert overall["rate"] == pytest.approx(1000 * 4 / (5 * 10))
    assert [(row["machine_id"], row["n"]) for row in found["machines"]] == [("n1", 2)]
    assert found["machines"][0]["expected"] == pytest.approx(2 / 5)
    assert overall["note"].startswith("machines without a fault") or "2 faults" in overall["note"]
    direct = traceana.machine_reliability(
        pl.DataFrame({"machine_id": ["a", "b[1-2]"], "start_s": [0.0, 9.0], "end_s": [4.0, 10.0]})
    )
    assert direct.machines["machine_id"].to_list() == ["a"]
    assert direct.overall["downtime_s"].item() == 5


@pytest.mark.parametrize(("worst", "is_alert"), [(7, False), (12, True)])
def test_a_machine_that_one_null_log_in_twenty_has_is_no_alert(
    tmp_path: Path, worst: int, is_alert: bool
) -> None:
    # 153 faults of 120 machines: one with 7 has an adjusted p of .04, by Poisson's distribution
    rng = np.random.default_rng(3)
    others = [f"m{i % 119}" for i in range(153 - worst)]
    log = pl.DataFrame({"machine_id": ["worst"] * worst + others, "class": "gpu"})
    log = log.with_columns(
        start_s=pl.Series(rng.uniform(0, 90 * DAY, log.height)), end_s=pl.lit(None, pl.Float64)
    )
    mapping = tmp_path / "mine.toml"
    mapping.write_text(MAPPING.replace("nodes = 60", "nodes = 120"))
    traceana.add_table(log, trace="mine", table="faults", store=tmp_path / "s", mapping=mapping)
    content = section.build([traceana.open_store(tmp_path / "s").trace("mine")])
    [found] = [one for one in content.every_finding if "more often than chance" in one]
    assert f"worst ({worst})" in found
    assert isinstance(found, Finding)
    assert bool(found.alert) == is_alert


def test_a_class_of_faults_that_rises_is_an_alert_and_a_constant_one_is_not(tmp_path: Path) -> None:
    """The density of class nic is proportional to time: 1, 3 and 5 ninths of it in each third."""
    draw = np.random.default_rng(6)
    day = np.concatenate([100 * np.sqrt(draw.random(90)), 100 * draw.random(90)])
    log = pl.DataFrame({"start_s": day * DAY, "class": ["nic"] * 90 + ["gpu"] * 90})
    log = log.with_columns(
        machine_id=pl.format("m{}", pl.Series(draw.integers(0, 60, 180))),
        end_s=pl.col("start_s") + 3600.0,
    )
    traceana.add_table(log, trace="mine", table="faults", store=tmp_path, mapping=MAPPING)
    content = section.build([traceana.open_store(tmp_path).trace("mine")])
    first, _, last = np.histogram(day[:90], 3, (0, 100))[0]
    found = [one for one in content.findings if isinstance(one, Finding) and "third" in one]
    assert [one.alert for one in found] == [
        f"Our cluster: faults of class nic rise from {first} to {last} by thirds of the window"
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("MAINT", "root"), ("DRAIN", "Planned maintenance of the switch"), ("DRAIN", "unplanned")],
)
def test_the_rate_is_also_stated_without_planned_maintenance(
    kind: str, text: str, tmp_path: Path
) -> None:
    start = [*(np.arange(10) * 9 * DAY), *([50 * DAY] * 30)]
    log = pl.DataFrame(
        {
            "machine_id": [f"m{one}" for one in [*range(10), *range(30)]],
            "start_s": start,
            "class": ["DOWN"] * 10 + [kind] * 30,
            "description": ["Not responding"] * 10 + [text] * 30,
        }
    ).with_columns(end_s=pl.col("start_s") + DAY / 4)
    mapping = MAPPING + 'description = "description"\n'
    traceana.add_table(log, trace="mine", table="faults", store=tmp_path, mapping=mapping)
    first = str(section.build([traceana.open_store(tmp_path).trace("mine")]).findings[0])
    told = ", of which 30 are planned maintenance: without it, 1.67."  # 10 of 60 * 100 node-days
    assert "6.67 faults per 1,000 node-days" in first
    assert (told in first) == (text != "unplanned")


@pytest.mark.parametrize("is_rack", [True, False])
def test_machines_of_a_rack_that_fail_together_are_an_alert(
    tmp_path: Path, *, is_rack: bool
) -> None:
    """Four times 7 of 8 machines within a minute, or of all 40; one machine fails most often."""
    rng = np.random.default_rng(4)
    single = [(int(rng.integers(40)), float(at)) for at in rng.uniform(0, 40 * 86_400, 30)]
    single += [(30, 86_400.0 * day) for day in range(10)]
    together = [
        (int(machine), at + float(rng.uniform(0, 60)))
        for at in (1e6, 1.6e6, 2e6, 3e6)
        for machine in rng.choice(8 if is_rack else 40, 7, replace=False)
    ]
    machine, start = zip(*single, *together, strict=True)
    faults = {"machine_id": [f"n{one:02d}" for one in machine], "start_s": start}
    machines = pl.DataFrame({"machine_id": [f"n{one:02d}" for one in range(40)], "gpus": 8.0})
    traceana.add_table(pl.DataFrame(faults), trace="mine", table="faults", store=tmp_path)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
    findings = section.build([traceana.open_store(tmp_path).trace("mine")]).findings
    alerts = [getattr(one, "alert", "") for one in findings]
    text = "mine: 8 machines failed together, 4 times (n00, n01, n02 and 5 others)"
    assert alerts.count(text) == is_rack
    assert any("together, " in alert for alert in alerts) == is_rack


@pytest.mark.parametrize("rate", [6.0, 1.0])
def test_the_rack_whose_machines_all_have_more_faults_is_an_alert(
    tmp_path: Path, rate: float
) -> None:
    at, draw = np.arange(48), np.random.default_rng(3)
    machines = pl.DataFrame({"machine_id": [f"m{n}" for n in at], "gpus": 8.0})
    machines = machines.with_columns(rack=pl.Series([f"r{n // 6}" for n in at]))
    counts = draw.poisson(2 * np.where(at // 6 == 1, rate, 1))
    counts[40] += 30  # one bad machine is no bad rack
    names = np.repeat(machines["machine_id"].to_numpy(), counts)
    faults = pl.DataFrame({"machine_id": names, "start_s": draw.uniform(0, 90 * DAY, len(names))})
    mapping = '[trace]\nkeep = ["rack"]\n[machines]\nmachine_id = "machine_id"\ngpus = "gpus"\n'
    traceana.add_table(machines, trace="t", table="machines", mapping=mapping, store=tmp_path)
    traceana.add_table(faults, trace="t", table="faults", store=tmp_path)
    findings = section.build([traceana.open_store(tmp_path).trace("t")]).findings
    alerts = [one.alert for one in findings if isinstance(one, Finding) and "rack" in one.alert]
    expected = f"{counts.mean() * 6:.3g} expected"
    assert [alert.partition("the 6 machines of ")[2] for alert in alerts] == [
        f"rack r1 have {counts[6:12].sum()} faults, {expected}"
    ] * (rate > 1)
