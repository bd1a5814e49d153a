"""Find the data of a report, build it, and write it to a folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from time import time
from typing import Any, Final

from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError, StoreError, TraceanaError, did_you_mean
from traceana.page.blocks import Picture, Table
from traceana.page.finding import Finding
from traceana.page.section import Context, DataSource, Section, read_date, sections
from traceana.report.page import Built, number_blocks, render_markdown, render_page, result_texts
from traceana.report.papers_page import draw_direct, papers_of, papers_page
from traceana.report.run import build_sections
from traceana.store import Store, Trace, open_store
from traceana.store.cache import code_digest, command_of
from traceana.store.spark import open_spark
from traceana.store.store import store_path
from traceana.store.writer import write_whole
from traceana.tables.formatting import rounded, without_controls

_MADE_BY: Final = ("catalog", "ingesters", "samples", "schema", "stats", "store")
"""Packages whose code determines the store of the sample."""


def find_data_source(store: str | os.PathLike[str] | None = None, /) -> DataSource:
    """Find the data source of a report without reading it; a named store must be there."""
    path = store_path(store)
    if store is not None or os.environ.get("TRACEANA_STORE"):
        return DataSource(open_store(path).path, is_sample=False)
    return DataSource(path, is_sample=not Store(path).traces())


def open_data_source(data_source: DataSource, /) -> Store:
    """Open the store, or a cached store of the synthetic sample if there is none."""
    if not data_source.is_sample:
        return open_store(data_source.path)
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    cache = user_cache_path("traceana") / "sample"
    digest = code_digest(*_MADE_BY)
    place = cache / f"{version('traceana')}-{digest}"
    if not place.is_dir():
        try:
            _make_sample_store(cache, place)
        except OSError as error:
            raise StoreError(
                f"{cache}: the store of the synthetic sample cannot be written here "
                f"({error.strerror or error}); name another cache folder in XDG_CACHE_HOME"
            ) from error
    return open_store(place)


def _make_sample_store(cache: Path, place: Path) -> None:
    from traceana.ingesters import ingest  # noqa: PLC0415  only where it is needed
    from traceana.samples import write_sample  # noqa: PLC0415  as above

    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".making-") as folder:
        beside = Path(folder) / "store"
        ingest(write_sample(Path(folder) / "files"), store=beside)
        try:
            beside.rename(place)
        except OSError:
            # another process was faster: its store is as good
            if not place.is_dir():
                raise


FORMATS: Final = ("html", "md")
ENGINES: Final = ("polars", "spark")
FIGURES_FOLDER: Final = "figures"
DATA_FOLDER: Final = "data"


def build_report(
    store: str | PathLike[str] | Store | Trace | Mapping[str, IntoFrame] | IntoFrame | None = None,
    /,
    *,
    out: str | PathLike[str] = "reports/latest",
    only: str | Sequence[str] = (),
    title: str | None = None,
    formats: str | Sequence[str] = FORMATS,
    workers: int = 1,
    engine: str = "polars",
    master: str | None = None,
    command: str | None = None,
    on_step: Callable[[int, int, str], None] | None = None,
    on_results: Callable[[list[str]], None] | None = None,
    on_failure: Callable[[list[str]], None] | None = None,
) -> Path:
    """Write a report on a store as one HTML page and Markdown.

    The same data and versions give the same bytes; the report has no date unless
    SOURCE_DATE_EPOCH states one. Sections are cached in the user's cache folder until the data, the
    code or the version of a library changes.

    Parameters
    ----------
    store
        Folder of a store, a :class:`~traceana.store.Store` or :class:`~traceana.Trace`, a raw file
        of a known format, frames by the names of their tables, or a frame of jobs; None:
        TRACEANA_STORE, else ``./data``, else the synthetic sample. Tables of files and frames are
        in a temporary folder, which is deleted when Python ends.
    out
        Folder for the report, which is made.
    only
        Ids of the sections to build; none means all.
    title
        Title of the report; None: that of the trace if there is one alone.
    formats
        ``html`` and ``md``. Figures (SVG) are in ``figures/``, all data (CSV) in ``data/``.
    workers
        Processes that build sections. With more than one, a script needs the guard ``if __name__ ==
        "__main__":``, as with multiprocessing.
    engine
        ``polars``, or ``spark`` to read and aggregate the tables: it needs the extra
        ``traceana[spark]`` and Java 17, and ignores `workers`.
    master
        Spark master, such as ``local[2]`` or ``spark://host:7077``; None: ``local[*]``.
    command
        Command that made a temporary `store`, for the page to name instead of its path.
    on_step
        Called with the steps done, all steps, and the name of the last one. None: a progress bar
        in a notebook.
    on_results
        Called with the alerts and the main results as short texts.
    on_failure
        Called with the ids of sections that could not be computed; the page states why.

    Returns
    -------
    Path
        Path of ``index.html``, or of ``index.md`` without HTML.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [5.0, 60.0], "gpus": [2, 4]})
    >>> out = f"{folder}/report"
    >>> page = traceana.build_report({"jobs": jobs}, out=out, only="data-quality")
    >>> page.name
    'index.html'
    """
    began = time()
    chosen = check_sections(only)
    forms = choose(formats, FORMATS, what="format")
    spark = _choose_master(engine, master)
    folder = Path(out)
    date = read_date()  # before anything is drawn: matplotlib reads it too
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    context = open_given(store, date, spark)
    if command is not None:
        source = DataSource(store_path(), is_sample=False, command=command)
        context = replace(context, data_source=source)
    if title is None:
        title = context.traces[0].title if len(context.traces) == 1 else "traceana report"
    steps = len(chosen) + 1
    report_step = on_step or _notebook_bar()
    report_step(0, steps, "synthetic sample" if context.data_source.is_sample else "ledgers")
    papers = papers_of(context) if "html" in forms else []
    pairs = _build(chosen, context, workers, report_step, steps, papers=papers)
    built = number_blocks([part for part in pairs if not part.is_empty])
    absent = [part.section for part in pairs if part.is_empty]
    with _writing(folder):
        for left in (*folder.glob(".*.tmp"), *folder.glob("*/.*.tmp")):
            if left.stat().st_mtime < began:  # of a run that was killed before this one began
                left.unlink(missing_ok=True)
        _write_page(folder, built, context, title=title, forms=forms, absent=absent)
    if on_results:
        on_results(result_texts(built, context))
    failed = [part.section.id for part in built if part.content.failed]
    if on_failure and failed:
        on_failure(failed)
    report_step(steps, steps, "page")
    return folder / ("index.html" if "html" in forms else "index.md")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(folder, "report", error) from error


def summarize(
    store: str | PathLike[str] | Store | None = None,
    /,
    *,
    workers: int = 1,
    on_step: Callable[[int, int, str], None] | None = None,
) -> list[str]:
    """Return the main results of a report.

    Parameters
    ----------
    store, workers, on_step
        As in :func:`build_report`.

    Examples
    --------
    >>> from traceana.report import summarize
    >>> for sentence in summarize("data", workers=2):  # doctest: +SKIP
    ...     print(sentence)
    """
    chosen = check_sections(())
    report_step = on_step or _notebook_bar()
    context = open_given(store)
    return result_texts(_build(chosen, context, workers, report_step, len(chosen)), context)


def _build(
    chosen: list[Section],
    context: Context,
    workers: int,
    report_step: Callable[[int, int, str], None],
    steps: int,
    *,
    papers: Sequence[str] = (),
) -> list[Built]:
    contents = build_sections(
        chosen,
        context,
        workers=1 if context.store.master else workers,
        on_done=lambda done, section: report_step(done, steps, section.title),
        beside=[partial(draw_direct, paper) for paper in papers],
    )
    return [Built(*pair) for pair in zip(chosen, contents, strict=True)]


def open_given(
    given: str | PathLike[str] | Store | Trace | Mapping[str, IntoFrame] | IntoFrame | None,
    date: str | None = None,
    master: str | None = None,
    /,
) -> Context:
    """Open what a report is made from; files and frames are ingested into a temporary store."""
    if isinstance(given, Trace):
        given = replace(given.store, only=(given.id,))
    if isinstance(given, Store):
        source = DataSource(given.path, is_sample=False, command=command_of(given.path))
        return Context(replace(given, master=master), source, date)
    if given is None or (isinstance(given, str | PathLike) and not Path(given).is_file()):
        return open_context(find_data_source(given), date, master)
    from traceana.ingesters import ingestion  # noqa: PLC0415  a store needs no reader

    if isinstance(given, str | PathLike):
        place = ingestion.ingest_cached(given)
    else:
        place = ingestion.store_frames(given if isinstance(given, Mapping) else {"jobs": given})
    return open_context(DataSource(place, is_sample=False, command=command_of(place)), date, master)


def open_context(
    data_source: DataSource, date: str | None = None, master: str | None = None, /
) -> Context:
    """Open the store of a report and read its ledgers."""
    store = open_data_source(data_source)
    context = Context(replace(store, master=master), data_source, date)
    _ = context.ledgers  # an interrupted ingest is reported before anything is built
    return context


def check_sections(only: str | Sequence[str], /) -> list[Section]:
    """Return the sections of these ids in the report's order; none means all."""
    chosen = choose(only, [section.id for section in sections()], what="section")
    return [section for section in sections() if section.id in chosen]


