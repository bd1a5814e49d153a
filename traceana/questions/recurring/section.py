"""Section on recurring jobs that choose their batch size and power limit for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from traceana.page import blocks as page
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.energy import savings
from traceana.questions.recurring import analyze
from traceana.questions.runtimes.tables import FittedFamilies
from traceana.simulate import summarize_recurring
from traceana.simulate.recurring.tables import GroupsByDataset, SweepSummary
from traceana.store import Trace
from traceana.tables.formatting import count, fraction_range, plural, share

_OPENING: Final = (
    "A job that is trained repeatedly can learn its best batch size and power limit. This "
    "simulation on the data of the trace uses the policy of Zeus (NSDI'23): two rounds of pruning, "
    "Gaussian Thompson sampling, and power limits profiled in the first epoch of a batch size. A "
    "run that costs twice as much as the cheapest recurrence is stopped, and its cost counts. Cost "
    "is half energy, half time at the largest power of the GPU, so a lower cost can take longer."
)
_LIMITATIONS: Final = (
    "Savings are simulated. Intervals cover the randomness of the simulation (mean over seeds), "
    "not that each epoch was measured once and each batch size was trained a few times."
)
_RATIOS: Final = (
    "A runtime ratio is the runtime of a job over the mean runtime: of its group before mapping, "
    "of all jobs assigned to the same data set after. Mapping divides the mean runtimes of the "
    "groups into as many clusters as there are data sets (k-means) and assigns the shortest to the "
    "data set with the shortest default run, unless the publishers state the data set."
)
_GROUPS: Final = (
    "Each group has its own policy, on the clock of the trace: a job that starts while others of "
    "its group run takes the batch size of the cheapest run known by then. Energy and time are "
    "scaled by the runtime ratio. Savings are over all runs, exploration included. At most "
    f"{analyze.MAX_JOBS:,} jobs, of the groups that start first, are simulated."
)
_SHOWN: Final = tuple(
    name
    for name in SweepSummary.columns()
    if name not in ("seeds", "seeds_failed", "regret_fraction_ci_low", "regret_fraction_ci_high")
)


def build(traces: Sequence[Trace]) -> page.Content:
    """Show savings of the last five recurrences, and the regret of one job, of each trace."""
    energy, groups = _split(traces)
    parts = [(trace.label, _trace(trace)) for trace in energy]
    parts += [(f"Groups of recurring jobs: {trace.label}", build_groups(trace)) for trace in groups]
    return page.join_parts(_OPENING, parts)


def _split(traces: Sequence[Trace]) -> tuple[list[Trace], list[Trace]]:
    """Return the traces with energy to accuracy, and those with groups of recurring jobs."""
    energy = [trace for trace in traces if analyze.has_any(trace, savings.ENERGY_NEEDS)]
    return energy, [trace for trace in traces if analyze.has_any(trace, analyze.GROUP_NEEDS)]


def _summary(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame, str]:
    """Return the savings of all jobs; those on the GPU shown, the least first; and the GPU."""
    gpu = savings.shown_gpu(trace)
    summary = summarize_recurring(trace.once(savings.recurring_sweep))
    return summary, summary.drop_nulls("energy_saved").sort("energy_saved").filter(gpu=gpu), gpu


def _trace(trace: Trace) -> page.Content:
    summary, on_gpu, gpu = _summary(trace)
    mean = f"mean of {plural(len(savings.SEEDS), 'seed')}"
    pictures: list[page.Drawing] = []
    if summary["energy_saved"].count():
        for what, other in (("energy", "time"), ("time", "energy")):
            shown = summary.drop(pl.selectors.starts_with(f"{other}_saved"))
            about = f"{what.capitalize()} saved by the last five recurrences, {mean}"
            key = f"recurring-{what}-{trace.id}"
            n = {name: summary[name].n_unique() for name in ("dataset", "gpu")}
            subject = f"{plural(n['dataset'], 'data set')}, {plural(n['gpu'], 'GPU')}"
            pictures.append(page.drawing("energy-saved", shown, trace, key, about, subject=subject))
    if on_gpu.height:
        one_job = draw_one_job(trace, gpu, on_gpu["dataset"][-1])
        pictures[1:1] = [picture for picture in one_job if picture.figure == "regret"]
    table = page.result_table(
        summary,
        SweepSummary,
        caption=f"Last five recurrences versus the default, {mean}. "
        "Regret: cost of all recurrences above that of the best feasible configuration, as "
        "a percentage of the latter. Points missing: pairs of batch size and power limit "
        "without data",
        columns=_SHOWN,
        folded=True,
    )
    lead: list[page.Block] = [page.Gallery(tuple(pictures))] if pictures else []
    if on_gpu.is_empty():
        return page.Content((), (table,), tuple(lead), _LIMITATIONS).of(trace.label)
    slower = (on_gpu["time_saved"] < 0).sum()
    but = f"; {slower} of {plural(on_gpu.height, 'job')} take longer" if slower else ""
    ends = fraction_range(on_gpu["energy_saved"][0], on_gpu["energy_saved"][-1])
    finding = Finding(
        f"recurring jobs on {gpu} that learn their batch size and power limit save {ends} of the "
        f"energy of the default (simulated; {plural(on_gpu.height, 'data set')}, means of "
        f"{len(savings.SEEDS)} seeds){but}.",
        heading=f"jobs that learn their settings save {ends} of the energy",
    )
    return page.Content((finding,), (table,), tuple(lead), _LIMITATIONS).of(trace.label)


def draw_one_job(trace: Trace, gpu: str, dataset: str, /) -> list[page.Drawing]:
    """Draw the regret by policy of a job, its choices and their path, and optima on the front."""
    where = f"of {dataset} on {gpu}"

    def draw(figure: str, result: object, kind: str, about: str, **options: object) -> page.Drawing:
        key, subject = f"{kind}-{trace.id}-{gpu}-{dataset}", f"{dataset} on {gpu.upper()}"
        return page.drawing(figure, result, trace, key, about, subject=subject, **options)  # type: ignore[arg-type]

    results = trace.once(savings.recurring_policies, gpu, dataset)
    regret = pl.concat(
        result.recurrences.select(pl.lit(result.policy).alias("policy"), pl.all())
        for result in results
    )
    pictures = []
    if not regret["cumulative_regret_j"].has_nulls():
        pictures.append(draw("regret", regret, "regret", f"Regret {where} by policy"))
    zeus = results[0]
    chosen = f"Batch sizes {where} chosen by the policy {zeus.policy}"
    pictures.append(draw("recurring-choices", zeus, "choices", chosen))
    energy = trace.once(savings.configurations, gpu).get(dataset)
    if energy is not None:
        about = f"Runs {where} by the policy {zeus.policy} on the map of costs"
        pictures.append(draw("search-path", energy, "path", about, history=zeus.history))
        about = (
            f"Energy versus time to the target {where}, and the optimum of each weight of energy"
        )
        optima = trace.once(savings.weights_of_energy, gpu, dataset)
        pictures.append(draw("energy-optima", energy, "optima", about, optima=optima))
    return pictures


def draw_variants(trace: Trace, gpu: str, /) -> list[page.Drawing]:
    """Draw variants of the policy: by beta, by the part left out, and by GPU."""
    result = trace.once(analyze.policy_variants, gpu)
    of_all = f"Energy of all recurrences on {gpu}"
    about = {
        "beta": f"{of_all} by beta, relative to beta 2",
        "part left out": f"{of_all} without a part of the policy, relative to the whole",
        "GPU": "Energy of the last five recurrences by GPU, relative to the default",
    }
    pictures = []
    for what, text in about.items():
        rows = result.filter(comparison=what)
        key = f"variants-{what.split()[0].lower()}-{trace.id}"
        if rows["energy"].count():
            subject = plural(rows["datasets"].max(), "data set")  # type: ignore[arg-type]
            subject += "" if what == "GPU" else f" on {gpu.upper()}"
            pictures.append(
                page.drawing("policy-variants", rows, trace, key, text, subject=subject)
            )
    return pictures


def build_groups(trace: Trace, /) -> page.Content:
    """Show runtime ratios of groups before and after mapping, and the simulated groups."""
    workloads, gpu = analyze.workloads_of(trace)
    ratios = trace.once(analyze.ratio_stages, workloads, gpu)
    if ratios.is_empty():
        return page.Content((), (page.Text("No group has two jobs with a start and an end."),))
    picture = _draw_ratios(trace, ratios, "ecdf", "Runtime ratios")
    blocks: list[page.Block] = [page.Text("", (_RATIOS,)), page.Gallery((picture,))]
    if fits := trace.once(analyze.ratio_fits, workloads, gpu):
        table = page.result_table(
            pl.concat(fit.table.with_columns(stage=pl.lit(name)) for name, fit in fits.items()),
            FittedFamilies,
            columns=("stage", "family", "n", "aic", "delta", "ks_statistic"),
            headings={"stage": "Ratios"},
            caption="Distributions fitted to runtime ratios, the best first",
            folded=True,
        )
        blocks.append(table)
    if not workloads:
        missing = "No trace in the store has training_runs and power_profiles"
        return page.Content((), (*blocks, page.Text(f"{missing}: groups cannot be simulated.")))
    simulated = trace.once(analyze.group_simulation, workloads, gpu)
    if isinstance(simulated, str):
        return page.Content(
            (), (*blocks, page.Text(f"The groups cannot be simulated: {simulated}."))
        )
    rows = simulated.by_dataset()
    several = rows["dataset"].null_count()
    blocks += [
        page.Text(f"Workloads: {workloads.label}, on {gpu}.", (_GROUPS,)),
        page.result_table(
            rows.drop_nulls("dataset"),
            GroupsByDataset,
            caption=f"Groups of recurring jobs simulated on {gpu}",
            total=rows.tail(1).with_columns(dataset=pl.lit("All")) if several else None,
        ),
    ]
    row = rows.row(-1, named=True)
    if (saved := row["energy_saved"]) is None:
        return page.Content((), tuple(blocks)).of(trace.label)
    finding = (
        f"{count(row['recurrences'])} jobs in {plural(row['groups'], 'recurring group')} "
        f"that learn their batch size and power limit use {share(abs(saved))} "
        f"{'less' if saved >= 0 else 'more'} energy than the default on {gpu} in the simulation, "
        f"exploration included; {share(row['concurrent'])} of the runs overlap."
    )
    return page.Content((finding,), tuple(blocks)).of(trace.label)


def _draw_ratios(trace: Trace, ratios: pl.DataFrame, kind: str, what: str) -> page.Drawing:
    key, about = page.picture_key(f"ratio-{kind}", trace), f"{what} of recurring jobs"
    return page.drawing("ratio-distribution", ratios, trace, key, about, kind=kind)


def draw_more(traces: Sequence[Trace]) -> list[page.Drawing]:
    """Draw the choices of one job of each trace, and the distributions of runtime ratios."""
    energy, groups = _split(traces)
    pictures = []
    for trace in energy:
        _, on_gpu, gpu = _summary(trace)
        pictures += draw_variants(trace, gpu)
        if on_gpu.height:
            pictures += draw_one_job(trace, gpu, on_gpu["dataset"][-1])
    for trace in groups:
        workloads, gpu = analyze.workloads_of(trace)
        ratios = trace.once(analyze.ratio_stages, workloads, gpu)
        if ratios.is_empty():
            continue
        simulated = trace.once(analyze.group_simulation, workloads, gpu) if workloads else ""
        if not isinstance(simulated, str):
            saved = simulated.by_dataset().drop_nulls("dataset").with_columns(gpu=pl.lit(gpu))
            by = f"groups of recurring jobs with the policy {simulated.policy}"
            for what in ("energy", "time"):
                rows = saved.select("dataset", f"{what}_saved", "gpu")
                about = f"{what.capitalize()} saved by {by}, exploration included"
                if rows[f"{what}_saved"].count():
                    key = page.picture_key(f"groups-{what}", trace)
                    subject = f"{plural(rows.height, 'data set')} on {gpu.upper()}"
                    pictures.append(
                        page.drawing("energy-saved", rows, trace, key, about, subject=subject)
                    )
        pictures.append(_draw_ratios(trace, ratios, "histogram", "Histogram of runtime ratios"))
        look = {"what": "Runtime ratio", "unit": "1 is the mean"}
        for stage, fit in trace.once(analyze.ratio_fits, workloads, gpu).items():
            if fit.quantiles is not None and fit.quantiles.height:
                key = page.picture_key(f"ratio-fit-{stage.split()[0]}", trace)
                about = f"Distributions fitted to runtime ratios {stage}"
                pictures.append(page.drawing("distribution-fit", fit, trace, key, about, **look))
    return pictures


SECTION = Section(
    "recurring",
    "Recurring jobs",
    20,
    build,
    needs=(*savings.ENERGY_NEEDS, *analyze.GROUP_NEEDS),
    figures=(
        "energy-saved",
        "regret",
        "recurring-choices",
        "search-path",
        "energy-optima",
        "policy-variants",
        "ratio-distribution",
        "distribution-fit",
    ),
    more=draw_more,
    part="Energy",
    question="How much energy do recurring jobs save while they learn their settings?",
)
