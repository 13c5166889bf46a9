"""Records set aside at the target of a link, and replays of them, for commands that name a link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from isthmus.errors import ConfigError, PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import RecoveryDocument, TopicDocument
from isthmus.memory.filtering import in_force
from isthmus.memory.links import read_ledger
from isthmus.memory.named import NamedLink
from isthmus.model.lane import LaneState
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.links.recovery import QUARANTINE_PREFIX, SetAside, quarantine_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery.letterreplay import ChangeRecords, LetterReplayer
from isthmus.recovery.replaying import (
    QuarantinedPartition,
    QuarantineFilter,
    ReplayedPartition,
    Replayer,
    quarantine_holds,
)
from isthmus.recovery.showing import (
    LetterHome,
    SetAsideRecord,
    ShownSelection,
    count_letters,
    letter_homes,
    show_records,
)
from isthmus.recovery.sides import find_topic


async def holdings(one: NamedLink, topic: str | None = None) -> tuple[QuarantinedPartition, ...]:
    """Return the records set aside of the topics of a link, or of one, even if the link no longer mirrors it, and the
    dead letters of the link.

    :raises ConfigError: There is no such link, or it never mirrored the topic.
    :raises ClusterError: The target cannot be read.
    """
    target = one.target
    (link,) = await in_force((one.link,), one.session)
    recovered = await _find_recovered(target, link.name)
    if topic is not None:
        at_target = await _at_target(one, topic)
        home = LetterHome(link.name, at_target, dead_letters_of(link.name, at_target))
        held = *await quarantine_holds(target, at_target), *await count_letters(target, home)
        return held or await _none_of(one, at_target)
    names = (await target.metadata(None)).topics
    homes = letter_homes(names, link.name, (await read_ledger(target)).documents().values())
    own = [
        each for each in _set_aside(names, recovered) if link.topics.source_of(each) is not None or each in recovered
    ]
    return tuple(
        [each for name in own for each in await quarantine_holds(target, name)]
        + [each for home in homes for each in await count_letters(target, home)]
    )


async def show(
    one: NamedLink,
    topic: str,
    *,
    kind: SetAside | None = None,
    partition: int | None = None,
    offset: int | None = None,
    limit: int = 20,
) -> tuple[SetAsideRecord, ...]:
    """Return records set aside of a topic of a link, its dead letters included: the last `limit` of them, of a kind, a
    partition and an offset if these are given.

    :raises ConfigError: There is no such link, it never mirrored the topic, or the limit is none.
    :raises ClusterError: The target cannot be read.
    """
    selected = ShownSelection(kind=kind, partition=partition, offset=offset, limit=limit)
    at_target = await _at_target(one, topic)
    return await show_records(one.target, one.name, at_target, selected) or await _none_of(one, at_target)


async def all_holdings(clients: Iterable[Client]) -> tuple[QuarantinedPartition, ...]:
    """Return the records set aside at the clusters of these clients, whatever happened to the links.

    :raises ClusterError: A cluster cannot be read.
    """
    found: list[QuarantinedPartition] = []
    for client in clients:
        names = (await client.metadata(None)).topics
        for name in _set_aside(names, await _find_recovered(client)):
            found += await quarantine_holds(client, name)
        for home in letter_homes(names, None, (await read_ledger(client)).documents().values()):
            found += await count_letters(client, home)
    return tuple(found)


def _set_aside(names: Collection[str], recovered: Collection[TargetTopic]) -> list[TargetTopic]:
    """Return the topics of a cluster with these `names` that have a quarantine there. It may outlive its topic; for
    topics with long names only the topic itself, or its recovery document, shows that.
    """
    known = {*names, *recovered, *(name.removeprefix(QUARANTINE_PREFIX) for name in names)}
    return sorted(TargetTopic(name) for name in known if quarantine_of(name) in names)


async def _find_recovered(target: Client, link: str | None = None) -> dict[TargetTopic, SourceTopic]:
    """Return the topics that a link, or any, ever recovered at its target, with those of the source."""
    memory = await read_ledger(target)
    documents = memory.documents() if link is None else memory.of(link).documents
    return {each.topic: each.source_topic for each in RecoveryDocument.find_all(documents.values())}


async def _find_known(target: Client, link: str) -> dict[TargetTopic, SourceTopic]:
    """Return the topics at the target that a link ever mirrored or recovered, with those of the source."""
    documents = (await read_ledger(target)).of(link).documents.values()
    mirrored = {each.target_topic: each.source_topic for each in TopicDocument.find_all(documents)}
    return mirrored | {each.topic: each.source_topic for each in RecoveryDocument.find_all(documents)}


async def replay_of(
    one: NamedLink,
    topic: str,
    *,
    cluster: str | None = None,
    into: str | None = None,
    selected: QuarantineFilter | None = None,
    dry_run: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> tuple[ReplayedPartition, ...]:
    """Replay the records set aside of a topic of a link, to the source's topic unless another one is named. `on_step`
    is called with each step in words.

    :raises ConfigError: There is no such link or cluster, or the link never mirrored the topic.
    :raises PlanRefused: The other topic is not there, or has fewer partitions.
    :raises GateNotMet: A transaction in the other topic does not end.
    :raises ClusterError: A cluster cannot be read or written; a repeated call continues.
    """
    link, target = one.link, one.target
    at_target = await _at_target(one, topic)
    source_topic = link.topics.source_of(at_target) or (await _find_known(target, link.name)).get(at_target)
    if into is None and (cluster not in (None, link.source.alias) or source_topic is None):
        raise ConfigError("no topic to write to is named", hint="Name it with --into.")
    replayer = Replayer(
        link=link.name,
        target=target,
        destination=one.session.client(link.source if cluster is None else one.configuration.cluster(cluster)),
        topic=at_target,
        into=into or source_topic or SourceTopic(""),
        selected=selected or QuarantineFilter(),
        on_step=on_step,
    )
    return await replayer.replay(dry_run=dry_run) or await _none_of(one, at_target)


async def replay_letters(
    one: NamedLink,
    topic: str,
    *,
    into: str | None = None,
    change: ChangeRecords | None = None,
    dry_run: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> tuple[ReplayedPartition, ...]:
    """Replay the dead letters of a topic of a link, to the target's topic unless another one there is named, as
    `change` has the link's present transform change them, or as they were.

    :raises ConfigError: There is no such link, or it never mirrored the topic.
    :raises PlanRefused: The topic to write to is not there, has too few partitions or gets its records with the offsets
        of a source; or nothing changes its records.
    :raises ClusterError: The target cannot be read or written; a repeated call continues.
    """
    (link,) = await in_force((one.link,), one.session)
    at_target = await _at_target(one, topic)
    await _require_writable(one.target, into or at_target)
    replayer = LetterReplayer(
        link=link, target=one.target, topic=at_target, into=into or at_target, change=change, on_step=on_step
    )
    return await replayer.replay(dry_run=dry_run) or await _none_of(one, at_target)


async def _none_of(one: NamedLink, topic: TargetTopic) -> tuple[()]:
    """Return that nothing was set aside of a topic.

    :raises ConfigError: The target has neither the topic nor one for what is set aside of it, nor does the ledger know
        it, nor has the source one that would become it.
    """
    for name in (topic, quarantine_of(topic), dead_letters_of(one.name, topic)):
        if await find_topic(one.target, name) is not None:
            return ()
    source = one.link.topics.source_of(topic)
    if topic in (await read_ledger(one.target)).of(one.name).topics or (
        source is not None and await find_topic(one.session.client(one.link.source), source) is not None
    ):
        return ()
    raise ConfigError(
        f"{one.link.target.alias} has no topic {topic}, and link {one.name} has never written one",
        hint=f"isthmus status {one.name} -o name shows the topics of the link, isthmus quarantine list {one.name} "
        "those of which something was set aside.",
    )


async def _require_writable(target: Client, topic: str) -> None:
    """See that no link copies a topic with its source's offsets: it would stop at a record of others.

    :raises PlanRefused: One does.
    :raises ClusterError: The target cannot be read.
    """
    memory, found = await read_ledger(target), (await target.metadata([topic])).topics[topic]
    for each in TopicDocument.find_all(memory.documents().values()):
        is_same = not each.is_mapped and (each.target_topic, each.target_topic_id) == (topic, found.topic_id)
        if is_same and not LaneState(each.state).is_terminal:
            raise PlanRefused(
                f"topic {topic} of {target.cluster.alias} has the offsets of link {each.link}'s source: a replay would "
                "end its partitions as FOREIGN_WRITE",
                hint="Name another topic: --into. If that link is run no more: isthmus forget "
                f"{each.link} --at {target.cluster.alias}.",
            )


async def _at_target(one: NamedLink, topic: str) -> TargetTopic:
    """Return the topic at the target for one named as there or as at the source, mirrored now or before.

    :raises ConfigError: There is no such link, or it never mirrored the topic.
    :raises ClusterError: The target cannot be read.
    """
    (link,) = await in_force((one.link,), one.session)
    known = await _find_known(one.target, link.name)
    before = {name for name, source in known.items() if topic in (name, source)}
    found = link.topics.find_target(topic) or min(before, default=None)
    if found is None:
        raise ConfigError(
            f"link {link.name} does not mirror topic {topic}, and never did",
            hint="isthmus quarantine list shows the quarantines of all clusters.",
        )
    return found
