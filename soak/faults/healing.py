"""A declared link recovers by itself what its source lost, and others are at the same topic: rows 55 and 56."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

from soak.faults.catalogue import ISTHMUS, NotNow, Told, fault
from soak.faults.logs import delete_topic
from soak.judge.evidence import PartitionKey
from soak.judge.reading import Ruler, read_logs
from soak.mirrors.isthmus import Isthmus
from soak.scene import TERM_S, Scene, create_topic, leader
from soak.side import BROKERS
from soak.victims import Victim
from soak.workloads.plain import Pen, PlainWriter

_BEGUN: Final = 20
_MORE: Final = 150
_ENOUGH: Final = 40
_MIRRORED_S: Final = 180.0
_SOON_S: Final = 12.0
"""When an operator comes, counted from the moment at which the source has lost records."""
_COMMAND_S: Final = 420.0


@fault(55, "source brokers", lasts_s=(20.0, 40.0), mirrors=ISTHMUS)
def failover_meets_a_recovery(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """While a link recovers a topic by itself, an operator lets the topic go and applications write to it."""
    victim, back = _diverged(scene, chance, "let-go")
    time.sleep(chance.uniform(0.0, _SOON_S))
    link = victim.topic.partition(".")[0]
    said = _isthmus(scene).call("link", "failover", link, "--yes", "--timeout", "2m", term_s=_COMMAND_S)
    scene.history.tell("let go", topic=victim.topic, code=said.returncode, said=said.stderr[-600:])
    if said.returncode == 0:
        pen = Pen(
            name=f"afterwards-{link}", topic=victim.topic, partitions=1, codec="lz4", linger_ms=5, records_per_s=40.0
        )
        writer = PlainWriter(pen, scene.target, scene.history, "stranger")
        writer.begin()
        try:
            scene.until(lambda: writer.acks.count > _ENOUGH, f"{pen.name} writes")
        finally:
            writer.end()
            writer.wait()
    yield {"topic": victim.topic, "code": said.returncode}
    scene.source.broker(back).start(wait=False)


@fault(56, "source brokers", lasts_s=(20.0, 40.0), mirrors=ISTHMUS)
def new_topic_meets_a_recovery(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """While a link recovers a topic by itself, the source's topic is deleted and created anew."""
    victim, back = _diverged(scene, chance, "anew")
    scene.source.broker(back).start(wait=False)
    time.sleep(chance.uniform(0.0, _SOON_S))
    victim.writer.end()
    victim.writer.wait()
    delete_topic(scene, scene.source, victim.topic)
    create_topic(scene.source, victim.topic, partitions=1)
    scene.victims.begin(victim.topic, suffix="-again")
    yield {"topic": victim.topic}


def _diverged(scene: Scene, chance: random.Random, label: str) -> tuple[Victim, int]:
    """A topic of a declared link with `on_divergence: recover` whose source has just lost records that were copied, and
    the broker that is down. What the target held until then is told to the judge.

    :raises NotNow: The link could not be declared.
    :raises TimeoutError: It does not copy.
    """
    link = f"{label}-{chance.randrange(1 << 20):05x}"
    topic, key = f"{link}.orders", (f"{link}.orders", 0)
    first, second = chance.sample(range(1, BROKERS + 1), 2)
    create_topic(
        scene.source,
        topic,
        partitions=1,
        replicas=[[first, second]],
        min_insync_replicas=1,
        unclean_leader_election_enable="true",
    )
    said = _isthmus(scene).call(
        *("link", "create", link, "--source", "source", "--target", "target"),
        *("--map", f"{link}.:{link}.", "--set", "on_divergence=recover"),
        "--no-validate",  # a broker that another fault holds up makes a cluster unready for a new link
        term_s=_COMMAND_S,
    )
    if said.returncode:
        raise NotNow(f"link create ended with {said.returncode}: {said.stderr[-200:]}")
    victim, ruler = scene.victims.begin(topic), Ruler(scene.target.servers)
    scene.until(lambda: _copied(ruler, key) > _BEGUN, f"{topic} is mirrored", term_s=_MIRRORED_S)
    scene.source.broker(second).kill()
    scene.until(lambda: leader(scene.source, key) == first, "the first replica leads")
    before = _copied(ruler, key)
    scene.until(lambda: _copied(ruler, key) > before + _MORE, "the first replica goes on alone")
    held = read_logs(scene.target.servers, [key])[key]
    ids = [record.id for record in held.records if record.id is not None]
    scene.history.tell("held", topic=topic, partition=0, ids=ids)
    scene.source.broker(first).kill()
    scene.source.broker(second).start(wait=False)
    scene.until(lambda: leader(scene.source, key) == second, "the second replica leads", term_s=TERM_S)
    return victim, first


def _copied(ruler: Ruler, key: PartitionKey) -> int:
    ends = ruler.ends([key]).get(key)
    return 0 if ends is None else ends.high


def _isthmus(scene: Scene) -> Isthmus:
    mirror = scene.supervisor.mirror
    if not isinstance(mirror, Isthmus):
        raise NotNow("only Isthmus has such links")
    return mirror
