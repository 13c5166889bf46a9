"""What is broken in a run with gateways. Each is undone when its block ends."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import ElectionType, KafkaException, TopicPartition

from isthmus.local.process import Process
from soak.gateway.client import PARTITIONS
from soak.gateway.ledger import LEDGER, leader_of_ledger
from soak.gateway.stage import GATEWAYS, READY_S, SIDES, Stage
from soak.network import Road
from testing.brokers.proxy import Weather

Told = dict[str, Any]
_ELECT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class GatewayFault:
    """A fault by its name: `group` is what it is done to, of which only one is done at a time."""

    name: str
    group: str
    lasts_s: tuple[float, float]
    begin: Callable[[Stage, random.Random], AbstractContextManager[Told]]


@contextmanager
def _weather(stage: Stage, who: str, side: str, weather: Weather) -> Iterator[Told]:
    with ExitStack() as stack:
        for network in stage.networks(who, side):
            stack.enter_context(network.weather(weather))
        yield {"who": who, "side": side, "weather": weather.name}


@contextmanager
def _road(stage: Stage, who: str, side: str, road: Road) -> Iterator[Told]:
    for network in stage.networks(who, side):
        network.road = road
    try:
        yield {"who": who, "side": side, "road": str(road)}
    finally:
        for network in stage.networks(who, side):
            network.road = Road()


def _some_road(chance: random.Random) -> Road:
    if chance.random() < 0.5:
        return Road(delay_s=chance.uniform(0.02, 0.15), jitter_s=chance.uniform(0.0, 0.05))
    return Road(stall_chance=chance.uniform(0.01, 0.1), stall_s=chance.uniform(0.5, 3.0))


def _link_cut(stage: Stage, chance: random.Random) -> AbstractContextManager[Told]:
    """Lanes do not reach one of the clusters."""
    return _weather(stage, "run", chance.choice(("target", "target", "source")), Weather.CUT)


def _link_one_way(stage: Stage, _: random.Random) -> AbstractContextManager[Told]:
    """What lanes write arrives at the follower, and no answer comes back."""
    return _weather(stage, "run", "target", Weather.DEAF)


def _link_slow(stage: Stage, chance: random.Random) -> AbstractContextManager[Told]:
    return _road(stage, "run", chance.choice(SIDES), _some_road(chance))


def _gateway_without_follower(stage: Stage, chance: random.Random) -> AbstractContextManager[Told]:
    return _weather(stage, chance.choice(GATEWAYS), "target", chance.choice((Weather.CUT, Weather.DEAF)))


def _gateway_slow(stage: Stage, chance: random.Random) -> AbstractContextManager[Told]:
    return _road(stage, chance.choice(GATEWAYS), chance.choice(SIDES), _some_road(chance))


def _gateway_cut_off(stage: Stage, chance: random.Random) -> AbstractContextManager[Told]:
    return _weather(stage, chance.choice(GATEWAYS), "source", chance.choice((Weather.CUT, Weather.DEAF)))


@contextmanager
def _gateway_without_ledger(stage: Stage, chance: random.Random) -> Iterator[Told]:
    """A gateway does not reach the broker that leads the ledger; it reaches all others."""
    name, node = chance.choice(GATEWAYS), leader_of_ledger(stage.grounds.admins["source"])
    with ExitStack() as stack:
        if node > 0:
            weather = chance.choice((Weather.CUT, Weather.DEAF))
            stack.enter_context(stage.networks(name, "source")[node - 1].weather(weather))
        yield {"who": name, "broker": node}


@contextmanager
def _gateway_ended(stage: Stage, chance: random.Random) -> Iterator[Told]:
    """A gateway is killed, or told to end, and started again later."""
    gateway = stage.gateways[chance.choice(GATEWAYS)]
    number = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
    gateway.end(number)
    try:
        yield {"who": gateway.name, "signal": number.name}
    finally:
        gateway.start()


@contextmanager
def _gateway_paused(stage: Stage, chance: random.Random) -> Iterator[Told]:
    gateway = stage.gateways[chance.choice(GATEWAYS)]
    gateway.send(signal.SIGSTOP)
    try:
        yield {"who": gateway.name}
    finally:
        gateway.send(signal.SIGCONT)


@contextmanager
def _controller_killed(stage: Stage, chance: random.Random) -> Iterator[Told]:
    stage.supervisor.is_wanted = chance.random() < 0.5
    stage.supervisor.kill()
    try:
        yield {}
    finally:
        stage.supervisor.is_wanted = True


def _is_worker(line: str) -> bool:
    return "spark.daemon pyspark." in line or "pyspark.worker" in line


@contextmanager
def _lanes_killed(stage: Stage, _: random.Random) -> Iterator[Told]:
    yield {"killed": len(stage.supervisor.signal_all(signal.SIGKILL, _is_worker))}


@contextmanager
def _lanes_frozen(stage: Stage, _: random.Random) -> Iterator[Told]:
    frozen: list[Process] = stage.supervisor.signal_all(signal.SIGSTOP, _is_worker)
    try:
        yield {"frozen": len(frozen)}
    finally:
        for process in frozen:
            process.send(signal.SIGCONT)


def _broker_gone(side: str) -> Callable[[Stage, random.Random], AbstractContextManager[Told]]:
    @contextmanager
    def gone(stage: Stage, chance: random.Random) -> Iterator[Told]:
        """A broker is killed, or ends after it has handed its partitions to others."""
        cluster = stage.grounds.clusters[side]
        broker, is_killed = chance.choice(cluster.brokers), chance.random() < 0.6
        (broker.kill if is_killed else broker.terminate)()
        try:
            yield {"side": side, "broker": broker.node_id, "is_killed": is_killed}
        finally:
            broker.start(wait=False)
            cluster.wait_until_ready(term_s=READY_S)

    return gone


def _leaders_moved(side: str) -> Callable[[Stage, random.Random], AbstractContextManager[Told]]:
    @contextmanager
    def moved(stage: Stage, _: random.Random) -> Iterator[Told]:
        """The first replica of each partition leads it again."""
        keys = [TopicPartition(stage.topic, each) for each in range(PARTITIONS)]
        keys += [TopicPartition(LEDGER, 0)]
        count = 0
        try:
            # confluent-kafka 2.16 takes no time-outs here: SystemError.
            found = stage.grounds.admins[side].elect_leaders(ElectionType.PREFERRED, keys)
            count = sum(error is None for error in found.result(_ELECT_S).values())
        except (KafkaException, TimeoutError):
            # None had to move, or a broker is away.
            pass
        yield {"side": side, "moved": count}

    return moved


FAULTS: Final = (
    GatewayFault("link cut", "link", (1.5, 20.0), _link_cut),
    GatewayFault("link one way", "link", (1.5, 12.0), _link_one_way),
    GatewayFault("link slow", "link", (5.0, 15.0), _link_slow),
    GatewayFault("lanes killed", "lanes", (1.0, 5.0), _lanes_killed),
    GatewayFault("lanes frozen", "lanes", (2.0, 15.0), _lanes_frozen),
    GatewayFault("controller killed", "lanes", (1.0, 10.0), _controller_killed),
    GatewayFault("gateway killed", "gateway", (0.5, 15.0), _gateway_ended),
    GatewayFault("gateway paused", "gateway", (2.0, 20.0), _gateway_paused),
    GatewayFault("gateway without ledger", "gateway", (3.0, 15.0), _gateway_without_ledger),
    GatewayFault("gateway without follower", "gateway", (2.0, 15.0), _gateway_without_follower),
    GatewayFault("gateway cut off", "gateway", (2.0, 15.0), _gateway_cut_off),
    GatewayFault("gateway slow", "gateway", (5.0, 15.0), _gateway_slow),
    GatewayFault("source broker gone", "source brokers", (1.0, 12.0), _broker_gone("source")),
    GatewayFault("target broker gone", "target brokers", (1.0, 12.0), _broker_gone("target")),
    GatewayFault("source leaders moved", "source brokers", (1.0, 2.0), _leaders_moved("source")),
    GatewayFault("target leaders moved", "target brokers", (1.0, 2.0), _leaders_moved("target")),
)


def bout(faults: Sequence[GatewayFault], chance: random.Random) -> list[GatewayFault]:
    """One of these faults, or two of different groups."""
    first = chance.choice(faults)
    others = [each for each in faults if each.group != first.group]
    return [first, *([chance.choice(others)] if others and chance.random() < 0.6 else [])]
