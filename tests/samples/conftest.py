"""Samples written once for all tests here."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.generator import write_sample

if TYPE_CHECKING:
    from pathlib import Path

_WRITE_AND_TELL = """
import sys
from pathlib import Path
from tests.generator import write_sample
write_sample(sys.argv[1], scale=0.05, traces="alibaba-pai-2020")
status = Path("/proc/self/status")
print(status.read_text() if status.exists() else "")
"""


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default sample."""
    return write_sample(tmp_path_factory.mktemp("default") / "sample")


@pytest.fixture(scope="session")
def larger_pai_and_peak(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int | None]:
    """Folder of a PAI sample of some 60,000 tasks, and the writing process's peak memory in KiB."""
    folder = tmp_path_factory.mktemp("larger")
    told = subprocess.run(
        [sys.executable, "-c", _WRITE_AND_TELL, str(folder)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    peak = re.search(r"VmHWM:\s+(\d+) kB", told)
    return folder / "alibaba-pai-2020", int(peak[1]) if peak else None


@pytest.fixture(scope="session")
def larger_pai(larger_pai_and_peak: tuple[Path, int | None]) -> Path:
    """Folder of a PAI sample of some 60,000 tasks."""
    return larger_pai_and_peak[0]
