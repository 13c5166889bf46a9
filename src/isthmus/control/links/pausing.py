"""An operator pauses and resumes a link, or a part of it, by documents in the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from isthmus.control.links.filtering import filtered
from isthmus.control.links.host import operator
from isthmus.control.links.memory import now_ms, recollect
from isthmus.control.loops.all import LOOPS
from isthmus.errors import ConfigError
from isthmus.ledger.documents import PauseDocument, TaskPauseDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.loop import DATA_TASK, GROUPS_TASK, TOPICS_TASK
from isthmus.model.namespace import Namespace
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.pauses import Pauses
from isthmus.model.plain import OwnFields, plain_fields
from isthmus.wire.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What taking a pause back came to: whether there `was_paused` anything, and what is `still_paused`."""

    was_paused: bool
    still_paused: Pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What somebody names of a link, at most one of these, and nothing for all of it: a `topic` or a `namespace` as at
    the source or as at the target, or a `task`.
    """

    topic: str | None = None
    namespace: str | None = None
    task: str | None = None

    def as_dict(self) -> OwnFields:
        """Plain values under stable names."""
        return plain_fields(self)


def task_names() -> list[str]:
    """The tasks of links that can be paused by themselves."""
    return [DATA_TASK, TOPICS_TASK, GROUPS_TASK, *(make().name for make in LOOPS)]


async def pause(link: Link, named: Named, ledger: LedgerSettings, *, dry_run: bool = False) -> bool:
    """Pause the link or a part of it; its controller obeys within a second, now or when it starts. Whether it was
    paused before; then, and with `dry_run`, nothing is written.

    :raises ConfigError: The link does not mirror the topic, has no such task, or several parts are named.
    :raises ClusterError: The ledger at the target cannot be written.
    """
    async with Client(link.target) as target:
        document = _document(await filtered(link, target), named)
        was_paused = document.part in (await recollect(link.name, target)).paused.parts
        if not (was_paused or dry_run):
            await append_once(target, [document], replication_factor=ledger.replication_factor)
    return was_paused


async def resume(link: Link, named: Named, ledger: LedgerSettings, *, dry_run: bool = False) -> Resumed:
    """Take a pause back: that of the link as a whole, or of a part of it. Other pauses hold on. With `dry_run` nothing
    is written.

    :raises ConfigError: The link does not mirror the topic, has no such task, or several parts are named.
    :raises ClusterError: The ledger at the target cannot be written.
    """
    async with Client(link.target) as target:
        document = _document(await filtered(link, target), named)
        paused = (await recollect(link.name, target)).paused
        was_paused = document.part in paused.parts
        if was_paused and not dry_run:
            await append_once(target, [Deletion(document.key)], replication_factor=ledger.replication_factor)
    return Resumed(was_paused=was_paused, still_paused=paused.without(document.part))


async def pauses(link: Link) -> Pauses:
    """What is paused of a link.

    :raises ClusterError: The ledger at the target cannot be read.
    """
    async with Client(link.target) as target:
        return (await recollect(link.name, target)).paused


def _document(link: Link, named: Named) -> PauseDocument | TaskPauseDocument:
    topic = named.topic
    if sum(part is not None for part in named.as_dict().values()) > 1:
        raise ConfigError(
            "a pause is about a topic, about a namespace or about a task",
            hint="Give one of --topic, --namespace and --task.",
        )
    if named.task is not None:
        return TaskPauseDocument(link=link.name, task=_task(named.task), since_ms=now_ms(), by=operator())
    if named.namespace is not None:
        return PauseDocument(
            link=link.name, prefix=_prefix_there(link, named.namespace), since_ms=now_ms(), by=operator()
        )
    target_topic = None if topic is None else mirrored_as(link, topic)
    if topic is not None and target_topic is None:
        raise ConfigError(
            f"link {link.name} does not mirror topic {topic}",
            hint="isthmus plan shows which topics a link mirrors.",
        )
    return PauseDocument(link=link.name, topic=target_topic, since_ms=now_ms(), by=operator())


def _task(name: str) -> str:
    names = task_names()
    if name not in names:
        raise ConfigError(f"links have no task {name!r} that can be paused", hint=f"There are {', '.join(names)}.")
    return name


def _prefix_there(link: Link, namespace: str) -> str:
    """The prefix at the target that somebody means: of a declared link also that of the source which it follows."""
    wanted = Namespace.of(namespace)
    maps = [each for each in link.namespaces if each.kind == "topic"]
    if not any(wanted == each.target for each in maps):
        for each in maps:
            if wanted == each.source:
                return each.target.prefix
    return wanted.prefix


def mirrored_as(link: Link, topic: str) -> TargetTopic | None:
    """The topic at the target that somebody means who names it as here or as at the source."""
    there = TargetTopic(topic)
    return there if link.topics.source_of(there) is not None else link.topics.target_of(SourceTopic(topic))
