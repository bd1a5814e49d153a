"""What-ifs, seeded, and the synthetic sample traces."""

from traceana.simulate.sample import write_sample

__all__ = ["write_sample"]
