"""Table of the verdicts on published claims."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, text


class ClaimVerdicts(ResultTable):
    """One row per claim."""

    id = text("Claim")
    paper = text("Paper", "name of the paper, or id of the trace for a statement of its README")
    section = text("Section", "section, table or figure of the paper, or README")
    kind = text(
        "Kind",
        "count, result, model statement, arithmetic or definition; observation for unpublished "
        "results",
    )
    statement = text("Statement")
    published = text("Published", "the published value, as printed")
    measured = text("Measured", "null if nothing was measured")
    verdict = text("Verdict", "reproduced, differs, observation, untested or not testable")
    reason = text("Reason", "why the verdict is so")
    function = text("Function", "public functions that measure it")
    source = text("Source", "tables with their rows; null if no data are needed")
    tolerance = text(
        "Tolerance", "what is compared and whose choice it is; null for the printed digits"
    )
    reference = text("Reference", "where it was published")
    numbers = count("Numbers", "how many published numbers the claim compares")
