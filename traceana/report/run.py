"""Build sections: those kept from an earlier run are taken, the others shared among processes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PanicException

from traceana.errors import DataError, StoreError, TraceanaError, ask_for_report, reason_of
from traceana.page.blocks import Block, Content, Drawing, Gallery, Picture, Table, Text
from traceana.page.section import Context, Section, sections
from traceana.processes import start_processes
from traceana.report.arrange import content_of
from traceana.store.cache import Cache, code_digest, is_temporary, key_of, versions
from traceana.tables.declare import ResultTable
from traceana.tables.display import csv_text
from traceana.tables.result import Result

SECTION_CACHE: Final = Cache("report", limit_bytes=1 << 28)
_MOST_WORKERS: Final = 4
"""More would wait for the longest section, and each takes some 300 MB."""
_opened: list[Context] = []
"""In a process that was started to build sections: what they share."""


def count_workers() -> int:
    """Return the number of processes that build sections: one per core, at most four."""
    return min(_count_cores(), _MOST_WORKERS)


def _count_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


@contextmanager
def _shared_cores(workers: int) -> Iterator[None]:
    """Share the cores among processes that start meanwhile, unless the user has set threads."""
    name = "POLARS_MAX_THREADS"
    is_set = name in os.environ
    if not is_set:
        os.environ[name] = str(max(1, _count_cores() // workers))
    try:
        yield
    finally:
        if not is_set:
            del os.environ[name]


def build_sections(
    sections: Sequence[Section],
    context: Context,
    /,
    *,
    workers: int,
    on_done: Callable[[int, Section], None],
    beside: Sequence[Callable[[Context], None]] = (),
) -> list[Content]:
    """Return the content of each section; other processes also call the functions `beside`."""
    contents: dict[str, Content] = {}

    def take(section: Section, content: Content) -> None:
        contents[section.id] = content
        on_done(len(contents), section)

    missing = []
    for section in sections:
        is_kept = not is_temporary(context.store.path)
        kept = SECTION_CACHE.load(section_key(context, section)) if is_kept else None
        if kept is None:
            missing.append(section)
        else:
            take(section, kept)
    if workers > 1 and len(missing) > 1:
        _share(missing, context, workers, take, beside=beside)
    else:
        for section in missing:
            take(section, _build(section, context))
    return [contents[section.id] for section in sections]


def _share(
    missing: list[Section],
    context: Context,
    workers: int,
    take: Callable[[Section, Content], None],
    *,
    beside: Sequence[Callable[[Context], None]],
) -> None:
    """Build sections in other processes; those that share a frame are built by one."""
    tasks = any(context.store.traces(table=table) for table in ("tasks", "instances"))
    alike: dict[str, list[Section]] = {}
    for section in missing:
        shared = section.shares if section.shares and tasks else section.id
        alike.setdefault(shared, []).append(section)
    # the claims (which need no table of their own) take longest, then many sections at once
    groups = sorted(alike.values(), key=lambda group: (bool(group[0].needs), -len(group)))
    processes = min(workers, len(groups))
    try:
        with start_processes(processes, _open, context) as pool:
            with _shared_cores(workers):
                built = {
                    pool.submit(_build_by_id, *(section.id for section in group)): group
                    for group in groups
                }
                further = [pool.submit(_call, function) for function in beside]
            for future in as_completed(built):
                for section, content in zip(built[future], future.result(), strict=True):
                    take(section, content)
            for made in as_completed(further):
                made.result()
    except BrokenProcessPool as error:
        raise TraceanaError(
            "a process that was building the report was killed (out of memory?); "
            "build fewer sections at once with --only"
        ) from error


def _open(context: Context) -> None:
    _opened.append(context)


def _build_by_id(*names: str) -> list[Content]:
    return [_build(section, _opened[0]) for section in sections() if section.id in names]


def _call(function: Callable[[Context], None]) -> None:
    function(_opened[0])


def _build(section: Section, context: Context) -> Content:
    try:
        content = draw_content(content_of(section, context), context)
    except (StoreError, MemoryError):
        raise
    except (Exception, PanicException) as error:  # noqa: BLE001  costs its section alone
        context.check_unchanged()
        return Content(failed=_fault("This section", f"section {section.id}", error))
    context.check_unchanged()
    if not (content.failed or is_temporary(context.store.path)):
        SECTION_CACHE.save(section_key(context, section), content)
    return content


def _fault(noun: str, name: str, error: BaseException) -> str:
    return f"{noun} could not be computed. {ask_for_report(name, error)}"


def section_key(context: Context, section: Section, /) -> str:
    """Return a key of all that a section depends on: data, code, versions, options."""
    ledgers = {name: ledger.json for name, ledger in sorted(context.ledgers.items())}
    source = context.data_source
    options = (str(source.path), source.is_sample, source.command, context.date)
    engine = (context.store.master, versions("matplotlib", "jinja2", "pyspark"))
    code = Path(inspect.getfile(section.build)).read_text(encoding="utf-8")  # of any package
    return key_of(section.id, ledgers, options, engine, code, code_digest())


def draw_content(content: Content, context: Context, /) -> Content:
    """Return the content with its drawings drawn; a fault costs its figure or table alone."""
    faults = []

    def drawn(block: Block) -> Iterator[Block]:
        if isinstance(block, Table) and block.fault:
            name, error = block.fault
            faults.append(_fault(f"Table {name}", f"table {name}", error))
            yield Text(f"{block.caption}: not shown: {reason_of(error)}.")
            return
        if not isinstance(block, Gallery):
            yield block
            return
        pictures: list[Picture | Drawing] = []
        for picture in block.pictures:
            if not isinstance(picture, Drawing):
                pictures.append(picture)
                continue
            try:
                pictures.append(_picture(picture, context))
            except (StoreError, MemoryError):
                raise
            except (Exception, PanicException) as error:  # noqa: BLE001  as in a section
                yield Text(f"{picture.about}: not drawn: {reason_of(error)}.")
                cause = error.__cause__ if isinstance(error, DataError) else error
                if cause is not None:
                    faults.append(
                        _fault(f"Figure {picture.figure}", f"figure {picture.figure}", cause)
                    )
        if pictures:
            yield Gallery(tuple(pictures))

    lead, blocks = (
        tuple(made for block in part for made in drawn(block))
        for part in (content.lead, content.blocks)
    )
    failed = " ".join(filter(None, (content.failed, *faults)))
    return replace(content, lead=lead, blocks=blocks, failed=failed)


def _picture(drawing: Drawing, context: Context) -> Picture:
    # matplotlib is slow to load, and a report that was kept draws nothing
    from traceana import figures  # noqa: PLC0415
    from traceana.drawing.style import use_style  # noqa: PLC0415

    with use_style(alone=True):
        files, caption, described = draw(drawing, context, ("svg",))
    kind = drawing.members[0].figure
    return Picture(
        files["svg"].decode().rstrip(),
        caption,
        drawing.key,
        kind,
        described,
        figures.get_figure(kind).reading,
        _data(drawing),
    )


def _data(drawing: Drawing) -> str:
    """Return the frame that a figure is drawn from as CSV: the first one of a result."""
    if len(drawing.members) > 1:
        parts = [
            frame.select(pl.lit(member.about).alias("panel"), pl.all())
            for member in drawing.members
            if (frame := _frame(member.result)[0]) is not None
        ]
        return csv_text(pl.concat(parts, how="diagonal_relaxed")) if parts else ""
    frame, table = _frame(drawing.result)
    return "" if frame is None else csv_text(frame, table)


def _frame(result: object) -> tuple[pl.DataFrame | None, type[ResultTable] | None]:
    if isinstance(result, pl.DataFrame):
        return result, None
    if isinstance(result, Result):
        for name, table in result.tables.items():
            if (frame := getattr(result, name)) is not None:
                return frame, table
    return None, None


def draw(
    drawing: Drawing,
    context: Context,
    suffixes: Sequence[str],
    /,
    *,
    dpi: int = 300,
    width_in: float | None = None,
    paper: bool = False,
) -> tuple[dict[str, bytes], str, str]:
    """Return a drawing as files by suffix, its caption and its numbers; synthetic is marked."""
    from traceana import figures  # noqa: PLC0415  as above
    from traceana.drawing import svg  # noqa: PLC0415  as above
    from traceana.drawing.style import adapt_to_paper, use_paper_colors  # noqa: PLC0415  as above

    with figures.use_width(width_in), use_paper_colors() if paper else nullcontext():
        drawn = figures.draw_figure(drawing.figure, drawing.result, **drawing.options)
        if drawing.subject and not paper:
            drawn.suptitle(drawing.subject, x=0.02, ha="left", size=8, weight="bold")
    title = drawing.title or context.label(drawing.trace)
    more = ""
    if len(context.traces) == 1:  # its name is that of the page; what follows it is not
        more = title.removeprefix(context.traces[0].label)
        title, more = "", more if more.startswith((" (", ",")) else ""
    described = figures.get_figure(drawing.figure).describe(drawing.result)
    caption = f"{drawing.about}. {title}." if title else f"{drawing.about}{more}."
    if paper:
        adapt_to_paper(drawn)
    if context.synthetic(drawing.trace):
        svg.mark_synthetic(drawn)
    files = {}
    for suffix in suffixes:
        files[suffix] = (
            f"{svg.render_svg(drawn, prefix=drawing.key)}\n".encode()
            if suffix == "svg"
            else svg.render_file(drawn, suffix, dpi=dpi)
        )
        drawn.set_layout_engine("none")  # all files use the layout of the first
    return files, caption, described
