"""Synthetic traces in the publishers' own formats: one file a trace or pair of traces.

No row of real data is in them. What is taken from the real traces is their form (columns, number
format, packaging), their size, and published fractions.
"""

from tests.generator.write import write_sample

__all__ = ["write_sample"]
