"""Tasks whose process has ended on this host."""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import replace

from isthmus.ledger.documents.kinds import ControllerDocument, Document, LeaseDocument, TaskDocument
from isthmus.local.host import start_of, whereabouts
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.whereabouts import Whereabouts
from isthmus.model.state import ControllerState, LaneEvidence, lane_state
from isthmus.status.silence import lost_lanes

HERE = whereabouts()


def lane(topic: str) -> Lane:
    return Lane(
        source_topic=SourceTopic(topic),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic(topic),
        target_topic_id=uuid.UUID(int=2),
        partition=0,
    )


def documents(process: Whereabouts, *, controller: int = 3, ended_through: int = 0) -> dict[str, Document]:
    """The ledger of a link of two slots; the task of the first is in this process."""
    told: list[Document] = [ControllerDocument(link="l", generation=3, beat=1, started_ms=0)]
    for slot, topic in enumerate(("calm", "orders")):
        told.append(LeaseDocument(link="l", slot=slot, controller=3, generation=1, revision=1, lanes=(lane(topic),)))
        told.append(
            TaskDocument(
                link="l",
                slot=slot,
                controller=controller,
                generation=1,
                ended_through=ended_through,
                is_clean=True,
                process=process if slot else HERE,
            )
        )
    return {each.key: each for each in told}


def test_lanes_are_lost_with_the_process_of_their_task() -> None:
    """Not while it runs, not if the task had ended before, and not what an earlier controller left."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = start_of(child.pid)
        assert start is not None
        process = Whereabouts(host=HERE.host, host_id=HERE.host_id, pid=child.pid, process_start=start)
        assert not lost_lanes("l", documents(process))
        child.kill()
    assert lost_lanes("l", documents(process)) == {LaneKey(TargetTopic("orders"), 0)}
    assert not lost_lanes("l", documents(process, ended_through=1))
    assert not lost_lanes("l", documents(process, controller=2))
    assert not lost_lanes("l", {})


def test_a_lane_without_a_process_is_not_active() -> None:
    """Whatever its task reported a moment before."""
    known = LaneEvidence(controller=ControllerState.ALIVE, reported=LaneState.ACTIVE)
    assert lane_state(known) is LaneState.ACTIVE
    assert lane_state(replace(known, has_lost_task=True)) is LaneState.STARTING
