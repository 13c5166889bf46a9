"""Clients of gateways that move to another cluster (pure values)."""

from __future__ import annotations

import enum
from typing import Literal

Clients = Literal["move", "force", "leave"]
"""What becomes of clients of gateways: they go with the topics; they do whatever speaks against it; or they stay."""


class MoveStep(enum.StrEnum):
    """What gateways are to do for clients that move."""

    FENCE = "fence"
    """Take no more requests, and have all answers come, for as long as whoever moves them is heard."""
    OFF = "off"
    """Go on at the cluster where they were."""
    SERVE = "serve"
    """Serve clients from the other cluster."""
