"""Faults of machines, as a fault log or a scheduler records them."""

from __future__ import annotations

import dataframely as dy
import polars as pl

from traceana.schema.columns import clock, identifier, seconds, text


class Faults(dy.Schema):
    """Faults of machines: from the failure to the end of the repair, or single events."""

    machine_id = identifier("machine that failed")
    start_s = clock("beginning of the fault", nullable=False)
    end_s = clock("end of the repair; null: not ended when the log ends, or not recorded")
    downtime_s = seconds("time until the repair, as published or end minus start")
    class_ = text("component or cause, as published", nullable=True, name="class")
    description = text("what failed, in the words of the source", nullable=True, privacy="reason")
    level = text("category above the class, such as hardware", nullable=True)

    @dy.rule()
    def end_not_before_start(cls) -> pl.Expr:
        """A fault ends when it began, or later."""
        return cls.end_s.col >= cls.start_s.col
