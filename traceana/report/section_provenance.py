"""Definitions with their formulas, and the provenance of the page."""

from __future__ import annotations

import platform
import tomllib
from importlib.metadata import version
from importlib.resources import files
from typing import Final

from traceana.page.blocks import Block, Content, Facts, Heading
from traceana.page.context import Context
from traceana.page.section import Section

_LIBRARIES = ("polars", "numpy", "scipy", "matplotlib")
_TERMS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    files("traceana.report").joinpath("templates", "terms.toml").read_text(encoding="utf-8")
)
DEFINITIONS: Final = _TERMS["definitions"]
GLOSSARY: Final = _TERMS["glossary"]
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
        Facts(tuple(sorted(terms_of(context).items(), key=lambda term: term[0].casefold()))),
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
