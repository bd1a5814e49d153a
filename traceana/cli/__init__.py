"""The command line: one small command each; a user's mistake is one line and exit status 2."""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import signal
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Final, NoReturn, get_type_hints

import typer
import typer.core

from traceana.cli.output import TYPED, ReaderGoneError, check_out, guard_streams
from traceana.errors import TraceanaError, ask_for_report

_TEXTS: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    files("traceana.cli").joinpath("options.toml").read_text(encoding="utf-8")
)
_WORDS: Final = ("help", "metavar", "name")
_COMMANDS: Final[dict[str, dict[str, str]]] = {
    "traceana": {
        "Data": "traces fetch ingest map tables sample anonymize export",
        "Results": "report summary figures compare reliability claims",
        "What-if": "simulate",
    },
    "simulate": {"Commands": "schedule place deadlines operations batching energy recurring"},
}
"""The commands of a group by heading."""


class _Command(typer.core.TyperCommand):
    """A command whose help names arguments without the types of Python."""

    def __init__(self, *given: Any, **options: Any) -> None:  # noqa: ANN401  as its base
        super().__init__(*given, **options)
        for each in self.params:
            if each.param_type_name == "argument":
                each.display_type_rich = lambda **_: None  # type: ignore[attr-defined]


class _Group(typer.core.TyperGroup):
    """Commands whose modules are imported when they are used."""

    def __init__(self, *given: Any, **options: Any) -> None:  # noqa: ANN401  as its base
        super().__init__(*given, **options)
        names = " ".join(_COMMANDS[str(self.name)].values()).split()
        self.commands = {**dict.fromkeys(names), **self.commands}  # type: ignore[dict-item]

    def make_context(self, *given: Any, **options: Any) -> Any:  # noqa: ANN401  as its base
        """Return the context of a command; a page names its words, the second argument."""
        typed = shlex.join(["traceana", *(options.get("args") or given[1])])
        context = super().make_context(*given, **options)
        context.meta[TYPED] = typed
        return context

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  as its base
        """Return a command, or None."""
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002  as its base
        """Write the commands under their headings."""
        for heading, names in _COMMANDS[str(self.name)].items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, _TEXTS[name]["help"].partition("\n")[0]) for name in names.split()]
                )


def _load(name: str) -> Any:  # noqa: ANN401  a command of typer
    """Return a command with the texts and names of options that ``options.toml`` states."""
    texts = _TEXTS["shared"] | _TEXTS[name]
    module = import_module(f"traceana.cli.{texts['module']}")
    function: Callable[..., None] = getattr(module, name)
    for parameter, kind in get_type_hints(function).items():
        if parameter not in texts:
            continue  # the context
        text = texts[parameter]
        words = [text] if isinstance(text, str) else text
        stated = dict(words if isinstance(words, dict) else zip(_WORDS, words, strict=False))
        info = typer.Argument if "argument" in stated else typer.Option
        stated["metavar"] = stated.pop("argument", stated.get("metavar"))
        if text is _TEXTS["shared"]["out"]:
            stated["callback"] = check_out
        if kind is bool:
            stated["name"] = f"--{parameter.replace('_', '-')}"
        names = [stated.pop("name")] if "name" in stated else []
        function.__annotations__[parameter] = Annotated[kind, info(*names, **stated)]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = f"Example: traceana {texts['example']}"
    alone.command(name, cls=_Command, help=texts["help"], epilog=epilog)(function)
    return typer.main.get_command(alone)


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
_simulate = typer.Typer(cls=_Group, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(_simulate, name="simulate", help=_TEXTS["simulate"]["help"])


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


@_simulate.callback()
def _group() -> None:
    pass


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
