"""Replicas that had fallen behind become leaders: rows 8, 9 and 54."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from soak.faults.catalogue import MIRRORS, Told, fault
from soak.faults.finding import in_sync, one_in_sync
from soak.scene import Scene, leader
from soak.side import BROKERS, Side
from soak.victims import Victim

_MORE: Final = 150
"""Records that only one replica has before it dies."""


@fault(8, "source brokers", lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_unclean_election(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The source loses the end of a partition, which may be at the target already."""
    first, second = chance.sample(range(1, BROKERS + 1), 2)
    victim = scene.victim(
        "unclean-source",
        chance,
        replicas=[[first, second]],
        min_insync_replicas=1,
        unclean_leader_election_enable="true",
    )
    scene.suffers(victim.topic, "source truncated")
    yield from _unclean(scene, scene.source, victim, first, second)


@fault(9, "target brokers", lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def target_unclean_election(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The target loses the end of a partition, which it had acknowledged."""
    first, second = chance.sample(range(1, BROKERS + 1), 2)
    victim = scene.victim(
        "unclean-target",
        chance,
        replicas=[[first, second]],
        is_at_target=True,
        min_insync_replicas=1,
        unclean_leader_election_enable="true",
    )
    scene.suffers(victim.topic, "target truncated")
    yield from _unclean(scene, scene.target, victim, first, second)


@fault(54, "source brokers", "target brokers", lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_epoch_lost_ahead(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The source loses an epoch that the mirror has read and could not write."""
    first, second = chance.sample(range(1, BROKERS + 1), 2)
    victim = scene.victim(
        "epoch-lost",
        chance,
        replicas=[[first, second]],
        is_at_target=True,
        min_insync_replicas=1,
        unclean_leader_election_enable="true",
    )
    # Nothing of what is lost was copied: the lane has to go on.
    scene.suffers(victim.topic, "source epoch lost")
    source = scene.source
    # The first replica is to lead an epoch of its own: the second one has led before.
    source.broker(first).kill()
    scene.until(lambda: leader(source, victim.key) == second, "the second replica leads")
    source.broker(first).start(wait=False)
    scene.until(lambda: in_sync(source, victim.key) == 2, "the first replica is in sync")
    with one_in_sync(scene, victim.key, second):
        source.broker(second).kill()
        scene.until(lambda: leader(source, victim.key) == first, "the first replica leads a new epoch")
        before = _end(scene, victim)
        scene.until(lambda: _end(scene, victim) > before + _MORE, "the first replica goes on alone")
        source.broker(first).kill()
        source.broker(second).start(wait=False)
        scene.until(lambda: leader(source, victim.key) == second, "the second replica leads again")
    yield {"topic": victim.topic, "led by": second}
    source.broker(first).start(wait=False)


def _end(scene: Scene, victim: Victim) -> int:
    ends = scene.watch.newest["source"].get(victim.key)
    return 0 if ends is None else ends.high


def _unclean(scene: Scene, side: Side, victim: Victim, first: int, second: int) -> Iterator[Told]:
    """The second replica dies, the first goes on alone and dies too, and the second comes back."""
    side.broker(second).kill()
    scene.until(lambda: leader(side, victim.key) == first, "the first replica leads")
    before = scene.copied(victim.key)
    scene.until(lambda: scene.copied(victim.key) > before + _MORE, "the first replica goes on alone")
    side.broker(first).kill()
    side.broker(second).start(wait=False)
    scene.until(lambda: leader(side, victim.key) == second, "the second replica leads")
    yield {"topic": victim.topic, "lost from": before, "led by": second}
    side.broker(first).start(wait=False)
