"""Schedules of jobs on a cluster under injected policies: one event engine, many policies."""
