"""Tables of recurring jobs: variants of a policy."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, ratio, text


class PolicyVariants(ResultTable):
    """Energy of variants of a policy, geometric mean over data sets."""

    comparison = text("Comparison", "beta, part left out, or GPU")
    variant = text("Variant", "value of beta, the part, or the GPU")
    energy = ratio(
        "Relative energy",
        "energy of all recurrences over that of zeus (beta 2); by GPU of the last five over that "
        "of the default",
    )
    energy_low = ratio("Lowest", "the same of the seed with the least")
    energy_high = ratio("Highest", "the same of the seed with the most")
    datasets = count("Data sets", "in the geometric mean")
    missing = count("Missing", "replications that could not be simulated")
