"""Compilation of the loops that dominate a schedule's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., object]")


def compiled(function: Function, /) -> Function:
    """Compile a function of numbers and arrays when it is first called, and keep it on disk."""
    return cast("Function", numba.njit(cache=True)(function))
