"""Numbers that a function takes where none are given."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def numbers_by_default(*functions: Callable[..., Any]) -> dict[str, dict[str, float]]:
    """Return name -> option -> number of each function, without options that are None or text."""
    return {
        function.__name__: {
            name: option.default
            for name, option in inspect.signature(function).parameters.items()
            if isinstance(option.default, int | float) and not isinstance(option.default, bool)
        }
        for function in functions
    }
