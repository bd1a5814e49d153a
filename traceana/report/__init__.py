"""The report: sections become one self-contained page, Markdown, and files of figures."""

from traceana.page.section import DataSource
from traceana.report.build import build_report, find_data_source, summarize
from traceana.report.figure_files import WrittenFigures, plot_trace, write_figures

__all__ = [
    "DataSource",
    "WrittenFigures",
    "build_report",
    "find_data_source",
    "plot_trace",
    "summarize",
    "write_figures",
]
