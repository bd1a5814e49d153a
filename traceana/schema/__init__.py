"""What a table is: columns with dtype, unit, meaning and null rule; the key and the row rules."""

from traceana.schema.columns import REJECTED, STATUSES
from traceana.schema.registry import (
    TABLES,
    decisive_columns,
    describe_table,
    get_key,
    get_rules,
    get_table,
    privacy_of,
    rule_expressions,
    schema_version,
)
from traceana.schema.training_tables import TRAINING_DEFAULTS, TrainingDefault, TrainingDefaults

__all__ = [
    "REJECTED",
    "STATUSES",
    "TABLES",
    "TRAINING_DEFAULTS",
    "TrainingDefault",
    "TrainingDefaults",
    "decisive_columns",
    "describe_table",
    "get_key",
    "get_rules",
    "get_table",
    "privacy_of",
    "rule_expressions",
    "schema_version",
]
