"""Sections of earlier reports, kept until data, code or options change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.store.cache import Cache, code_digest, key_of, versions
from traceana.store.ledger import ledger_json

if TYPE_CHECKING:
    from traceana.report.context import Context

SECTION_CACHE: Final = Cache("report", limit_bytes=1 << 28)


def section_key(context: Context, section: str, /) -> str:
    """Return a key of all that a section depends on: data, code, versions, options."""
    ledgers = {name: ledger_json(ledger) for name, ledger in sorted(context.ledgers.items())}
    figures = None if context.figures is None else sorted(context.figures)
    options = (str(context.origin.place), context.origin.is_sample, context.date, figures)
    engine = (context.formats, context.master, versions("matplotlib", "jinja2", "pyspark"))
    return key_of(section, ledgers, options, engine, code_digest())
