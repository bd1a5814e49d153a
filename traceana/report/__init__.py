"""The report: sections become one self-contained page, Markdown, and files of figures."""

from traceana.report.build import build_report
from traceana.report.origin import Origin, find_origin
from traceana.report.run import count_workers

__all__ = ["Origin", "build_report", "count_workers", "find_origin"]
