"""Topics that are promoted: how they are made and filled, and where they end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.links.promotion import Promotion
from isthmus.model.namespace import NamespaceMap
from testing.groups import consumers
from testing.groups.carrying import records
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.recovering import Interrupted
from testing.verbs import Promoter


def created(both: Configuration, east: LocalCluster, name: str) -> tuple[Configuration, NamespaceMap]:
    """A link between two namespaces with a topic of twenty records and a group, as a run of it alone has it."""
    topics.create(east, f"{name}.a-1")
    topics.produce(east, f"{name}.a-1", records(20))
    consumers.commit(east, {f"{name}.app": {(f"{name}.a-1", 0): 7}})
    each = NamespaceMap.parse(f"{name}.a-:{name}.x-")
    groups = NamespaceMap.parse(f"{name}.", "group")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[each, groups])
    opened = open_fabric(both, declared=True).configuration
    return replace(opened, links=tuple(link for link in opened.links if link.name == name)), each


def written(cluster: LocalCluster, topic: str) -> int:
    """The offset that a record of an independent producer gets."""
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"mine", on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(TERM_S) == 0
    (offset,) = offsets
    assert offset is not None
    return offset


VERBS: dict[str, Callable[[Promoter], Coroutine[Any, Any, Promotion]]] = {
    "detach": Promoter.detach,
    "failover": Promoter.failover,
    "promote": Promoter.promote,
    "reverse": lambda promoter: promoter.reverse(f"{promoter.name}-back"),
}


def ends_at(step: str) -> Callable[[str], None]:
    """A hook that ends the command before the step that begins so."""

    def heard(what: str) -> None:
        if what.startswith(step):
            raise Interrupted(what)

    return heard


def are_reserved(configuration: Configuration, *maps: NamespaceMap) -> list[bool]:
    """Whether the followers are, each."""
    namespaces = Fabric(configuration).cluster("west").namespaces
    return [namespaces.describe(each.target).is_reserved for each in maps]


def opened(cluster: LocalCluster, topic: str, transactional_id: str) -> Producer:
    """A producer with a transaction that it has not ended."""
    producer = consumers.transactional(cluster, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    assert producer.flush(TERM_S) == 0
    return producer
