"""What cannot be declared beside a tree that is declared on real clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import isthmus
from isthmus import config
from isthmus.control.fabric import DeclaredTrees
from isthmus.errors import ClusterError, ConfigError, PlanRefused
from tests.integration.control.treeload import Clusters


def refused_beside(file: Mapping[str, Any], clusters: Clusters, name: str) -> None:
    """Another tree of its topics, its name or one of its clusters under two names, beside a mirror, with a cluster that
    is away, or with what cannot be: nothing of it is written anywhere.
    """
    east, *others = clusters

    def trees(**more: Any) -> DeclaredTrees:
        return isthmus.open(config.parse(json.dumps({**file, **more}))).declared_trees

    def at(alias: str, address: str) -> dict[str, Any]:
        return {**file["clusters"], alias: {"bootstrap_servers": address}}

    mirror = [{"name": f"{name}-mirror", "source": east, "target": others[0], "topics": {"include": ["m"]}}]
    twice = at("again", clusters[east].bootstrap_servers)
    with pytest.raises(PlanRefused, match=f"overlap those of tree {name}"):
        trees().create(f"{name}-2", [east, others[0]], {"topics": [name]})
    with pytest.raises(PlanRefused, match="is declared already, and otherwise"):
        trees().create(name, [east, others[0]], {"topics": [name]})
    with pytest.raises(PlanRefused, match=f"link {name}-mirror mirrors into m of {others[0]}"):
        trees(links=mirror).create(f"{name}-2", list(clusters), {"topics": ["m"]})
    with pytest.raises(PlanRefused, match="east and again are the same cluster"):
        trees(clusters=twice).create(f"{name}-2", [east, "again"])
    with pytest.raises(PlanRefused, match="which would win over a declared one"):
        trees(trees=[{"name": "t", "clusters": [east, others[0]]}]).create("t", [east, others[0]])
    with pytest.raises(PlanRefused, match=f"{east} is cluster .* here, and another in the file of the tree"):
        trees().create(f"{name}-2", [east, others[0]], cluster_ids={east: "another"})
    with pytest.raises(ClusterError, match="away"):
        trees(clusters=at("away", "127.0.0.1:1")).create(f"{name}-2", [east, "away"])
    with pytest.raises(ConfigError, match="switch_after_s"):
        trees().create(f"{name}-2", [east, others[0]], {"switch_after_s": 1})
    with pytest.raises(ConfigError, match="clusters of a declared tree cannot be set"):
        trees().update(name, {"clusters": [east, others[0]]})
    assert [each.declaration.name for each in trees().all(deleted=True)] == [name]
