"""Columns that name the hosts of a job."""

from __future__ import annotations

from typing import Final

HOST_LISTS: Final = ("NodeList", "node", "host")
"""Kept columns with the hosts of a job, separated by commas; a single host is a list of one."""
