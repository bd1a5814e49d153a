"""What-ifs, seeded, and the synthetic sample traces."""

from traceana.simulate.recurring.groups import RecurringGroupsResult, simulate_recurring_groups
from traceana.simulate.recurring.simulate import RecurringResult, simulate_recurring
from traceana.simulate.recurring.sweep import summarize_recurring, sweep_recurring
from traceana.simulate.sample import write_sample

__all__ = [
    "RecurringGroupsResult",
    "RecurringResult",
    "simulate_recurring",
    "simulate_recurring_groups",
    "summarize_recurring",
    "sweep_recurring",
    "write_sample",
]
