"""Tables of a store as Spark DataFrames, for traces past one machine."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from traceana.store.store import Store

_OPTIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_ANSWER_S: Final = 5
_WORKER_S: Final = 30


def open_spark(master: str, /) -> SparkSession:
    """Return this process's Spark session, started on a master if there is none yet."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  an extra that few need
    except ImportError:
        raise TraceanaError(
            "engine spark needs PySpark, which is not installed: pip install 'traceana[spark]'"
        ) from None
    session = SparkSession.getActiveSession()
    if session is None:
        _find_master(master)
        builder = SparkSession.builder.master(master).appName("traceana")
        for name, value in _OPTIONS.items():
            builder = builder.config(name, value)
        with _off_the_terminal() as log:
            try:
                session = builder.getOrCreate()
            except Exception as error:
                raise TraceanaError(
                    f"Spark cannot be started on {master}: {_reason(error, log)}"
                ) from error
            _await_worker(session, master)
        session.sparkContext.setLogLevel("ERROR")
    running = session.sparkContext.master
    if running != master:
        raise TraceanaError(
            f"this process has a Spark session on {running} and cannot have one on {master}; name "
            "that master, or stop the session"
        )
    return session


def scan_by_spark(store: Store, trace: str, table: str, /, *, master: str) -> DataFrame:
    """Return a table as a Spark frame.

    Spark workers need the store under the same path.

    Examples
    --------
    >>> import traceana
    >>> from traceana.store import scan_by_spark
    >>> scan_by_spark(traceana.open_sample(), "zeus-2023", "jobs", master="local[2]")
    Traceback (most recent call last):
    ...
    traceana.errors.StoreError: ...: no table 'jobs' of 'zeus-2023' ...
    """
    store.scan(trace, table)  # raises where there is no such table
    path = (store.path / trace / f"{table}.parquet").resolve()
    escaped = re.sub(r"[][{}*?]", r"\\\g<0>", str(path))  # of a pattern otherwise
    return open_spark(master).read.parquet(f"file://{escaped}")


def _find_master(master: str) -> None:
    """Refuse a standalone master that does not answer; Spark itself tries for a minute."""
    if not master.startswith("spark://"):
        return
    failed = ""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWER_S).close()
        except (OSError, ValueError) as error:
            failed = str(error)
        else:
            return
    raise TraceanaError(f"no Spark master answers at {master}: {failed}")


def _await_worker(session: SparkSession, master: str) -> None:
    """Refuse a standalone master whose workers take nothing: Spark itself would wait for ever."""
    context: Any = session.sparkContext
    waited = time.monotonic() + _WORKER_S
    while master.startswith("spark://") and context._jsc.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > waited:
            session.stop()
            raise TraceanaError(f"no worker of {master} is free: start one, or wait for another's")
        time.sleep(0.1)


@contextmanager
def _off_the_terminal() -> Iterator[IO[bytes]]:
    """Let standard error go to a file: a JVM that is started meanwhile writes there ever after."""
    with tempfile.TemporaryFile() as log:
        terminal = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _reason(error: Exception, log: IO[bytes]) -> str:
    """Return in one line why Spark does not start, from Java's messages."""
    log.seek(0)
    output = f"{log.read().decode(errors='replace')}\n{error}"
    thrown = re.search(r"^(?:: |Exception in ).*?(?:Exception|Error): (.+)$", output, re.MULTILINE)
    reason = thrown[1] if thrown else str(error).splitlines()[0]
    is_of_java = "JAVA_GATEWAY_EXITED" in str(error)
    needs = "; Spark needs Java 17 or newer, on the PATH or under JAVA_HOME" if is_of_java else ""
    return reason + needs
