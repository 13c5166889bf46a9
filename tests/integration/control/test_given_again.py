"""Verbs that are given again, or for what was detached before: whatever was seen then may not be so any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from isthmus.control.fabric import Fabric
from isthmus.control.links.promotion import Promoter
from isthmus.errors import ClusterError, GateNotMet
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.timings import Timings
from tests.integration.control.recovering import Interrupted
from tests.integration.control.test_declared import both as both
from tests.integration.control.test_declared import cut
from tests.integration.control.test_declared import name as name
from tests.integration.control.test_promotion import VERBS, are_reserved, ends_at
from tests.integration.groups.test_carrying import records
from tests.integration.lane import topics

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("verb", ["promote", "reverse"])
def test_nothing_is_done_while_nobody_knows_what_is_reserved(both: Configuration, name: str, verb: str) -> None:
    """A verb that was interrupted is not through because its target is away, or not in the file of whoever gives it
    again.
    """
    call = VERBS[verb]
    both = replace(both, timings=Timings(calm_s=0.1))
    links, each = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-")
    links.create(name, source="east", target="west", maps=[each])
    promoter = Promoter(configuration=both, name=name, quiet_s=0.1)
    with pytest.raises(Interrupted):
        asyncio.run(call(replace(promoter, on_step=ends_at("releasing"))))
    for seen in (cut(both, "west"), replace(both, clusters=(both.cluster("east"),))):
        with pytest.raises(ClusterError, match="west") as told:
            asyncio.run(call(replace(promoter, configuration=seen)))
        assert told.value.hint
    assert are_reserved(both, each) == [True]
    assert asyncio.run(call(promoter)).is_done
    assert are_reserved(both, each) == [False]
    if verb == "reverse":
        links.delete(f"{name}-back")


def test_what_was_detached_before_is_proven_too(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """A promotion, tried or meant, misses what came to the source since and tells both ways on, until all is there."""
    both = replace(both, timings=Timings(calm_s=0.1))
    here, there = (east, f"{name}.a-1"), (west, f"{name}.x-1")
    for cluster, topic in (here, there):
        topics.create(cluster, topic)
        topics.produce(cluster, topic, records(20))
    links, each = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-")
    groups = NamespaceMap.parse(f"{name}.", "group")
    links.create(name, source="east", target="west", maps=[each, groups])
    promoter = partial(Promoter, configuration=both, name=name, quiet_s=0.1)
    asyncio.run(promoter().detach())
    topics.produce(*here, records(3))
    for is_dry in (True, False):
        with pytest.raises(GateNotMet, match=f"was detached, and lacks what its source has in {name}.x-1-0") as told:
            asyncio.run(promoter(maps=(each, groups)).promote(dry_run=is_dry))
        assert f"isthmus link reattach {name} --map {each} --group-map {groups}" in told.value.hint
    topics.produce(*there, records(3))
    assert asyncio.run(promoter(maps=(each, groups)).promote()).is_done
    assert are_reserved(both, each, groups) == [False, False]
