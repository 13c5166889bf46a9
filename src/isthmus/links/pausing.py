"""An operator pauses and resumes a link, or a part of it, by documents in the ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from isthmus.errors import ConfigError
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import PauseDocument, TaskPauseDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.local.operator import operator
from isthmus.memory.filtering import apply_overrides
from isthmus.memory.links import now_ms, recollect
from isthmus.memory.named import NamedLink
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES, Pauses
from isthmus.model.loop import DATA_TASK, GROUPS_TASK, TOPICS_TASK
from isthmus.model.namespace import Namespace, NamespaceMap, NamespaceNaming
from isthmus.model.naming import MirrorMakerNaming, Naming, PrefixNaming, TargetTopic
from isthmus.status.tasks import LOOPS

_SHOWN: Final = "isthmus plan shows which topics a link mirrors."


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The result of taking a pause back: whether there `was_paused` anything, and what is `still_paused`."""

    was_paused: bool
    still_paused: Pauses


def task_names() -> list[str]:
    """Return the tasks of links that can be paused by themselves."""
    return [DATA_TASK, TOPICS_TASK, GROUPS_TASK, *(make().name for make in LOOPS)]


async def pause(
    one: NamedLink,
    topic: str | None = None,
    *,
    namespace: str | None = None,
    task: str | None = None,
    dry_run: bool = False,
) -> bool:
    """Pause the link or a part of it; its controller obeys within a second, now or when it starts. Return whether it
    was paused before; then, and with `dry_run`, nothing is written. A pause made by a recovery stays at its end.

    :raises ConfigError: There is no such link, it does not mirror the topic or anything of the namespace, has no such
        task, or several parts are named.
    :raises ClusterError: The ledger at the target cannot be written.
    """
    target, known = one.target, await recollect(one.name, one.target)
    link = apply_overrides(one.link, known.documents)
    document = await _document(link, target, topic, namespace, task)
    held = known.documents.get(document.key)
    is_lent = isinstance(held, PauseDocument) and held.for_recovery
    was_paused = document.part in known.paused.parts and not is_lent
    if not (was_paused or dry_run):
        await append_once(target, [document], replication_factor=one.configuration.ledger.replication_factor)
    return was_paused


async def resume(
    one: NamedLink,
    topic: str | None = None,
    *,
    namespace: str | None = None,
    task: str | None = None,
    dry_run: bool = False,
) -> Resumed:
    """Take a pause back: that of the link as a whole, or of a part of it. Other pauses stay. With `dry_run` nothing
    is written.

    :raises ConfigError: There is no such link, it does not mirror the topic or anything of the namespace, has no such
        task, or several parts are named.
    :raises ClusterError: The ledger at the target cannot be written.
    """
    target, known = one.target, await recollect(one.name, one.target)
    link, paused = apply_overrides(one.link, known.documents), known.paused
    document = await _document(link, target, topic, namespace, task, paused)
    was_paused = document.part in paused.parts
    if was_paused and not dry_run:
        await append_once(
            target, [Deletion(document.key)], replication_factor=one.configuration.ledger.replication_factor
        )
    return Resumed(was_paused=was_paused, still_paused=paused.without(document.part))


async def pauses(one: NamedLink) -> Pauses:
    """Return what is paused of a link.

    :raises ConfigError: There is no such link.
    :raises ClusterError: The ledger at the target cannot be read.
    """
    return (await recollect(one.name, one.target)).paused


async def _document(
    link: Link,
    target: Client,
    topic: str | None,
    namespace: str | None,
    task: str | None,
    paused: Pauses = NO_PAUSES,
) -> PauseDocument | TaskPauseDocument:
    """Return the document of a pause of the part that is named, of all of the link without a name. It may be one of
    those that are `paused`.
    """
    if sum(part is not None for part in (topic, namespace, task)) > 1:
        raise ConfigError(
            "a pause is about a topic, about a namespace or about a task",
            hint="Give one of --topic, --namespace and --task.",
        )
    if task is not None:
        return TaskPauseDocument(link=link.name, task=_task(task), since_ms=now_ms(), by=operator())
    if namespace is not None:
        # A pause can always be taken back, whatever happened to its topics since.
        part: Namespace | TargetTopic = Namespace.of(namespace)
        if part not in paused.parts:
            part = part_there(link, namespace, (await target.metadata(None)).topics)
        whole, prefix = (None, part.prefix) if isinstance(part, Namespace) else (part, None)
        return PauseDocument(link=link.name, topic=whole, prefix=prefix, since_ms=now_ms(), by=operator())
    target_topic = None if topic is None else link.topics.find_target(topic)
    if topic is not None and target_topic is None:
        raise ConfigError(f"link {link.name} does not mirror topic {topic}", hint=_SHOWN)
    return PauseDocument(link=link.name, topic=target_topic, since_ms=now_ms(), by=operator())


