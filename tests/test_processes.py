"""Processes that work beside another one."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import as_completed
from pathlib import Path
from time import monotonic, sleep

import pytest

from traceana.processes import start_processes

_SCRIPT = """
import os, sys, time
from pathlib import Path
from traceana.processes import start_processes

def work():
    (Path(sys.argv[1]) / "pid").write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    with start_processes(1) as pool:
        pool.submit(work).result()
"""


def _fail() -> None:
    raise ValueError("no work")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    with subprocess.Popen(command) as parent:
        pid = tmp_path / "pid"
        until = monotonic() + 120
        while not (pid.exists() and pid.read_text()) and monotonic() < until:
            sleep(0.1)
        worker = Path(f"/proc/{pid.read_text()}")
        assert worker.exists()
        parent.kill()
    while worker.exists() and monotonic() < until:
        sleep(0.1)
    assert not worker.exists()


def test_an_error_ends_them() -> None:
    began = monotonic()
    with pytest.raises(ValueError, match="no work"), start_processes(2) as pool:
        next(as_completed([pool.submit(sleep, 600), pool.submit(_fail)])).result()
    assert monotonic() - began < 300
