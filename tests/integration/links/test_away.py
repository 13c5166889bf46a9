"""A cluster that goes away in the middle of a verb, after so many requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from isthmus.errors import ConfigError, IsthmusError
from isthmus.fabric.answers import DeclaredLink
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import Namespace, NamespaceMap
from testing.brokers.proxy import HOST
from testing.links.controllers import Ending

pytestmark = pytest.mark.integration

Verb = Callable[[Fabric], object]


@pytest.fixture
def name(east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Iterator[str]:
    """The name of a link that is deleted in the end, so that no other test runs it."""
    name = topic("away")
    yield name
    with ExitStack() as quietly:
        quietly.push(lambda kind, *_: kind is not None and issubclass(kind, ConfigError))
        Fabric(Configuration(clusters=(east.cluster(), west.cluster()), links=())).declarations.delete(name)


def verbs(name: str) -> dict[str, tuple[Verb, tuple[int, ...]]]:
    """What is done one after the other, each by a fabric, and after how many requests the target goes away meanwhile:
    before anything is written there, as writing is tried for a minute.
    """
    each, own = NamespaceMap.parse(f"{name}.a-:{name}.x-"), Namespace.of(f"{name}.own-")
    other = NamespaceMap.parse(f"{name}.b-:{name}.y-")
    return {
        "create": (
            lambda fabric: fabric.declarations.create(name, source="east", target="west", maps=[each]),
            (0, 4, 24, 39),
        ),
        "attach": (lambda fabric: fabric.declarations.attach(name, [other]), (0, 4)),
        "pause": (lambda fabric: open_fabric(fabric.configuration, declared=True).link(name).pause(), (0, 4, 8)),
        "namespace create": (lambda fabric: fabric.cluster("west").namespaces.create(own), (0, 5, 9)),
        "namespace update": (lambda fabric: fabric.cluster("west").namespaces.update(own, reserved=True), (4, 8)),
        "namespace release": (lambda fabric: fabric.cluster("west").namespaces.update(own, reserved=False), (4, 8)),
        "namespace delete": (lambda fabric: fabric.cluster("west").namespaces.delete(own), (4, 8)),
    }


def test_verbs_are_given_again_after_a_cluster_went_away(east: LocalCluster, west: LocalCluster, name: str) -> None:
    """Each tells which cluster does not answer, and what to do, or is done as far as it can be; given again it comes to
    its end, once that is back.
    """
    upstream = int(west.bootstrap_servers.rpartition(":")[2])
    (port,) = free_ports(1)
    way = replace(west.cluster(), addresses=((west.bootstrap_servers, f"{HOST}:{port}"),))
    whole = Configuration(clusters=(east.cluster(), west.cluster()), links=())
    shaky = replace(whole, clusters=(east.cluster(), way))
    for verb, (call, tries) in verbs(name).items():
        for requests in tries:
            with Ending(port, upstream, requests=requests):
                found = tried(call, shaky)
            if isinstance(found, DeclaredLink):
                # Whoever runs the link has the other cluster know it.
                assert found.away.keys() == {"west"}, (verb, requests)
                continue
            assert isinstance(found, IsthmusError), (verb, requests)
            assert "west" in f"{found.message} {found.hint}", (verb, requests, found)
            assert found.hint, (verb, requests, found)
        assert not isinstance(tried(call, whole), IsthmusError), verb
    assert Fabric(whole).declarations.describe(name).behind == ()
    with pytest.raises(ConfigError, match="no topic namespace"):
        Fabric(whole).cluster("west").namespaces.describe(Namespace.of(f"{name}.own-"))


def tried(call: Verb, configuration: Configuration) -> object:
    """What it comes to, or why it did not come to its end."""
    try:
        return call(Fabric(configuration))
    except IsthmusError as error:
        return error
