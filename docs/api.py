"""Reference pages of the public names: one page per name, one list per area."""

from __future__ import annotations

import inspect
import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import typer
from typer.cli import get_docs_for_click

import traceana
from traceana.catalog import load_catalog
from traceana.cli import app
from traceana.modules import import_named
from traceana.report.section_provenance import DEFINITIONS
from traceana.tables.declare import describe_columns
from traceana.tables.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

AREAS = {
    "store": (
        "Files and store",
        ("ingesters", "store", "exchange", "catalog", "samples", "opening"),
    ),
    "stragglers": ("Stragglers and variation between workers", ("questions.stragglers",)),
    "workload": ("Workload", ("questions.workload",)),
    "runtimes": ("Runtimes and distributions", ("questions.runtimes", "cohorts")),
    "failures": ("Failures and survival", ("questions.failures",)),
    "reliability": ("Reliability of machines", ("questions.reliability",)),
    "correlations": ("Correlations", ("questions.correlations",)),
    "trends": ("Trends, outages and changes", ("questions.trends",)),
    "utilization": ("Utilization", ("questions.utilization",)),
    "energy": ("Energy", ("questions.energy",)),
    "deadlines": ("Deadlines", ("questions.deadlines", "simulate.deadlines")),
    "batching": ("Dynamic batching", ("questions.batching", "simulate.batching")),
    "operations": ("Operations of training steps", ("questions.operations", "simulate.operations")),
    "scheduling": (
        "Scheduling and placement",
        ("questions.scheduling", "simulate.schedule", "simulate.placement"),
    ),
    "recurring": ("Recurring jobs", ("questions.recurring", "simulate.recurring")),
    "figures": ("Figures", ("figures", "drawing")),
    "claims": ("Claims", ("claims",)),
    "report": ("Report", ("report", "page")),
    "errors": ("Errors", ("errors",)),
}
"""By area: its heading, and the packages and modules whose public names belong to it."""
for folder in sorted((Path(traceana.__file__).parent / "questions").glob("*/")):
    part = f"questions.{folder.name}"
    # an idea without an area above has one of its own
    if (folder / "__init__.py").exists() and all(part not in parts for _, parts in AREAS.values()):
        AREAS[folder.name] = (folder.name.capitalize(), (part,))
PACKAGES = (
    "traceana",
    *(
        f"traceana.{name}"
        for name in (
            "simulate",
            "figures",
            "ingesters",
            "exchange",
            "store",
            "claims",
            "catalog",
            "samples",
            "report",
            "errors",
        )
    ),
)
_INDEX = """\
Python
======

Public functions and classes by area; most can be imported from ``traceana``. In all of them:

- A frame is eager or lazy, of any :doc:`supported engine </explanation/engines>`: Polars, DuckDB,
  pandas, pyarrow, PySpark or Ibis. Results are Polars frames, or objects that have some.
- Null and NaN are missing. ``n`` counts the rows used, ``n_missing`` those without a value and
  ``n_excluded`` those left out for another reason.
- Units are suffixes: ``_s``, ``_h``, ``_w`` (watts), ``_j`` (joules), ``_gib``. Counts have none;
  fractions are 0 to 1. Times are seconds or datetimes.
- ``cluster`` is the column of the independent unit, such as user: rows of one unit may depend on
  each other, and intervals and p-values allow for it.
- ``rng`` is a seed or a NumPy generator. It is 1 by default, so that results repeat.
- What is wrong with a frame or an argument raises :class:`~traceana.errors.DataError`; all errors
  derive from :class:`~traceana.TraceanaError`, and their text states the remedy.

"""


@cache
def public_names() -> dict[str, tuple[str, object]]:
    """Return each public function and class: where it is imported from, and the object."""
    found: dict[str, tuple[str, object]] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in getattr(module, "__all__", dir(module)):
            thing = getattr(module, name)
            home = getattr(thing, "__module__", "")
            documented = inspect.isfunction(thing) or inspect.isclass(thing)
            if documented and home.startswith("traceana") and not name.startswith("_"):
                found.setdefault(name, (f"{package}.{name}", thing))
    return found


@cache
def documented_names() -> dict[str, tuple[str, object]]:
    """Return the public names, and the classes of what they return."""
    found = {}
    tables = ("*/tables*.py", "questions/*/tables*.py", "simulate/*/tables*.py")
    for module in import_named(*tables):
        for name, thing in vars(module).items():
            if is_result(thing) and thing is not Result and not name.startswith("_"):
                found[name] = (f"{thing.__module__}.{name}", thing)
    return found | public_names()


