"""How long tests wait for what is to happen: a sound product fails on no machine, however busy that is."""

from __future__ import annotations

from typing import Final

TERM_S: Final = 300.0
"""What passes never waits for it."""
