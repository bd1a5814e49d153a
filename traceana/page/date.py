"""The date that a report shows."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from traceana.errors import DataError


def read_date() -> str | None:
    """Return the date in SOURCE_DATE_EPOCH, if it is set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        raise DataError(
            f"SOURCE_DATE_EPOCH is {epoch!r}; it must be whole seconds since 1970"
        ) from None
