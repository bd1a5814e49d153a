"""The command line: one small command each; a user's mistake is one line and exit status 2."""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, Final, NoReturn

import typer
import typer.core

from traceana.cli import claims, compare, figures, ingest, reliability, report, simulate, stores
from traceana.cli.options import TYPED, Command, described
from traceana.cli.output import ReaderGoneError, guard_streams
from traceana.errors import TraceanaError, ask_for_report


class _Group(typer.core.TyperGroup):
    """Keeps the words of the command, which a page names for its reproduction."""

    def make_context(self, *given: Any, **options: Any) -> Any:  # noqa: ANN401  as its base
        """Return the context of a command, whose words are the second argument."""
        typed = shlex.join(["traceana", *(options.get("args") or given[1])])
        context = super().make_context(*given, **options)
        context.meta[TYPED] = typed
        return context

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  as its base
        """Write the commands in groups."""
        grouped = {name for names in _GROUPS.values() for name in names}
        rest = {"What-if": [name for name in self.list_commands(ctx) if name not in grouped]}
        for heading, names in {**_GROUPS, **rest}.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(formatter.width))
                        for name in names
                        if (command := self.get_command(ctx, name)) is not None
                    ]
                )


app = typer.Typer(
    cls=_Group,
    name="traceana",
    help="Statistical analysis of machine-learning cluster traces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"traceana {version('traceana')}\n")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


_GROUPS: Final[dict[str, dict[str, tuple[Callable[..., None], str]]]] = {
    "Data": {
        "traces": (stores.traces, "traces"),
        "fetch": (stores.fetch, "fetch TRACE --to files"),
        "ingest": (ingest.ingest, "ingest files --store data"),
        "map": (ingest.map_file, "map jobs.csv --out mapping.toml"),
        "tables": (stores.tables, "tables --store data"),
        "sample": (stores.sample, "sample files"),
        "anonymize": (stores.anonymize, "anonymize TRACE --out shared"),
        "export": (stores.export, "export TRACE --out files --format csv"),
    },
    "Results": {
        "report": (report.report, "report sacct.txt --out report"),
        "summary": (report.summary, "summary sacct.txt"),
        "figures": (figures.figures, "figures concentration --out figures"),
        "compare": (compare.compare, "compare TRACE --split 2026-05-01"),
        "reliability": (reliability.reliability, "reliability TRACE --machines 128"),
        "claims": (claims.claims, "claims --verdict differs"),
    },
}
for _commands in _GROUPS.values():
    for _name, (_command, _example) in _commands.items():
        app.command(_name, cls=Command, epilog=f"Example: traceana {_example}")(
            described(_command, _name)
        )
app.add_typer(simulate.app, name="simulate")


def main() -> None:
    """Run the command line."""
    guard_streams()
    # products of vectors are small here, and threads that wait for them use a core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # memory that Polars frees is used again, within 2 s: page faults are a sixth of the time else
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:2000,muzzy_decay_ms:0")
    atexit.register(gc.freeze)  # garbage is not searched for at the end, where all is released
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP, and nohup ignores it
        if number and signal.getsignal(number) is signal.SIG_DFL:
            # in order: processes are ended and temporary folders deleted
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        try:
            if "SOURCE_DATE_EPOCH" in os.environ:  # numpy reads it too
                from traceana.page.section import read_date

                read_date()
            app()
        finally:
            sys.stdout.flush()
    except ReaderGoneError:  # as head does: nothing is wrong
        raise SystemExit(0) from None
    except KeyboardInterrupt:  # while typer reads the commands
        raise SystemExit(130) from None
    except TraceanaError as error:
        _fail(str(error))
    except OSError as error:  # a path that no command looks at, such as one that is too long
        _fail(f"{error.filename or 'error'}: {error.strerror or error}")
    except BaseException as error:  # a panic of Polars is no Exception
        _fail_of_engine(error)
        if not isinstance(error, Exception) or sys.flags.dev_mode:
            raise
        words = ask_for_report(f"command {' '.join(sys.argv[1:2])}", error)
        _fail(f"the command could not be completed. {words}", status=1)


def _fail_of_engine(error: BaseException) -> None:
    """End with one line for an error of Polars, or without memory or threads."""
    kind, reason = type(error), (str(error).splitlines() or ["MemoryError"])[0]
    if kind.__module__.startswith("polars."):
        _fail(f"a table of the store cannot be read ({reason}); ingest its files again")
    panicked = kind.__name__ == "PanicException"
    if panicked or isinstance(error, MemoryError) or "can't start new thread" in reason:
        _fail(f"out of memory or threads, or a fault of Polars ({reason}); raise the limits")


def _fail(message: str, status: int = 2) -> NoReturn:
    with suppress(ReaderGoneError, TraceanaError):
        sys.stderr.write(f"traceana: {message}\n")
    raise SystemExit(status)
