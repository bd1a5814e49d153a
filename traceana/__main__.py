"""``python -m traceana``, and the command ``traceana``."""

import gc
import signal

# the search for garbage takes a tenth of the time of a report, most of it while libraries load;
# spawned processes run this module too
gc.set_threshold(100_000, 50, 100)


def main() -> None:
    """Run the command line; an interrupt while it is imported ends the process in silence."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from traceana.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
