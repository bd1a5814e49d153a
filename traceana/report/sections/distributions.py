"""How runtimes are distributed: families fitted and judged, tails, and groups beside groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import (
    DistributionFits,
    fit_distributions,
    fitted_quantiles,
    tail_index,
)
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    join_parts,
    make_table,
    notes,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.distribution_groups import tell_groups, tell_pairs
from traceana.report.sections.populations import OPENB
from traceana.results.formatting import (
    count,
    pvalue,
    ratio,
    ratio_range,
    seconds,
    share,
    three_digits,
    three_digits_range,
)

if TYPE_CHECKING:
    from traceana.report.context import Context

ITP: Final = "microsoft-itp-2021"
_REFITS: Final = 19
_SEED: Final = 1
_DRAWN: Final = 4
_PANELS: Final = {
    "shares": "share at or below each runtime",
    "tail": "share above each runtime",
    "quantiles": "quantiles against those of the families",
}


@dataclass(frozen=True)
class _Trace:
    """A trace whose runtimes are fitted: by what it is grouped, and whether short ones are seen."""

    id: str
    by: str
    heading: str
    things: str
    bounded: bool
    note: str


_TRACES: Final = (
    _Trace(
        ITP,
        "cluster",
        "Cluster",
        "jobs",
        True,
        "No runtime is below a bound that is stated nowhere: short jobs are missing from the data "
        "(left truncation). The least runtime stands for the bound, in every fit.",
    ),
    _Trace(
        OPENB,
        "qos",
        "QoS class",
        "pods",
        False,
        "Every pod that was deleted counts as ended, though most were deleted while they ran; "
        "short pods would be seen. Runtimes of 0 s are left out: no family here has any.",
    ),
)

_OPENING: Final = (
    "Six families are fitted by maximum likelihood and put in order by BIC. A family that "
    "is best of six need not fit: the distance (the largest gap between the shares of the "
    "values and of the fit) says how far off it is, and its p, from re-fits to simulated "
    "samples, whether chance alone would make it so far off; with many values any family "
    "fails. Vuong's test says whether the best is better than each other by more than "
    "chance; its effect is the gain in log-likelihood a value. Values are taken as "
    "independent, which jobs of one user are not, and whole seconds as continuous."
)


def build(session: Context) -> Content:
    """Fit families to the runtimes of each trace, whole and by group."""
    parts = (
        (f"{session.title(trace.id)}: {trace.things}", _tell(session, trace))
        if session.has(trace.id, "jobs")
        else session.absent(trace.id, "jobs", what="Distributions of runtimes")
        for trace in _TRACES
    )
    return join_parts(_OPENING, parts)


def _tell(session: Context, trace: _Trace) -> Content:
    name = session.title(trace.id)
    jobs = session.scan(trace.id, "jobs").select(trace.by, "runtime_s").collect()
    rows = jobs.filter(pl.col("runtime_s") > 0)
    left_out = jobs.height - rows.height
    runtimes = rows["runtime_s"]
    how = f"{trace.note} n = {rows.height:,} of {jobs.height:,} {trace.things}"
    if left_out:
        how += f"; {left_out:,} have no runtime or one of 0 s"
    if runtimes.n_unique() < 2:
        return Content((), (Text(f"{how}. Fewer than two distinct runtimes: nothing is fitted."),))
    bound = float(runtimes.min()) if trace.bounded else None  # type: ignore[arg-type]
    fits = fit_distributions(
        runtimes, truncated_below="min" if trace.bounded else None, criterion="bic"
    )
    if bound is not None:
        how += f". The least runtime is {seconds(bound)} s"
    blocks: list[Block] = [Text(f"{how}.")]
    judged = _judge(runtimes, fits, trace)
    blocks += [
        _families(fits, judged, trace, name),
        _tail(runtimes, name),
        Gallery(tuple(_pictures(runtimes, fits, trace))),
    ]
    groups = rows.filter(pl.col(trace.by).is_not_null())
    if groups[trace.by].n_unique() > 1:
        blocks += [
            tell_groups(groups, bound, trace.by, trace.heading, name),
            tell_pairs(groups, trace.by, trace.heading, name),
        ]
    return Content(tuple(_findings(fits, judged, name)), tuple(blocks))


def _judge(runtimes: pl.Series, fits: DistributionFits, trace: _Trace) -> float | None:
    """Return the p of the best family's distance."""
    if fits.best is None:
        return None
    best = fit_distributions(
        runtimes,
        families=[fits.best],
        truncated_below="min" if trace.bounded else None,
        resamples=_REFITS,
        rng=_SEED,
    )
    p: float | None = best.table["ks_pvalue"].item()
    return p


