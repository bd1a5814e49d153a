"""The reference page of the tables, which the build of the site writes from their declarations."""

from __future__ import annotations

import inspect
import re
from typing import Final

import dataframely as dy

from traceana.schema.registry import TABLES, describe_table, rule_expressions, schema_version

_HEAD = """\
# Tables

Every trace has these tables and columns. Missing is null: never -1, 0, an empty string or NaN.
Times are Unix seconds (UTC), or seconds on the trace's own clock: `absolute_times` in
`manifest.json` states which. The metadata of the Parquet files repeat unit and meaning of each
column, with the sha256 of the source files and the schema's version.

A row that breaks a rule is not in the table. It is in `rejected/<table>.parquet` with its file,
row number and the name of the rule: `short_row`, `long_row`, `blank_line`, `unbalanced_quote`,
`duplicate_key`, or a column and what is wrong with it, such as `time_s|min`, `job_id|nullability`
or `time|not_a_number` (where a cell cannot be read, the source's name of the column).
A cell of an optional column that cannot be read is null; `ledger.json` counts it.
"""

_KEYS: Final = {
    "worker_samples": "`job_id`, `worker_id` and `time_s`, or `step` where `time_s` is null",
    "operations": "`job_id`, `step`, `worker_id`, `kind`, and `sequence`, or `start_s` without it",
    "gpu_samples": "`machine_id`, `gpu`, `time_s`, and which of the measures it has",
}


def tables_page() -> str:
    """Return the reference page of all tables as Markdown."""
    return "\n".join([_HEAD, *(_section(name) for name in TABLES)])


def _section(name: str) -> str:
    schema = TABLES[name]
    columns = describe_table(name)
    key = _KEYS.get(name) or ", ".join(f"`{column}`" for column in schema.primary_key())
    lines = [
        f"## {name}",
        "",
        inspect.getdoc(schema) or "",
        "",
        f"Key: {key}." if key else "No key: repeated rows are kept.",
        f"Schema version: `{schema_version(name)}`.",
        "",
        "| column | type | unit | may be null | limits | meaning |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row['column']}` | {row['dtype']} | {row['unit']} | "
        f"{'yes' if row['nullable'] else 'no'} | {_limits(declared)} | {row['meaning']} |"
        for row, declared in zip(columns.to_dicts(), schema.columns().values(), strict=True)
    ]
    rows = [
        f"- `{rule}`: {_plain(expression)}"
        for rule, expression in rule_expressions(name).items()
        if "|" not in rule and rule != "primary_key"
    ]
    if rows:
        lines += ["", "Between columns (a null on either side breaks no rule):", "", *rows]
    return "\n".join([*lines, ""])


def _limits(column: dy.Column) -> str:
    """Describe the values that a number may have."""
    limits = {"min": ">=", "min_exclusive": ">", "max": "<="}
    stated = {sign: getattr(column, name, None) for name, sign in limits.items()}
    return ", ".join(f"{sign} {limit:.6g}" for sign, limit in stated.items() if limit is not None)


def _plain(expression: str) -> str:
    """Write a rule's expression without Polars' brackets."""
    return re.sub(r'[\[\]()]|col|"', "", expression)
