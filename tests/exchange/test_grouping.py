"""No number of rows below k is published from a store that was written with ``min_group=k``."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceana
from traceana.errors import DataError
from traceana.exchange.anonymize import with_equal_groups

K = 5
MARCH = 1_772_438_400.0
OF_OTHERS = re.compile(
    r"users|n_clusters|n_groups|groups|strata|nodes|gpus|hour|weekday|.*\[.*\]|rank|period"
)
"""Columns of whole numbers that count no rows."""


def plant(folder: Path, n: int = 600) -> pl.DataFrame:
    """Write a trace in which most users, GPU types, days and combinations are rare."""
    rng = np.random.default_rng(7)
    submit = np.sort(MARCH + rng.uniform(0, 40 * 86_400, n)).round()
    start = submit + rng.exponential(900, n).round()
    runtime = np.exp(rng.normal(7, 1.5, n)).round()
    status = rng.choice(
        ["completed", "failed", "cancelled", "pending"], n, p=[0.7, 0.2, 0.09, 0.01]
    )
    jobs = pl.DataFrame(
        {
            "job_id": [f"job{i}" for i in range(n)],
            "user": [f"user{u}" for u in np.minimum(rng.zipf(1.5, n), 40)],
            "queue": rng.choice(["a", "b", "rare"], n, p=[0.6, 0.395, 0.005]),
            "gpu_type": rng.choice(["A100", "T4", "rare", "none"], n, p=[0.6, 0.38, 0.005, 0.015]),
            "gpus": rng.choice([1.0, 2.0, 8.0, 64.0, 512.0], n, p=[0.6, 0.2, 0.19, 0.005, 0.005]),
            "cpus": rng.integers(1, 64, n) * 1.0,
            "job_name": [f"train-{i}" for i in range(n)],
            "exit_code": rng.choice(["0:0", "1:0", "137:0"], n, p=[0.9, 0.09, 0.01]),
            "submit_s": submit,
            "start_s": start,
            "end_s": start + runtime,
            "runtime_s": runtime,
            "status": status,
            "node": [f"n{i}" for i in rng.integers(0, 30, n)],
        }
    ).with_columns(
        pl.when(pl.col("status") != "pending").then(name)
        for name in ("start_s", "end_s", "runtime_s")
    )
    columns = "\n".join(f'{name} = "{name}"' for name in jobs.columns if name != "node")
    mapping = f'[trace]\nkeep = ["node"]\n[jobs]\n{columns}\n[jobs.about]\ngroups = ["queue"]\n'
    traceana.add_table(jobs, trace="mine", table="jobs", mapping=mapping, store=folder)
    return jobs


def grouped(folder: Path, out: Path, **options: object) -> pl.DataFrame:
    traceana.anonymize("mine", store=folder, out=out, key=b"k" * 16, min_group=K, **options)  # type: ignore[arg-type]
    return traceana.open_store(out).scan("mine", "jobs").collect()


def test_no_job_differs_from_all_but_a_few(tmp_path: Path) -> None:
    jobs = plant(tmp_path / "store")
    found = grouped(tmp_path / "store", tmp_path / "out")
    assert found["job_id"].n_unique() == found.height == jobs.height
    alike = found.group_by(pl.exclude("job_id")).len()["len"].to_list()
    assert min(alike) == K
    assert max(alike) < 2 * K
    # totals and most values stay
    assert found["runtime_s"].sum() == pytest.approx(jobs["runtime_s"].sum(), rel=0.05)
    assert (found["gpus"] == 1).sum() == pytest.approx((jobs["gpus"] == 1).sum(), rel=0.1)
    statuses = dict(found["status"].value_counts().rows())
    assert statuses["failed"] == pytest.approx((jobs["status"] == "failed").sum(), abs=10)
    assert statuses.get("unknown", 0) < 2 * K
    assert found["user"].null_count() < 250
    manifest = traceana.open_store(tmp_path / "out").manifest("mine")
    assert "at least 5 with the same values" in manifest.notes[0]
    assert (manifest.window_start_s or 0) % 3600 == 0


def test_a_page_of_it_has_no_smaller_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plant(tmp_path / "store")
    grouped(tmp_path / "store", tmp_path / "out")
    page = traceana.build_report(tmp_path / "out", out=tmp_path / "report")
    few: list[object] = []
    files = sorted((tmp_path / "report" / "data").glob("*.csv"))
    checked = 0
    for path in files:
        frame = pl.read_csv(path, infer_schema_length=None)
        for name in frame.select(pl.selectors.integer()).columns:
            if not OF_OTHERS.fullmatch(name):
                checked += frame.height
                few += [(path.name, name, n) for n in frame[name] if n is not None and 0 < n < K]
    assert len(files) > 20
    assert checked > 300
    numbers = json.loads((tmp_path / "report" / "results.json").read_text())
    named = [*numbers["numbers"]["mine"].values(), *numbers["findings"]]
    few += [one for one in named if one.get("n") is not None and 0 < one["n"] < K]
    text = re.sub(r"<svg.*?</svg>|<[^>]+>", " ", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"\(\d rows?\)", "", text.replace("\N{NO-BREAK SPACE}", " "))  # of a table
    number = r"(?<![\d.,])(\d+) (?:\w+ )?(?:jobs?|rows?|failures?)\b|\bn = (\d+)(?![\d,.])"
    counts = {found.start(): int(found[1] or found[2]) for found in re.finditer(number, text)}
    assert len(counts) > 20
    few += [text[at - 60 : at + 60] for at, n in counts.items() if 0 < n < K]
    assert not few


def test_tables_of_several_rows_per_id_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path / "store")
    tasks = pl.DataFrame({"job_id": ["job1"], "task_name": ["worker"], "instances": [2]})
    traceana.add_table(tasks, trace="mine", table="tasks", store=tmp_path / "store")
    machines = pl.DataFrame({"machine_id": list("abcdef"), "gpu_type": ["A"] * 5 + ["B"]})
    machines = machines.with_columns(gpus=8.0)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path / "store")
    grouped(tmp_path / "store", tmp_path / "out")
    store = traceana.open_store(tmp_path / "out")
    assert set(store.manifest("mine").tables) == {"jobs", "machines"}
    assert store.scan("mine", "machines").collect()["gpu_type"].to_list() == [None] * 6
    traceana.add_table(tasks, trace="few", table="tasks", store=tmp_path / "store")
    traceana.add_table(tasks["job_id",], trace="one", table="jobs", store=tmp_path / "store")
    for trace in ("few", "one"):
        with pytest.raises(DataError, match=r"it has no 5 jobs or machines \(min_group\)"):
            traceana.anonymize(trace, store=tmp_path / "store", out=tmp_path / "no", min_group=K)
    assert not (tmp_path / "no").exists()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_values_form_groups(data: st.DataObject) -> None:
    least = data.draw(st.integers(2, 7))
    n = data.draw(st.integers(least, 60))
    draw = random.Random(data.draw(st.integers(0, 10**6)))
    values: dict[str, tuple[list[object], Any]] = {
        "user": (["a", "b", "c", None], pl.String),
        "status": (["completed", "failed", None], pl.String),
        "gpus": ([1.0, 2.0, None], pl.Float64),
        "start_s": ([1.0, 5e8, None], pl.Float64),
        "nodes": ([1, 2, 3], pl.Int64),
        "keep me": (["x", "y"], pl.String),
    }
    columns = {name: draw.choices(some, k=n) for name, (some, _) in values.items()}
    types = {"job_id": pl.String} | {name: dtype for name, (_, dtype) in values.items()}
    rows = pl.DataFrame({"job_id": [str(i) for i in range(n)]} | columns, schema=types)
    found = with_equal_groups(rows.lazy(), "jobs", least).collect()
    assert found.schema == rows.schema
    assert found["job_id"].sort().equals(rows["job_id"].sort())
    assert min(found.group_by(pl.exclude("job_id")).len()["len"]) >= least
