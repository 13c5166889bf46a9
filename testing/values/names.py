"""The topic that most tests of control are about, by its name on either side."""

from __future__ import annotations

from typing import Final

from isthmus.model.cluster import Cluster
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic

ORDERS: Final = TargetTopic("orders")
SOURCE_ORDERS: Final = SourceTopic("orders")
NAMES: Final = NamedTopics(sources={ORDERS: SOURCE_ORDERS})
EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
