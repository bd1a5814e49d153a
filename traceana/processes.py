"""Processes that work beside this one, and end with it."""

from __future__ import annotations

import atexit
import gc
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait


@contextmanager
def start_processes(
    number: int, /, begin: Callable[..., object] | None = None, *given: object
) -> Iterator[ProcessPoolExecutor]:
    """Start processes that each call ``begin(*given)``; an error here ends them at once."""
    before = active_children()
    # spawned, not forked: Polars' and BLAS's threads do not outlive a fork
    context = get_context("spawn")
    pool = ProcessPoolExecutor(number, context, initializer=_begin, initargs=(begin, given))
    try:
        yield pool
    except BaseException:
        for process in active_children():
            if process not in before:
                process.terminate()  # what it still computes would be awaited
        raise
    finally:
        pool.shutdown()


def _begin(begin: Callable[..., object] | None, given: tuple[object, ...]) -> None:
    atexit.register(gc.freeze)  # as the command does
    parent = parent_process()
    if parent is not None:
        # a killed parent cannot end its workers
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
