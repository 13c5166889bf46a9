"""Topics that a link mirrored once and no longer selects: what the ledger remembers of them, until it forgets them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Final

from isthmus.errors import ConfigError, Fenced, PlanRefused
from isthmus.kafka.admin.topics import known_absent
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.aborting import abort_mirrored
from isthmus.ledger.documents.kinds import (
    BeginningDocument,
    DepartureDocument,
    Document,
    ForgottenDocument,
    GapDocument,
    MapDocument,
    PauseDocument,
    RecoveryDocument,
    ReplayDocument,
    TopicDocument,
    TransformDocument,
)
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion, LedgerChange, in_batches
from isthmus.ledger.topic import on_topic
from isthmus.memory.filtering import apply_overrides
from isthmus.memory.hearing import is_run
from isthmus.memory.links import LinkMemory, read_ledger, recollect
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import PlainValue

_OF_TOPIC: Final = (
    BeginningDocument,
    GapDocument,
    PauseDocument,
    MapDocument,
    DepartureDocument,
    TransformDocument,
    RecoveryDocument,
    ReplayDocument,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten(PlainValue):
    """One topic, the keys of the documents the ledger held of it, and the transactions that lanes had left open in it
    and that were `aborted`, as no task continues them.
    """

    link: str
    topic: TargetTopic
    documents: tuple[str, ...]
    aborted: tuple[OpenTransaction, ...] = ()


def no_longer_mirrored(link: Link, documents: Mapping[str, Document]) -> tuple[TargetTopic, ...]:
    """Return the topics that the ledger knows of a link and that it does not select, or not under this name; sorted."""
    known = TopicDocument.find_all(documents.values(), link.name)
    return tuple(sorted(d.target_topic for d in known if link.topics.target_of(d.source_topic) != d.target_topic))


async def forget(
    link: Link, session: ClientSession, topics: Collection[str], ledger: LedgerSettings, *, dry_run: bool = False
) -> tuple[Forgotten, ...]:
    """Delete from the ledger what it remembers of topics that the link no longer selects: of these, or of all. They are
    named as at the target. A topic that it selects is forgotten if its source has it no more.

    The topics themselves stay as they are on both sides. If the link selects one again, it is treated as a topic that
    was never mirrored: its end is compared with the source before anything is written.

    Transactions that lanes have left open in them are aborted, as no lane would end them.

    :raises ConfigError: The link still selects one of the topics, and its source has it, or it was never mirrored.
    :raises PlanRefused: A controller that was started before still mirrors one of them.
    :raises ClusterError: The ledger at the target cannot be read or written, the source cannot be asked, or open
        transactions cannot be aborted; nothing is forgotten then.
    """
    target = session.client(link.target)
    known = await recollect(link.name, target)
    link = apply_overrides(link, known.documents)
    left = no_longer_mirrored(link, known.documents)
    named = [known.topics[each] for each in map(TargetTopic, topics) if each in known.topics]
    gone = await _find_gone(link, session.client(link.source), named)
    for topic in topics:
        if topic not in gone:
            _check(link, topic, known, left)
    found = tuple(_describe_forgotten(known, topic) for topic in (sorted(map(TargetTopic, set(topics))) or left))
    deleted = {name for name in gone if known.topics[name].state == LaneState.SOURCE_DELETED}
    await _check_idle(known, [each.topic for each in found if each.topic not in deleted], target)
    changes: list[LedgerChange] = []
    for each in found:
        if each.topic in gone:
            changes += letting_go(known.documents, each.topic)
        else:
            changes += map(Deletion, each.documents)
    if changes and not dry_run:
        found = await _abort_left_open_in(target, found)
        await append_once(target, changes, replication_factor=ledger.replication_factor)
    return found


async def forget_link(target: Client, link: str, ledger: LedgerSettings, *, dry_run: bool = False) -> tuple[str, ...]:
    """Delete all that the ledger of a target cluster remembers of a link, as if it had never been; return the keys.

    Its topics stay as they are, but transactions that its lanes have left open in them are aborted. The link no longer
    counts in the search for circles, and later writers of its topics are not held against it. It is written as a
    controller would: of a link that a controller begins to run meanwhile nothing is deleted.

    :raises ConfigError: The ledger knows no such link.
    :raises PlanRefused: A controller runs it, or began to meanwhile.
    :raises ClusterError: The ledger cannot be read or written.
    """
    known = await recollect(link, target)
    keys = tuple(sorted(known.documents))
    if not keys:
        raise ConfigError(
            f"the ledger of {target.cluster.alias} knows no link {link}",
            hint="Its ledger is at the target of a link; isthmus status names the links of the configuration.",
        )
    if await is_run(link, target):
        raise PlanRefused(f"a controller runs link {link}", hint="End that isthmus run first.")
    return keys if dry_run else await _forget_fenced(target, known, ledger)


async def _forget_fenced(target: Client, known: LinkMemory, ledger: LedgerSettings) -> tuple[str, ...]:
    writer, factor = FencedWriter(target, known.link), ledger.replication_factor
    try:
        await on_topic(target, writer.take_over, replication_factor=factor)
        async with writer.looking(replication_factor=factor):
            now = await recollect(known.link, target)
        if now.controller != known.controller:
            raise PlanRefused(
                f"a controller began to run link {known.link} meanwhile, and was ended by this; nothing was forgotten",
                hint="Start it again if it is to run; if not, give this command again.",
            )
        keys = tuple(sorted(now.documents))
        await abort_left_open(target, known.link, list(now.topics))
        for batch in in_batches(list(map(Deletion, keys))):
            await on_topic(target, partial(writer.append, batch), replication_factor=factor)
    except Fenced as error:
        raise PlanRefused(
            f"a controller began to run link {known.link} meanwhile", hint="End that isthmus run first."
        ) from error
    finally:
        writer.close()
    return keys


async def forget_copies(link: str, maps: Iterable[NamespaceMap], target: Client, ledger: LedgerSettings) -> None:
    """Delete from the ledger of a target cluster that topics of released namespaces are copies: a link that leads from
    there is then not refused as a circle.

    :raises ClusterError: The ledger cannot be read or written.
    """
    spaces = [each.target for each in maps if each.kind == "topic"]
    topics = (await recollect(link, target)).topics
    keys = [one.key for topic, one in topics.items() if any(space.holds(topic) for space in spaces)]
    if keys:
        await _delete(target, keys, ledger)


async def abort_left_open(target: Client, link: str, topics: Collection[TargetTopic]) -> tuple[OpenTransaction, ...]:
    """Abort transactions that lanes of a link left open in topics it lets go of, except in topics of other links.

    :raises ClusterError: A transaction cannot be aborted, or the ledger cannot be read.
    """
    memory = await read_ledger(target)
    others = {each.target_topic for each in TopicDocument.find_all(memory.documents().values()) if each.link != link}
    left = [topic for topic in topics if topic not in others]
    return await abort_mirrored(target, left)


async def _abort_left_open_in(target: Client, found: tuple[Forgotten, ...]) -> tuple[Forgotten, ...]:
    aborted = await abort_left_open(target, found[0].link, [each.topic for each in found])
    return tuple(replace(each, aborted=tuple(one for one in aborted if one.topic == each.topic)) for each in found)


async def _delete(target: Client, keys: Iterable[str], ledger: LedgerSettings) -> None:
    await append_once(target, map(Deletion, keys), replication_factor=ledger.replication_factor)


async def _find_gone(link: Link, source: Client, topics: Collection[TopicDocument]) -> frozenset[TargetTopic]:
    """Return the topics that the link selects and its source no longer has."""
    selected = {
        d.source_topic: d.target_topic for d in topics if link.topics.target_of(d.source_topic) == d.target_topic
    }
    if not selected:
        return frozenset()
    absent = await known_absent(source, selected)
    return frozenset(selected[SourceTopic(name)] for name in absent)


def _check(link: Link, topic: str, known: LinkMemory, left: Collection[str]) -> None:
    document = known.topics.get(TargetTopic(topic))
    source = SourceTopic(topic) if document is None else document.source_topic
    if topic not in left and link.topics.target_of(source) == topic:
        raise ConfigError(
            f"link {link.name} mirrors topic {topic}",
            hint=(
                "Exclude it first (topics.exclude of the link); only a topic that is no longer mirrored can be "
                "forgotten."
            ),
        )
    if topic not in left:
        near = get_close_matches(topic, left, n=1)
        hint = f"Did you mean {near[0]}?" if near else "isthmus plan shows which topics are no longer mirrored."
        raise ConfigError(f"the ledger knows no topic {topic} of link {link.name}", hint=hint)


async def _check_idle(known: LinkMemory, topics: Collection[str], target: Client) -> None:
    reported = sorted({key.topic for key in known.reports}.intersection(topics))
    if reported and await is_run(known.link, target):
        raise PlanRefused(
            f"a controller still mirrors topic {reported[0]}: it has not heard yet that the topic is excluded or gone",
            hint="Try again in some seconds, or end that isthmus run and start it again; then forget the topic.",
        )


def _describe_forgotten(known: LinkMemory, topic: TargetTopic) -> Forgotten:
    return Forgotten(link=known.link, topic=topic, documents=keys_of(known.documents, topic))


def letting_go(documents: Mapping[str, Document], topic: TargetTopic) -> list[LedgerChange]:
    """Return the changes that make a link's ledger forget a topic that the source has deleted. The name of its copy is
    kept: it may collide with another topic, unless that one would be appended behind it (mapped offsets).
    """
    kept = [
        ForgottenDocument(
            link=each.link,
            topic=topic,
            source_topic=each.source_topic,
            topic_id=each.target_topic_id,
            source_topic_id=each.source_topic_id,
        )
        for each in TopicDocument.find_all(documents.values())
        if each.target_topic == topic and not each.is_mapped and each.target_topic_id != NO_TOPIC_ID
    ]
    return [*map(Deletion, keys_of(documents, topic)), *kept]


def keys_of(documents: Mapping[str, Document], topic: TargetTopic) -> tuple[str, ...]:
    """Return the keys of a topic's documents in the ledger of a link."""
    keys = (
        key
        for key, d in documents.items()
        if (isinstance(d, TopicDocument) and d.target_topic == topic) or (isinstance(d, _OF_TOPIC) and d.topic == topic)
    )
    return tuple(sorted(keys))
