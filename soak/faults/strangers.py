"""Others write where only the mirror may: row 45."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from typing import Final

import yaml
from confluent_kafka import Producer

from soak.faults.catalogue import ISTHMUS, MIRRORS, NotNow, Told, fault
from soak.mirrors.isthmus import Isthmus
from soak.scene import TERM_S, Scene

_ENDS_S: Final = 180.0


@fault(45, lasts_s=(5.0, 15.0), mirrors=MIRRORS)
def foreign_write(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Somebody else writes a record to a topic of the target, or many where they may."""
    victim = scene.victim("foreign", chance)
    if scene.conditions.is_mapped:
        with scene.victims.joined_by_others(victim.topic, scene.target):
            yield {"topic": victim.topic}
        return
    scene.suffers(victim.topic, "foreign write")
    producer = Producer({"bootstrap.servers": scene.target.servers, "log_level": 0})
    producer.produce(scene.target.names.called(victim.topic), partition=0, value=b"not from the source")
    if producer.flush(TERM_S):
        raise NotNow("the target took no record")
    yield {"topic": victim.topic}


@fault(45, lasts_s=(15.0, 30.0), mirrors=ISTHMUS)
def two_links_one_topic(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Another link, of another file, mirrors a topic into the same one: it is refused, or one of them stops."""
    if scene.conditions.is_mapped:
        raise NotNow("links that map their offsets may share a topic")
    victim = scene.victim("shared", chance)
    scene.suffers(victim.topic, "foreign write")
    mirror = _isthmus(scene)
    document = yaml.safe_load(mirror.configuration.read_text())
    document["links"][0] |= {"name": "other", "topics": {"include": [victim.topic]}, "groups": {"include": []}}
    yield from _beside(scene, mirror, document, victim.topic)


@fault(45, lasts_s=(15.0, 30.0), mirrors=ISTHMUS)
def links_in_a_circle(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Another link, of another file, mirrors a topic back to where it came from: nothing goes round."""
    if scene.conditions.naming != "identity":
        raise NotNow("what goes back has another name there")
    victim = scene.victim("circle", chance)
    scene.suffers(victim.topic, "circle")
    mirror = _isthmus(scene)
    document = yaml.safe_load(mirror.configuration.read_text())
    turned = {"name": "back", "source": "target", "target": "source", "topics": {"include": [victim.topic]}}
    document["links"][0] |= {**turned, "groups": {"include": []}}
    yield from _beside(scene, mirror, document, victim.topic)


def _beside(scene: Scene, mirror: Isthmus, document: object, topic: str) -> Iterator[Told]:
    file = mirror.configuration.with_name(f"beside-{topic}.yaml")
    file.write_text(yaml.safe_dump(document))
    driver = mirror.launch(file.stem, file)
    try:
        yield {"topic": topic}
        if driver.process.poll() is None:
            driver.process.send_signal(signal.SIGTERM)
        scene.history.tell("beside", topic=topic, code=driver.wait(term_s=_ENDS_S), said=driver.said[-600:])
    finally:
        driver.end()


def _isthmus(scene: Scene) -> Isthmus:
    mirror = scene.supervisor.mirror
    if not isinstance(mirror, Isthmus):
        raise NotNow("only Isthmus has such links")
    return mirror
