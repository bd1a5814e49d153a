from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.catalog.conftest import BLOB_C, PUBLISHED, SHA256_A
from traceana.catalog import download, fetch
from traceana.catalog.model import CatalogEntry
from traceana.errors import CatalogError

if TYPE_CHECKING:
    from tests.catalog.conftest import Server

pytestmark = pytest.mark.usefixtures("planted")
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n"


def held(folder: Path) -> dict[str, bytes]:
    """All that a folder holds, hidden files too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def told(**asked: Path | str) -> list[str]:
    """The lines of the error that a fetch ends with."""
    with pytest.raises(CatalogError) as error:
        fetch("planted", **asked)
    return str(error.value).splitlines()


def without(*names: str) -> dict[str, bytes]:
    return {name: content for name, content in PUBLISHED.items() if name not in names}


# --- what works --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["folder", "text", "one level down", "file address"])
def test_local_mirror(tmp_path: Path, mirror: Path, place: str) -> None:
    source: Path | str = mirror
    if place == "text":
        source = str(mirror)
    elif place == "one level down":
        (tmp_path / "all").mkdir()
        mirror.rename(tmp_path / "all" / "planted")
        source = tmp_path / "all"
    elif place == "file address":
        source = mirror.as_uri()
    folder = fetch("planted", to=tmp_path / "new" / "to", mirror=source)
    assert folder == tmp_path / "new" / "to"
    assert held(folder) == PUBLISHED


@pytest.mark.parametrize("path", ["", "/deep", "/deep/planted"])
def test_mirror_on_the_network(tmp_path: Path, server: Server, path: str) -> None:
    server.files = {f"{path}/{name}": content for name, content in PUBLISHED.items()}
    asked = server.address + path.removesuffix("/planted") + "/"
    assert held(fetch("planted", to=tmp_path / "to", mirror=asked)) == PUBLISHED


def test_publisher_is_asked_where_no_mirror_is_named(tmp_path: Path, server: Server) -> None:
    server.files = {f"/published/{name}": content for name, content in PUBLISHED.items()}
    assert held(fetch("planted", to=str(tmp_path / "to"))) == PUBLISHED
    assert server.asked == list(server.files)


def test_a_download_shows_its_progress_in_notebooks(
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    fetch("planted", to=tmp_path / "silent", mirror=server.address)
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    fetch("planted", to=tmp_path / "to", mirror=server.address)
    shown = capsys.readouterr().err
    assert "100%" in shown
    assert all(name in shown for name in PUBLISHED)


def test_default_place_is_the_users_cache(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    assert fetch("planted", mirror=mirror) == tmp_path / "cache" / "traceana" / "planted"


def _written(path: Path) -> tuple[int, int]:
    """Which file a path names and when it was written, in ns; reading changes neither."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def test_right_file_is_kept_and_wrong_one_fetched_anew(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    folder = fetch("planted", to=tmp_path / "to", mirror=server.address)
    (folder / "b.csv").write_bytes(b"hello w0rld\n")
    (folder / "c.csv.xz").write_bytes(b"truncat")
    before = _written(folder / "a.csv")
    server.asked.clear()
    fetch("planted", to=folder, mirror=server.address)
    assert server.asked == ["/b.csv", "/c.csv.xz"]
    assert held(folder) == PUBLISHED
    assert _written(folder / "a.csv") == before
    server.asked.clear()
    fetch("planted", to=folder, mirror=server.address)
    assert server.asked == []


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path, mirror: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    fetch("planted", to=tmp_path, mirror=mirror)
    assert (tmp_path / "notes.txt").read_text() == "mine"


# --- what is not what was published ------------------------------------------------------------


@pytest.mark.parametrize("over_network", [False, True])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"abd", [f"expected sha256 {SHA256_A} (3 bytes)", "found a52d159f", "(3 bytes)"]),
        (b"ab", [f"expected sha256 {SHA256_A} (3 bytes)", "(2 bytes)"]),
        (b"", [f"expected sha256 {SHA256_A} (3 bytes)", "(0 bytes)"]),
        (LFS_POINTER, ["Git LFS pointer", "git lfs pull"]),
        (b"/annex/objects/SHA256E-s3--ab.csv\n", ["git-annex pointer", "git annex get"]),
    ],
)
def test_damaged_file_is_one_line_and_the_rest_is_fetched(
    tmp_path: Path,
    mirror: Path,
    server: Server,
    *,
    content: bytes,
    expected: list[str],
    over_network: bool,
) -> None:
    (mirror / "a.csv").write_bytes(content)
    server.files = {f"/{name}": data for name, data in held(mirror).items()}
    source = server.address if over_network else str(mirror)
    (line,) = told(to=tmp_path / "to", mirror=source)
    assert line.startswith(f"planted: a.csv at {source}/a.csv is ")
    assert "name another mirror" in line
    assert [part for part in expected if part not in line] == []
    assert held(tmp_path / "to") == without("a.csv")


