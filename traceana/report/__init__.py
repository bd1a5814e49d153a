"""The report: sections become one self-contained page, Markdown, and files of figures."""

from traceana.report.build import build_report, check_sections, summarize
from traceana.report.data_source import DataSource, find_data_source
from traceana.report.figure_files import WrittenFigures, check_figures, write_figures
from traceana.report.run import count_workers

__all__ = [
    "DataSource",
    "WrittenFigures",
    "build_report",
    "check_figures",
    "check_sections",
    "count_workers",
    "find_data_source",
    "summarize",
    "write_figures",
]
