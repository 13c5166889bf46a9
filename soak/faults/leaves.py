"""What is done to the clusters of a tree and the networks in front of them; processes die as those of any mirror."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from soak.faults import brokers, roads
from soak.faults.catalogue import TREE, NotNow, Told, fault
from soak.mirrors.isthmus import Isthmus
from soak.side import Side
from soak.trees.grove import NAME, UPPER, Grove
from testing.brokers.proxy import Weather

_LEAF: Final = "leaf"
"""One leaf at a time, so that what a fault is aimed at is as it was thought to be."""


@fault(1, _LEAF, mirrors=TREE)
def leaf_killed(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """A cluster is killed, and started again."""
    leaf = _some(grove, chance)
    yield from brokers.killed(leaf.broker(1), {"leaf": leaf.name})


@fault(4, _LEAF, lasts_s=(2.0, 10.0), mirrors=TREE)
def all_leaves_killed(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """All clusters are killed, and started in any order."""
    for leaf in grove.leaves:
        leaf.broker(1).kill()
    order = chance.sample(list(grove.leaves), len(grove.leaves))
    yield {"order": [leaf.name for leaf in order]}
    for leaf in order:
        leaf.broker(1).start(wait=False)


@fault(5, _LEAF, lasts_s=(3.0, 120.0), mirrors=TREE)
def leaf_frozen(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """A cluster stands still, and goes on."""
    leaf = _some(grove, chance)
    yield from brokers.frozen(leaf.broker(1), {"leaf": leaf.name})


@fault(7, _LEAF, lasts_s=(1.0, 3.0), mirrors=TREE)
def leaf_restarted(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """A cluster is ended in good order, and started again."""
    leaf = _some(grove, chance)
    leaf.broker(1).terminate()
    yield {"leaf": leaf.name}
    leaf.broker(1).start(wait=False)


@fault(49, _LEAF, lasts_s=(10.0, 20.0), mirrors=TREE)
def leaf_stutters(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """A cluster stands still for 0.2 s again and again, as with a disk that stalls."""
    yield from brokers.stutters(_some(grove, chance).broker(1), chance)


@fault(15, _LEAF, lasts_s=(5.0, 600.0), mirrors=TREE)
def leaf_cut_off(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """Nothing passes between the distributors and a cluster."""
    yield from roads.in_weather(_some(grove, chance), Weather.CUT)


@fault(16, _LEAF, lasts_s=(2.0, 15.0), mirrors=TREE)
def leaf_answers_lost(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """Requests reach a cluster, no answer comes back."""
    yield from roads.in_weather(_some(grove, chance), Weather.DEAF)


@fault(16, _LEAF, lasts_s=(5.0, 20.0), mirrors=TREE)
def leaf_applied_unanswered(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """Some appends are applied at a cluster, and a reset comes instead of the answer."""
    yield from roads.answers_lost(_some(grove, chance), (roads.PRODUCE,), 0.05)


@fault(17, _LEAF, lasts_s=(10.0, 30.0), mirrors=TREE)
def leaf_far_away(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """Every byte to and from a cluster takes 25 to 150 ms, not always the same."""
    yield from roads.on_road(_some(grove, chance), roads.far_road(chance))


@fault(18, _LEAF, lasts_s=(10.0, 30.0), mirrors=TREE)
def leaf_lossy(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """Some of what goes to and from a cluster waits for a retransmission."""
    yield from roads.on_road(_some(grove, chance), roads.lossy_road(chance))


@fault(19, _LEAF, lasts_s=(10.0, 30.0), mirrors=TREE)
def leaf_narrow(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """The way to a cluster takes 30 to 300 kB a second, and sometimes nothing at all."""
    yield from roads.narrowed(_some(grove, chance), chance)


@fault(20, _LEAF, lasts_s=(5.0, 20.0), mirrors=TREE)
def leaf_resets(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """Connections to a cluster are reset, at any byte of any request or answer."""
    yield from roads.with_resets(_some(grove, chance), chance)


@fault(50, "target of a subtree", lasts_s=(1.0, 5.0), mirrors=TREE)
def target_switched(grove: Grove, chance: random.Random) -> Iterator[Told]:
    """An operator has a cluster copy to another leaf of the other half."""
    mirror = grove.supervisor.mirror
    if not isinstance(mirror, Isthmus):
        raise NotNow("only Isthmus has trees")
    leaf = _some(grove, chance)
    to = chance.choice(grove.others(leaf))
    said = mirror.call("tree", "switch", NAME, leaf.name, str(UPPER), "--to", to.name)
    grove.history.tell("switch", leaf=leaf.name, to=to.name, code=said.returncode, said=said.stderr[-300:])
    yield {"leaf": leaf.name, "to": to.name, "code": said.returncode}


def _some(grove: Grove, chance: random.Random) -> Side:
    return chance.choice(list(grove.leaves))
