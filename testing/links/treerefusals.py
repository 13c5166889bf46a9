"""What cannot be declared beside a tree that is declared on real clusters, and what cannot be used of one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

import isthmus
from isthmus import config
from isthmus.errors import ClusterError, ConfigError, PlanRefused
from isthmus.fabric.fabric import DeclaredTrees
from isthmus.kafka.session import ClientSession
from isthmus.memory.declarations import Declarations, author
from isthmus.model.configuration import Configuration
from isthmus.model.registers import SETTINGS, change_registers
from isthmus.model.text.plain import plain
from isthmus.model.trees.tree import node_of
from isthmus.model.trees.treedeclaration import CLUSTERS, MEMBERS, TreeDeclaration
from testing.runs.treeload import Clusters


def refused_beside(file: Mapping[str, Any], clusters: Clusters, name: str) -> None:
    """Another tree of its topics, its name, its distributors' names or one of its clusters under two names, beside a
    mirror, with a cluster that is away, or with what cannot be: nothing of it is written anywhere.
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
    dotted = at(f"b.{east}", clusters[east].bootstrap_servers)
    beside = [{"name": f"{name}-2.b", "clusters": [east, others[0]], "topics": ["d"]}]
    with pytest.raises(
        PlanRefused, match=rf"gives the name {name}-2\.b\.{east}\.1 to a distributor, as tree {name}-2.b"
    ):
        trees(clusters=dotted, trees=beside).create(f"{name}-2", [f"b.{east}", others[0]], {"topics": ["e"]})
    with pytest.raises(PlanRefused, match=f"{east} is cluster .* here, and another in the file of the tree"):
        trees().create(f"{name}-2", [east, others[0]], cluster_ids={east: "another"})
    with pytest.raises(ClusterError, match="away"):
        trees(clusters=at("away", "127.0.0.1:1")).create(f"{name}-2", [east, "away"])
    with pytest.raises(ConfigError, match="switch_after_s"):
        trees().create(f"{name}-2", [east, others[0]], {"switch_after_s": 1})
    with pytest.raises(ConfigError, match="clusters of a declared tree cannot be set"):
        trees().update(name, {"clusters": [east, others[0]]})
    there = {each.declaration.name for each in trees().all(deleted=True)}
    assert {name, f"{name}-2", "t"} & there == {name}


def deleted_unusable(file: Mapping[str, Any], clusters: Clusters, name: str) -> None:
    """A tree with a setting that no release here can use, as another one may have written it, can still be deleted."""
    configuration = config.parse(json.dumps(file))
    trees = isthmus.open(configuration).declared_trees
    asyncio.run(_declare_unusable(configuration, list(clusters), name))
    unusable = trees.describe(name).unusable
    assert unusable is not None
    assert "of-tomorrow is not a known key" in unusable.message
    with pytest.raises(ConfigError, match="of-tomorrow"):
        trees.update(name, {"groups": ["g"]})
    assert trees.delete(name).declaration.is_deleted


async def _declare_unusable(configuration: Configuration, aliases: list[str], name: str) -> None:
    async with ClientSession() as session:
        declarations = Declarations(configuration.clusters, session, configuration.ledger)
        ids = (await declarations.look()).ids
        values = {
            CLUSTERS: plain(node_of(aliases)),
            MEMBERS: {alias: ids[alias] for alias in aliases},
            f"{SETTINGS}of-tomorrow": 1,
        }
        new = change_registers((), values, author(ids[aliases[0]]))
        for alias in aliases:
            await declarations.write(alias, TreeDeclaration(name=name, registers=()), new)
