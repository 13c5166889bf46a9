"""A link that is reversed while its filters name topics by what they are called at its source."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from isthmus.control.fabric import Fabric, open_fabric
from isthmus.control.links.filtering import Filters
from isthmus.control.links.promotion import Promoter
from isthmus.errors import PlanRefused
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.timings import Timings
from tests.integration.control.test_declared import both as both
from tests.integration.control.test_declared import name as name
from tests.integration.lane import topics

pytestmark = pytest.mark.integration


def test_filters_have_the_names_of_the_new_source(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """What the link left out is left out on the way back, also what an operator had it leave out while it ran. Of a
    regular expression nobody knows what it is there: it is told before anything changes.
    """
    for number in (1, 2, 3):
        topics.create(east, f"{name}.a-{number}")
        topics.create(west, f"{name}.x-{number}")
    links, each, way_back = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-"), f"{name}-back"
    settings = {"topics.include": [f"{name}.a-*"], "topics.exclude": [f"/{name}.a-2/"]}
    links.create(name, source="east", target="west", maps=[each], settings=settings)
    promoter = Promoter(configuration=replace(both, timings=Timings(calm_s=0.1)), name=name, quiet_s=0.1)
    for is_dry in (True, False):
        with pytest.raises(PlanRefused, match=rf"topics.exclude is /{name}.a-2/") as told:
            asyncio.run(promoter.reverse(way_back, dry_run=is_dry))
        assert "isthmus filters" in told.value.hint
    assert links.describe(name).declaration.maps == (each,)

    with open_fabric(both, declared=True) as fabric:
        fabric.filter(name, Filters(topics_exclude=(f"{name}.a-2", f"{name}.a-3*")))
    assert asyncio.run(promoter.reverse(way_back)).is_done
    found = links.describe(way_back).declaration
    assert found.settings == {
        "topics.include": [f"{name}.x-*"],
        "topics.exclude": [f"{name}.x-2", f"{name}.x-3*"],
    }
    (planned,) = open_fabric(both, declared=True).plan(link=way_back).links
    assert {one.source_topic: one.topic for one in planned.topics} == {f"{name}.x-1": f"{name}.a-1"}
    links.delete(way_back)
