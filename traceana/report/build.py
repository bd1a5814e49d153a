"""Build the report and put it where it was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from traceana.errors import TraceanaError
from traceana.report.material import Material
from traceana.report.origin import find_origin, open_origin, read_date
from traceana.report.page import Built, render_page
from traceana.report.sections import SECTIONS
from traceana.store.writer import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike


def build_report(
    store: str | PathLike[str] | None = None,
    /,
    *,
    out: str | PathLike[str] = "reports/latest",
    on_step: Callable[[int, int, str], None] | None = None,
) -> Path:
    """Make a page from what a store holds: one self-contained HTML file.

    The same data and versions give the same bytes; the page has no date unless
    SOURCE_DATE_EPOCH gives one.

    Parameters
    ----------
    store
        Folder of the store; None stands for TRACEANA_STORE, else ``./data``. Where it holds no
        ledger the page is made from the synthetic sample, and says so wherever it shows.
    out
        Folder for the page; made where it does not exist.
    on_step
        Called before each step with the steps done, their number, and what comes next.

    Returns
    -------
    Path
        Of ``index.html``, written beside and renamed, so that it is whole or not there.

    Raises
    ------
    TraceanaError
        If the store cannot be read or the folder cannot be written.
    """
    tell = on_step or (lambda _done, _steps, _what: None)
    steps = len(SECTIONS) + 2
    page = Path(out) / "index.html"
    date = read_date()  # before anything is drawn: matplotlib reads it too
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(page, error) from error
    origin = find_origin(store)
    tell(0, steps, "synthetic sample" if origin.is_sample else "ledgers")
    opened = open_origin(origin)
    ledgers = {trace: opened.ledger(trace) for trace in opened.traces()}
    material = Material(origin, opened, ledgers, date)
    built = []
    for done, section in enumerate(SECTIONS, start=1):
        tell(done, steps, section.title)
        built.append(Built(section, section.build(material)))
    tell(steps - 1, steps, "page")
    text = render_page(built, material)
    try:
        write_whole(page, text)
    except OSError as error:
        raise _cannot_write(page, error) from error
    return page


def _cannot_write(page: Path, error: OSError) -> TraceanaError:
    return TraceanaError(
        f"{page.parent}: the report cannot be written here ({error.strerror or error}); "
        "name another folder with --out DIR"
    )
