"""Table of the verdicts on published claims."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, text


class ClaimVerdicts(ResultTable):
    """One row per claim."""

    id = text("Claim")
    paper = text("Paper", "name of the paper")
    statement = text("Statement")
    published = text("Published", "the published value, as printed")
    measured = text("Measured", "null if nothing was measured")
    verdict = text("Verdict", "reproduced, differs, observation, untested or not testable")
    note = text("Reason")
    function = text("Function", "public functions that measure it")
    source = text("Source", "tables with their rows; null if no data are needed")
    kind = text("Kind", "published, or observation for unpublished results")
    tolerance = text(
        "Tolerance", "what is compared and whose choice it is; null for the printed digits"
    )
    reference = text("Reference", "where it was published")
    numbers = count("Numbers", "how many published numbers the claim compares")
