"""Clients of gateways that move to another cluster (pure values)."""

from __future__ import annotations

import enum
from typing import Literal

Clients = Literal["move", "force", "leave"]
"""How to treat clients of gateways: they move with the topics; they move in spite of all obstacles; or they stay."""


class MoveStep(enum.StrEnum):
    """The steps that gateways take for clients that move."""

    FENCE = "fence"
    """Accept no more requests, and wait for all answers, for as long as the process that moves the clients is heard."""
    OFF = "off"
    """Continue at the cluster where they were."""
    SERVE = "serve"
    """Serve clients from the other cluster."""
