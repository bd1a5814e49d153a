"""Whose fault an end is: classes of the end reasons of schedulers."""

from __future__ import annotations

from typing import Final

NODE_FAILURES: Final = ("NODE_FAIL", "BOOT_FAIL")
"""End reasons, or their beginnings, that are failures of a machine."""
USER_LIMITS: Final = (
    *("TIMEOUT", "DEADLINE", "OUT_OF_ME", "CANCELLED", "OOMKilled", "DeadlineExceeded"),
)
"""Those that are limits of a user's request, or the user's own doing."""
PREEMPTIONS: Final = ("PREEMPTED", "REQUEUED", "REVOKED", "Evicted", "Preempting")
"""Those that are the scheduler's."""