def choose(wanted: str | Sequence[str], offered: Sequence[str], /, *, what: str) -> list[str]:
    """Return the requested names, also from comma-separated lists; none means all."""
    given = [wanted] if isinstance(wanted, str) else wanted
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in offered:
            hint = did_you_mean(name, offered)
            listed = ", ".join(offered)
            raise DataError(f"no {what} is called {name!r}; the {what}s are {listed}{hint}")
    return names or list(offered)


def _choose_master(engine: str, master: str | None) -> str | None:
    """Return the master on which Spark answers; None where Polars is the engine."""
    if engine.startswith("ibis"):
        raise DataError(
            "a report is not made through Ibis: its sections need the tables of a store; call the "
            "functions on Ibis tables, or export a part of them with add_table() (see the page "
            "'Analyze a trace in a database')"
        )
    if engine not in ENGINES:
        raise DataError(f"no engine is called {engine!r}; the engines are {', '.join(ENGINES)}")
    if engine == "polars":
        if master is not None:
            raise DataError(f"master {master!r} is for the engine spark; the engine is polars")
        return None
    open_spark(master or "local[*]")
    return master or "local[*]"


def _write_page(
    folder: Path,
    built: list[Built],
    context: Context,
    *,
    title: str,
    forms: Sequence[str],
    absent: Sequence[Section],
) -> None:
    """Write the page, its figures and its data, and remove those of an earlier report."""
    pictures = [picture for part in built for picture in part.pictures]
    tables = [block for part in built for block in part.blocks if isinstance(block, Table)]
    shown: list[Picture | Table] = [*pictures, *tables]
    texts = {"results.json": results_json(built, context)}
    if "md" in forms:
        text = render_markdown(built, context, title=title, figures=FIGURES_FOLDER)
        texts["index.md"] = without_controls(text)
    if "html" in forms:
        if of_papers := papers_page(pictures, context):
            texts["papers.html"] = without_controls(of_papers)
        papers = "papers.html" in texts
        page = render_page(built, context, title=title, absent=absent, papers=papers)
        texts["index.html"] = without_controls(page)
    texts |= {f"{FIGURES_FOLDER}/{picture.key}.svg": f"{picture.svg}\n" for picture in pictures}
    texts |= {f"{DATA_FOLDER}/{i.id}.csv": without_controls(i.data) for i in shown if i.data}
    contents = {folder / name: text.encode() for name, text in texts.items()}
    # other files may be the user's
    earlier = [path.stem for path in (folder / DATA_FOLDER).glob("*.csv")]
    earlier = [name for name in earlier if name.startswith(("figure-", "table-"))]
    old = {folder / DATA_FOLDER / f"{name}.csv" for name in earlier}
    figures = {f"{name.removeprefix('figure-')}.svg" for name in earlier}
    old |= {folder / FIGURES_FOLDER / name for name in figures}
    for name in (DATA_FOLDER, FIGURES_FOLDER):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_whole(contents)
    for path in old - {*contents}:
        path.unlink(missing_ok=True)


