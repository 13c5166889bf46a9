"""The network between the mirror and a cluster is cut, slow, narrow, or loses answers: rows 15 to 20."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from soak.faults.catalogue import Told, fault
from soak.faults.finding import repeating
from soak.network import Aim, Road
from soak.scene import Scene
from soak.side import Side
from testing.brokers.proxy import Weather

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
CREATE_TOPICS, INIT_PRODUCER, EPOCH_ENDS, END_TXN, WRITE_MARKERS, TXN_COMMIT = 19, 22, 23, 26, 27, 28
_WRITES: Final = (PRODUCE, INIT_PRODUCER, END_TXN, WRITE_MARKERS, TXN_COMMIT, CREATE_TOPICS)
_READS: Final = (FETCH, LIST_OFFSETS, METADATA, EPOCH_ENDS)


@fault(15, "target network", lasts_s=(5.0, 600.0))
def target_cut_off(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """Nothing passes between the mirror and the target, as when a cable is pulled."""
    yield from in_weather(scene.target, Weather.CUT)


@fault(15, "source network", lasts_s=(5.0, 600.0))
def source_cut_off(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """Nothing passes between the mirror and the source, as when a cable is pulled."""
    yield from in_weather(scene.source, Weather.CUT)


@fault(15, "target network", "source network", lasts_s=(5.0, 600.0))
def both_cut_off(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """Nothing passes between the mirror and both clusters."""
    with ExitStack() as stack:
        for network in (*scene.source.networks, *scene.target.networks):
            stack.enter_context(network.weather(Weather.CUT))
        yield {}


@fault(16, "target network", lasts_s=(2.0, 15.0))
def target_answers_lost(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """Requests reach the target, no answer comes back."""
    yield from in_weather(scene.target, Weather.DEAF)


@fault(16, "source network", lasts_s=(2.0, 15.0))
def source_answers_lost(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """Requests reach the source, no answer comes back."""
    yield from in_weather(scene.source, Weather.DEAF)


@fault(16, "target network", lasts_s=(5.0, 20.0))
def target_applied_unanswered(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Some requests of one kind are applied at the target, and a reset comes instead of the answer."""
    yield from answers_lost(scene.target, (chance.choice((PRODUCE, chance.choice(_WRITES))),), 0.05)


@fault(17, "target network", lasts_s=(10.0, 30.0))
def target_far_away(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Every byte to and from the target takes 25 to 150 ms, not always the same."""
    yield from on_road(scene.target, far_road(chance))


@fault(17, "source network", lasts_s=(10.0, 30.0))
def source_far_away(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Every byte to and from the source takes 25 to 150 ms, not always the same."""
    yield from on_road(scene.source, far_road(chance))


@fault(18, "target network", lasts_s=(10.0, 30.0))
def target_lossy(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Some of what goes to and from the target waits for a retransmission."""
    yield from on_road(scene.target, lossy_road(chance))


@fault(18, "source network", lasts_s=(10.0, 30.0))
def source_lossy(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Some of what goes to and from the source waits for a retransmission."""
    yield from on_road(scene.source, lossy_road(chance))


@fault(19, "target network", lasts_s=(10.0, 30.0))
def target_narrow(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The way to the target takes 30 to 300 kB a second, and sometimes nothing at all."""
    yield from narrowed(scene.target, chance)


@fault(19, "source network", lasts_s=(10.0, 30.0))
def source_narrow(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The way from the source takes 30 to 300 kB a second, and sometimes nothing at all."""
    yield from narrowed(scene.source, chance)


@fault(20, "target network", lasts_s=(5.0, 20.0))
def target_resets(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Connections to the target are reset, at any byte of any request or answer."""
    yield from with_resets(scene.target, chance)


@fault(20, "source network", lasts_s=(5.0, 20.0))
def source_resets(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Connections to the source are reset, at any byte of any request or answer."""
    yield from with_resets(scene.source, chance)


@fault(20, "source network", lasts_s=(5.0, 20.0))
def source_answers_broken(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Of one kind of question to the source some are answered by a reset."""
    yield from answers_lost(scene.source, (chance.choice(_READS),), 0.1)


def in_weather(side: Side, weather: Weather) -> Iterator[Told]:
    with ExitStack() as stack:
        for network in side.networks:
            stack.enter_context(network.weather(weather))
        yield {"side": side.name}


def on_road(side: Side, road: Road) -> Iterator[Told]:
    for network in side.networks:
        network.road = road
    try:
        yield {"side": side.name, "road": str(road)}
    finally:
        for network in side.networks:
            network.road = Road()


def far_road(chance: random.Random) -> Road:
    return Road(delay_s=chance.uniform(0.025, 0.12), jitter_s=chance.uniform(0.0, 0.03))


def lossy_road(chance: random.Random) -> Road:
    return Road(stall_chance=chance.uniform(0.01, 0.1), stall_s=chance.uniform(0.5, 3.0))


def narrowed(side: Side, chance: random.Random) -> Iterator[Told]:
    road = Road(bytes_per_s=chance.uniform(30_000, 300_000))

    def flap() -> None:
        with ExitStack() as stack:
            for network in side.networks:
                stack.enter_context(network.weather(Weather.CUT))
            time.sleep(chance.uniform(0.2, 1.5))

    for network in side.networks:
        network.road = road
    try:
        with repeating(flap, lambda: chance.uniform(1.0, 4.0)):
            yield {"side": side.name, "road": str(road)}
    finally:
        for network in side.networks:
            network.road = Road()


def with_resets(side: Side, chance: random.Random) -> Iterator[Told]:
    with repeating(lambda: chance.choice(side.networks).reset_one(chance), lambda: chance.uniform(0.05, 0.8)):
        yield {"side": side.name}


def answers_lost(side: Side, apis: tuple[int, ...], share: float) -> Iterator[Told]:
    aims = [Aim(apis=frozenset(apis), chance=share, is_answer_lost=True) for _ in side.networks]
    with ExitStack() as stack:
        for network, aim in zip(side.networks, aims, strict=True):
            stack.enter_context(network.aimed(aim))
        yield {"side": side.name, "apis": list(apis), "share": share}
