"""Verbs that are given again, or for what was detached before: whatever was seen then may not be so any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from isthmus.control.fabric import Fabric
from isthmus.control.links.promotion import Promoter
from isthmus.errors import ClusterError
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.timings import Timings
from tests.integration.control.recovering import Interrupted
from tests.integration.control.test_declared import both as both
from tests.integration.control.test_declared import cut
from tests.integration.control.test_declared import name as name
from tests.integration.control.test_promotion import VERBS, are_reserved, ends_at

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
