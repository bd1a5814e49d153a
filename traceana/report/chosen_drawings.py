"""Drawings of figures, chosen by trace, job, GPU and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import polars as pl

from traceana.claims.elasticflow_figures import draw_figure
from traceana.errors import DataError
from traceana.page.blocks import Content, Drawing, Gallery
from traceana.page.section import Context, Needs, Section, sections
from traceana.questions.energy import savings as energy
from traceana.questions.energy.section import draw_configurations
from traceana.questions.recurring.section import draw_one_job
from traceana.questions.stragglers import analyze as workers
from traceana.questions.stragglers import section as stragglers
from traceana.questions.stragglers import section_variation as variation
from traceana.questions.stragglers.detect import detect_stragglers
from traceana.report.arrange import content_of
from traceana.store import Trace

_MAX_NAMED: Final = 20
_SYNONYMS: Final = {
    name: names for names in (("completed", "success"), ("failed", "failure")) for name in names
}


Kept = dict[str, tuple[Content, list[Drawing]]]
"""Content and further drawings of sections that were built over some traces, by section."""


@dataclass(frozen=True)
class Choice:
    """What to show; None: as in the report."""

    job: str | None = None
    gpu: str | None = None
    dataset: str | None = None
    feature: str | None = None
    outcome: str | None = None
    method: str | None = None
    """pearson or spearman, which is that of a key without a method."""

    def has(self, options: Iterable[str], /) -> bool:
        """Return whether only options among these are given, and at least one of them."""
        given = {name for name, _ in self._given()}
        return bool(given) and given <= set(options)

    def matches(self, key: str, /) -> bool:
        """Return whether the key of a picture has all that is chosen."""
        parts = f"-{_slug(key)}-"
        if self.method and (self.method == "pearson") != ("-pearson-" in parts):
            return False
        return all(
            any(f"-{_slug(name)}-" in parts for name in _SYNONYMS.get(value, (value,)))
            for option, value in self._given()
            if option != "method"
        )

    def __str__(self) -> str:
        return ", ".join(f"{name} {value!r}" for name, value in self._given())

    def _given(self) -> list[tuple[str, str]]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, value) for name, value in values if value is not None]


@dataclass(frozen=True)
class Direct:
    """How a figure is built from its trace and a choice alone."""

    options: tuple[str, ...]
    """Of a choice."""
    needs: Needs
    """Tables, and columns of each with values."""
    drawings: Callable[[Trace, Choice], list[Drawing]]
    """Returns the drawings of a trace, among them this figure's."""
    on_demand: tuple[str, ...] = ()
    """Features that take so long that no page has them unless their command is run."""


def _of_job(trace: Trace, choice: Choice) -> list[Drawing]:
    rows, time = workers.worker_samples(trace), workers.clock(trace)
    samples = rows.filter(job_id=choice.job)
    if samples.is_empty():
        jobs = rows["job_id"].unique(maintain_order=True).to_list()
        present = ", ".join(jobs[:_MAX_NAMED]) + (", ..." if len(jobs) > _MAX_NAMED else "")
        raise DataError(f"{trace.id} has no job {choice.job!r}; its jobs are {present}")
    result = detect_stragglers(samples, time=time)
    return [
        *stragglers.draw_job(trace, samples, result),
        *variation.draw_distributions(trace, samples),
    ]


def _of_gpu(trace: Trace, choice: Choice) -> list[Drawing]:
    table = trace.scan("power_profiles").select("gpu").unique().collect()["gpu"].sort()
    gpu = energy.shown_gpu(trace) if choice.gpu is None else _find(choice.gpu, table, "GPU")
    configured = energy.configurations(trace, gpu)
    if choice.dataset is not None:
        dataset = _find(choice.dataset, sorted(configured), f"configuration on {gpu} of data set")
        configured = {dataset: configured[dataset]}
    if not configured:
        return []
    return draw_configurations(trace, gpu, configured)


def _of_recurring_job(trace: Trace, choice: Choice) -> list[Drawing]:
    profiled = trace.scan("power_profiles").select("gpu", "dataset").unique().collect()
    gpu = energy.shown_gpu(trace)
    if choice.gpu is not None:
        gpu = _find(choice.gpu, profiled["gpu"].unique().sort(), "GPU")
    names = profiled.filter(gpu=gpu)["dataset"].unique().sort()
    if choice.dataset is not None:
        names = pl.Series([_find(choice.dataset, names, f"profile on {gpu} of data set")])
    return [drawing for name in names for drawing in draw_one_job(trace, gpu, name)]


