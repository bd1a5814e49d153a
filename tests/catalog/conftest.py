"""A small planted trace, and a server on this machine that misbehaves as it is told."""

from __future__ import annotations

import gzip
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from traceana.catalog.model import CatalogEntry, Content, PublishedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PUBLISHED = {"a.csv": b"abc", "b.csv": b"hello world\n", "c.csv.xz": b"hello world\n"}
# known from elsewhere: FIPS 180-2's example, and `git hash-object` and `sha256sum` of a greeting
SHA256_A = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
SHA256_B = "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447"
BLOB_C = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"


@dataclass
class Server:
    """What a server holds and how it answers; it writes down what was asked for."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    closes_early: set[str] = field(default_factory=set)
    says_no_length: set[str] = field(default_factory=set)
    lies: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    stalls: threading.Event | None = None
    over: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path
            told.asked.append(path)
            content = told.files.get(path)
            if content is None or path in told.status:
                self.send_error(told.status.get(path, 404))
                return
            if lie := told.lies.get(path):
                self.lie(lie, content)
                return
            self.send_response(200)
            if path not in told.says_no_length:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if path in told.closes_early or path in told.says_no_length:
                content = content[:-1]
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            if told.stalls is not None:
                told.stalls.wait(600)
            self.wfile.write(content[len(content) // 2 :])

        def lie(self, lie: str, content: bytes) -> None:
            while lie == "no headers" and not told.over.wait(0.02):
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            loop, (before, moved, place) = lie == "redirects for ever", lie.rpartition("to ")
            self.send_response(302 if loop or moved else 200)
            if loop or moved:
                self.send_header("Location", self.path if loop else place)
            if lie.startswith("length "):
                self.send_header("Content-Length", lie.removeprefix("length "))
            if lie == "a bomb":
                self.send_header("Content-Encoding", "gzip")
                content = gzip.compress(bytes(1 << 22))
            if lie == "a page":
                content = b"\n<!DOCTYPE html><html></html>\n"
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)
                while lie in ("endless", "drip") or before == "endless ":
                    self.wfile.write(b"x" if lie == "drip" else bytes(1 << 16))
                    time.sleep(0.01 if lie == "drip" else 0)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        told.address = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield told
        told.over.set()
        if told.stalls is not None:
            told.stalls.set()
        listening.shutdown()
        thread.join()


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, server: Server) -> CatalogEntry:
    """A trace of three files, the last optional, published by the server under /published."""
    files = tuple(
        PublishedFile(
            name=name,
            url=f"{server.address}/published/{name}",
            sha256=sha256,
            git_blob=blob,
            bytes=size,
            optional=optional,
        )
        for name, sha256, blob, size, optional in (
            ("a.csv", SHA256_A, None, 3, False),
            ("b.csv", SHA256_B, None, 12, False),
            ("c.csv.xz", None, BLOB_C, None, True),
        )
    )
    contents = tuple(
        Content(
            name=table,
            csvs=(f"{table}.csv",),
            pattern=rf"{table}\.csv",
            columns=("x",),
            header=True,
            tables=(f"table_{table}",),
            not_applicable=(),
        )
        for table in "abc"
    )
    trace = CatalogEntry(
        id="planted",
        title="Planted",
        description="A planted trace.",
        tables=("table_a", "table_b", "table_c"),
        rows={},
        license="none",
        citation="none",
        homepage="none",
        revision="none",
        notes=(),
        files=files,
        contents=contents,
        text="",
    )
    monkeypatch.setattr("traceana.catalog.download.get_trace", lambda _: trace)
    return trace


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A local mirror that holds all that was published."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, content in PUBLISHED.items():
        (folder / name).write_bytes(content)
    return folder
