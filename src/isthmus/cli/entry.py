"""The entry of the command `isthmus`: completion is answered before any slow import."""

from __future__ import annotations

import gc
import sys

from isthmus.cli import completion


def main() -> None:
    """Run the command `isthmus`; end the process with the command's exit code."""
    if completion.is_asked():
        answer, code = completion.complete()
        sys.stdout.write(answer)
        raise SystemExit(code)
    # The garbage collector would go through all that is loaded again and again, and once more at the end: a third of
    # the processor time of a command. It works again once the command is loaded.
    gc.disable()
    try:
        from isthmus.cli import app

        app.main()
    finally:
        gc.freeze()