def _find(wanted: str, names: Iterable[str], what: str) -> str:
    name_of_slug = {_slug(name): name for name in names}
    if _slug(wanted) not in name_of_slug:
        raise DataError(
            f"there is no {what} {wanted!r}; there are {', '.join(name_of_slug.values())}"
        )
    return name_of_slug[_slug(wanted)]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.casefold())


_SAMPLES: Final[Needs] = {"worker_samples": ("batch_time",)}
_CONFIGURATIONS: Final[Needs] = energy.ENERGY_NEEDS[0]
_CHOSEN: Final = {
    "regret recurring-choices search-path energy-optima": Direct(
        ("gpu", "dataset"), _CONFIGURATIONS, _of_recurring_job
    ),
    "worker-times cov cov-ecdf batch-time-ecdf straggler-map straggler-overview": Direct(
        ("job",), _SAMPLES, _of_job
    ),
    "energy-front energy-map power-sweep batch-sweep": Direct(
        ("gpu", "dataset"), _CONFIGURATIONS, _of_gpu
    ),
    "deadlines-met policy-lines": Direct(
        ("feature",),
        {"training_plans": ("iterations",)},
        lambda trace, choice: draw_figure(trace, choice.feature),
        on_demand=("figure-8b", "figure-9", "figure-11a", "figure-11b"),
    ),
}
DIRECT: Final = {name: direct for names, direct in _CHOSEN.items() for name in names.split()}
"""Figures that are built directly if their options are given."""


def choose_drawings(
    context: Context,
    name: str,
    trace: Sequence[str] | None,
    choice: Choice,
    kept: Kept,
    /,
) -> list[Drawing]:
    """Return the drawings of a figure that are chosen, of all traces or of some."""
    if name in DIRECT and choice.has(DIRECT[name].options):
        drawings = _direct_drawings(context, name, trace, choice)
        if drawings:
            return drawings
    drawing_sections = [section for section in sections() if name in section.figures]
    shown: list[Drawing] = []
    further: list[Drawing] = []
    for section in drawing_sections:
        if section.id not in kept:
            kept[section.id] = _build(section, context, trace)
        content, more = kept[section.id]
        shown += _shown(content, name)
        further += more
    by_key = {drawing.key: drawing for drawing in (*shown, *further) if drawing.figure == name}
    if not by_key:
        raise _nothing_drawn(name, drawing_sections)
    chosen = [drawing for key, drawing in by_key.items() if choice.matches(key)]
    if not chosen:
        raise DataError(f"no figure has {choice}; available: {', '.join(by_key)}")
    return chosen


def _nothing_drawn(name: str, sections: list[Section]) -> DataError:
    from traceana.figures import get_figure  # noqa: PLC0415  matplotlib is slow to load

    needed = [section.needed for section in sections if section.needs]
    remedy = f"; it needs {' or '.join(dict.fromkeys(needed))}" if needed else ""
    result = get_figure(name).result
    return DataError(f"the store has nothing to draw it from ({result}){remedy}")


def _shown(content: Content, name: str) -> Iterator[Drawing]:
    for block in content.all_blocks:
        for picture in block.pictures if isinstance(block, Gallery) else ():
            if isinstance(picture, Drawing):
                yield from (picture,) if picture.figure == name else picture.members


def _direct_drawings(
    context: Context, name: str, trace: Sequence[str] | None, choice: Choice
) -> list[Drawing]:
    made: list[Drawing] = []
    errors = []
    for source in context.traces:
        if all(source.has(*each) for each in DIRECT[name].needs.items()) and (
            trace is None or source.id in trace
        ):
            try:
                made += DIRECT[name].drawings(source, choice)
            except DataError as error:
                errors.append(error)
    drawings = [drawing for drawing in made if drawing.figure == name]
    if errors and not drawings:
        raise errors[0]
    return drawings


def _build(
    section: Section, context: Context, trace: Sequence[str] | None
) -> tuple[Content, list[Drawing]]:
    traces = [each for each in section.traces(context) if trace is None or each.id in trace]
    more = section.more(traces) if section.more and traces else []
    if trace is None or not section.needs:
        return content_of(section, context), more
    return (section.build(traces) if traces else Content()), more
