"""`python -m soak.gateway`."""

from __future__ import annotations

import sys

from soak.gateway.command import main

sys.exit(main())
