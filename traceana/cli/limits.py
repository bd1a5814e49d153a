"""What a report is limited to, and whether it names anyone: a store made for one command."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

SinceOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only jobs submitted since this date or time."),
]
UntilOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only jobs submitted before this date or time.")
]
WhereOption = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Only jobs of this condition: \"queue = 'gpu'\"."),
]
AnonymizeOption = Annotated[
    bool,
    typer.Option("--anonymize", help="Replace names of users, jobs and machines by digests."),
]


@contextmanager
def limited_store(
    store: Path | None,
    *,
    since: str | None,
    until: str | None,
    where: str | None,
    anonymize: bool,
) -> Iterator[Path | None]:
    """Give the store, or one for this command with some of the jobs, or without names.

    Tables of traces without jobs stay as they are; public traces need not be anonymized.
    """
    from traceana.exchange import anonymize as anonymize_trace
    from traceana.exchange import select_jobs
    from traceana.store import open_store

    limits = {"since": since, "until": until, "where": where}
    is_limited = any(value is not None for value in limits.values())
    if not (is_limited or anonymize):
        yield store
        return
    with TemporaryDirectory(prefix="traceana-") as scratch:
        source = open_store(store)
        for step, wanted in (("limited", is_limited), ("anonymized", anonymize)):
            target = Path(scratch) / step
            for trace in source.traces() if wanted else ():
                manifest = source.manifest(trace)
                if step == "limited" and manifest.has("jobs"):
                    select_jobs(trace, store=source.path, out=target, **limits)
                elif step == "anonymized" and manifest.source != "catalog":
                    anonymize_trace(trace, store=source.path, out=target)
                else:
                    target.mkdir(exist_ok=True)
                    (target / trace).symlink_to((source.path / trace).resolve())
            source = open_store(target) if wanted else source
        yield source.path