def _families(fits: DistributionFits, judged: float | None, trace: _Trace, name: str) -> Table:
    parameters = [
        ", ".join(f"{key} {three_digits(value)}" for key, value in fits.params(family).items())
        for family in fits.table["family"]
    ]
    table = (
        fits.table.drop("ks_pvalue", "note")
        .with_columns(
            pl.Series("parameters", parameters),
            ks_pvalue=pl.when(family=fits.best).then(pl.lit(judged, pl.Float64)),
        )
        .join(fits.table.select("family", "note"), on="family", maintain_order="left")
        .join(
            fits.comparisons.drop("note"),
            on="family",
            how="left",
            maintain_order="left",
        )
    )
    bounded = [Column("Of it above the bound", "share_above_bound", share)] * trace.bounded
    return make_table(
        table,
        [
            words("Family", "family"),
            words("Parameters (scale in s)", "parameters"),
            Column("BIC above the best", "delta", three_digits),
            Column("AIC", "aic", count),
            Column("Distance", "ks_statistic", ratio),
            Column("p of distance", "ks_pvalue", pvalue),
            *bounded,
            Column("Best is better by, a value", "mean_ratio", three_digits),
            Column("95 % interval", ("ci_low", "ci_high"), three_digits_range),
            Column("adjusted p", "pvalue_adjusted", pvalue),
        ],
        caption=f"Families fitted to runtimes (s), the best first. p of distance: for the best "
        f"alone, from {_REFITS} re-fits (seed {_SEED}), so that none is below "
        f"{1 / (_REFITS + 1):g}; adjusted p (Benjamini and Hochberg over the rows) and the gain "
        "in log-likelihood a value are those of Vuong's test, of nested families of a ratio test "
        f"that has no interval. {name}",
    )


def _tail(runtimes: pl.Series, name: str) -> Table:
    n = len(runtimes)
    wanted = sorted({k for k in (int(n**0.5), n // 50, n // 20, n // 10) if 1 <= k < n})
    table = tail_index(runtimes, k=wanted or None)
    return make_table(
        table,
        [
            Column("Largest runtimes taken", "k", count),
            Column("Above (s)", "threshold", seconds),
            Column("Tail index", "tail_index", ratio),
            Column("95 % interval", ("ci_low", "ci_high"), ratio_range),
            *notes(table),
        ],
        caption="How heavy the tail is: the share above x falls as x to the power of minus the "
        "index (Hill). Below 2 there is no variance, below 1 no mean; where the index changes "
        f"with how many are taken, the tail is no power law. {name}",
    )


def _pictures(runtimes: pl.Series, fits: DistributionFits, trace: _Trace) -> list[Drawing]:
    drawn = [family for family in fits.table["family"] if fits.params(family)][:_DRAWN]
    if not drawn:
        return []
    quantiles = fitted_quantiles(runtimes, fits, families=drawn)
    return [
        drawing(
            "distribution-fit",
            quantiles,
            trace=trace.id,
            key=f"fit-{panel}-{trace.id}",
            about=f"Runtimes of {trace.things} beside the {len(drawn)} best families: {about}",
            panel=panel,
            what="Runtime",
        )
        for panel, about in _PANELS.items()
    ]


def _findings(fits: DistributionFits, judged: float | None, name: str) -> list[str]:
    if fits.best is None:
        return []
    first = fits.table.row(0, named=True)
    bound = first["truncated_below"]
    under = "" if bound is None else f", with no runtime below {seconds(bound)} s seen"
    told = (
        f"{name}: of {fits.table.height} families {fits.best} fits the n = {first['n']:,} runtimes "
        f"best{under}, and misses the share of them up to some length by "
        f"{share(first['ks_statistic'])} at worst"
    )
    if judged is None:
        return [f"{told}."]
    least = 1 / (_REFITS + 1)
    verdict = (
        f"no re-fit to {_REFITS} simulated samples is as far off, so that it is a summary and not "
        "the law they follow"
        if judged <= least
        else f"chance alone would make it so far off with p {pvalue(judged)} ({_REFITS} re-fits)"
    )
    return [f"{told}; {verdict}."]


SECTION = Section(
    "distributions", "Distributions of runtimes", 110, build, figures=("distribution-fit",)
)
