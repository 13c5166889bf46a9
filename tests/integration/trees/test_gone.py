"""A cluster of a tree that is gone for good is taken out of it, while nobody runs the tree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from isthmus import config
from isthmus.errors import ConfigError, GateNotMet, PlanRefused
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import AllowanceDocument, ProgressDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.memory.declarations import Declarations
from isthmus.memory.links import recollect
from isthmus.memory.switching import read_choice, write_choice
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import plain
from isthmus.model.trees.reshaping import Reshaping
from isthmus.model.trees.switching import Allowance, LaneBegin, TargetChoice
from isthmus.trees.gone import GoneCluster
from testing.records import topics
from testing.verbs import TreeChanges

pytestmark = pytest.mark.integration


def test_a_cluster_that_is_gone_leaves_by_force(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """What is lost is told first, and one that answers stays. Cut off, the same call goes on: whoever copied to the
    cluster sends the other leaf what it may lack, the tree goes on without it, and its distributors copy no more.
    """
    name = topic("gone")
    topics.create(east, name, partitions=1)
    clusters = {"east": east.bootstrap_servers, "west": west.bootstrap_servers, "north": "127.0.0.1:1"}
    configuration = config.parse(
        json.dumps(
            {
                "clusters": {alias: {"bootstrap_servers": at} for alias, at in clusters.items()},
                "trees": [{"name": name, "clusters": ["east", ["west", "north"]], "topics": [name]}],
            }
        )
    )
    mine, own = f"{name}.east.2", f"{name}.north.1"
    report = LaneReport(key=LaneKey(TargetTopic(name), 0), state=LaneState.ACTIVE, position=7, source_end=10)

    async def scenario() -> None:
        async with Client(east.cluster()) as there, Client(west.cluster()) as other:
            topic_id = (await there.metadata([name])).topics[name].topic_id
            stated = AllowanceDocument(
                link=mine, target="north", lanes=(Allowance(SourceTopic(name), topic_id, 0, 5, 90),)
            )
            progress = ProgressDocument(link=own, slot=0, controller=1, generation=1, is_full=True, reports=(report,))
            await write_choice(there, mine, lambda _: TargetChoice(target="north", wanted="north"))
            await append_once(other, [progress], replication_factor=None)
            changes = TreeChanges(configuration, revocation_s=0.1)

            async def removed(*, dry_run: bool = False) -> Reshaping:
                return await changes.remove(name, "north", force=True, dry_run=dry_run)

            with pytest.raises(PlanRefused, match=f"{mine} has never reported at east how far it goes with north"):
                await removed()
            await append_once(there, [stated], replication_factor=None)
            with pytest.raises(PlanRefused, match="west answers"):
                await changes.remove(name, "west", force=True)
            with pytest.raises(PlanRefused, match="west answers"):
                await changes.remove(name, "north", force=True, gone=["west"])
            with pytest.raises(ConfigError, match=f"tree {name} has no cluster south"):
                await changes.remove(name, "south", force=True)
            planned = await removed(dry_run=True)
            assert planned.loss is not None
            assert [each.distributor for each in planned.loss.undistributed] == [own]
            assert (planned.loss.entrances, planned.loss.unknown) == ((mine,), (f"{name}.north.2",))
            before = await read_choice(there, mine)
            assert before is not None
            assert before.choice.target == "north"
            impatient = TreeChanges(configuration, revocation_s=0.1, patience_s=0.0)
            with pytest.raises(GateNotMet, match=f"have not left north yet: {mine}"):
                await impatient.remove(name, "north", force=True)
            for _ in range(2):
                found = await removed()
                assert plain(found.after.root) == {"level": 2, "clusters": ["east", "west"]}
                choice = await read_choice(there, mine)
                assert choice is not None
                assert (choice.choice.target, choice.choice.doubts) == ("west", ())
                assert choice.choice.begins == (LaneBegin(SourceTopic(name), topic_id, 0, 5),)
                assert (await recollect(own, other)).paused.is_whole
                assert (await recollect(f"{name}.north.2", there)).paused.is_whole

    asyncio.run(scenario())


def test_a_cluster_that_answers_is_not_gone(west: LocalCluster) -> None:
    """Its ledger may not be read in time for other reasons: a client quota holds it back, or nobody leads it."""
    configuration = config.parse(
        f"clusters: {{west: {{bootstrap_servers: '{west.bootstrap_servers}'}}, "
        "north: {bootstrap_servers: '127.0.0.1:1'}}\n"
    )

    async def scenario() -> None:
        async with ClientSession() as session:
            declarations = Declarations(configuration.clusters, session, configuration.ledger)
            held, gone = (
                GoneCluster(declarations, alias, (), configuration.ledger, revocation_s=0.1, patience_s=1.0)
                for alias in ("west", "north")
            )
            with pytest.raises(PlanRefused, match="west answers, though its ledger cannot be read now"):
                await held.check_silent()
            await gone.check_silent()

    asyncio.run(scenario())
