"""Random tables that keep the rules of every schema and are unlike any trace."""

from __future__ import annotations

from typing import Any

import dataframely as dy
import numpy as np
import polars as pl

from traceana.schema import STATUSES, TABLES

_DISTINCT = {"job_id": 60, "inst_id": 60, "instance_id": 200, "machine_id": 12, "user": 8}
_NAMES = ["", "a|b", "<b>", "$x^2$", "日本", "{}", "x" * 300, "\\frac", "nan", "None", "a\nb", "_"]


def draw_table(name: str, rng: np.random.Generator) -> pl.DataFrame:
    """Return rows of a table: constant, tied, heavy-tailed, null or of few distinct values."""
    n = int(rng.choice([1, 2, 5, 30, 150, 400]))
    values: dict[str, list[Any]] = {}
    key = []
    for column, declared in TABLES[name].columns().items():
        if declared.primary_key:
            key.append(column)
        elif declared.nullable and rng.random() < 0.25:
            continue
        missing = float(rng.choice([0, 0, 0, 0.1, 0.5, 1])) if declared.nullable else 0.0
        drawn = _draw(column, declared, n, rng)
        values[column] = [None if rng.random() < missing else value for value in drawn]
    rows = pl.DataFrame(values, infer_schema_length=None, strict=False)
    return rows.unique(key, maintain_order=True) if key else rows


def _draw(column: str, declared: dy.Column, n: int, rng: np.random.Generator) -> Any:
    if isinstance(declared, dy.String):
        few = max(1, int(_DISTINCT.get(column, 5) * rng.choice([0.05, 0.5, 1])))
        names = [f"{column}{place}" for place in range(few)]
        if column == "status":
            names = [str(one) for one in rng.choice(STATUSES, int(rng.integers(1, 6)), False)]
        elif rng.random() < 0.1:
            names = _NAMES[1:] if not declared.nullable else _NAMES
        return [str(one) or None for one in rng.choice(names, n)]
    if isinstance(declared, dy.Int64):
        smallest = int(declared.min or 0)
        return rng.integers(smallest, smallest + int(rng.choice([1, 5, 1000])), n).tolist()
    if not isinstance(declared, dy.Float64):
        return (rng.random(n) < 0.5).tolist()
    if column in {"submit_s", "start_s", "end_s"}:
        later = {"submit_s": 0.0, "start_s": 10.0, "end_s": float(rng.choice([20, 5000]))}[column]
        between = float(rng.choice([1e-3, 60, 1e4]))
        return (np.sort(rng.exponential(between, n).cumsum()) + later).tolist()
    if column == "time_s":
        return (10.0 * rng.integers(0, 40, n)).tolist()
    drawn = _numbers(n, rng)
    least = 1e-3 if declared.min_exclusive == 0 else 0.0
    return np.clip(drawn, least, 1e12 if column.endswith("_s") else 1e18).tolist()


def _numbers(n: int, rng: np.random.Generator) -> np.ndarray:
    scale = float(rng.choice([0.5, 1, 100]))
    match rng.integers(7):
        case 0:
            return np.full(n, scale)
        case 1:
            return np.zeros(n)
        case 2:
            return rng.integers(0, 3, n) * scale
        case 3:
            return (rng.pareto(0.3, n) + 1) * scale
        case 4:
            return np.where(np.arange(n) == n - 1, 1e12, 1.0) * scale
        case _:
            return rng.lognormal(0, 2, n) * scale
