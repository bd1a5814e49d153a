"""Names of requested resources and of significance in tables of correlations."""

from __future__ import annotations

from typing import Final

import polars as pl

FEATURE_NAMES: Final = {
    "gpu_percent": ("GPU %", "GPUs requested (%, 100 is one GPU)", "requested GPU"),
    "cpu_percent": ("CPU %", "CPUs requested (%, 100 is one core)", "requested CPU"),
    "memory_gib": ("memory (GiB)", "Memory requested (GiB)", "requested memory"),
    "n_instances": ("task size (instances)", "Task size (instances)", "task size"),
    "nodes": ("nodes", "Nodes requested", "requested nodes"),
}
"""Of each feature its name, its axis label, and its name in a title."""
ALPHA: Final = 0.05
SIGNIFICANT: Final = {
    "significant_t": "p < .05, published test",
    "significant": "Adjusted p < .05",
}
_LEVELS: Final = {
    "row": "rows",
    "group_mean": "group means",
    "group_mean_weighted": "weighted group means",
}


def name_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Add the names of feature and level, and what is significant at .05."""

    def below(p: str) -> pl.Expr:
        yes = pl.when(pl.col(p) < ALPHA).then(pl.lit("yes")).otherwise(pl.lit("no"))
        return pl.when(pl.col(p).is_not_null()).then(yes)

    return table.with_columns(
        feature=pl.col("x").replace_strict({x: name for x, (name, _, _) in FEATURE_NAMES.items()}),
        points=pl.col("level").replace_strict(_LEVELS),
        significant_t=below("pvalue_t"),
        significant=below("pvalue_adjusted"),
    )
