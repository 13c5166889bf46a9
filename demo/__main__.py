"""`make demo`: two clusters are started, filled, mirrored, disturbed and compared. Exit code 0 only if all is equal."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import typer

from isthmus.cli.endings import end_at_signals, told


def main() -> int:
    """Runs the demonstration; whatever ends it, nothing is left running."""
    end_at_signals()
    try:
        with told(), ExitStack() as stack:
            # Here and not above: loading pandas takes a second, in which Ctrl-C is to end as it does later.
            from demo.demonstration import perform

            return perform(stack)
    except typer.Exit as ending:
        return ending.exit_code


if __name__ == "__main__":
    sys.exit(main())
