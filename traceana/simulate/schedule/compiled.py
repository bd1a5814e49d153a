"""Compilation of the loops that dominate a schedule's time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from time import thread_time
from types import FunctionType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from platformdirs import user_cache_path

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

_PAYS_S: Final = 20.0
"""CPU seconds in a function after which it is compiled: in up to ten, once for all later runs."""
_LOADS_S: Final = 0.3
"""CPU seconds after which machine code of an earlier run is loaded."""


class Compiled(Generic[Arguments, Returned]):
    """A function of numbers and sequences that is compiled once its calls have taken long.

    The machine code is kept in the user's cache folder (``NUMBA_CACHE_DIR`` names another), never
    beside the source, where it would outlive the package. Without numba the function stays as it
    is.
    """

    def __init__(self, function: Callable[Arguments, Returned], /) -> None:
        self._function = self._run = function
        self._left_s: float | None = None

    @property
    def takes_arrays(self) -> bool:
        """Whether the next call runs machine code, which needs arrays; Python prefers lists."""
        if self._left_s is None:
            kept = _folder().rglob(f"*.{self._function.__name__}-*.nbi")
            self._left_s = _LOADS_S if any(kept) else _PAYS_S
        if self._left_s <= 0 and self._run is self._function:
            self._run, self._left_s = _machine_code(self._function), _PAYS_S
        return self._run is not self._function

    def __call__(self, *given: Arguments.args, **named: Arguments.kwargs) -> Returned:
        """Call the function, compiled or not."""
        if self.takes_arrays:
            return self._run(*given, **named)
        began = thread_time()
        try:
            return self._run(*given, **named)
        finally:
            self._left_s = cast("float", self._left_s) - thread_time() + began


def _folder() -> Path:
    return Path(os.environ.get("NUMBA_CACHE_DIR") or user_cache_path("traceana") / "compiled")


def _machine_code(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile a function, and those of its file that it calls; without numba return it."""
    try:
        import numba  # noqa: PLC0415  the extra "fast"
    except ImportError:
        return function
    njit, settings = cast("Any", numba.njit), cast("Any", numba.config)
    compile_part = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
    names = dict(vars(sys.modules[function.__module__]))
    for name, value in names.items():
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            names[name] = compile_part(FunctionType(value.__code__, names, name))
    whole = FunctionType(cast("FunctionType", function).__code__, names, function.__name__)
    named = settings.CACHE_DIR
    folder = Path(named or _folder())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # else numba would take the folder of the source
            settings.CACHE_DIR = str(folder)
        machine_code = njit(cache=True)(whole)
    except (OSError, RuntimeError):  # the folder cannot be written
        machine_code = njit(whole)
    finally:
        settings.CACHE_DIR = named
    return cast("Callable[Arguments, Returned]", machine_code)
