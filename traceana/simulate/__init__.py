"""What-if simulations, seeded."""

from traceana.simulate.batching.controllers import (
    BatchController,
    Measured,
    OmniLearn,
    Oracle,
    Proportional,
    Static,
    Uniform,
)
from traceana.simulate.batching.gains import (
    implied_throughput_ratio,
    published_gains,
)
from traceana.simulate.batching.replay import (
    BatchingReplay,
    replay_batching,
)
from traceana.simulate.batching.simulate import (
    BatchingResult,
    simulate_batching,
)
from traceana.simulate.batching.summary import (
    summarize_batching,
)
from traceana.simulate.batching.sweep import (
    sweep_batching,
)
from traceana.simulate.batching.workers import (
    Workers,
)
from traceana.simulate.deadlines.synthesis import (
    synthesize_deadlines,
)
from traceana.simulate.recurring.groups import (
    RecurringGroupsResult,
    simulate_recurring_groups,
)
from traceana.simulate.recurring.simulate import (
    RecurringResult,
    simulate_recurring,
)
from traceana.simulate.recurring.sweep import (
    summarize_recurring,
    sweep_recurring,
)

__all__ = [
    "BatchController",
    "BatchingReplay",
    "BatchingResult",
    "Measured",
    "OmniLearn",
    "Oracle",
    "Proportional",
    "RecurringGroupsResult",
    "RecurringResult",
    "Static",
    "Uniform",
    "Workers",
    "implied_throughput_ratio",
    "published_gains",
    "replay_batching",
    "simulate_batching",
    "simulate_recurring",
    "simulate_recurring_groups",
    "summarize_batching",
    "summarize_recurring",
    "sweep_batching",
    "sweep_recurring",
    "synthesize_deadlines",
]
