"""Arrays in, numbers out: the statistics that every other room uses."""

from traceana.stats.intervals import mean_interval, wilson_interval

__all__ = ["mean_interval", "wilson_interval"]
