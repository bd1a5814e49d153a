"""What-ifs, seeded, and the synthetic sample traces."""

from traceana.simulate.deadlines.synthesis import synthesize_deadlines
from traceana.simulate.sample import write_sample

__all__ = ["synthesize_deadlines", "write_sample"]