def is_result(thing: object) -> TypeGuard[type[Result]]:
    """Return whether this is a class of results, which declares its tables."""
    return inspect.isclass(thing) and issubclass(thing, Result)


def area_of(thing: object) -> str | None:
    """Return the area of a public name; None if it belongs to none."""
    home = getattr(thing, "__module__", "").removeprefix("traceana.") + "."
    fitting = (
        (len(part), area)
        for area, (_, parts) in AREAS.items()
        for part in parts
        if home.startswith(f"{part}.")
    )
    return max(fitting, default=(0, None))[1]


def write_pages(folder: Path) -> None:
    """Write the pages; those that stay the same are not touched."""
    names = documented_names()
    areas: dict[str, list[str]] = {area: [] for area in AREAS}
    pages: dict[str, str] = {}
    examples = (path.read_text() for path in folder.parents[1].glob("examples/*/*.py"))
    drawn = set(re.findall(r"\w+(?=\()", "".join(examples))) - {"open_sample"}  # in all of them
    for name, (path, thing) in sorted(names.items()):
        area = area_of(thing)
        if area is None:
            raise LookupError(f"{path}: add its module to an area of docs/api.py")
        areas[area].append(name)
        kind = "autoclass" if inspect.isclass(thing) else "autofunction"
        members = "\n   :members:" if inspect.isclass(thing) else ""
        members += "\n   :exclude-members: tables, drawn_by" if is_result(thing) else ""
        title = f"{name}\n{'=' * len(name)}\n\n:doc:`{AREAS[area][0]} <area-{area}>`\n\n"
        # not in the tree of pages: it is repeated on every page
        pages[name] = f":orphan:\n\n{title}.. {kind}:: {path}{members}\n"
        for field, table in thing.tables.items() if is_result(thing) else ():
            pages[name] += f"\n.. rubric:: Columns of {field}\n\n{_first(table.__doc__)}\n\n"
            pages[name] += f"{describe_columns(table)}\n"
        if name in drawn:
            pages[name] += f"\n.. minigallery:: {path}\n   :add-heading: In the gallery\n"
    for area, own in areas.items():
        if own:
            pages[f"area-{area}"] = "\n".join(_list(AREAS[area][0], own, names))
    known = "\n   ".join(page for page in pages if page.startswith("area-"))
    pages["index"] = f"{_INDEX}.. toctree::\n   :maxdepth: 1\n\n   {known}\n"
    files = {f"{name}.rst": text for name, text in pages.items()}
    files |= {
        "command-line.md": _commands(),
        "glossary.md": _glossary(folder.parents[1] / "glossary.toml"),
        "traces.md": _traces(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for stale in {path.name for path in folder.iterdir()} - files.keys():
        (folder / stale).unlink()
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _commands() -> str:
    """Return the reference of the command line, from its own help."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="traceana")
    parts = command.commands | command.commands["simulate"].commands
    for name, part in parts.items():  # typer cuts the first sentences
        full = f"`{name}`: {part.get_short_help_str(200)}"
        text = text.replace(f"`{name}`: {part.get_short_help_str()}", full)
    text = re.sub(r"(?<= )--[a-z]\S*\w", r"`\g<0>`", text)
    return text.replace("# `traceana`", "# Command line", 1)


def _first(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _glossary(terms: Path) -> str:
    """Return the glossary: the definitions of the report, and more terms."""
    known = DEFINITIONS | tomllib.loads(terms.read_text(encoding="utf-8"))
    entries = "\n\n".join(f"{term}\n  {known[term]}" for term in sorted(known, key=str.lower))
    return f"# Glossary\n\n```{{glossary}}\n{entries}\n```\n"


def _traces() -> str:
    """Return the page on the public traces, from the catalog."""
    lines = ["# Public traces", "", "None is shipped with traceana: `traceana fetch TRACE`.", ""]
    for trace in load_catalog().values():
        lines += [
            f"## {trace.title}",
            "",
            trace.description,
            "",
            f"- id: `{trace.id}`",
            f"- tables: {', '.join(f'`{table}`' for table in trace.tables)}",
            f"- license: {trace.license}",
            f"- source: <{trace.homepage}>",
            *(f"- {note}" for note in trace.notes),
            "",
        ]
    return "\n".join(lines)


def _list(heading: str, own: list[str], names: dict[str, tuple[str, object]]) -> Iterator[str]:
    yield from (heading, "=" * len(heading), "", ".. list-table::", "")
    for name in own:
        summary = _first(inspect.getdoc(names[name][1]))
        yield from (f"   * - :doc:`{name}`", f"     - {summary}")
    yield ""
