"""Whether a file is what its publisher published."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.catalog.model import PublishedFile

POINTERS: Final = {
    b"version https://git-lfs.github.com/spec/v1": ("Git LFS", "git lfs pull"),
    b"/annex/objects/": ("git-annex", "git annex get"),
}
"""First bytes of placeholder files: their tool, and the command that fetches the data."""


def find_fault(file: PublishedFile, copy: Path, /) -> str | None:
    """Say in what a copy is not what was published, and what to do; None where it is."""
    with copy.open("rb") as content:
        start = content.read(64)
    for mark, (kind, remedy) in POINTERS.items():
        if start.startswith(mark):
            return (
                f"a {kind} pointer in place of the data; run `{remedy}` where it comes from, "
                "or name another mirror"
            )
    if file.sha256 is not None:
        import pooch  # noqa: PLC0415  it loads requests, which nothing but a download needs

        kind, expected, digest = "sha256", file.sha256, pooch.file_hash(str(copy))
    else:
        kind, expected, digest = "git blob", str(file.git_blob), _hash_git_blob(copy)
    if digest == expected:
        return None
    size = "" if file.bytes is None else f" ({file.bytes} bytes)"
    return (
        f"not what was published: expected {kind} {expected}{size}, "
        f"found {digest} ({copy.stat().st_size} bytes); fetch it again, or name another mirror"
    )


def _hash_git_blob(path: Path) -> str:
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()
