"""``python -m traceana``, and the command ``traceana``."""

import signal


def main() -> None:
    """Run the command line; an interrupt while it is imported ends the process in silence."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from traceana.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
