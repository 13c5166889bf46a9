"""Carry out a plan: create, enlarge and settle topics at the target. Each has its own outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from isthmus.errors import ClusterError
from isthmus.kafka.admin.changes import add_partitions, await_leaders, create_topics, is_there_already
from isthmus.kafka.admin.configs import alter_topic_configs
from isthmus.kafka.client import Client
from isthmus.model.naming import TargetTopic
from isthmus.topics.plan import Action, LinkPlan

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The topics that were changed as far as brokers know it by now, and those that were refused with their errors."""

    changed: frozenset[TargetTopic] = frozenset()
    errors: Mapping[TargetTopic, ClusterError] = field(default_factory=dict)


async def apply(plan: LinkPlan, target: Client) -> Applied:
    """Change the target cluster as planned. Applying a plan again changes nothing more.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    topics = [topic for topic in plan.topics if not topic.reasons]
    letters = {each.dead_letters.topic: each for each in topics if each.dead_letters is not None}
    beside = [each.dead_letters for each in letters.values() if each.dead_letters is not None]
    wanted = [each.creation for each in topics] + [each.creation for each in beside]
    created = await create_topics(target, [each for each in wanted if each is not None])
    counts = {**{each.topic: each.wanted for each in beside}, **{str(t.topic): t.partition_count for t in topics}}
    too_small = [str(t.topic) for t in topics if t.action is Action.ADD_PARTITIONS]
    too_small += [each.topic for each in beside if 0 < each.partitions < each.wanted]
    enlarged = await add_partitions(target, {name: counts[name] for name in too_small})
    settled = await alter_topic_configs(target, {t.topic: t.settles for t in topics if t.settles})

    def find_topic(name: str) -> TargetTopic:
        return letters[name].topic if name in letters else TargetTopic(name)

    errors = {
        find_topic(name): error
        for name, error in {**created.errors, **enlarged.errors, **settled.errors}.items()
        # Then the next observation finds it.
        if not is_there_already(error)
    }
    for what, done in (("created", created), ("given partitions", enlarged), ("configured", settled)):
        if done.values:
            _log.info("link %s: %s at %s: %s", plan.link, what, plan.target, ", ".join(sorted(done.values)))
    grown = {name: counts[name] for name in (*created.values, *enlarged.values)}
    changed = {*settled.values} - grown.keys() | await await_leaders(target, grown)
    return Applied(changed=frozenset(map(find_topic, changed)) - errors.keys(), errors=errors)
