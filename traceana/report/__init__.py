"""The report: sections become one self-contained page, Markdown, and files of figures."""

from traceana.report.build import build_report
from traceana.report.figure_files import WrittenFigures, write_figures
from traceana.report.origin import Origin, find_origin
from traceana.report.run import count_workers

__all__ = [
    "Origin",
    "WrittenFigures",
    "build_report",
    "count_workers",
    "find_origin",
    "write_figures",
]