RESULTS_FORMAT: Final = 1
"""Version of ``results.json``: it changes if a name changes or goes."""
_OF_FINDING: Final = (
    "heading",
    "alert",
    "effect",
    "ci_low",
    "ci_high",
    "n",
    "cost_gpu_h",
    "cost_jobs",
    "certainty",
)
_NUMBERS: Final = ("n", "estimate", "ci_low", "ci_high", "note")


def results_json(built: Sequence[Built], context: Context, /) -> str:
    """Return the findings of each section, and the headline numbers of each trace, as JSON."""
    from traceana.questions.comparison.compare_traces import describe_headlines  # noqa: PLC0415

    traces = {
        trace.id: {"title": trace.title, "synthetic": trace.synthetic} for trace in context.traces
    }
    numbers: dict[str, dict[str, Any]] = {}
    for trace in traces:
        rows = context.store.trace(trace).once(describe_headlines).rows(named=True)
        numbers[trace] = {row["name"]: {number: row[number] for number in _NUMBERS} for row in rows}
    findings = [
        {
            "name": f"{section.section.id}.{position}",
            "section": section.section.id,
            "question": section.section.question,
            "text": text,
            **{name: getattr(text, name) for name in _OF_FINDING if isinstance(text, Finding)},
        }
        for section in built
        for position, text in enumerate(section.content.every_finding, start=1)
    ]
    content = {
        "format": RESULTS_FORMAT,
        "version": version("traceana"),
        "date": context.date,
        "traces": traces,
        "numbers": numbers,
        "findings": findings,
    }
    return json.dumps(rounded(content), indent=2, ensure_ascii=False, default=float) + "\n"


def cannot_write(folder: Path, what: str, error: OSError, /) -> TraceanaError:
    """Return the error of a folder in which nothing can be written."""
    return TraceanaError(
        f"{folder}: the {what} cannot be written here ({error.strerror or error}); "
        "name another folder with --out DIR"
    )


def _notebook_bar() -> Callable[[int, int, str], None]:
    """Return what shows steps in a notebook's progress bar; elsewhere it shows nothing."""
    if "ipykernel" not in sys.modules:
        return lambda _done, _steps, _what: None
    from rich.console import Console  # noqa: PLC0415  only where it is shown
    from rich.progress import MofNCompleteColumn, Progress  # noqa: PLC0415

    # the line of a terminal needs no widgets
    console = Console(stderr=True, force_terminal=True, force_jupyter=False)
    progress = Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console)
    bar = progress.add_task("", total=None)
    progress.start()

    def report_step(done: int, steps: int, what: str) -> None:
        progress.update(bar, completed=done, total=steps, description=what)
        if done == steps:
            progress.stop()

    return report_step
