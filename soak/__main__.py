"""`python -m soak`: see `soak.command`."""

from __future__ import annotations

import sys

from soak.command import main

if __name__ == "__main__":
    sys.exit(main())
