"""Logs of an extreme shape: their pages open at once, fit the screen, and state what is so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from tests.report.test_browser import (
    DESK,
    PHONE,
    Visit,
    browser,
    pytestmark,
    refuse_sideways,
    unfold,
)
from traceana.ingesters import add_table
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

__all__ = ["browser", "pytestmark"]  # the fixture and the marks are these tests' too
SECTIONS = "workload,trends,consumers,distributions,runtime-ratio,outcomes,hazards,data-quality"
SHAPES: dict[str, tuple[int, dict[str, Any], tuple[str, ...]]] = {
    "one job": (1, {}, ("Jobs 1 ", "0.0 % (0 of 1)")),
    "one user per job": (
        300,
        {"user": "job_id"},
        ("Users 300 ", "treat the 300 users as independent"),
    ),
    "one queue per job": (1_000, {"queue": "job_id"}, ("the 20 largest of 1,000 groups",)),
    "one second": (
        5_000,
        {"submit_s": 0.0, "start_s": 0.0, "end_s": "runtime_s"},
        ("All 5,000 jobs have the same submission time.", "runtimes are right-truncated"),
    ),
    "one second long": (
        300,
        {"submit_s": 0.0, "start_s": 0.0, "end_s": 1.0, "runtime_s": 1.0},
        ("Half of them ran for at most 100 % of the mean of their group.",),
    ),
    "all running": (
        200,
        {"status": "running", "end_s": None, "runtime_s": None},
        ("Status all running ", "200 jobs without an end"),
    ),
    "all failed": (
        200,
        {"status": "failed"},
        ("100 % (200 of 200)", "used 100 % of all", "went to unsuccessful jobs"),
    ),
}
NONSENSE = (
    r"\de-\d|-0\.0+ (?:percentage|to)|at least 0 %|\b1 (?:job|row|group|correlation)s\b"
    "|failed within"
)
"""Powers of ten, negative zeros and the like; and jobs that failed together, of which none has."""


def draw(shape: str) -> pl.DataFrame:
    """Return jobs of an ordinary log, but for the columns that make the shape."""
    n, columns, _ = SHAPES[shape]
    rng = np.random.default_rng(1)
    runtime = rng.lognormal(7, 1.5, n).round() + 1
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(n)],
            "user": [f"u{i % 30}" for i in range(n)],
            "queue": [f"q{i % 3}" for i in range(n)],
            "job_name": [f"train-{i % 40}" for i in range(n)],
            "gpus": rng.choice([1.0, 2, 4, 8], n),
            "submit_s": np.sort(rng.uniform(0, 30 * 86_400, n)).round(),
            "wait_s": rng.exponential(600, n).round(),
            "runtime_s": runtime,
            "status": rng.choice(["completed", "failed", "cancelled"], n, p=[0.7, 0.2, 0.1]),
        }
    )
    start = pl.col("submit_s") + pl.col("wait_s")
    jobs = jobs.with_columns(start_s=start, end_s=start + pl.col("runtime_s")).drop("wait_s")
    return jobs.with_columns(
        (pl.col(other) if other in jobs.columns else pl.lit(other))
        .alias(name)
        .cast(jobs[name].dtype)
        for name, other in columns.items()
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_page_of_an_extreme_shape_opens_and_fits(
    browser: Browser, tmp_path: Path, shape: str
) -> None:
    add_table(draw(shape), trace="mine", table="jobs", store=tmp_path / "store")
    page = build_report(
        tmp_path / "store", out=tmp_path / "out", formats="html", workers=1, only=SECTIONS
    )
    took_ms = []
    for size in (PHONE, DESK):
        visit = Visit(browser, page, size)
        took_ms.append(
            visit.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        )
        refuse_sideways(visit)
        unfold(visit.page)
        visit.page.evaluate(
            "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        refuse_sideways(visit)
        assert visit.told == []
        text = " ".join(visit.page.evaluate("document.body.innerText").split())
        visit.context.close()
    assert 0 < min(took_ms) < 5_000  # the other one was beside other work
    for part in SHAPES[shape][2]:
        assert part in text
    assert not re.findall(f".{{40}}(?:{NONSENSE}).{{40}}", text)
