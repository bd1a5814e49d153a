"""Sections in, one self-contained page out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import jinja2
from markupsafe import Markup, escape

from traceana.catalog import get_trace

if TYPE_CHECKING:
    from traceana.report.blocks import Content
    from traceana.report.material import Material
    from traceana.report.sections import Section

_CODE: Final = re.compile(r"`([^`]+)`")
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|s|kB|MB|GB)(?!\w))")
_ADDRESS: Final = re.compile(r"https?://[^\s<>]+")


@dataclass(frozen=True)
class Built:
    """A section with its content."""

    section: Section
    content: Content


def render_page(built: list[Built], material: Material, /) -> str:
    """Write the page: one HTML document that asks for no other file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("traceana.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = write_prose
    environment.tests["kind"] = lambda block, name: type(block).__name__ == name
    synthetic = material.synthetic_traces
    return environment.get_template("page.html.jinja").render(
        built=built,
        traces=[get_trace(trace).title for trace in material.ledgers],
        synthetic=synthetic,
        wholly_synthetic=len(synthetic) == len(material.ledgers),
        origin=material.origin,
    )


def write_prose(text: str, /) -> Markup:
    """Escape a text; `code` and addresses become elements, a number stays with its unit."""
    safe = _UNIT.sub("\N{NO-BREAK SPACE}", str(escape(text)))
    safe = safe.replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    safe = _CODE.sub(r"<code>\1</code>", safe)
    return Markup(_ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', safe))  # noqa: S704  escaped above
