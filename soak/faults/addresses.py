"""Brokers move to other addresses, or come back without their disks: row 44."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator

from soak.faults.catalogue import Told, fault
from soak.faults.finding import some_broker
from soak.scene import Scene
from soak.side import Side


@fault(44, "target brokers", "target network", lasts_s=(10.0, 25.0))
def target_address_moved(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the target is restarted with another advertised address; where it was nobody listens any more."""
    yield from _moved(scene.target, chance)


@fault(44, "source brokers", "source network", lasts_s=(10.0, 25.0))
def source_address_moved(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the source is restarted with another advertised address; where it was nobody listens any more."""
    yield from _moved(scene.source, chance)


@fault(44, "target brokers", lasts_s=(1.0, 5.0))
def target_broker_replaced(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the target dies, and one with an empty disk takes its place."""
    yield from _replaced(scene.target, chance)


@fault(44, "source brokers", lasts_s=(1.0, 5.0))
def source_broker_replaced(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the source dies, and one with an empty disk takes its place."""
    yield from _replaced(scene.source, chance)


def _moved(side: Side, chance: random.Random) -> Iterator[Told]:
    broker = some_broker(side, chance)
    broker.terminate()
    with side.elsewhere(broker.node_id) as port:
        broker.start(wait=False)
        yield {"broker": broker.node_id, "port": port}
        broker.terminate()
    broker.start(wait=False)


def _replaced(side: Side, chance: random.Random) -> Iterator[Told]:
    broker = some_broker(side, chance)
    broker.kill()
    shutil.rmtree(broker.folder / "data")
    yield {"broker": broker.node_id}
    broker.start(wait=False)
