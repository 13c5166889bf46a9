"""Registered gateways and the synchronous links that they hold, as ledgers have them (pure values)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Annotated, ClassVar, Final, NamedTuple

from isthmus.model.gateways.synchrony import HEARD_S, OutOfSync, Synchrony, SyncState
from isthmus.model.problem import Problem
from isthmus.model.text.elapsed import ago
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import (
    Hidden,
    NumberOrNull,
    PlainValue,
    TextOrNull,
    computed_field,
    instant_or_null,
    null_if_zero,
    thousandths,
)
from isthmus.model.text.wording import first_few, format_count

SAME_PLACES: Final = "Give all gateways of a cluster the same range and the same --first-node."
_ID_MIN: Final = 4
_WORST: Final = (SyncState.OUT_OF_SYNC, None, SyncState.SYNCING, SyncState.IN_SYNC)


class GatewayPlaces(NamedTuple):
    """Where clients reach brokers through a gateway: the broker `first_node` at this address, the next ids at the
    `ports` behind it; -1 if that is unknown, or brokers have names.
    """

    address: str
    ports: int
    first_node: int = -1

    def clashes_with(self, other: GatewayPlaces) -> bool:
        """Return whether clients that switch from one to the other would find another broker at the same address, or
        none.
        """
        are_known = self.first_node >= 0 <= other.first_node
        return self.address == other.address and (
            self.ports != other.ports or (are_known and self.first_node != other.first_node)
        )

    @property
    def in_words(self) -> str:
        """For people."""
        begins = f", the first for broker {self.first_node}" if self.first_node >= 0 else ""
        return f"{format_count(self.ports, 'port')}{begins}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPart(PlainValue):
    """The report of a gateway about a synchronous link, null for none yet, and the answers that it holds for it.

    It has that `state` since `since_ms`, and holds the first answer for `oldest_s`.
    """

    link: str
    state: SyncState | None = None
    since_ms: Annotated[int, "since", instant_or_null] = -1
    reason: TextOrNull = ""
    held: int = 0
    oldest_s: Annotated[float, "oldest_seconds", thousandths] = 0.0

    @property
    def described(self) -> str:
        """For people."""
        since = f" since {written_instant(self.since_ms)}" if self.since_ms >= 0 else ""
        held = f", {format_count(self.held, 'answer')} held, the first for {self.oldest_s:.1f} s" if self.held else ""
        return f"{self.link} {self.state or 'no report yet'}{since}{held}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredGateway(PlainValue):
    """A gateway that has registered. Values that an older release does not report are null.

    It may be one process of it. Clients reach it at `address`, and the command with this `pid` runs it. Ledgers know
    its processes by `ids`.

    Hosts may have the same name: `host_id` distinguishes them, as in `Whereabouts`.

    It was started for the cluster with the alias `cluster`, "" if that is unknown, and `serves` another one if clients
    have moved. Of its `processes` so many were `heard` within ten seconds and so many are `silent`: they may have
    ended, as so many `ended` for certain. The longest silent one was heard `beat_age_s` ago. Its counters include only
    those that are heard. `move` describes its work for clients that are moving.
    """

    ids: tuple[str, ...]
    address: str
    host: TextOrNull = ""
    host_id: Hidden[str] = ""
    pid: Annotated[int, null_if_zero] = 0
    version: TextOrNull = ""
    since_ms: Annotated[int, "since", instant_or_null] = -1
    cluster: TextOrNull = ""
    places: Hidden[GatewayPlaces | None] = None
    serves: str
    move: TextOrNull = ""
    processes: int = 1
    heard: int = 0
    silent: int = 0
    ended: int = 0
    beat_age_s: Annotated[float, "beat_age_seconds", thousandths] = 0.0
    connections: int = 0
    links: tuple[LinkPart, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_silent(self) -> bool:
        """Whether no report of it comes: it has ended, or is cut off from the ledger, and then answers nothing."""
        return not self.heard

    @property
    def beat_in_words(self) -> str:
        """The time of its last report, and the known state of its silent processes."""
        if not self.silent:
            return ago(self.beat_age_s)
        return f"{ago(self.beat_age_s)}: {'has ended' if self.ended == self.silent else 'silent'}"

    @property
    def refused_in_words(self) -> str:
        """The number of connections it has ended, by reason."""
        return ", ".join(f"{why} {count}" for why, count in sorted(self.refused.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPair(PlainValue):
    """A synchronous link: its state by all gateways, null if unknown, and the answers that they hold for it together.

    Its lanes count too; `problem` says why it is unknown.
    """

    link: str
    source: str
    target: str
    out_of_sync: OutOfSync
    sync: Synchrony | None = None
    held: int = 0
    oldest_s: Annotated[float, "oldest_seconds", thousandths] = 0.0
    problem: Problem | None = None

    @property
    def described(self) -> str:
        """The state, its begin and its reason, for people."""
        return "how it stands is unknown" if self.sync is None else self.sync.described


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmarked(PlainValue):
    """How many producers of how many partitions wrote to a cluster past its gateways, null where that is unknown.

    They wrote without transactions, within the last day, under ids that no gateway had marked; -1 if unknown.
    """

    cluster: str
    producers: NumberOrNull = -1
    partitions: NumberOrNull = -1

    @property
    def described(self) -> str:
        """For people; "" for none."""
        if self.producers < 0:
            return f"{self.cluster}: who wrote past the gateways is not known"
        if not self.producers:
            return ""
        return (
            f"{self.cluster}: {format_count(self.producers, 'producer')} without transactions wrote past the gateways "
            f"to {format_count(self.partitions, 'partition')} within the last day: their ids are not marked, and "
            "clients cannot be moved without --force"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaysReport(PlainValue):
    """All gateways that have registered, the synchronous links before them, and the clusters that did not answer.

    It has who wrote past them too, and why clusters did not tell.
    """

    SCHEMA: ClassVar = "Gateways"

    gateways: tuple[RegisteredGateway, ...] = ()
    pairs: tuple[GatewayPair, ...] = ()
    unmarked: tuple[Unmarked, ...] = ()
    away: Mapping[str, Problem] = field(default_factory=dict)

    @computed_field(before="away")
    def clashes(self) -> tuple[str, ...]:
        """The gateways of one cluster and one address that lead clients to other brokers by the same port, in words."""
        heard = [each for each in self.gateways if each.places is not None and not each.is_silent]
        return tuple(
            f"{one.address} of {one.serves} leads to other brokers by the same port, or to none: "
            f"{one.host} has {one.places.in_words}, {other.host} {other.places.in_words}. {SAME_PLACES}"
            for one, other in combinations(heard, 2)
            if one.places is not None
            and other.places is not None
            and one.serves == other.serves
            and one.places.clashes_with(other.places)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenGateway(PlainValue):
    """A gateway that an operator declared as ended: the ledgers in which it was known, the synchronous links for which
    it stays until the records that it acknowledged are proven, and the clusters that did not answer.

    It has the processes that this is about. It was known in `ledgers`, and stays in its own until a gateway has proven
    that the synchronous `links` have all that it answered.
    """

    gateway: RegisteredGateway
    ledgers: tuple[str, ...]
    links: tuple[str, ...]
    away: Mapping[str, Problem]


def named_gateways(gateways: Iterable[RegisteredGateway], named: str) -> list[RegisteredGateway]:
    """Return the gateways that an address names, or the beginning of an id. A gateway of which only the
    answer to a move of clients is left has its process behind the address, after a blank.
    """
    return [
        each
        for each in gateways
        if named == each.address.partition(" ")[0]
        or (len(named) >= _ID_MIN and any(one.startswith(named) for one in each.ids))
    ]


def heard_part(one: RegisteredGateway, beat_age_s: float, *, has_ended: bool = False) -> RegisteredGateway:
    """Return a process with a last beat of this age (s). A silent process holds nothing and has no clients."""
    if beat_age_s <= HEARD_S and not has_ended:
        return replace(one, heard=1, beat_age_s=beat_age_s)
    links = tuple(replace(each, held=0, oldest_s=0.0) for each in one.links)
    return replace(one, silent=1, ended=int(has_ended), beat_age_s=beat_age_s, connections=0, links=links, refused={})


def by_command(parts: Iterable[RegisteredGateway]) -> tuple[RegisteredGateway, ...]:
    """Group processes into gateways, in the order of their addresses. One command runs each of these."""
    found: dict[tuple[str, str, str, int], RegisteredGateway] = {}
    for each in parts:
        key = each.address, each.host, each.host_id, each.pid
        found[key] = each if key not in found else _join(found[key], each)
    return tuple(found[key] for key in sorted(found))


def with_held(pair: GatewayPair, gateways: Iterable[RegisteredGateway]) -> GatewayPair:
    """Return a link with the number of answers that these gateways hold for it."""
    own = [part for each in gateways for part in each.links if part.link == pair.link]
    oldest_s = max((each.oldest_s for each in own), default=0.0)
    return replace(pair, held=sum(each.held for each in own), oldest_s=oldest_s)


def _join(one: RegisteredGateway, other: RegisteredGateway) -> RegisteredGateway:
    links = {each.link: each for each in one.links}
    for each in other.links:
        links[each.link] = each if each.link not in links else _worse(links[each.link], each)
    return replace(
        one,
        ids=tuple(sorted((*one.ids, *other.ids))),
        since_ms=min(one.since_ms, other.since_ms),
        serves=first_few(sorted({one.serves, other.serves})),
        move=one.move or other.move,
        heard=one.heard + other.heard,
        silent=one.silent + other.silent,
        ended=one.ended + other.ended,
        beat_age_s=max(one.beat_age_s, other.beat_age_s),
        connections=one.connections + other.connections,
        links=tuple(links[name] for name in sorted(links)),
        refused=Counter(one.refused) + Counter(other.refused),
    )


def _worse(one: LinkPart, other: LinkPart) -> LinkPart:
    """Return the worse state: two processes are in sync together if both are; the answers that they hold add up."""
    worst = min(one, other, key=lambda each: _WORST.index(each.state))
    return replace(worst, held=one.held + other.held, oldest_s=max(one.oldest_s, other.oldest_s))


def _instant(at_ms: int) -> str | None:
    return written_instant(at_ms) if at_ms >= 0 else None
