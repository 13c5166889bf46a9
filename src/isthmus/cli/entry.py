"""Where the command `isthmus` begins: completion is answered before anything is loaded that takes time."""

from __future__ import annotations

import sys

from isthmus.cli import completion


def main() -> None:
    """What the command `isthmus` runs; ends the process with the command's exit code."""
    if completion.is_asked():
        answer, code = completion.complete()
        sys.stdout.write(answer)
        raise SystemExit(code)
    from isthmus.cli import app

    app.main()
