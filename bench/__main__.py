"""`python bench`: see `bench.command`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Started by its folder, whose name is the package's: its parent has to be searched, not itself.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from bench.command import main

    sys.exit(main())
