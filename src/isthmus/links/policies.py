"""Topics that are still being filled when their link lets go of them: set the policy that they were to get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from isthmus.errors import ClusterError
from isthmus.kafka.admin.configs import alter_topic_configs
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import RecoveryDocument
from isthmus.memory.leaving import known_names
from isthmus.memory.links import LinkMemory, recollect
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, Settings, TopicDescription
from isthmus.model.link import Link
from isthmus.model.links.promotion import Promotion
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.wording import first_few
from isthmus.topics.creation import final_policy, is_for_filling

Values = Mapping[str, str | None]


async def settle_policies(found: Promotion, link: Link, target: Client, *, is_final: bool) -> Promotion:
    """Give topics that are still configured for filling the policy meant for afterwards, as the link recorded it, or
    else as its source had it when last seen: no other process will. Failures are added to the notes.

    Unless `is_final` they stay as they are, with a note: they may be attached again, and are filled on then.

    :raises ClusterError: The target does not answer.
    """
    names = sorted({each.topic for each in found.partitions if each.partition >= 0})
    if not names:
        return found
    known = await recollect(link.name, target)
    described = await describe_topics(target, (await target.metadata(names)).topics.values())
    filling = {TargetTopic(name): each for name, each in described.values.items() if is_for_filling(each.own_configs)}
    wanted = {name: policy for name, each in filling.items() if (policy := _policy_for(known, link, each))}
    if not is_final:
        return replace(found, notes=(*found.notes, *_still_filling_notes(wanted)))
    unseen = {name: dict(_settles(known, name)) for name in map(TargetTopic, described.errors)}
    done = await alter_topic_configs(target, {str(name): values for name, values in wanted.items()})
    errors = {**described.errors, **done.errors}
    notes = (
        _failed_note(name, each, errors[name]) for name, each in (wanted | unseen).items() if each and name in errors
    )
    return replace(found, notes=(*found.notes, *notes))


def _policy_for(known: LinkMemory, link: Link, there: TopicDescription) -> Values:
    """Return the settings of a topic configured for filling; nothing where it has that for a reason of its own."""
    own = there.own_configs
    if before := _recorded_settings(known, there):
        return {name: value for name, value in before if value != own[name]}
    source_topic = link.topics.source_of(TargetTopic(there.name))
    document = known.topics.get(TargetTopic(there.name))
    if source_topic is None or (document is not None and document.is_mapped):
        return {}
    source = _last_seen(known, source_topic)
    return {} if source is None else final_policy(source, own, link.configs)


def _settles(known: LinkMemory, name: TargetTopic) -> Settings:
    return known.topics[name].settles if name in known.topics else ()


def _recorded_settings(known: LinkMemory, there: TopicDescription) -> Settings:
    """Return the settings that the link recorded for this very topic."""
    document = known.topics.get(TargetTopic(there.name))
    if document is not None and document.target_topic_id == there.topic_id:
        return document.settles
    rebuilt = (
        each
        for each in RecoveryDocument.find_all(known.documents.values())
        if each.topic == there.name and each.rebuilt_id == there.topic_id
    )
    return next((each.settles for each in rebuilt), ())


def _last_seen(known: LinkMemory, source_topic: SourceTopic) -> TopicDescription | None:
    """Return the source's topic with its own settings as last seen."""
    for names in known_names(known):
        for each in names.topics:
            if each.name == source_topic:
                return TopicDescription(
                    name=each.name,
                    topic_id=NO_TOPIC_ID,
                    partition_count=len(each.logs),
                    replication_factor=each.replicas,
                    configs={one.name: ConfigEntry(one.value, ConfigSource.DYNAMIC_TOPIC) for one in each.settings},
                )
    return None


def _still_filling_notes(filling: Mapping[TargetTopic, Values]) -> Iterator[Problem]:
    if filling:
        yield Problem(
            f"still being filled, so without their retention and policy: {first_few(sorted(filling))}",
            "They get both when they are attached again and filled, or by promote or failover.",
        )


def _failed_note(topic: TargetTopic, wanted: Values, why: ClusterError) -> Problem:
    settings = ", ".join(f"{name}={value or 'the default'}" for name, value in sorted(wanted.items()))
    return Problem(
        f"{topic} was still being filled, and keeps cleanup.policy=delete without a retention: {why}",
        f"Set {settings} on it (ALTER_CONFIGS on the topic).",
    )
