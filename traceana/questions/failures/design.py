"""Design matrix of a model: numeric features as they are, one column per level of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.failures.clusters import MOST_LEVELS
from traceana.stats.logistic import dependent_columns
from traceana.store.frames import LARGEST

if TYPE_CHECKING:
    from traceana.stats.arrays import Floats


@dataclass(frozen=True)
class Design:
    """Design matrix of a model, and the meaning of its columns."""

    rows: pl.DataFrame
    """The rows of the fit."""
    failed: Floats
    """0 or 1 for each row."""
    matrix: Floats
    """The constant 1, then one column per term that has one; numbers are standardized."""
    terms: list[dict[str, Any]]
    """Meaning of the coefficients: feature, level, reference, n, failures; `scale` is the divisor
    of the column, and a term without a column has a note instead."""


def make_design(
    rows: pl.DataFrame, features: Sequence[str], /, *, cause: str | None = None
) -> Design:
    """Return the design matrix of a model of failure.

    A column that is a linear combination of those of earlier features is dropped, with a note. Of
    hazards of a `cause`, a level of which every row failed has a finite ratio. Raises a DataError
    if no row or every row failed, a value is infinite, or a feature has more than 50 levels.
    """
    numeric = {name for name in features if rows.schema[name].is_numeric()}
    texts = [name for name in features if name not in numeric]
    for name in texts:
        if rows.schema[name] == pl.Duration:
            raise DataError(f"column {name} holds {rows.schema[name]}; pass its seconds")
    rows = rows.with_columns(pl.col(texts).cast(pl.String))
    for name in numeric:
        if (rows[name].cast(pl.Float64).abs() > LARGEST).any():
            raise DataError(f"column {name} holds a value beyond {LARGEST:g} (infinite)")
    rows, decided = _drop_decided(rows, texts, cause)
    n, failures = rows.height, int(rows["failure"].sum() or 0)
    if failures == 0 or (failures == n and cause is None):
        if decided:
            names = dict.fromkeys(term["feature"] for term in decided)
            raise DataError(
                f"levels of {', '.join(names)} determine every outcome (separation): no odds ratio "
                "is finite; remove this feature"
            )
        if not n:
            raise DataError(f"no success or failure has a value in each of {', '.join(features)}")
        raise DataError(
            f"{'every' if failures else 'no'} row of the {n} failed: there is nothing to model"
        )
    columns, terms = [np.ones(n)], []
    for name in features:
        if name in numeric:
            values = rows[name].cast(pl.Float64).to_numpy()
            term = {"feature": name, "n": n, "failures": failures}
            scale = float(np.std(values))
            if values.min() == values.max():
                terms.append(term | {"note": f"the same in every row: {values[0]:g}"})
                continue
            terms.append(term | {"scale": scale})
            columns.append((values - values.mean()) / scale)
        else:
            added, levels = _levels(rows, name)
            columns += added
            terms += levels
        terms += [term for term in decided if term["feature"] == name]
    matrix = _drop_dependent(np.stack(columns, axis=1), terms)
    return Design(rows, rows["failure"].cast(pl.Float64).to_numpy(), matrix, terms)


def _drop_decided(
    rows: pl.DataFrame, texts: Sequence[str], cause: str | None
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Drop levels of which no row or every row failed, until there is none."""
    decided: list[dict[str, Any]] = []
    dropped = True
    while dropped and rows.height:
        dropped = False
        for name in texts:
            levels = _count_failures(rows, name)
            every = (pl.col("failures") == pl.col("n")) & (cause is None)
            sure = levels.filter((pl.col("failures") == 0) | every)
            if levels.height < 2 or sure.is_empty():
                continue
            dropped = True
            for level, n, failures in sure.sort("level").iter_rows():
                which = "every row" if failures else "no row"
                decided.append(
                    {
                        "feature": name,
                        "level": level,
                        "n": n,
                        "failures": failures,
                        "note": f"{which} of the {n:,} {cause or 'failed'}: no finite "
                        f"{'odds' if cause is None else 'hazard'} ratio; rows excluded",
                    }
                )
            rows = rows.filter(~pl.col(name).is_in(sure["level"].implode()))
    return rows, decided


def _count_failures(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.group_by(level=pl.col(name)).agg(n=pl.len(), failures=pl.col("failure").sum())


def _levels(rows: pl.DataFrame, name: str) -> tuple[list[Floats], list[dict[str, Any]]]:
    levels = _count_failures(rows, name).sort(["n", "level"], descending=[True, False])
    if levels.height > MOST_LEVELS:
        raise DataError(
            f"column {name} has {levels.height} levels; at most {MOST_LEVELS} are allowed"
        )
    reference, *others = levels.rows()
    term = {"feature": name, "level": reference[0], "n": reference[1], "failures": reference[2]}
    if not others:
        return [], [term | {"note": "the same in every row"}]
    terms: list[dict[str, Any]] = [
        {
            "feature": name,
            "level": level,
            "reference": reference[0],
            "n": n,
            "failures": failures,
            "scale": 1.0,
        }
        for level, n, failures in others
    ]
    columns = [(rows[name] == level).cast(pl.Float64).to_numpy() for level, _, _ in others]
    return columns, terms


def _drop_dependent(matrix: Floats, terms: Sequence[dict[str, Any]]) -> Floats:
    """Drop columns that earlier ones determine, and note it in their terms."""
    present = [term for term in terms if "scale" in term]
    dropped = dependent_columns(matrix)
    for column, *others in dropped:
        names = dict.fromkeys(present[other - 1]["feature"] for other in others if other)
        column_values = present[column - 1]
        del column_values["scale"]
        column_values["note"] = f"determined by {', '.join(names)}: left out, not distinguishable"
    return np.delete(matrix, [column for column, *_ in dropped], axis=1)
