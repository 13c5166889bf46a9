"""`make demo`, `make demo-recovery` and `make demo-tree`: exit code 0 only if all that is shown is also proven."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import typer

from isthmus.cli.endings import end_at_signals, report_errors


def main(story: str = "") -> int:
    """Runs a demonstration; whatever ends it, nothing is left running."""
    end_at_signals()
    try:
        with report_errors(), ExitStack() as stack:
            # Here and not above: loading pandas takes a second, in which Ctrl-C is to end as it does later.
            if story == "recovery":
                from demo.recovery.story import perform as recover

                return recover(stack)
            if story == "tree":
                from demo.tree.story import perform as distribute

                return distribute(stack)
            from demo.demonstration import perform

            return perform(stack, with_console=story == "--console")
    except typer.Exit as ending:
        return ending.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
