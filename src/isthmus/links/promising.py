"""What verbs that detach found that gateways acknowledged, in the target's ledger until a failover is over.

Gateways forget what they acknowledged a minute after the detachment, and a link with all namespaces detached is
asynchronous by then: an operator who repeats an unfinished failover would find nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce

from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import Document, PromisedDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.memory.links import now_ms, read_ledger
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.link import Link
from isthmus.model.links.declaration import attachment
from isthmus.model.links.promotion import Promised, Verb
from isthmus.model.namespace import NamespaceMap
from isthmus.synchronous.synchronous import Detachment, acknowledged_since, find_acknowledged


async def promised_before(
    link: Link,
    session: ClientSession,
    maps: Collection[NamespaceMap],
    verb: Verb,
    *,
    attached: Collection[NamespaceMap],
) -> PromisedDocument | None:
    """Return what may be missing of what gateways acknowledged before a verb detaches these namespaces, `None` if none
    of them was synchronous. For those not `attached` it is what was found then, by this verb or by `detach`.

    :raises ClusterError: The target's ledger cannot be read.
    """
    chosen, begun = _maps(maps), _maps(maps) - _maps(attached)
    source, target = session.client(link.source), session.client(link.target)
    found_before = await _read_promised(link.name, target)
    kept = counting(found_before, chosen, begun, is_synchronous=link.is_synchronous)
    past = join_promised(kept, verb)
    if not link.is_synchronous or kept.keys() == chosen == begun:
        return past
    found = await find_acknowledged(link, source, target)
    document = PromisedDocument(
        link=link.name,
        said=link.mode_said,
        maps=tuple(sorted(chosen)),
        # Gateways no longer report what they had let go of namespaces that were detached before.
        promised=replace(
            found,
            is_open=found.is_open or not begun <= kept.keys(),
            until_ms=now_ms() if verb == "detach" else found.until_ms,
        ),
        # From then on they hold nothing of it, and no other gateway may join.
        is_whole=verb == "detach",
        verb=verb,
    )
    return document if past is None else _joined_with(document, past)


def counting(
    kept: Mapping[str, PromisedDocument], chosen: Collection[str], begun: Collection[str], *, is_synchronous: bool
) -> dict[str, PromisedDocument]:
    """Return what counts for a verb of what was found of the chosen namespaces, where those that are `begun` are
    detached: for others it was found before they were attached again, or by a failover that has not detached them.
    """
    return {
        each: known
        for each, known in kept.items()
        if each in chosen and (each in begun or known.verb == "detach" or (known.is_whole and is_synchronous))
    }


def join_promised(kept: Mapping[str, PromisedDocument], verb: Verb) -> PromisedDocument | None:
    """Return what was found of these namespaces, by register, as this verb reports it; `None` for nothing."""
    # Documents that are not whole come first: by the `said` of the first one gateways are asked that were not yet.
    found = sorted(kept.values(), key=lambda each: each.is_whole)
    if not found:
        return None
    first = replace(found[0], maps=tuple(sorted(kept)), promised=_open_unless_whole(found[0]), part="")
    whole = reduce(_joined_with, found[1:], first)
    return replace(whole, verb=verb, is_whole=all(each.is_whole for each in found))


def _joined_with(found: PromisedDocument, past: PromisedDocument) -> PromisedDocument:
    """Return the same with what was found before of some of its namespaces."""
    committed = tuple(dict.fromkeys((*found.committed, *past.committed)))
    return replace(found, promised=found.promised.join(_open_unless_whole(past)), committed=committed)


def _open_unless_whole(found: PromisedDocument) -> Promised:
    return replace(found.promised, is_open=found.promised.is_open or not found.is_whole)


async def promised_since(
    found: PromisedDocument,
    link: Link,
    session: ClientSession,
    detachment: Detachment,
    ledger: LedgerSettings,
    *,
    is_begun: bool,
) -> PromisedDocument:
    """Return the same once they were detached, and write it to the target's ledger. Where a failover that `is_begun`
    did that, and was interrupted before this, gateways may have forgotten what they had let go.

    :raises ClusterError: The target's ledger cannot be read or written.
    """
    if found.is_whole:
        return found
    source, target, link = session.client(link.source), session.client(link.target), replace(link, mode_said=found.said)
    promised = await acknowledged_since(link, source, target, found.promised, detachment)
    found = replace(found, promised=replace(promised, is_open=promised.is_open or is_begun), is_whole=True)
    await append_once(target, found.parts, replication_factor=ledger.replication_factor)
    return found


async def keep_promised(
    link: str,
    maps: Collection[NamespaceMap],
    target: Client,
    ledger: LedgerSettings,
    found: PromisedDocument | None = None,
) -> None:
    """Write to the target's ledger what was found before these namespaces are detached, and delete all else of them;
    without `found` their failover is over, or there is nothing to report of them.

    :raises ClusterError: The ledger cannot be read or written.
    """
    changes = kept_alone(await _documents(link, target), maps, found)
    if changes:
        await append_once(target, changes, replication_factor=ledger.replication_factor)


async def keep_committed(
    link: str,
    maps: Collection[NamespaceMap],
    committed: Collection[OpenTransaction],
    target: Client,
    ledger: LedgerSettings,
) -> None:
    """Add to the target's ledger what a failover of these namespaces has committed, in case it has to be repeated.

    :raises ClusterError: The ledger cannot be read or written.
    """
    kept, chosen = await _read_promised(link, target) if committed else {}, _maps(maps)
    found = {known.key: known for each, known in kept.items() if each in chosen}.values()
    if found:
        changes = [replace(each, committed=(*each.committed, *committed)) for each in found]
        await append_once(target, changes, replication_factor=ledger.replication_factor)


def committed_before(documents: Iterable[Document], maps: Collection[NamespaceMap]) -> tuple[OpenTransaction, ...]:
    """Return what an unfinished failover of these namespaces has committed, by the documents of its link."""
    kept = dict.fromkeys(one for each in PromisedDocument.find_all(documents) for one in each.committed)
    return tuple(one for one in kept if _is_in(one, maps))


def _is_in(one: OpenTransaction, maps: Collection[NamespaceMap]) -> bool:
    return any(each.kind == "topic" and each.target.holds(one.topic) for each in maps)


def promised_again(documents: Iterable[Document], maps: Collection[NamespaceMap]) -> Promised | None:
    """Return what an unfinished failover of these namespaces has found, by the documents of its link: they were
    released since, and what others write there proves nothing. `None` where none of them was synchronous.
    """
    chosen = _maps(maps)
    kept = {each: known for each, known in by_register(documents).items() if each in chosen}
    found = join_promised(kept, "failover")
    return None if found is None else found.promised


def kept_alone(
    kept: Iterable[PromisedDocument], maps: Collection[NamespaceMap], found: PromisedDocument | None
) -> list[LedgerChange]:
    """Return the changes that make this all that the ledger has of these namespaces."""
    changes: list[LedgerChange] = [] if found is None else [*found.parts]
    known = {each.key for each in changes}
    for each in kept:
        left = tuple(one for one in each.maps if one not in _maps(maps))
        if left != each.maps and each.key not in known:
            committed = tuple(one for one in each.committed if not _is_in(one, maps))
            changes.append(replace(each, maps=left, committed=committed) if left else Deletion(each.key))
    return changes


def by_register(documents: Iterable[Document]) -> dict[str, PromisedDocument]:
    """Return the document that counts of each namespace: a failover's, and of several ones not an older release's."""
    found = PromisedDocument.find_all(documents)
    found.sort(key=lambda each: (each.verb == "failover", each.part != ""))
    return {one: each for each in found for one in each.maps}


async def _documents(link: str, target: Client) -> list[PromisedDocument]:
    return PromisedDocument.find_all((await read_ledger(target)).of(link).documents.values())


async def _read_promised(link: str, target: Client) -> dict[str, PromisedDocument]:
    return by_register(await _documents(link, target))


def _maps(maps: Collection[NamespaceMap]) -> set[str]:
    return set(map(attachment, maps))
