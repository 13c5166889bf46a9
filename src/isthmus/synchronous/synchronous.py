"""Synchronous links: the requirements to become one, where one stands by all gateways, and what is given up."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.gateways import is_readable, pair_words, was_in_sync
from isthmus.ledger.documents.kinds import Document, GatewayDocument
from isthmus.memory.attaching import check_one_follower
from isthmus.memory.closed import following
from isthmus.memory.declared import Declared
from isthmus.memory.links import LedgerMemory, now_ms, read_ledger
from isthmus.model.gateways.synchrony import (
    FENCE_S,
    HEARD_S,
    GatewayBeats,
    GatewayWord,
    Synchrony,
    SyncState,
    first_unheld,
    synchrony,
)
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.pair import PairState
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.promotion import LeftPartition, Promised
from isthmus.model.links.writability import KeptBy
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.state import RUNNING
from isthmus.model.text.wording import first_few
from isthmus.namespaces.namespace import ASYNC_ONLY

_LOOK_S: Final = 0.25
_SOURCE_S: Final = 4.0
"""The longest wait for a source that may be lost."""


class Detachment(NamedTuple):
    """When (monotonic s) namespaces were detached for sure, and the statements of what is attached since
    (`Declaration.attached_said`).
    """

    at_s: float
    statements: str


class Requirement(NamedTuple):
    """A reason why a link cannot be synchronous, and what to do."""

    message: str
    hint: str


def check_declared(link: str, *, is_of_file: bool) -> None:
    """Require that a link that is to be synchronous is declared.

    :raises PlanRefused: The link is in the file.
    """
    if is_of_file:
        raise PlanRefused(
            f"link {link} is written in the configuration file: only declared links can be synchronous",
            hint=f"Take it out of the file and declare it: isthmus link create {link} --source A --target B --map P:Q.",
        )


def check_synchronous(declared: Declared, known: Declaration, found: LinkProgress, link: Link) -> None:
    """Require that a link may become synchronous, as it stands.

    :raises PlanRefused: Something is in the way.
    """
    check_one_follower(declared, known)
    if (why := next(_find_obstacles(declared, known, found, link), None)) is not None:
        raise PlanRefused(f"link {link.name} cannot be synchronous: {why.message}", hint=why.hint)


def _find_obstacles(declared: Declared, known: Declaration, found: LinkProgress, link: Link) -> Iterator[Requirement]:
    again = f"isthmus link update {link.name} --mode sync"
    if not link.namespaces:
        yield Requirement("no topics are attached", f"isthmus link attach {link.name} --map P:Q.")
    if link.transforms:
        yield Requirement(
            "it changes records on the way (transform), and acknowledged records are found at the follower as they "
            "came",
            "Have another link change them: isthmus link update LINK --unset transform takes it from this one.",
        )
    mapped = [str(each.topic) for each in found.topics if each.is_mapped]
    if link.topics.offsets is OffsetPolicy.MAPPED or mapped:
        yield Requirement(
            f"offsets are mapped{f' ({first_few(mapped)})' if mapped else ''}, and acknowledged records are found at "
            "the follower by their offsets",
            f"isthmus link recover {link.name} for topics that went on mapped; a link that maps all of them has to be "
            "declared again, with the same offsets.",
        )
    yield from _find_kept_out(declared, known)
    if found.pair_state is not PairState.FOLLOWING:
        yield Requirement(
            f"it is {found.pair_state}, and has to be FOLLOWING",
            f"See that isthmus run runs it, then isthmus wait {link.name} --for state=FOLLOWING, then {again}.",
        )
    for each in following(link):
        if found.reserved.get(each) is not KeptBy.ACCESS_RULES:
            yield Requirement(
                f"{each.kind} namespace {each} of {link.target.alias} is not closed by access rules: others may write "
                "there, and an offset that is there would prove nothing",
                f"isthmus namespace update {link.target.alias} '{each.prefix}' --kind {each.kind} --enforce"
                f"{' --exact' if each.is_exact else ''}",
            )


def _find_kept_out(declared: Declared, known: Declaration) -> Iterator[Requirement]:
    """Yield a requirement for each namespace of either side that may be in no synchronous link."""
    for end, sides in (
        (known.source, [each.source for each in known.maps]),
        (known.target, [each.target for each in known.maps]),
    ):
        alias = declared.alias_of(end) or end.alias
        for namespace, document in declared.namespaces.get(alias, {}).items():
            is_kept_out = any(each.name == ASYNC_ONLY and each.decoded for each in document.registers)
            if is_kept_out and any(namespace.overlaps(side) for side in sides):
                yield Requirement(
                    f"namespace {namespace} of {alias} is for asynchronous links only",
                    f"isthmus namespace update {alias} '{namespace.prefix}' --kind {namespace.kind} "
                    "--no-async-only, if that is not meant any more.",
                )


async def require_gateways(link: Link, source: Client) -> None:
    """Require that there are gateways before the source, and that all that have not ended are alive: the heartbeat of
    each advances while this looks. One that is cut off learns of nothing, and would acknowledge what the follower
    lacks.

    :raises PlanRefused: There is none, or the heartbeat of one does not advance within ten seconds.
    :raises ClusterError: The source's ledger cannot be read.
    """
    before: dict[str, int] = {}
    deadline = Deadline(HEARD_S)
    while True:
        memory = await read_ledger(source)
        found = [each for each in gateways_of(memory.find_unlinked().values()) if not each.has_ended]
        silent = [each for each in found if each.beat <= before.setdefault(each.gateway, each.beat)]
        if found and not silent:
            return
        if not found or deadline.has_passed:
            raise _unheard_error(link, silent, is_none=len(silent) == len(found))
        await asyncio.sleep(_LOOK_S)


def _unheard_error(link: Link, silent: Sequence[GatewayDocument], *, is_none: bool) -> PlanRefused:
    alias = link.source.alias
    if is_none:
        return PlanRefused(
            f"link {link.name} cannot be synchronous: no gateway is heard before {alias}, and only gateways hold "
            "acknowledgements",
            hint=f"isthmus gateway {alias} --listen HOST:FIRST-LAST --advertise HOST:PORT, and have clients connect "
            "to it.",
        )
    return PlanRefused(
        f"link {link.name} cannot be synchronous: {first_few(each.described for each in silent)} was not heard for "
        f"{HEARD_S:g} s, and would answer what {link.target.alias} lacks if it is only cut off from the ledger of "
        f"{alias}",
        hint=f"If it runs, see why it does not reach the ledger. If it has ended: isthmus gateway forget {alias} "
        f"{silent[0].gateway if silent else ''}.",
    )


def gateways_of(documents: Iterable[Document]) -> list[GatewayDocument]:
    """Return the gateways that have registered, by their ids."""
    return sorted(GatewayDocument.find_all(documents), key=lambda each: each.gateway)


def trouble_of(found: LinkProgress) -> str:
    """Return what keeps a link from following, in words; "" for nothing that has to be reported at once."""
    if found.problem is not None:
        return found.problem.message
    if found.state not in RUNNING:
        return f"the link is {found.state}"
    ended = [f"{each.topic}-{each.partition} {each.state}" for topic in found.topics for each in topic.partitions
             if each.state.is_terminal]  # fmt: skip
    return first_few(ended)


async def standing(link: Link, source: Client | None, found: LinkProgress, target: LedgerMemory | None) -> Synchrony:
    """Return the standing of a synchronous link by what gateways wrote, and by the progress `found` of its lanes. For a
    source that is `None` or does not answer within seconds, the target's ledger is used.
    """
    memory = target
    if source is not None:
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_SOURCE_S):
                memory = await read_ledger(source)
    if memory is None:
        return synchrony((), trouble=trouble_of(found), was_in_sync=False)
    documents = memory.of(link.name).documents.values()
    stands = synchrony(
        gateway_words(link, memory),
        trouble=trouble_of(found),
        was_in_sync=was_in_sync(link.name, link.mode_said, documents),
    )
    is_hidden = target is not None and not is_readable(
        link.name, link.mode_said, target.of(link.name).documents.values()
    )
    return replace(stands, is_hidden=is_hidden)


def gateway_words(link: Link, memory: LedgerMemory) -> list[GatewayWord]:
    """Return the last word of every gateway on a link that a ledger knows, and those that have not given one yet."""
    known, at_ms = memory.of(link.name), now_ms()
    words_said = pair_words(link.name, link.mode_said, known.documents.values())
    silences, documents = memory.unlinked_silences(at_ms), memory.find_unlinked()
    found = {one.gateway: one for one in gateways_of(documents.values())}
    words = []
    for gateway in sorted(found.keys() | words_said.keys()):
        one, word = found.get(gateway), words_said.get(gateway)
        words.append(
            GatewayWord(
                gateway=gateway,
                described=one.described if one is not None else word.by if word is not None else gateway,
                heard_s=math.inf if one is None else silences[one.key].likely_s,
                word=None if word is None else word.word,
                since_ms=-1 if word is None else word.since_ms,
                attached_said="" if word is None else word.attached_said,
                beat=-1 if one is None else one.beat,
                # Of a gateway that was removed only its words are left.
                has_ended=one is None or one.has_ended,
            )
        )
    return words


async def find_acknowledged(
    link: Link,
    source: Client,
    target: Client,
    detachment: Detachment | None = None,
    beats: GatewayBeats | None = None,
) -> Promised:
    """Return what may be missing at the target of what gateways acknowledged, by the source's ledger, or else by the
    copy in the target's. Gateways forget it once the link is synchronous no more. After a `detachment` they have to
    report that they know of it, except those whose `beats` stand still.

    :raises ClusterError: The target's ledger cannot be read.
    """
    memory, attached_said = await read_ledger(target), None if detachment is None else detachment.statements
    try:
        async with asyncio.timeout(_SOURCE_S):
            return _promised_by(link, await read_ledger(source), attached_said, beats, is_heard=True)
    except (ClusterError, TimeoutError):
        return _promised_by(link, memory, attached_said, beats, is_heard=False)


async def acknowledged_since(
    link: Link, source: Client, target: Client, before: Promised, detachment: Detachment
) -> Promised:
    """Return the same after a failover has detached the link, with what was found `before`: gateways acknowledge until
    they learn of it, and write down before what the target may lack. Wait for them until those that have not learned
    of it no longer accept anything uncompared. Which gateways there are is unknown where the source's ledger is not
    read.

    :raises ClusterError: The target's ledger cannot be read.
    """
    beats = GatewayBeats()
    while True:
        found = await find_acknowledged(link, source, target, detachment, beats)
        before = replace(
            before,
            is_open=before.is_open or found.is_open,
            is_heard=found.is_heard,
            # A record that was let go is no longer listed once the target has all of what is still attached.
            lets_go=first_unheld((*before.lets_go, *found.lets_go)),
            unaware=found.unaware,
        )
        left_s = detachment.at_s + (HEARD_S if found.unaware else FENCE_S) - time.monotonic()
        if (found.is_heard and not found.unaware) or left_s <= 0:
            return before
        await asyncio.sleep(min(_LOOK_S, left_s))


def _promised_by(
    link: Link, memory: LedgerMemory, attached_said: str | None, beats: GatewayBeats | None, *, is_heard: bool
) -> Promised:
    documents = memory.of(link.name).documents.values()
    gateways = gateway_words(link, memory)
    words = [each.word for each in gateways if each.word is not None]
    # A gateway that came after the detachment counts as heard.
    wordless = [each for each in gateways if each.word is None and (attached_said is None or each.is_heard)]
    # A silent gateway is fenced. Until the others know, they take any record written here for theirs, by any policy.
    still = frozenset[str]() if beats is None else beats.still(gateways, time.monotonic())
    answering = [each for each in gateways if each.is_heard and each.word is not None and each.gateway not in still]
    return Promised(
        out_of_sync=link.sync.out_of_sync,
        was_in_sync=was_in_sync(link.name, link.mode_said, documents),
        is_open=bool(wordless) or any(each.state is SyncState.SYNCING for each in words),
        is_heard=is_heard,
        lets_go=first_unheld(one for each in words for one in each.lets_go),
        unaware=tuple(each.described for each in answering if attached_said not in (None, each.attached_said)),
    )


def still_missing(
    found: Promised, left: Collection[LeftPartition], aborted: Iterable[OpenTransaction] = ()
) -> Promised:
    """Return the same without what these partitions hold by now. What begins with a transaction that is `aborted` there
    may be missing, though its records are there.
    """
    begins: dict[tuple[str, int], int] = {}
    for one in aborted:
        key = one.topic, one.partition
        begins[key] = min(one.first_offset, begins.get(key, one.first_offset))
    ends = {
        (each.source_topic, each.partition): min(
            each.target_end, begins.get((each.topic, each.partition), each.target_end)
        )
        for each in left
    }
    lets_go = tuple(each for each in found.lets_go if ends.get((each.topic, each.partition), -1) <= each.offset)
    return replace(found, lets_go=lets_go)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """What is given up where a synchronous link becomes asynchronous: its last standing, `None` if unknown."""

    link: str
    target: str
    standing: Synchrony | None

    @property
    def in_words(self) -> str:
        """For people."""
        text = f"acknowledgements of link {self.link} wait for {self.target} no more"
        if self.standing is None:
            return f"{text}: how it stood could not be asked"
        text += f"; it was {self.standing.state}"
        if self.standing.lets_go:
            text += f", and {self.standing.in_words}"
        return f"{text}. What {self.target} lacks when {self.target} has to go on alone is lost"
