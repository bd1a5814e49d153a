"""Declarations: what they reject, and that the reference page says the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

import polars as pl
import pytest

from traceana.errors import DataError
from traceana.schema import STATUSES, TABLES, describe_table, get_table, rule_expressions, workload
from traceana.schema.registry import schema_version

SCRIPT = Path(__file__).parents[2] / "docs" / "scripts" / "reference_tables.py"
# names that stay: columns may be added beside them
DESIGN = {
    "jobs": "job_id inst_id cluster user group workload status submit_s start_s end_s runtime_s "
    "gpus cpus memory_gib gpu_type qos job_name account queue nodes priority time_limit_s "
    "end_reason exit_code array_id restarts cpu_time_s memory_gib_used gpu_utilization energy_j",
    "tasks": "job_id task_name instances status start_s end_s cpus memory_gib gpus gpu_type",
    "instances": "job_id task_name instance_id worker_id inst_id status start_s end_s machine_id",
    "instance_usage": "job_id task_name worker_id inst_id machine_id gpu_device cpus_used "
    "gpus_used memory_gib_mean memory_gib_max gpu_memory_gib_mean gpu_memory_gib_max read_bytes "
    "write_bytes read_count write_count",
    "job_tags": "inst_id user gpu_type_requested group workload",
    "machines": "machine_id gpu_type gpus cpus memory_gib",
    "machine_usage": "worker_id machine_id start_s end_s cpu_iowait cpu_kernel cpu_usr gpu load_1 "
    "net_receive num_worker cpu",
    "gpu_samples": "machine_id gpu time_s utilization memory_gib power_w job_id",
    "faults": "machine_id start_s end_s downtime_s class description level",
    "worker_samples": "job_id worker_id time_s step host gpus batch_time",
    "operations": "job_id step worker_id dp_rank stage kind start_s duration_s sequence "
    "micro_batch chunk global_chunk",
    "cov_samples": "job_id sample time_s cov",
    "training_plans": "job_id cluster model batch_size iterations deadline_s",
    "training_runs": "dataset network batch_size optimizer learning_rate run target_metric "
    "target_epoch",
    "power_profiles": "gpu dataset network batch_size optimizer power_limit_w epoch_s mean_power_w",
    "recurring_jobs": "group start_s end_s dataset runtime_ratio",
}


def test_no_table_or_column_of_the_design_is_gone() -> None:
    columns = {name: TABLES[name].column_names() for name in DESIGN}
    gone = [(n, c) for n, text in DESIGN.items() for c in text.split() if c not in columns[n]]
    assert not gone


def test_every_column_has_a_unit_and_a_meaning() -> None:
    for name in TABLES:
        described = describe_table(name)
        assert described.select("unit", "meaning").null_count().sum_horizontal().item() == 0
        for column, unit in described.select("column", "unit").iter_rows():
            for suffix, expected in {
                "_s": "s",
                "_w": "W",
                "_gib": "GiB",
                "_bytes": "bytes",
            }.items():
                assert not column.endswith(suffix) or unit == expected


def test_the_reference_page_has_every_table_and_column() -> None:
    parts = run_path(str(SCRIPT))["tables_page"]().split("\n## ")[1:]
    columns = {
        name: sorted(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
        for name, _, text in (part.partition("\n") for part in parts)
    }
    assert columns == {name: sorted(schema.column_names()) for name, schema in TABLES.items()}


def test_versions_differ_by_declaration() -> None:
    assert len({schema_version(name) for name in TABLES}) == len(TABLES)


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(DataError, match="no table is called 'job'"):
        get_table("job")


JOB = {
    "job_id": "a",
    "status": "completed",
    "submit_s": 1.0,
    "start_s": 2.0,
    "end_s": 3.0,
    "runtime_s": 1.0,
    "gpus": 0.5,
}


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, ()),
        ({"start_s": None, "end_s": None}, ()),
        ({"end_s": 1.5}, ["end_not_before_start"]),
        ({"start_s": None, "end_s": 0.5}, ["end_not_before_submission"]),
        ({"start_s": 0.5}, ["start_not_before_submission"]),
        ({"runtime_s": -1.0}, ["runtime_s|min"]),
        ({"runtime_s": 1e12}, ()),
        ({"runtime_s": 1.1e12}, ["runtime_s|max"]),  # 2005 in milliseconds
        ({"gpus": 1e18, "priority": -1e18}, ()),
        ({"gpus": 1.1e18, "priority": -1.1e18}, ["gpus|max", "priority|min"]),
        ({"nodes": 10**15 + 1}, ["nodes|max"]),
        ({"gpus": float("inf")}, ["gpus|inf", "gpus|max"]),
        ({"gpus": float("nan")}, ["gpus|nan", "gpus|max"]),
        ({"status": "Succeeded"}, ["status|check__in_closed_set"]),
        ({"job_id": None}, ["job_id|nullability"]),
        ({"user": ""}, ["user|min_length"]),
    ],
)
def test_a_jobs_row_is_held_against_its_rules(
    change: dict[str, object], broken: Sequence[str]
) -> None:
    schema = {name: column.dtype for name, column in workload.Jobs.columns().items()}
    row = pl.DataFrame([JOB | change], schema=schema)
    _, failure = workload.Jobs.filter(row)
    assert set(failure.counts()) == {*broken}
    assert {*broken} <= {*rule_expressions("jobs")}


def test_the_closed_set_of_statuses() -> None:
    assert STATUSES == ("completed", "failed", "cancelled", "running", "pending", "unknown")
