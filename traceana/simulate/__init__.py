"""What-ifs, seeded, and the synthetic sample traces."""

from traceana.simulate.recurring.simulate import RecurringResult, simulate_recurring
from traceana.simulate.recurring.sweep import summarize_recurring, sweep_recurring
from traceana.simulate.sample import write_sample

__all__ = [
    "RecurringResult",
    "simulate_recurring",
    "summarize_recurring",
    "sweep_recurring",
    "write_sample",
]
