"""Two clusters with ids, for pairs of namespaces between them."""

from __future__ import annotations

from isthmus.model.cluster import Cluster
from isthmus.model.links.declaration import SOURCE, TARGET, Declaration, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import MODE, Author, change_registers

_AUTHOR = Author(by="anna", at_ms=5, where="T")
_MAP = NamespaceMap.parse("local-:remote-")
_EAST = Cluster(alias="east", bootstrap_servers=("east:9092",), cluster_id="S")
_WEST = Cluster(alias="west", bootstrap_servers=("west:9092",), cluster_id="T")

_KNOWN = Declaration(
    name="orders",
    registers=change_registers(
        (),
        {
            SOURCE: {"cluster_id": "S", "alias": "east"},
            TARGET: {"cluster_id": "T", "alias": "west"},
            MODE: "sync",
            attachment(_MAP): True,
        },
        _AUTHOR,
    ),
)
