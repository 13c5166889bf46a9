"""What the silence of a controller or a task proves: nothing, where the target takes no word of anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument, Document, LeaseDocument, TaskDocument
from isthmus.local.host import liveness_of
from isthmus.model.lane import LaneKey
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.text.wording import first_few

DOUBT_S: Final = 60.0
"""A broker that does not answer explains a silence for so long: others have its partitions then."""
_ANSWER_S: Final = 3.0


def lost_lanes(link: str, documents: Mapping[str, Document]) -> frozenset[LaneKey]:
    """Return the lanes whose task had not ended when its process did, as this host can see."""
    controller = ControllerDocument.find(documents, link)
    if controller is None:
        return frozenset()
    gone = {
        task.slot
        for task in TaskDocument.find_all(documents.values(), link)
        if task.controller == controller.generation
        and not task.has_ended
        and liveness_of(task.process) is Liveness.DEAD
    }
    return frozenset(
        lane.key
        for lease in LeaseDocument.find_all(documents.values(), link)
        if lease.slot in gone and lease.controller == controller.generation
        for lane in lease.lanes
    )


async def explain_silence(target: Client, silent_s: float) -> Problem | None:
    """Return why nothing may have been heard of a controller for `silent_s`, although it runs; `None` if all brokers of
    the target answer, or it was silent for longer than that explains.
    """
    if silent_s > DOUBT_S:
        return None
    alias = target.cluster.alias
    try:
        async with asyncio.timeout(_ANSWER_S):
            found = await describe_cluster(target)
    except (ClusterError, TimeoutError):
        return _explain(alias, "its brokers do not answer", silent_s)
    answers = await asyncio.gather(*(_answers(target, node) for node in found.brokers))
    deaf = sorted([*found.fenced, *(node for node, has in zip(found.brokers, answers, strict=True) if not has)])
    if not deaf:
        return None
    named = f"broker {deaf[0]} does" if len(deaf) == 1 else f"brokers {first_few(map(str, deaf))} do"
    return _explain(alias, f"{named} not answer", silent_s)


async def _answers(target: Client, node: int) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_S):
            await target.metadata((), node_id=node)
    except (ClusterError, TimeoutError):
        return False
    return True


def _explain(alias: str, why: str, silent_s: float) -> Problem:
    return problem_of(
        Unreachable(
            f"it is unknown whether a controller runs the link: it was last heard {silent_s:.0f} s ago, and {why} at "
            f"{alias}, where its word stands",
            cluster=alias,
            hint="isthmus cluster describe names the brokers that are away. Look again when they answer.",
        )
    )