def test_wrong_file_does_not_stay_under_the_published_name(tmp_path: Path, mirror: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (to / "a.csv").write_bytes(b"old and wrong")
    (mirror / "a.csv").write_bytes(b"new and wrong")
    told(to=to, mirror=mirror)
    assert held(to) == without("a.csv")


def test_file_known_by_its_git_blob_is_checked_too(tmp_path: Path, mirror: Path) -> None:
    (mirror / "c.csv.xz").write_bytes(b"hello w0rld\n")
    (line,) = told(to=tmp_path / "to", mirror=mirror)
    assert f"expected git blob {BLOB_C}, found " in line
    assert held(tmp_path / "to") == without("c.csv.xz")


def test_every_problem_has_its_line(tmp_path: Path, mirror: Path) -> None:
    (mirror / "a.csv").unlink()
    (mirror / "b.csv").write_bytes(LFS_POINTER)
    first, second = told(to=tmp_path / "to", mirror=mirror)
    assert first.startswith("planted: a.csv is neither in")
    assert second.startswith("planted: b.csv at")
    assert held(tmp_path / "to") == without("a.csv", "b.csv")


STATE = st.sampled_from(["absent", "right", "wrong"])


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(there=st.fixed_dictionaries(dict.fromkeys(PUBLISHED, STATE)), data=st.data())
def test_whatever_stands_under_a_published_name_is_what_was_published(
    tmp_path: Path, there: dict[str, str], data: st.DataObject
) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    offered = data.draw(st.fixed_dictionaries(dict.fromkeys(PUBLISHED, STATE)))
    for folder, states in ((root / "to", there), (root / "mirror", offered)):
        folder.mkdir()
        for name, state in states.items():
            right = PUBLISHED[name]
            if state == "right":
                (folder / name).write_bytes(right)
            elif state == "wrong":
                wrong = data.draw(st.binary(max_size=20).filter(right.__ne__))
                (folder / name).write_bytes(wrong)
    can_be_had = {name for name in PUBLISHED if "right" in (there[name], offered[name])}
    # the optional file may be absent, but not wrong
    bad = {name for name in PUBLISHED if name not in can_be_had}
    bad -= {"c.csv.xz"} if offered["c.csv.xz"] == "absent" else set()
    if bad:
        lines = told(to=root / "to", mirror=root / "mirror")
        assert len(lines) == len(bad)
    else:
        fetch("planted", to=root / "to", mirror=root / "mirror")
    assert held(root / "to") == {name: PUBLISHED[name] for name in can_be_had}


# --- what is missing ---------------------------------------------------------------------------


def test_missing_file_is_named_with_where_it_was_looked_for(tmp_path: Path, mirror: Path) -> None:
    (mirror / "b.csv").unlink()
    (line,) = told(to=tmp_path / "to", mirror=mirror)
    assert f"b.csv is neither in {mirror} nor in {mirror}/planted" in line
    assert "name a mirror that has it" in line


def test_file_that_the_publisher_lacks_is_named_with_its_address(
    tmp_path: Path, server: Server
) -> None:
    server.files = {f"/published/{name}": content for name, content in without("a.csv").items()}
    (line,) = told(to=tmp_path / "to")
    assert line.startswith(f"planted: a.csv is not at {server.address}/published/a.csv;")


@pytest.mark.parametrize("over_network", [False, True])
def test_missing_optional_file_is_said_and_no_error(
    tmp_path: Path,
    mirror: Path,
    server: Server,
    caplog: pytest.LogCaptureFixture,
    over_network: bool,
) -> None:
    (mirror / "c.csv.xz").unlink()
    server.files = {f"/{name}": data for name, data in held(mirror).items()}
    folder = fetch("planted", to=tmp_path / "to", mirror=server.address if over_network else mirror)
    assert held(folder) == without("c.csv.xz")
    (note,) = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert "c.csv.xz is neither in" in note
    assert "optional (table table_c)" in note


def test_link_to_nothing_is_told_from_a_missing_file(tmp_path: Path, mirror: Path) -> None:
    (mirror / "a.csv").unlink()
    (mirror / "a.csv").symlink_to(".git/annex/objects/x/y/SHA256E-s3--ab.csv")
    (line,) = told(to=tmp_path / "to", mirror=mirror)
    assert "is a link to nothing" in line
    assert "git-annex" in line


# --- networks and disks ------------------------------------------------------------------------


def test_connection_that_breaks_leaves_nothing(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    server.closes_early = {"/b.csv"}
    (line,) = told(to=tmp_path / "to", mirror=server.address)
    assert "b.csv" in line
    assert "the connection broke before the end of its 12 bytes; run it again" in line
    assert held(tmp_path / "to") == without("b.csv")
    server.closes_early.clear()
    assert held(fetch("planted", to=tmp_path / "to", mirror=server.address)) == PUBLISHED


def test_file_cut_without_a_word_is_found_by_its_checksum(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    server.says_no_length = {"/b.csv"}
    (line,) = told(to=tmp_path / "to", mirror=server.address)
    assert "(12 bytes), found " in line
    assert "(11 bytes)" in line
    assert held(tmp_path / "to") == without("b.csv")


@pytest.mark.parametrize(
    "case",
    [
        ("endless", r"the answer is no file of its 12 bytes \(it goes on after them\)"),
        ("a bomb", "it goes on after them"),
        ("drip", "slower than 100000 bytes/s"),
        ("length abc", "the answer is no file of its 12 bytes"),
        ("length -5", ""),
        ("length 99999999999999999999999", "the connection broke before the end"),
        ("redirects for ever", "HTTP 302 Found; try later"),
        ("to file:///etc/passwd", "file:///etc/passwd"),
        ("to http://[", "b.csv from"),
        ("to http://me:secret@127.0.0.1:1/b", "moved, and 127.0.0.1:1 does not answer"),
        ("a page", r"found .* \(30 bytes, an HTML page\)"),
    ],
)
def test_server_that_lies_costs_one_line_and_little_disk(
    tmp_path: Path,
    server: Server,
    planted: CatalogEntry,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str],
) -> None:
    lie, said = case
    monkeypatch.setattr(download, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(download, "_SLOWEST", 100_000)
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    server.lies = {"/b.csv": lie}
    if lie == "drip":
        monkeypatch.setattr(download, "_CHUNK", 1 << 14)
        files = tuple(replace(one, bytes=1 << 20) for one in planted.files)
        monkeypatch.setattr(download, "get_trace", lambda _: replace(planted, files=files))
    if lie == "length -5":  # as if there were none
        assert held(fetch("planted", to=tmp_path / "to", mirror=server.address)) == PUBLISHED
        return
    (line,) = told(to=tmp_path / "to", mirror=server.address)
    assert re.search(said, line)
    assert held(tmp_path / "to") == without("b.csv")


def test_the_body_of_a_redirect_is_not_read(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    server.files["/b"] = PUBLISHED["b.csv"]
    server.lies = {"/b.csv": "endless to /b"}
    assert held(fetch("planted", to=tmp_path / "to", mirror=server.address)) == PUBLISHED


def test_a_server_that_never_ends_its_headers_is_left(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(download, "_CHUNK", 1 << 8)
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    server.lies = {"/a.csv": "no headers"}
    first, second = told(to=tmp_path / "to", mirror=server.address)
    assert first.endswith(
        "does not answer (ConnectionError); is there a network? Else name a mirror"
    )
    assert second == "planted: not tried for the same reason: b.csv, c.csv.xz"
    assert not held(tmp_path / "to")


def test_servers_refusal_is_one_line(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{name}": content for name, content in PUBLISHED.items()}
    server.status = {"/a.csv": 503}
    (line,) = told(to=tmp_path / "to", mirror=server.address)
    assert f"a.csv from {server.address}/a.csv: HTTP 503 Service Unavailable" in line
    assert held(tmp_path / "to") == without("a.csv")


@pytest.mark.parametrize(
    ("certificate", "fault"),
    [
        ("none", "wrong version number"),
        ("of nobody", "self-signed certificate"),
        ("of another host", r"IP address mismatch, certificate is not valid for '127\.0\.0\.1'"),
    ],
)
def test_a_certificate_at_fault_is_one_line(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, certificate: str, fault: str
) -> None:
    address = server.address.replace("http:", "https:")
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as secured:
        if certificate != "none":
            if shutil.which("openssl") is None:
                pytest.skip("needs openssl")
            key, made = str(tmp_path / "key"), str(tmp_path / "made")
            command = [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                "/CN=elsewhere.example",
            ]
            subprocess.run(
                [*command, "-keyout", key, "-out", made], check=True, capture_output=True
            )
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(made, key)
            secured.socket = context.wrap_socket(secured.socket, server_side=True)
            address = f"https://127.0.0.1:{secured.server_address[1]}"
            if certificate == "of another host":
                monkeypatch.setenv("REQUESTS_CA_BUNDLE", made)
        thread = threading.Thread(target=secured.serve_forever, args=(0.01,))
        thread.start()
        line, others = told(to=tmp_path / "to", mirror=address)
        secured.shutdown()
        thread.join()
    assert re.search(rf"has no valid TLS connection \({fault}\); name a mirror$", line)
    assert others.startswith("planted: not tried for the same reason")
    assert not held(tmp_path / "to")


def test_host_that_does_not_answer_is_tried_once(tmp_path: Path) -> None:
    lines = told(to=tmp_path / "to", mirror="http://127.0.0.1:1")
    assert "127.0.0.1:1 does not answer (ConnectionError); is there a network?" in lines[0]
    assert lines[1:] == ["planted: not tried for the same reason: b.csv, c.csv.xz"]
    assert held(tmp_path / "to") == {}


def test_part_of_a_killed_run_is_not_resumed(tmp_path: Path, mirror: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (to / ".b.csv.0badcafe.part").write_bytes(b"hello ")
    fetch("planted", to=to, mirror=mirror)
    assert held(to) == PUBLISHED


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_disk_that_cannot_be_written_is_one_line(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    def fail(_source: object, copy: object) -> None:
        copy.write(b"he")  # type: ignore[attr-defined]
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(shutil, "copyfileobj", fail)
    (line,) = told(to=tmp_path / "to", mirror=mirror)
    assert line.startswith(f"planted: cannot write to {tmp_path / 'to'}: {os.strerror(fault)};")
    assert held(tmp_path / "to") == {}


def test_place_that_is_a_file_is_one_line(tmp_path: Path, mirror: Path) -> None:
    (tmp_path / "to").write_text("mine")
    (line,) = told(to=tmp_path / "to", mirror=mirror)
    assert "cannot write to" in line
    assert "name another folder" in line
    assert (tmp_path / "to").read_text() == "mine"


# --- mirrors that are none ---------------------------------------------------------------------


@pytest.mark.parametrize("mirror", ["ftp://host/x", "s3://bucket", "nowhere", "file:///nowhere"])
def test_mirror_that_is_none_is_one_line(tmp_path: Path, mirror: str) -> None:
    (line,) = told(to=tmp_path / "to", mirror=mirror)
    assert line.startswith(f"mirror {mirror}: ")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("named", [".", ".."])
def test_mirror_is_never_written_to(tmp_path: Path, named: str) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"damaged, and the only copy")
    (line,) = told(to=folder, mirror=folder / named)
    assert "is the mirror itself" in line
    assert held(folder) == {"a.csv": b"damaged, and the only copy"}


# --- killed ------------------------------------------------------------------------------------


def test_killed_download_leaves_nothing_under_the_final_name(
    tmp_path: Path, server: Server
) -> None:
    server.files = {"/raw-traces.tar.gz": PUBLISHED["b.csv"] * 2**16}
    server.stalls = threading.Event()
    to = tmp_path / "to"
    run = "from traceana.cli import main; main()"
    asked = ["fetch", "microsoft-itp-2021", "--to", str(to), "--mirror", server.address]
    with subprocess.Popen(
        [sys.executable, "-c", run, *asked], stderr=subprocess.DEVNULL
    ) as running:
        parts: list[Path] = []
        while not parts and running.poll() is None:
            time.sleep(0.02)
            parts = [part for part in to.glob(".*.part") if part.stat().st_size]
        running.kill()
    assert [path.name for path in to.iterdir()] == [part.name for part in parts]
    assert len(parts) == 1
    assert parts[0].stat().st_size < 12 * 2**16
