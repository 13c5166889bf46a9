"""Ends of transactions that come too late: row 40."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from soak.faults.catalogue import Told, fault
from soak.network import Aim
from soak.scene import Scene

_END_TXN, _WRITE_MARKERS, _TXN_COMMIT = 26, 27, 28
_ENDS: Final = frozenset({_END_TXN, _WRITE_MARKERS, _TXN_COMMIT})


@fault(40, "target network", lasts_s=(10.0, 25.0))
def target_ends_held_up(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """What ends the mirror's transactions arrives when its answer is waited for no more."""
    hold_s = chance.uniform(5.0, 40.0)
    aims = [Aim(apis=_ENDS, chance=0.5, hold_s=hold_s) for _ in scene.target.networks]
    with ExitStack() as stack:
        for network, aim in zip(scene.target.networks, aims, strict=True):
            stack.enter_context(network.aimed(aim))
        yield {"held s": round(hold_s, 1)}
