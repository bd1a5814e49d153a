"""The report: sections become one self-contained page."""

from traceana.report.build import build_report
from traceana.report.origin import Origin, find_origin

__all__ = ["Origin", "build_report", "find_origin"]
