"""Fetch a trace's files from their publisher or a mirror, each checked before it has its name."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from traceana.catalog.model import CatalogEntry, PublishedFile, get_trace
from traceana.errors import CatalogError

if TYPE_CHECKING:
    from rich.progress import Progress


_CHUNK: Final = 1 << 16
_PAGE: Final = 1 << 16
"""Bytes of what a server may send in place of a file, such as a pointer to it."""
_MOST_BYTES: Final = 1 << 30
"""Of a file whose size is not published."""
POINTERS: Final = {
    b"version https://git-lfs.github.com/spec/v1": ("Git LFS", "git lfs pull"),
    b"/annex/objects/": ("git-annex", "git annex get"),
}
"""First bytes of placeholder files: their tool, and the command that fetches the data."""
_PATIENCE_S: Final = 30.0
_SLOWEST: Final = 1024
_TLS_FAULT: Final = re.compile(r"\[SSL[^]]*\] (?:certificate verify failed: )?(.+?)\.? \(_ssl")
_log = logging.getLogger(__name__)


def fetch(trace: str, *, to: Path | str | None = None, mirror: Path | str | None = None) -> Path:
    """Fetch the files of a trace and verify their checksums.

    Files with the right checksum are kept. A download gets its published name only after its
    checksum was verified. All files are tried before problems are reported.

    Parameters
    ----------
    trace
        Id of the trace, as in :func:`list_traces`.
    to
        Folder for the files; None: one for the trace in the user's cache folder.
    mirror
        Folder or address (http, https, file) of the files under their published names, or of a
        folder named as the trace with them; None: the published addresses.

    Returns
    -------
    Path
        Folder with the files under their published names.

    Examples
    --------
    >>> import tempfile, traceana
    >>> from pathlib import Path
    >>> mirror = Path(tempfile.mkdtemp())
    >>> traceana.fetch("zeus-2022", to=mirror / "raw", mirror=mirror)
    Traceback (most recent call last):
    ...
    traceana.errors.CatalogError: no trace is called 'zeus-2022' (did you mean ...
    """
    import pooch  # noqa: PLC0415  it loads requests, which nothing but a download needs

    published = get_trace(trace)
    if not published.files:
        raise CatalogError(
            f"{trace}: its files have no published checksum; get them from {published.homepage} "
            "and run traceana ingest DIR"
        )
    folder = Path(pooch.os_cache("traceana")) / trace if to is None else Path(to)
    source = None if mirror is None else _read_mirror(mirror)
    if isinstance(source, Path) and os.path.realpath(folder) in (
        os.path.realpath(source),
        os.path.realpath(source / trace),
    ):
        raise CatalogError(f"{folder} is the mirror itself; name another folder to fetch to")
    problems: list[str] = []
    untried: list[str] = []
    silent: set[str] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in published.files:
            try:
                _fetch_file(file, published, folder, source, silent)
            except _SilentHostError:
                untried.append(file.name)
            except CatalogError as error:
                problems.append(f"{trace}: {error}")
    except OSError as error:
        # the folder or the disk is at fault, and the next file would fare no better
        problems.append(
            f"{trace}: cannot write to {folder}: {error.strerror or error}; "
            "mend that, or name another folder to fetch to"
        )
    if untried:
        problems.append(f"{trace}: not tried for the same reason: {', '.join(untried)}")
    if problems:
        raise CatalogError("\n".join(problems))
    return folder


class _SilentHostError(CatalogError):
    """A file was not requested, because its host had not answered before."""


def _read_mirror(mirror: Path | str) -> Path | str:
    """Return a local mirror as a folder, one on the network as its address without last slash."""
    address = str(mirror)
    try:
        parts = urlsplit(address)
        whole = parts.scheme not in ("http", "https") or (parts.hostname and parts.port != 0)
    except ValueError:
        whole = "://" not in address
    if not whole or ("://" in address and re.search(r"\s", address)):
        raise CatalogError(f"mirror {address}: not a valid address")
    if address.startswith(("http://", "https://")):
        return address.rstrip("/")
    if "://" in address and not address.startswith("file://"):
        raise CatalogError(f"mirror {address}: expected a folder or an http, https or file address")
    folder = Path(url2pathname(urlsplit(address).path) if "://" in address else mirror)
    if not folder.is_dir():
        raise CatalogError(f"mirror {address}: no such folder; name the one that holds the files")
    return folder


def _fetch_file(
    file: PublishedFile,
    trace: CatalogEntry,
    folder: Path,
    mirror: Path | str | None,
    silent: set[str],
) -> None:
    target = folder / file.name
    for leftover in folder.glob(f".{file.name}.*.part"):
        leftover.unlink()  # of a run that was killed
    if target.is_file() and find_fault(file, target) is None:
        _log.info("%s: already there, checksum right", file.name)
        return
    target.unlink(missing_ok=True)
    part = folder / f".{file.name}.{secrets.token_hex(4)}.part"
    places = [file.url]
    missing = f"{file.name} is not at {file.url}"
    if mirror is not None:
        places = [f"{mirror}/{file.name}", f"{mirror}/{trace.id}/{file.name}"]
        missing = f"{file.name} is neither in {mirror} nor in {mirror}/{trace.id}"
    try:
        for place in places:
            if isinstance(mirror, Path):
                copied = _copy(Path(place), part)
            else:
                copied = _download(place, part, file, silent)
            if copied:
                if fault := find_fault(file, part):
                    raise CatalogError(f"{file.name} at {place} is {fault}")
                part.replace(target)
                _log.info("%s: fetched, checksum right", file.name)
                return
    finally:
        part.unlink(missing_ok=True)
    if not file.optional:
        raise CatalogError(f"{missing}; name a mirror that has it")
    without = [
        table
        for content in trace.contents
        if file.name.startswith(content.csvs)
        for table in content.tables
    ]
    _log.warning("%s: %s; it is optional (table %s)", trace.id, missing, ", ".join(without))


def _copy(place: Path, part: Path) -> bool:
    if place.is_symlink() and not place.exists():
        raise CatalogError(
            f"{place} is a link to nothing (as git-annex leaves them); get its content first"
        )
    if not place.is_file():
        return False
    try:
        content = place.open("rb")
    except OSError as error:
        raise CatalogError(f"{place} cannot be read: {error.strerror}") from None
    with content, part.open("wb") as copy:
        shutil.copyfileobj(content, copy)
    return True


class _Bounded:
    """A file that takes no more than the published size, and not slower than by drops."""

    def __init__(self, stream: IO[bytes], most: int, progress: Progress, name: str) -> None:
        self._stream = stream
        self._most = most
        self._progress = progress
        self._task = progress.add_task(name, total=most)
        self._size = 0
        self.is_slow = False

    def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most + _PAGE:
            raise ValueError("it goes on after them")
        self._progress.update(self._task, advance=len(data))
        self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()

    def wait(self, worker: threading.Thread, answers: list[Any]) -> None:
        """Wait for a download; leave one that is too slow: timeouts are for each read alone."""
        began = time.monotonic()
        while worker.is_alive() and not self.is_slow:
            worker.join(_PATIENCE_S)
            slowest = _SLOWEST * (time.monotonic() - began)
            self.is_slow = worker.is_alive() and self._size + _CHUNK < slowest
        for answer in answers[-1:] if self.is_slow else ():
            with suppress(ValueError):  # a redirect, which has no connection any more
                answer.raw.shutdown()


def _download(url: str, part: Path, file: PublishedFile, silent: set[str]) -> bool:
    """Download a file; False where its server has none. A host that is silent is noted."""
    import pooch  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    host = urlsplit(url).netloc
    if host in silent:
        raise _SilentHostError(host)
    _log.info("requesting %s", url)
    answers: list[Any] = []  # requests' responses: the last one, and redirects before it

    def note(answer: Any, **_: object) -> None:  # noqa: ANN401  requests'
        answers.append(answer)
        if answer.is_redirect:  # else requests reads all of its body
            answer.close()

    shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    console = Console(stderr=True, force_terminal=shown, force_jupyter=False)
    progress = Progress(console=console, disable=not shown)
    download = pooch.HTTPDownloader(
        chunk_size=_CHUNK,
        headers={"Accept-Encoding": "identity"},  # the published bytes, not unpacked on the way
        hooks={"response": note},
    )
    faults: list[Exception] = []
    try:
        with progress, part.open("wb") as stream:
            copy = _Bounded(stream, file.bytes or _MOST_BYTES, progress, file.name)

            def run() -> None:
                try:
                    download(url, copy, None)
                except Exception as error:  # noqa: BLE001  raised below
                    faults.append(error)

            worker = threading.Thread(target=run, daemon=True)
            worker.start()
            copy.wait(worker, answers)
            if copy.is_slow:
                raise ConnectionError
            for error in faults:
                raise error
    except ValueError as error:
        fault = f"the answer is no file of its {file.bytes or _MOST_BYTES} bytes ({error})"
        raise CatalogError(f"{file.name} from {url}: {fault}; name a mirror") from None
    except OSError as error:  # requests' errors are OSErrors without a number
        if error.errno is not None:
            raise
        response = getattr(error, "response", None)
        if response is not None and response.status_code in {404, 410}:
            return False
        if not answers:
            silent.add(host)
        begun = bool(answers) and not answers[-1].is_redirect
        fault = _fault_of(error, file, copy, url, begun=begun)
        raise CatalogError(f"{file.name} from {url}: {fault}") from None
    finally:
        for answer in answers:
            answer.close()
    return True


def _fault_of(error: OSError, file: PublishedFile, copy: _Bounded, url: str, *, begun: bool) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code} {response.reason}; try later, or name a mirror"
    if not begun:
        asked = getattr(getattr(error, "request", None), "url", url)
        host = urlsplit(asked).netloc.rpartition("@")[2]
        moved = "" if host == urlsplit(url).netloc else "it was moved, and "
        why = type(error).__name__
        if tls := _TLS_FAULT.search(str(error)):
            return f"{moved}{host} has no valid TLS connection ({tls[1]}); name a mirror"
        return f"{moved}{host} does not answer ({why}); is there a network? Else name a mirror"
    if copy.is_slow:
        return f"it came slower than {_SLOWEST} bytes/s; try later, or name a mirror"
    size = "" if file.bytes is None else f" of its {file.bytes} bytes"
    return f"the connection broke before the end{size}; run it again"


def find_fault(file: PublishedFile, copy: Path, /) -> str | None:
    """Return in what a copy is not what was published, and what to do; None where it is."""
    size = copy.stat().st_size
    kind, expected, digest = "sha256", file.sha256, hashlib.sha256()
    if expected is None:
        kind, expected = "git blob", file.git_blob
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with copy.open("rb") as content:
        start = content.read(64)
        content.seek(0)
        actual = hashlib.file_digest(content, lambda: digest).hexdigest()
    for mark, (tool, remedy) in POINTERS.items():
        if start.startswith(mark):
            return (
                f"a {tool} pointer in place of the data; run `{remedy}` where it comes from, "
                "or name another mirror"
            )
    if actual == expected:
        return None
    published = "" if file.bytes is None else f" ({file.bytes} bytes)"
    page = ", an HTML page" if re.match(rb"\s*<(!doctype )?html", start, re.IGNORECASE) else ""
    return (
        f"not what was published: expected {kind} {expected}{published}, "
        f"found {actual} ({size} bytes{page}); fetch it again, or name another mirror"
    )
