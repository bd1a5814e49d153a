"""The head of a whole page on a Slurm log states what was planted in it, and nothing else."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import traceana
from tests.slurm_log import Planted, write_slurm_log

PLANTED = Planted(
    bad_node=17,
    h100_fails=True,
    top_user=True,
    idle_user=True,
    timeouts=True,
    requeued=200,
    cancelled=150,
    seed=5,
)


def head_of(planted: Planted, folder: Path) -> tuple[str, dict[str, float], float]:
    """Return the summary of a page, and a recount of the log: hours by user and by end."""
    log = write_slurm_log(folder / "log.txt", planted)
    page = traceana.read(log).report(out=folder / "out", formats="md")
    text = page.read_text(encoding="utf-8")
    head = text[text.index("## Summary") : text.index("\n## ", text.index("## Summary") + 3)]
    hours: dict[str, float] = defaultdict(float)
    names, *lines = (line.split("|") for line in log.read_text().splitlines())
    for line in lines:
        row = dict(zip(names, line, strict=True))
        gpus = re.search(r"gres/gpu=(\d+)", row["AllocTRES"])
        days, clock = row["Elapsed"].split("-") if "-" in row["Elapsed"] else ("0", row["Elapsed"])
        of_hour, minutes, seconds = (int(part) for part in clock.split(":"))
        elapsed = 24 * int(days) + of_hour + minutes / 60 + seconds / 3600
        used = elapsed * int(gpus[1]) if gpus else 0.0
        hours[row["User"]] += used
        hours[row["State"]] += used
    return head, hours, sum(used for name, used in hours.items() if name.isupper())


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, float], float]:
    return head_of(PLANTED, tmp_path_factory.mktemp("planted"))


def test_alerts_and_main_results_are_what_was_planted(
    planted: tuple[str, dict[str, float], float],
) -> None:
    head, hours, total = planted
    alerts = head[head.index("### Alerts") : head.index("### Main results")]
    limits = f"used {100 * hours['TIMEOUT'] / total:.0f} % of all {total:,.0f} GPU-hours"
    assert limits in alerts
    assert f"user u3 at 2.0 % GPU utilization with {hours['u3']:,.0f} GPU-hours" in alerts
    assert re.search(r"Jobs on h100 fail [\d.]+ times as often as on a100", alerts)
    assert re.search(r"Node n017: [\d.]+ times the failures of comparable jobs", alerts)
    assert alerts.count("\n- ") == 4
    of_all = f"{100 * hours['svc_sweep'] / total:.0f} % of the GPU-hours"
    # jobs on h100 wait four times as long, without being an alert
    assert "Jobs in queue h wait longest: median wait 2" in head
    assert re.search(f"User svc_sweep submitted \\d+ % of 6,350 jobs and used {of_all}", head)


def test_alerts_stand_in_the_order_of_their_cost(
    planted: tuple[str, dict[str, float], float],
) -> None:
    first, second, *_ = planted[0][planted[0].index("### Alerts") :].split("\n- ")[1:]
    assert "TIMEOUT" in first
    assert "u3" in second


def test_a_log_without_planted_facts_has_no_alert(tmp_path: Path) -> None:
    head, _, total = head_of(Planted(jobs=3_000, seed=6), tmp_path)
    assert f"GPU-hours {total:,.0f}" in head
    assert "### Alerts" not in head
    assert not re.search("Node|svc_sweep|TIMEOUT|outage", head)
