"""All faults there are, and how one is written down: what it does before `yield`, and what undoes it after."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from soak.scene import Setting

Told = Mapping[str, Any]
Act = Callable[[Any, random.Random], Iterator[Told]]
"""Done to a `Scene`, or to a `Grove` where it is for trees; to any `Setting` where it is for both."""
MIRRORS: Final = frozenset({"isthmus", "mm2", "mm2-eos"})
ISTHMUS: Final = frozenset({"isthmus"})
TREE: Final = frozenset({"tree"})
CONTENDERS: Final = MIRRORS | TREE


class NotNow(Exception):
    """A fault cannot be done as things are; it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that can be done. `row` is its number in the list of docs/reliability.md.

    It lasts `lasts_s` seconds, from one to the other. Two faults with a claim in common are not done at once. `mirrors`
    are whom it can be done to.
    """

    name: str
    row: int
    describes: str
    act: Act
    lasts_s: tuple[float, float]
    claims: frozenset[str]
    mirrors: frozenset[str]

    def done(self, scene: Setting, chance: random.Random) -> AbstractContextManager[Told]:
        """Do it; at the end of the block it is undone."""
        return contextmanager(self.act)(scene, chance)


FAULTS: Final[dict[str, Fault]] = {}


def fault(
    row: int, *claims: str, lasts_s: tuple[float, float] = (5.0, 15.0), mirrors: frozenset[str] = MIRRORS
) -> Callable[[Act], Act]:
    """Enter a fault into the catalogue, under the name of its function."""

    def enter(act: Act) -> Act:
        name = act.__name__.replace("_", "-")
        FAULTS[name] = Fault(
            name=name,
            row=row,
            describes=(act.__doc__ or "").strip().splitlines()[0],
            act=act,
            lasts_s=lasts_s,
            claims=frozenset(claims),
            mirrors=mirrors,
        )
        return act

    return enter


NOT_DONE: Final = {
    27: "Isthmus keeps no checkpoints: its progress is the end of the target's log",
    30: "Isthmus keeps no state on disks: what it remembers is in a topic of the target (rows 28 and 29)",
    31: "the brokers of a cluster share one kernel: what one had not synced is not lost when it dies",
    35: "limits on sizes are a matter of settings: tests/integration/lane/test_sizes.py",
    36: "damaged batches: tests/faults/test_causes.py",
    37: "tombstones and holes of compaction are part of what is written in every run",
    38: "aborted transactions, and such that nobody ends, are part of what is written in every run",
    39: "formats before Kafka 0.11: tests/integration/lane/test_legacy.py",
    41: "Isthmus writes as an idempotent producer; a stranger with its id is a stranger that writes (row 45)",
    42: "there is no schema registry",
    46: "there is no control plane apart from `isthmus run` (rows 21 to 25)",
    47: "there is one version",
    48: "machines with too little memory and partitions by the ten thousand: not here",
}
"""Rows of which there is no fault, and why."""
