"""The command, run in this process: its streams and exit status are those of a process."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import pytest

from traceana.cli import main


def run_command(*words: object, cwd: Path | None = None) -> CompletedProcess[str]:
    """Run ``traceana`` with these words, and restore what it sets for its process."""
    asked = ["traceana", *map(str, words)]
    streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with mock.patch.dict(os.environ), pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd or Path.cwd())
        patch.setattr(sys, "argv", asked)
        for name, stream in streams.items():
            patch.setattr(sys, name, io.TextIOWrapper(stream, "utf-8", write_through=True))
        with pytest.raises(SystemExit) as done:
            main()
        out, err = (stream.getvalue().decode() for stream in streams.values())
    for number, handler in handlers.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)
    return CompletedProcess(asked, int(done.value.code or 0), out, err)
