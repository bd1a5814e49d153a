"""Definitions with their formulas, and the provenance of the page."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from traceana.page.blocks import Block, Content, Facts, Heading
from traceana.page.section import Section

if TYPE_CHECKING:
    from traceana.page.context import Context

_LIBRARIES = ("polars", "numpy", "scipy", "matplotlib")
DEFINITIONS = {
    "CoV": "over the n workers of a job in one iteration: `CoV = s / m` with `m = sum(x) / n` and "
    "`s = sqrt(sum((x - m)^2) / (n - ddof))`, ddof 0 or 1 as stated. For values that are not "
    "negative it is at most `sqrt(n - 1)` with ddof 0 and `sqrt(n)` with ddof 1. Iterations with "
    "fewer than two workers are excluded.",
    "Quantile": "linear between order statistics (type 7 of Hyndman and Fan, The American "
    "Statistician 50, 1996).",
    "Slowdown": "`sum(max(x)) / sum(mean(x))` with x the times of a job's workers in an iteration, "
    "summed over all iterations.",
    "Time and energy to the target": "`mean(epochs) * time of an epoch`, and that times the mean "
    "power; cost is `0.5 * energy + 0.5 * largest power limit * time` (Zeus, NSDI 2023).",
    "Gini": "`2 sum(i x_i) / (n sum(x)) - (n + 1) / n` over the GPU-hours of jobs in rising order.",
    "Burstiness": "`(cv - 1) / (cv + 1)` with cv the standard deviation (ddof 1) over the mean of "
    "the times between submissions; memory is the correlation of each with the next (Goh and "
    "Barabasi, EPL 81, 2008); dispersion is variance over mean of submissions an hour.",
    "GPU-hours": "`sum(GPUs requested * runtime in s) / 3600` over the jobs with both values.",
    "Interval of a mean": "Student's t: `mean +/- t * s / sqrt(n)` with t the 97.5 % quantile of "
    "its distribution with n - 1 degrees of freedom and s of ddof 1; none for a single value.",
    "Failure rate": "`p = failed / n` with n = completed + failed, unless a text states other "
    "statuses. Its interval is Wilson's "
    "(Journal of the American Statistical Association 22, 1927): "
    "`(p + z^2 / 2n +/- z * sqrt(p * (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)` with z the 97.5 % "
    "quantile of the normal distribution.",
    "Missing values": "are excluded from every statistic, and counted; only ends of instances are "
    "imputed, where stated.",
}
GLOSSARY = {
    "adjusted p": "p corrected for the number of tests",
    "BIC": "Bayesian information criterion: goodness of fit minus a penalty for each parameter",
    "CI": "confidence interval",
    "CoV": "coefficient of variation: standard deviation over mean",
    "Cramér's V": "association of two categories, from 0 (none) to 1",
    "cumulative incidence": "fraction with an event by a time, with other ends as competing risks",
    "ddof": "delta degrees of freedom: the variance is divided by n less this",
    "held-out": "runs on which no setting was chosen, so that the saving is not biased",
    "KS distance": "Kolmogorov-Smirnov: largest difference of two distribution functions",
    "odds ratio": "odds of failure of one group over those of another",
    "oracle": "a policy that knows what is only learned later: a bound for all others",
    "rho": "Spearman's rank correlation, from -1 to 1",
    "VIF": "variance inflation factor: above 10, features have nearly the same information",
}
"""Terms in text, and their meanings."""


def terms_of(context: Context, /) -> dict[str, str]:
    """Return terms and codes of the data with their meanings."""
    return GLOSSARY | {
        code: meaning for trace in context.traces for code, meaning in trace.manifest.terms.items()
    }


def build(context: Context) -> Content:
    """Define the statistics; state the store and the versions."""
    facts = [
        ("Data", _data(context)),
        ("Engine", _engine(context)),
        ("traceana", version("traceana")),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _LIBRARIES),
    ]
    if context.date:
        facts.append(("Date", f"{context.date} (SOURCE_DATE_EPOCH)"))
    blocks: tuple[Block, ...] = (
        Heading("Definitions"),
        Facts(tuple(DEFINITIONS.items())),
        Heading("Glossary"),
        Facts(tuple(terms_of(context).items())),
        Heading("Provenance"),
        Facts(tuple(facts)),
    )
    return Content((), blocks)


def _engine(context: Context) -> str:
    if context.store.master is None:
        return "Polars"
    spark = f"Spark {version('pyspark')} on `{context.store.master}`"
    return f"{spark} reduced tables to one row per task or group; Polars computed the rest"


def _data(context: Context) -> str:
    if context.data_source.is_sample:
        return "the synthetic sample that `traceana sample` writes"
    if context.data_source.command:
        typed = context.data_source.reproduction.replace("`", "'")
        return f"a temporary store, which `{typed}` made and deleted; its source files are above"
    store = context.data_source.path.resolve().name  # a path would tell of the machine
    return f"store `{store}`; its source files are listed above with sha256"


SECTION = Section(
    "provenance",
    "Definitions and provenance",
    180,
    build,
    part="Appendix",
    question="How is each statistic defined, and what made this page?",
)
