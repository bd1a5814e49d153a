"""Compilation of the loops that dominate a schedule's time."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar, cast

from platformdirs import user_cache_path

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., object]")


def compiled(function: Function, /) -> Function:
    """Compile a function of numbers and arrays when it is first called.

    The machine code is kept in the user's cache folder (``NUMBA_CACHE_DIR`` names another one),
    never beside the source: files there would outlive the package when it is removed. Without
    numba the function stays as it is: results are equal, and large schedules take longer.
    """
    try:
        import numba  # noqa: PLC0415  the extra "fast"
    except ImportError:
        return function
    settings = cast("Any", numba.config)
    named = settings.CACHE_DIR
    folder = Path(named or user_cache_path("traceana") / "compiled")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # else numba would take the folder of the source
            settings.CACHE_DIR = str(folder)
        machine_code = numba.njit(cache=True)(function)
    except (OSError, RuntimeError):  # the folder cannot be written
        machine_code = numba.njit(function)
    finally:
        settings.CACHE_DIR = named
    return cast("Function", machine_code)


def compiled_part(function: Function, /) -> Function:
    """Compile a function that only compiled functions of its file call; it takes half the time."""
    try:
        import numba  # noqa: PLC0415  the extra "fast"
    except ImportError:
        return function
    compile_part = cast("Any", numba.njit)(no_cpython_wrapper=True, no_cfunc_wrapper=True)
    return cast("Function", compile_part(function))
