"""Section on what a training step waits for: replay of its operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from traceana.page.blocks import Block, Content, Drawing, Gallery, drawing, join_parts, picture_key
from traceana.page.blocks import result_table as table_of
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.operations import analyze
from traceana.simulate.operations.tables import OperationJobs, SlowdownBy, WorkerSlowdown
from traceana.store import Trace
from traceana.tables.formatting import plural, share, three_digits

_OPENING: Final = (
    "Each training step is replayed from the durations of its operations and what each of them "
    "waits for. The slowdown of a job is its step time over that with ideal durations: the mean "
    "of each kind of computation, the median of each kind of communication. A group of operations "
    "explains by removal the fraction of the slowdown that vanishes if only the group is ideal, "
    "and by addition the fraction that appears if only the group is not."
)
_LIMITATIONS: Final = (
    "Only recorded operations are replayed, without the delays between them, and in the recorded "
    "order. Fractions of groups overlap and do not add up to 100 %. If stages have different "
    "numbers of layers, part of the slowdown is imbalance that no repair removes. Compute times "
    "per worker do not add up to a slowdown in a pipeline, so other sections leave these jobs out."
)
_EXPLAINS: Final = 0.5
_EXACT: Final = 1e-5
_MOST_SHOWN: Final = 6
_MOST_WORKERS: Final = 16


def build(traces: Sequence[Trace]) -> Content:
    """Show the slowdown of each job and what explains it."""
    return join_parts(_OPENING, ((trace.label, _trace(trace)) for trace in traces))


def _trace(trace: Trace) -> Content:
    replays, jobs = trace.once(analyze.replayed_jobs)
    some = len(analyze.job_names(trace))
    first = f", the first {analyze.MOST_JOBS} of {some}" if some > analyze.MOST_JOBS else ""
    lead: list[Block] = [Gallery(tuple(_draw(trace, replays[0])))] if replays else []
    lead.append(table_of(jobs, OperationJobs, caption=f"Replayed jobs{first}"))
    blocks: list[Block] = []
    for replay in replays[:_MOST_SHOWN]:
        if replay is not replays[0]:
            blocks.append(Gallery(tuple(_draw(trace, replay))))
        for by, found_by in (("kind", replay.by_kind), ("stage", replay.by_stage)):
            caption = f"Slowdown of {replay.job} by {by}, the largest first"
            frame = found_by.sort("slowdown", descending=True)
            blocks.append(table_of(frame, SlowdownBy, caption=caption, headings={by: by.title()}))
        caption = f"Slowest workers of {replay.job}"
        slowest = replay.workers.workers.head(_MOST_WORKERS)
        blocks.append(table_of(slowest, WorkerSlowdown, caption=caption))
    findings = []
    for replay in replays:
        replayed = replay.replay
        excess = float((replayed.step_s_original - replayed.step_s_ideal).sum())
        slower = f"make job {replay.job} take {three_digits(replayed.slowdown)} times as long"
        finding = Finding(
            f"{_finding(replay)}{trace.manifest.selection if replay is replays[0] else ''}",
            effect=replayed.slowdown,
            n=replayed.steps.height,
            # each worker has at least one GPU
            cost_gpu_h=max(excess, 0.0) * replay.workers.workers.height / 3600,
            heading=f"slow operations {slower}",
        )
        findings.append(finding)
    return Content(tuple(findings), tuple(blocks), tuple(lead), _LIMITATIONS).of(trace.label)


def _draw(trace: Trace, replay: analyze.JobReplay) -> list[Drawing]:
    job = replay.job
    figures = (
        ("worker-slowdown", replay.workers, f"Slowdown of {job} by worker"),
        ("step-timeline", replay.timeline, f"Slowest step of {job}, measured above ideal"),
    )
    return [
        drawing(figure, result, trace, picture_key(figure, trace, job), about, subject=job)
        for figure, result, about in figures
    ]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw every replayed job."""
    return [
        picture
        for trace in traces
        for replay in trace.once(analyze.replayed_jobs)[0]
        for picture in _draw(trace, replay)
    ]


def _finding(job_replay: analyze.JobReplay) -> str:
    """State the slowdown of a job, what explains it and what a repair would save."""
    replayed, workers = job_replay.replay, job_replay.workers
    original, ideal = replayed.step_s_original.mean(), replayed.step_s_ideal.mean()
    text = (
        f"slow operations make job {job_replay.job} take {three_digits(replayed.slowdown)} times "
        f"as long as with ideal durations (a step: {three_digits(original)} and "
        f"{three_digits(ideal)} s; n = {plural(replayed.steps.height, 'step')}, "
        f"{plural(workers.workers.height, 'worker')})"
    )
    stage, kind = (
        frame.sort("explained_removal", nulls_last=False).row(-1, named=True)
        for frame in (job_replay.by_stage, job_replay.by_kind)
    )
    names = workers.workers.filter("is_slowest")["worker"].to_list()
    is_one = len(names) == 1
    slowest = f"slowest worker{'' if is_one else 's'} ({analyze.name_workers(names)})"
    by_stage, by_kind = stage["explained_removal"], kind["explained_removal"]
    if workers.m_w >= _EXPLAINS:
        repaired = three_digits(workers.explained["t_removal_s"][1])
        cause = (
            f"the {slowest} explain{'s' if is_one else ''} {_explained(workers.m_w)}: repaired, a "
            f"step would take {repaired} s"
        )
    elif by_stage is not None and by_stage >= _EXPLAINS:
        after = original - by_stage * (original - ideal)
        faster = (
            ": operations elsewhere that are faster than ideal stay so" if after < ideal else ""
        )
        cause = (
            f"stage {stage['stage']} explains {_explained(by_stage)}, the {slowest} "
            f"{share(workers.m_w)}. With ideal durations in that stage alone, a step would take "
            f"{three_digits(after)} s{faster}"
        )
    elif by_kind is not None:
        cause = (
            f"no worker and no stage explains half of the slowdown; of the kinds of operation, "
            f"{kind['kind']} explains most ({share(by_kind)})"
        )
    else:
        cause = "there is no slowdown to explain"
    large = replayed.replay_error >= _EXACT
    error = f"{100 * replayed.replay_error:.2g} %" if large else f"below {100 * _EXACT:g} %"
    return f"{text}; {cause}. The error of the replay with launch delays is {error}."


def _explained(fraction: float) -> str:
    """Return a fraction of the slowdown, at most all of it: ideal durations are means."""
    return f"{'all' if fraction >= 0.995 else share(fraction)} of the slowdown"


SECTION: Final = Section(
    "operations",
    "What a step waits for",
    40,
    build,
    needs=analyze.NEEDS,
    figures=("worker-slowdown", "step-timeline"),
    more=draw_more,
    part="Stragglers",
    question="How much shorter would a training step be if some operations were not slow?",
)