def _task(name: str) -> str:
    names = task_names()
    if name not in names:
        raise ConfigError(f"links have no task {name!r} that can be paused", hint=f"There are {', '.join(names)}.")
    return name


def part_there(link: Link, namespace: str, there: Collection[str]) -> Namespace | TargetTopic:
    """Return the namespace or topic at the target for a namespace named as there or as at the source. `there` are the
    target's topics: where names do not determine what a link may write, these do.

    :raises ConfigError: No topic of the link can be in it, or it is in several namespaces of the source.
    """
    wanted = Namespace.of(namespace)
    prefix, maps = wanted.prefix, _maps(link.topics.naming)
    at_target = [each for each in maps if _is_read(link, _beginning(each.reversed, prefix))]
    at_source = [
        each
        for each in maps
        if _beginning(each, prefix) is not None and _is_read(link, max(prefix, each.source.prefix, key=len))
    ]
    is_namespace_there = any(each.target.prefix == prefix for each in at_target)
    is_namespace_of_source = any(each.source.prefix == prefix for each in at_source)
    if at_target and (is_namespace_there or not is_namespace_of_source):
        return wanted
    if not at_source and any(wanted.holds(name) and link.topics.may_write(TargetTopic(name)) for name in there):
        return wanted
    parts = [_part(each, prefix) for each in at_source]
    if len(parts) == 1:
        return parts[0]
    if parts:
        raise ConfigError(
            f"topics of the source that begin with {prefix!r} belong to several namespaces: "
            f"{', '.join(str(each.source) for each in at_source)}",
            hint="Name one of them at a time.",
        )
    known = ", ".join(map(str, link.namespaces))
    raise ConfigError(
        f"link {link.name} mirrors no topic whose name begins with {prefix!r}",
        hint=f"Its namespaces are {known}, each written source:target." if known else _SHOWN,
    )


def _maps(naming: Naming) -> tuple[NamespaceMap, ...]:
    """Return the beginnings of names on either side, as far as a naming goes by them."""
    if isinstance(naming, NamespaceNaming):
        return naming.maps
    if isinstance(naming, PrefixNaming):
        begin = naming.source_prefix, naming.target_prefix
    elif isinstance(naming, MirrorMakerNaming):
        begin = "", f"{naming.source_alias}{naming.separator}"
    else:
        return ()
    return (NamespaceMap(source=Namespace(prefix=begin[0]), target=Namespace(prefix=begin[1])),)


def _beginning(each: NamespaceMap, prefix: str) -> str | None:
    """Return how names at the target begin that begin so at the source; `None` where the map has none of them."""
    if each.source.prefix.startswith(prefix):
        return each.target.prefix
    if each.source.is_exact or not prefix.startswith(each.source.prefix):
        return None
    return each.target.prefix + prefix[len(each.source.prefix) :]


def _part(each: NamespaceMap, prefix: str) -> Namespace | TargetTopic:
    begun = _beginning(each, prefix) or ""
    return TargetTopic(begun) if each.target.is_exact else Namespace(prefix=begun)


def _is_read(link: Link, begun: str | None) -> bool:
    """Whether topics of the source whose names begin so may belong to a link."""
    if begun is None or any(one.kind == "prefix" and begun.startswith(one.value) for one in link.topics.exclude):
        return False
    return any(
        one.kind == "regex" or one.value.startswith(begun) or (one.kind == "prefix" and begun.startswith(one.value))
        for one in link.topics.include
    )
