"""What verbs that detach have found that gateways acknowledged, in the target's ledger until a failover is over.

Gateways forget what they have said a minute after the detachment, and a link of which all was detached is asynchronous
by then: whoever gives an unfinished failover again would find nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from isthmus.control.links.memory import now_ms, remembered
from isthmus.control.links.synchronous import Detachment, acknowledged, acknowledged_since
from isthmus.ledger.documents import Document, PromisedDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.declaration import attachment
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap
from isthmus.model.promotion import Promised, Verb
from isthmus.model.transactions import OpenTransaction
from isthmus.wire.client import Client


async def promised_before(
    link: Link, maps: Collection[NamespaceMap], verb: Verb, *, is_begun: bool
) -> PromisedDocument | None:
    """What may be missing of what gateways acknowledged before a verb detaches these namespaces, `None` if none of them
    was synchronous. Where that `is_begun` it is what was found then, by this verb or by `detach`.

    :raises ClusterError: The target's ledger cannot be read.
    """
    chosen = _maps(maps)
    async with Client(link.target) as target:
        kept = await _kept(link.name, target)
        if is_begun and verb in kept and chosen <= set(kept[verb].maps):
            return kept[verb]
        past = kept.get("detach")
        is_past = past is not None and not chosen.isdisjoint(past.maps)
        if not link.is_synchronous or (is_begun and past is not None and chosen <= set(past.maps)):
            return past if is_past else None
        found = await acknowledged(link, target)
    return beside(
        PromisedDocument(
            link=link.name,
            said=link.mode_said,
            maps=tuple(sorted(chosen)),
            # Gateways have stopped to say what they had let go of what was detached before.
            promised=replace(
                found, is_open=found.is_open or is_begun, until_ms=now_ms() if verb == "detach" else found.until_ms
            ),
            # From then on they hold nothing of it, and nobody else is let in.
            is_whole=verb == "detach",
            verb=verb,
        ),
        past,
    )


def beside(found: PromisedDocument, past: PromisedDocument | None) -> PromisedDocument:
    """The same with what `detach` has found before of some of the namespaces; a detachment keeps that of others too."""
    if past is None or (found.verb != past.verb and set(past.maps).isdisjoint(found.maps)):
        return found
    maps = sorted({*found.maps, *past.maps}) if found.verb == past.verb else found.maps
    return replace(found, maps=tuple(maps), promised=found.promised.joined(past.promised))


async def promised_since(
    found: PromisedDocument, link: Link, detachment: Detachment, ledger: LedgerSettings, *, is_begun: bool
) -> PromisedDocument:
    """The same once they were detached, and the target's ledger has it. Where a failover that `is_begun` did that, and
    was interrupted before it came to this, gateways may have forgotten what they had let go.

    :raises ClusterError: The target's ledger cannot be read or written.
    """
    if found.is_whole:
        return found
    async with Client(link.target) as target:
        promised = await acknowledged_since(replace(link, mode_said=found.said), target, found.promised, detachment)
        found = replace(found, promised=replace(promised, is_open=promised.is_open or is_begun), is_whole=True)
        await append_once(target, [found], replication_factor=ledger.replication_factor)
    return found


async def keep_promised(
    link: str,
    maps: Collection[NamespaceMap],
    cluster: Cluster,
    ledger: LedgerSettings,
    found: PromisedDocument | None = None,
) -> None:
    """Have the ledger of the target hold what was found before these namespaces are detached, and nothing else of them;
    without it their failover is over, or nothing is to be told of them.

    :raises ClusterError: It cannot be read or written.
    """
    async with Client(cluster) as target:
        changes = kept_alone((await _kept(link, target)).values(), maps, found)
        if changes:
            await append_once(target, changes, replication_factor=ledger.replication_factor)


async def keep_committed(
    link: str, committed: Collection[OpenTransaction], target: Client, ledger: LedgerSettings
) -> None:
    """Have the target's ledger hold what a failover has committed as well, for whoever has to give it again.

    :raises ClusterError: It cannot be read or written.
    """
    kept = await _kept(link, target) if committed else {}
    if (found := kept.get("failover", kept.get("detach"))) is not None:
        document = replace(found, committed=(*found.committed, *committed))
        await append_once(target, [document], replication_factor=ledger.replication_factor)


def committed_before(documents: Iterable[Document], maps: Collection[NamespaceMap]) -> tuple[OpenTransaction, ...]:
    """What a failover of these namespaces that is not over has committed, by the documents of its link."""
    kept = (one for each in documents if isinstance(each, PromisedDocument) for one in each.committed)
    return tuple(one for one in kept if _is_in(one, maps))


def _is_in(one: OpenTransaction, maps: Collection[NamespaceMap]) -> bool:
    return any(each.kind == "topic" and each.target.holds(one.topic) for each in maps)


def promised_again(documents: Iterable[Document], maps: Collection[NamespaceMap]) -> Promised | None:
    """What a failover of these namespaces has found that is not over, by the documents of its link: they were released
    since, and what others write there says nothing of it. `None` where none of them was synchronous.
    """
    kept = {each.verb: each for each in documents if isinstance(each, PromisedDocument)}
    meant = [each for each in kept.values() if not _maps(maps).isdisjoint(each.maps)]
    found = next((each for verb in ("failover", "detach") for each in meant if each.verb == verb), None)
    if found is None:
        return None
    return replace(found.promised, is_open=found.promised.is_open or not found.is_whole)


def kept_alone(
    kept: Iterable[PromisedDocument], maps: Collection[NamespaceMap], found: PromisedDocument | None
) -> list[LedgerChange]:
    """What makes this all that the ledger has of these namespaces."""
    changes: list[LedgerChange] = [] if found is None else [found]
    for each in kept:
        left = tuple(one for one in each.maps if one not in _maps(maps))
        if left != each.maps and (found is None or found.key != each.key):
            committed = tuple(one for one in each.committed if not _is_in(one, maps))
            changes.append(replace(each, maps=left, committed=committed) if left else Deletion(each.key))
    return changes


async def _kept(link: str, target: Client) -> dict[str, PromisedDocument]:
    """What the ledger has of a link, by the verb that has found it."""
    documents = (await remembered(target)).of(link).documents.values()
    return {each.verb: each for each in documents if isinstance(each, PromisedDocument)}


def _maps(maps: Collection[NamespaceMap]) -> set[str]:
    return set(map(attachment, maps))
