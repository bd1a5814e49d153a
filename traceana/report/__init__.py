"""The report: sections become one self-contained page, Markdown, and files of figures."""

from traceana.report.build import build_report, summarize
from traceana.report.figure_files import WrittenFigures, write_figures

__all__ = [
    "WrittenFigures",
    "build_report",
    "summarize",
    "write_figures",
]
