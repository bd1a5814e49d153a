"""Small files in the publishers' formats, with made-up numbers whose sums are known."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

WORKERS, TICKS = 3, 5
Write = Callable[[str, bytes | str], Path]


def tar_gz(path: Path, members: dict[str, bytes]) -> Path:
    """Write a .tar.gz with the given members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def worker_times(rows: list[str] | None = None) -> bytes:
    """A job file of 3 workers and 5 ticks; worker w at tick t takes 100 + 10 w + t."""
    lines = rows if rows is not None else worker_rows()
    return ("\n".join([",worker,gpu,time,batch_time_norm", *lines]) + "\n").encode()


def worker_rows() -> list[str]:
    return [
        f"{tick * WORKERS + worker},{worker},25,{10 * tick + 1},{100 + 10 * worker + tick}"
        for tick in range(TICKS)
        for worker in range(WORKERS)
    ]


def itp_csv(cluster: int) -> bytes:
    """Three jobs; as published, the last line has no end."""
    rows = [f"c{cluster}-job{i},{100 * i},{600 + i},{2**i}" for i in range(3)]
    return "\n".join(["job_id,submission_time,duration,num_gpu", *rows]).encode()


def itp_archive(folder: Path) -> Path:
    return tar_gz(
        folder / "raw-traces.tar.gz", {f"cluster{i:02d}.csv": itp_csv(i) for i in range(1, 11)}
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes | str], Path]:
    """Write a file below a folder of the test's own and return that folder."""

    def write_one(name: str, content: bytes | str) -> Path:
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / "files"

    return write_one
