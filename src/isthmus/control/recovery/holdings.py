"""What was set aside at the target of a link, and replays of it, for commands that name a link."""

from __future__ import annotations

from collections.abc import Callable

from isthmus.control.links.pausing import mirrored_as
from isthmus.control.recovery.replaying import (
    QuarantinedPartition,
    QuarantineFilter,
    ReplayedPartition,
    Replayer,
    quarantine_holds,
)
from isthmus.errors import ConfigError
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.recovery import QUARANTINE_PREFIX, quarantine_of
from isthmus.wire.client import Client


async def holdings(link: Link, topic: str | None = None) -> tuple[QuarantinedPartition, ...]:
    """What was set aside of the topics of a link, or of one of them.

    :raises ConfigError: The link does not mirror the topic.
    :raises ClusterError: The target cannot be read.
    """
    async with Client(link.target) as target:
        if topic is not None:
            return await quarantine_holds(target, _at_target(link, topic))
        names = (await target.metadata(None)).topics
        # A quarantine may outlive its topic. Of those with long names only the topic itself tells.
        known = {*names, *(name.removeprefix(QUARANTINE_PREFIX) for name in names)}
        found: list[QuarantinedPartition] = []
        for name in sorted(known):
            if link.topics.source_of(TargetTopic(name)) is not None and quarantine_of(name) in names:
                found += await quarantine_holds(target, name)
        return tuple(found)


async def replay_of(
    configuration: Configuration,
    name: str,
    topic: str,
    *,
    cluster: str | None = None,
    into: str | None = None,
    selected: QuarantineFilter | None = None,
    dry_run: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> tuple[ReplayedPartition, ...]:
    """Replay what was set aside of a topic of a link, to the source's topic unless another one is named. `on_step` is
    told in words what is done.

    :raises ConfigError: There is no such link or cluster, the link does not mirror the topic, or nothing was set aside.
    :raises PlanRefused: The other topic is not there, or has fewer partitions.
    :raises GateNotMet: A transaction in the other topic does not end.
    :raises ClusterError: A cluster cannot be read or written; a repeated call goes on.
    """
    link = configuration.link(name)
    at_target = _at_target(link, topic)
    source_topic = link.topics.source_of(at_target)
    if into is None and (cluster not in (None, link.source.alias) or source_topic is None):
        raise ConfigError("no topic to write to is named", hint="Name it with --into.")
    destination = link.source if cluster is None else configuration.cluster(cluster)
    async with Client(link.target) as there, Client(destination) as here:
        replayer = Replayer(
            link=link.name,
            target=there,
            destination=here,
            topic=at_target,
            into=into or source_topic or SourceTopic(""),
            selected=selected or QuarantineFilter(),
            on_step=on_step,
        )
        return await replayer.replay(dry_run=dry_run)


def _at_target(link: Link, topic: str) -> TargetTopic:
    found = mirrored_as(link, topic)
    if found is None:
        raise ConfigError(
            f"link {link.name} does not mirror topic {topic}",
            hint="isthmus plan shows which topics a link mirrors.",
        )
    return found
