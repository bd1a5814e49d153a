"""Sections in, one self-contained page out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import jinja2
from markupsafe import Markup, escape

from traceana.report.blocks import Gallery

if TYPE_CHECKING:
    from traceana.report.blocks import Content, Picture
    from traceana.report.context import Context
    from traceana.report.section import Section

_CODE: Final = re.compile(r"`([^`]+)`")
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|s|kB|MB|GB)(?!\w))")
_ADDRESS: Final = re.compile(r"https?://[^\s<>]+")


@dataclass(frozen=True)
class Built:
    """A section with its content."""

    section: Section
    content: Content

    @property
    def lead(self) -> tuple[str, ...]:
        """What stands in the report's opening: the headline, or the findings for lack of one."""
        return (self.content.headline,) if self.content.headline else self.content.findings

    @property
    def opening(self) -> tuple[str, ...]:
        """What the section begins with: its findings, where the report's opening has not them."""
        return self.content.findings if self.content.headline else ()

    @property
    def pictures(self) -> list[Picture]:
        """Its figures, in order."""
        galleries = (block for block in self.content.blocks if isinstance(block, Gallery))
        return [picture for gallery in galleries for picture in gallery.drawn]


def render_page(built: list[Built], context: Context, /, *, title: str) -> str:
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
    return environment.get_template("page.html.jinja").render(
        built=built,
        title=name_page(title, context),
        heading=title,
        traces=trace_titles(context),
        synthetic=context.synthetic_traces,
        wholly_synthetic=_is_wholly_synthetic(context),
        origin=context.origin,
    )


def name_page(title: str, context: Context, /) -> str:
    """Return the title with a word before it where data are synthetic."""
    if _is_wholly_synthetic(context):
        return f"SYNTHETIC sample: {title}"
    return f"Partly SYNTHETIC: {title}" if context.synthetic_traces else title


def trace_titles(context: Context, /) -> list[str]:
    """Return the titles of the traces that a report is made from."""
    return [context.store.manifest(trace).title for trace in context.ledgers]


def _is_wholly_synthetic(context: Context) -> bool:
    return len(context.synthetic_traces) == len(context.ledgers)


def write_prose(text: str, /) -> Markup:
    """Escape a text; `code` and addresses become elements, a number stays with its unit."""
    safe = _UNIT.sub("\N{NO-BREAK SPACE}", str(escape(text)))
    safe = safe.replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    safe = _CODE.sub(r"<code>\1</code>", safe)
    return Markup(_ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', safe))  # noqa: S704  escaped above
