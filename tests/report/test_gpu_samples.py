"""The section on samples of GPUs names who left GPUs idle."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana
from tests.questions.utilization.test_gpu_samples import JOBS, SAMPLES
from traceana.report import build_report


def test_the_section_names_users_and_jobs(tmp_path: Path) -> None:
    mapping = (
        '[trace]\nkeep = ["NodeList"]\n[jobs]\njob_id = "job_id"\nuser = "user"\n'
        'start_s = "start_s"\nend_s = "end_s"\n'
    )
    store = tmp_path / "data"
    traceana.add_table(JOBS, trace="mine", table="jobs", store=store, mapping=mapping)
    traceana.add_table(SAMPLES, trace="mine", table="gpu_samples", store=store)
    page = build_report(store, out=tmp_path / "out", only="gpu-samples", formats="md").read_text()
    assert "75 % of 2.0 sampled GPU-hours were idle" in page
    assert "eva had the most idle GPU-hours, 0.5, which are 50 % of their 1.0 sampled ones" in page
    assert "| eva | 1 | 120 | 0 | 0 | 1.0 | 0.5 | 50.0 % | 40.0 % |" in page
    assert "| no job, or not known | 1 | 120 |" in page


def test_without_users_the_idle_job_is_an_alert(tmp_path: Path) -> None:
    minutes = pl.DataFrame({"time_s": [60.0 * minute for minute in range(60)]})
    jobs = pl.DataFrame({"gpu": ["0", "1"], "job_id": ["busy", "idle"], "utilization": [0.9, 0.0]})
    samples = minutes.join(jobs, how="cross").with_columns(machine_id=pl.lit("n1"))
    store = tmp_path / "data"
    traceana.add_table(samples, trace="mine", table="gpu_samples", store=store)
    page = build_report(store, out=tmp_path / "out", only="gpu-samples", formats="md").read_text()
    assert "- Job idle left 100.0 % of 1.0 GPU-hours idle" in page


@pytest.mark.parametrize("idle_s", [1800, 0])
def test_gpus_that_are_idle_as_jobs_begin_are_stated(tmp_path: Path, idle_s: int) -> None:
    """20 jobs of 2 h on 4 GPUs, sampled every 5 min; a tenth of later samples are idle, too."""
    begins = [9000.0 * job for job in range(20)]
    jobs = pl.DataFrame({"job_id": [f"j{job}" for job in range(20)], "start_s": begins})
    jobs = jobs.with_columns(end_s=pl.col("start_s") + 7200, gpus=4.0, NodeList=pl.lit("n1"))
    rows = [
        ("n1", f"{gpu}", begin + age, 0.0 if age < idle_s or (age / 300 + gpu) % 10 == 9 else 0.8)
        for begin in begins
        for gpu in range(4)
        for age in range(0, 7200, 300)
    ]
    samples = pl.DataFrame(
        rows, schema=["machine_id", "gpu", "time_s", "utilization"], orient="row"
    )
    store = tmp_path / "data"
    mapping = '[trace]\nkeep = ["NodeList"]\n[jobs]\n' + "".join(
        f'{name} = "{name}"\n' for name in ("job_id", "start_s", "end_s", "gpus")
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=store, mapping=mapping)
    traceana.add_table(samples, trace="mine", table="gpu_samples", store=store)
    page = build_report(store, out=tmp_path / "out", only="gpu-samples", formats="md").read_text()
    lost = 20 * 4 * idle_s / 3600  # of 160
    stated = "20 of 20 jobs that used their GPUs left them idle when they began"
    assert (f"{stated}: {lost:.1f} GPU-hours" in page) == (idle_s > 0)
    assert (f"{stated}, for 30 min until the first use (median)" in page) == (idle_s > 0)
