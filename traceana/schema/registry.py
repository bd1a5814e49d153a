"""All tables by name, and what else is derived from a declaration: dtypes, units, version."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final

import dataframely as dy
import polars as pl

from traceana.errors import DataError
from traceana.schema import workload

TABLES: Final[dict[str, type[dy.Schema]]] = {
    "jobs": workload.Jobs,
    "tasks": workload.Tasks,
    "instances": workload.Instances,
    "instance_usage": workload.InstanceUsage,
    "job_tags": workload.JobTags,
    "machines": workload.Machines,
    "machine_usage": workload.MachineUsage,
    "gpu_samples": workload.GpuSamples,
    "faults": workload.Faults,
    "worker_samples": workload.WorkerSamples,
    "operations": workload.Operations,
    "cov_samples": workload.CovSamples,
    "training_plans": workload.TrainingPlans,
    "training_runs": workload.TrainingRuns,
    "power_profiles": workload.PowerProfiles,
    "recurring_jobs": workload.RecurringJobs,
}

_SAMPLED: Final = ("utilization", "memory_gib", "power_w")


def get_table(name: str, /) -> type[dy.Schema]:
    """Return the declaration of a table."""
    if name not in TABLES:
        raise DataError(f"no table is called {name!r}; the tables are {', '.join(TABLES)}")
    return TABLES[name]


def describe_table(name: str, /) -> pl.DataFrame:
    """List a table's columns: [column, dtype, unit, meaning, key, nullable, rules]."""
    schema = get_table(name)
    rules = rule_expressions(name)
    return pl.DataFrame(
        [
            {
                "column": column,
                "dtype": str(declared.dtype),
                "unit": str((declared.metadata or {})["unit"]),
                "meaning": declared.description,
                "key": declared.primary_key,
                "nullable": declared.nullable,
                "rules": [
                    rule.split("|")[1].removeprefix("check__")
                    for rule in rules
                    if rule.startswith(f"{column}|")
                ],
            }
            for column, declared in schema.columns().items()
        ],
        schema_overrides={"rules": pl.List(pl.String)},
    )


def rule_expressions(name: str, /) -> dict[str, str]:
    """Return a table's rules by name (`column|rule`, or a row rule's own) as expressions."""
    return {rule: str(expression) for rule, expression in get_rules(name).items()}


@cache
def get_rules(name: str, /) -> dict[str, pl.Expr]:
    """Return a table's rules by name: false where a row breaks it, null where it does not apply."""
    declared = get_table(name)._validation_rules(with_cast=False)
    return {rule: rule_of_column.expr for rule, rule_of_column in declared.items()}


def get_key(name: str, /) -> list[str | pl.Expr]:
    """Return what identifies a row of a table; nothing where rows may repeat."""
    if name == "worker_samples":
        step = pl.when(pl.col("time_s").is_null()).then(pl.col("step")).alias("step")
        return ["job_id", "worker_id", "time_s", step]
    if name == "gpu_samples":  # a monitor may list one quantity after the other
        present = (pl.col(column).is_not_null().alias(column) for column in _SAMPLED)
        return ["machine_id", "gpu", "time_s", *present]
    if name == "operations":  # the start distinguishes those without a number
        start = pl.when(pl.col("sequence").is_null()).then(pl.col("start_s")).alias("start_s")
        return ["job_id", "step", "worker_id", "kind", "sequence", start]
    return list(get_table(name).primary_key())


@cache
def decisive_columns(name: str, /) -> frozenset[str]:
    """Return the columns that every row of a table rests on: key, required columns and times."""
    privacy = privacy_of(name)
    return frozenset(
        column
        for column, declared in get_table(name).columns().items()
        if not declared.nullable or declared.primary_key or privacy[column] == "time"
    )


def privacy_of(name: str, /) -> dict[str, str]:
    """Return what anonymizing does to each column of a table (see :mod:`schema.columns`)."""
    declared = get_table(name).columns()
    return {
        column: str((privacy.metadata or {}).get("privacy", ""))
        for column, privacy in declared.items()
    }


@cache
def schema_version(name: str, /) -> str:
    """Return a digest of all that a table declares: it changes whenever the declaration does."""
    text = describe_table(name).write_json() + repr(rule_expressions(name))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
