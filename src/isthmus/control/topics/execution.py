"""A plan made true: topics created, enlarged and settled at the target. Each has its own outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from isthmus.cluster.changes import add_partitions, await_leaders, create_topics
from isthmus.cluster.configs import alter_topic_configs
from isthmus.control.topics.plan import Action, LinkPlan
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.model.naming import TargetTopic
from isthmus.wire import codes
from isthmus.wire.client import Client

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was changed (topic names), and what was refused with its error."""

    changed: frozenset[TargetTopic] = frozenset()
    errors: Mapping[TargetTopic, ClusterError] = field(default_factory=dict)


async def apply(plan: LinkPlan, target: Client) -> Applied:
    """Do to the target cluster what the plan says. Applying it again changes nothing more.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    topics = [topic for topic in plan.topics if not topic.reasons]
    created = await create_topics(target, [t.creation for t in topics if t.creation is not None])
    enlarged = await add_partitions(
        target,
        {t.topic: t.partition_count for t in topics if t.action is Action.ADD_PARTITIONS},
    )
    settled = await alter_topic_configs(target, {t.topic: t.settles for t in topics if t.settles})
    errors = {
        TargetTopic(name): error
        for name, error in {**created.errors, **enlarged.errors, **settled.errors}.items()
        if not _is_there_already(error)
    }
    changed = frozenset(map(TargetTopic, {*created.values, *enlarged.values, *settled.values})) - errors.keys()
    for what, done in (("created", created), ("given partitions", enlarged), ("configured", settled)):
        if done.values:
            _log.info("link %s: %s at %s: %s", plan.link, what, plan.target, ", ".join(sorted(done.values)))
    counts = {t.topic: t.partition_count for t in topics}
    await await_leaders(target, {name: counts[name] for name in changed})
    return Applied(changed=changed, errors=errors)


def _is_there_already(error: ClusterError) -> bool:
    """An answer that was lost is no failure: the topic is found by the next observation."""
    return isinstance(error, BrokerRefused) and error.code == codes.TOPIC_ALREADY_EXISTS
