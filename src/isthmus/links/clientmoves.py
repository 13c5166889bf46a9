"""Move the clients of gateways with the topics of a link: no request passes while the link is proven, then clients are
served from the target.

Every gateway reports its state in the ledgers, and the move waits for the report of each. While gateways refuse
requests they read the command's heartbeat again and again; a gateway that misses it calls the move off. Whether that or
the word that clients are served from the target comes first in the ledger of the source decides for all, however late
any of them reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final

from isthmus.deadline import Deadline
from isthmus.engine.same.aborts import OWN_PREFIX
from isthmus.errors import ClusterError, GateNotMet, NotAuthorized, PlanRefused
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.admin.topics import selected_topics
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, describe_groups, list_groups
from isthmus.kafka.groups.membership import REMOVABLE, remove_members
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.aborting import abort_ongoing, abort_transactions
from isthmus.kafka.transactions.open import last_transactions, require_all_seen
from isthmus.kafka.transactions.producers import ActiveProducer, active_producers
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.kinds import (
    CarriedDocument,
    CarriedTransactionsDocument,
    Document,
    LinkDocument,
    MovableGatewayDocument,
    MoveDocument,
)
from isthmus.ledger.documents.moves import CarriedRow, CommonPart, MovesAway, arrived_by
from isthmus.ledger.log import LedgerWriter, append_once
from isthmus.ledger.records import Deletion
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.ledger.view import LedgerView
from isthmus.local.operator import operator
from isthmus.memory.links import now_ms
from isthmus.model.gateways.carriedproducers import CarriedProducer, carried_on
from isthmus.model.gateways.carriedtransactions import CarriedFurther, CarriedTransaction, carried_further
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.gateways.producerids import cluster_tag, is_tagged
from isthmus.model.kafka.group import GroupDescription, GroupState, GroupType, offsets_partition
from isthmus.model.kafka.transactions import OpenTransaction, is_lone
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap
from isthmus.model.text.wording import first_few, format_count

_KINDS: Final = tuple(
    each.KIND
    for each in (MoveDocument, MovableGatewayDocument, LinkDocument, CarriedDocument, CarriedTransactionsDocument)
)
_LOOK_S: Final = 0.05
_BEAT_S: Final = 1.0
_SILENT_S: Final = 10.0
_APART_MS: Final = 10_000
_ROWS: Final = 2_000
_AT_ONCE: Final = 50
_PATIENCE_S: Final = 20.0
_AGAIN_S: Final = 0.3
_CONSUMING: Final = frozenset({"", "consumer", "share", "streams"})
"""Groups of other protocol types, such as workers of Connect, have no positions."""


@dataclass(slots=True)
class _Ledger:
    """What a ledger holds of gateways and moves, from look to look."""

    client: Client
    documents: dict[str, Document] = field(default_factory=dict)
    away: MovesAway = field(default_factory=MovesAway)
    _view: LedgerView | None = None
    _heard: dict[str, tuple[int, float]] = field(default_factory=dict)

    async def look(self) -> None:
        """Read what is new.

        :raises ClusterError: The ledger cannot be read.
        """
        if self._view is None:
            self._view = LedgerView(self.client)
        news = await self._view.look()
        if news.is_other_log:
            self.documents.clear()
            self.away = MovesAway()
        for entry in news.entries:
            if entry.kind not in _KINDS:
                continue
            document = entry.decode()
            if document is None:
                self.documents.pop(entry.key, None)
                if self.away.latest is not None and self.away.latest.key == entry.key:
                    self.away = MovesAway()
            else:
                self.documents[entry.key] = document
            if isinstance(document, MoveDocument) and document.source == self.client.cluster.cluster_id:
                self.away.take(document)
        now = time.monotonic()
        for gateway in self.gateways():
            if self._heard.get(gateway.gateway, (-1, 0.0))[0] != gateway.beat:
                self._heard[gateway.gateway] = gateway.beat, now

    def gateways(self) -> list[MovableGatewayDocument]:
        """Return all gateways that this ledger knows."""
        return MovableGatewayDocument.find_all(self.documents.values())

    def silent_s(self, gateway: str) -> float:
        """Return for how long (s) a gateway was not heard, by the looks until now."""
        return time.monotonic() - self._heard[gateway][1]

    def find_finished(self) -> list[MoveDocument]:
        """Return the moves that it knows to be finished."""
        return [each for each in MoveDocument.find_all(self.documents.values()) if each.step is MoveStep.SERVE]

    def close(self) -> None:
        """Close the view of the ledger."""
        if self._view is not None:
            self._view.close()


@dataclass(slots=True)
class ClientMove:
    """The clients of gateways before a link's source, on their way to its target."""

    link: Link
    chosen: Collection[NamespaceMap]
    source: Client
    target: Client
    timeout_s: float
    is_forced: bool
    on_step: Callable[[str], None]
    aborted: tuple[OpenTransaction, ...] = ()
    unheard: tuple[str, ...] = ()
    """Gateways, in words, for which it is unknown whether they serve their clients from the target by now."""
    _here: _Ledger = field(init=False)
    _there: _Ledger = field(init=False)
    _word: MoveDocument | None = None
    _beating: asyncio.Task[None] | None = None
    _is_decided: bool = False
    _fenced_at: float = 0.0
    _ended: tuple[CarriedTransaction, ...] = ()
    _raised: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def idle(self) -> list[str]:
        """The transactional ids of transactions that were aborted before they had written any record."""
        written = {each.transactional_id for each in self.aborted}
        return sorted({each.transactional_id for each in self._ended} - written)

    def __post_init__(self) -> None:
        self._here, self._there = _Ledger(self.source), _Ledger(self.target)

    @property
    def source_id(self) -> str:
        return self.source.cluster.cluster_id or ""

    @property
    def gateways(self) -> tuple[str, ...]:
        """The gateways whose clients move, in words."""
        return tuple(sorted(each.described for each in self._serving()))

    @property
    def is_begun(self) -> bool:
        """Whether a command began to move clients with this link, and did not finish."""
        found = self._here.away.latest
        return found is not None and found.link == self.link.name and found.step is not MoveStep.SERVE

    async def look(self, *, is_lost: bool = False) -> None:
        """Read which gateways there are.

        :raises ClusterError: A cluster does not answer.
        """
        await self.target.metadata()
        if not is_lost:
            await self.source.metadata()
            await self._here.look()
        await self._there.look()

    def _serving(self) -> list[MovableGatewayDocument]:
        return [each for each in self._here.gateways() if each.serves == self.source_id]

    @property
    def stranded(self) -> tuple[MovableGatewayDocument, ...]:
        """The gateways of the source that the target's ledger knows."""
        found = [each for each in self._there.gateways() if self.source_id and each.serves == self.source_id]
        return tuple(sorted(found, key=lambda each: each.described))

    @property
    def renamed(self) -> tuple[NamespaceMap, ...]:
        """The namespaces that have another name at the target, where clients would not find them."""
        return tuple(each for each in self.chosen if each.source.prefix != each.target.prefix)

    async def check(self) -> None:
        """Require that clients can move.

        :raises PlanRefused: They cannot, or without `is_forced` should not.
        :raises ClusterError: A cluster does not answer.
        """
        if self.renamed:
            raise _cannot_move_error(self.link, f"names differ on both sides: {first_few(map(str, self.renamed))}")
        tags = {cluster_tag(each.cluster.cluster_id or "") for each in (self.source, self.target)}
        if len(tags) < 2:
            raise _cannot_move_error(self.link, "producer ids of both clusters are marked alike")
        ids = await self._target_ids()
        small = [each for each in self._serving() if each.ports < max(ids) - min(ids) + 1]
        if small:
            raise _cannot_move_error(
                self.link,
                f"{small[0].described} has {format_count(small[0].ports, 'port')} for ids {min(ids)} to {max(ids)}",
            )
        if cut := self._cut_off():
            raise _cannot_move_error(
                self.link,
                f"{first_few(cut)} does not write to the ledger of {self.target.cluster.alias}: is that cluster in its "
                "configuration, and reached from there?",
            )
        # Permissions that are needed later are checked now, while the move can still be refused.
        strangers = find_unmarked(await self._producers(), self._here.documents.values())
        for client in (self.source, self.target) if self.is_back else (self.source,):
            await require_all_seen(client)
        if self.is_forced:
            return
        left = await self._left_behind()
        if against := [*left, *await self._objections(strangers)]:
            raise _should_not_move_error(self.link, "; ".join(against), can_attach=bool(left))

    async def _left_behind(self) -> list[str]:
        """Return what clients would miss at the target because the link does not carry it."""
        left = []
        if others := await self._others():
            left.append(f"topics are not among those of the link: {first_few(sorted(others))}")
        if groups := await self._find_uncarried():
            left.append(f"the positions of groups are not carried: {first_few(sorted(groups))}")
        return left

    async def _objections(self, strangers: Collection[tuple[PartitionKey, int]]) -> list[str]:
        """Return other reasons against the move; `strangers` are producers with ids that no gateway assigned."""
        against = []
        if at_work := [] if self.is_back else sorted(await self._members_there()):
            against.append(
                f"groups have members at {self.target.cluster.alias} already, and positions of their own: "
                f"{first_few(at_work)}"
            )
        here = {each.gateway for each in self._serving()}
        if refused := [each for each in self._there.gateways() if each.gateway in here and each.lacks]:
            against.append(
                f"{refused[0].described} has no login of {self.target.cluster.alias} for clients with certificates of "
                f"{first_few(refused[0].lacks)}: they would be refused there"
            )
        if strangers:
            who = first_few(f"producer {each} in {topic}-{partition}" for (topic, partition), each in strangers)
            against.append(
                f"producers have ids that no gateway handed on ({who}): at {self.target.cluster.alias} another one may "
                "have the same, and records would be lost"
            )
        return against

    async def _target_ids(self) -> set[int]:
        """Return the ids of brokers of the target. Before Kafka 4.0 only partitions name a broker that is down."""
        found = await describe_cluster(self.target)
        placed = partitions_of(await self.target.metadata(None))
        return {*found.brokers, *found.fenced, *(node for each in placed for node in each.replicas)}

    def _cut_off(self) -> list[str]:
        """Return the gateways, in words, that would learn too late that they cannot serve clients from the target."""
        beats = {each.gateway: each.beat for each in self._there.gateways()}
        return sorted(
            each.described
            for each in self._serving()
            if each.gateway not in beats or each.beat - beats[each.gateway] > _APART_MS
        )

    async def _find_uncarried(self) -> set[str]:
        """Return the groups at the source whose consumers would not continue at their positions."""
        found = (await list_groups(self.source)).all()
        return {
            each.group
            for of_broker in found.values()
            for each in of_broker
            if each.protocol_type in _CONSUMING
            and each.state is not GroupState.DEAD
            and (each.type is GroupType.SHARE or not self.link.groups.matches(each.group))
        }

    async def _others(self) -> set[str]:
        """Return the topics of the source that clients would not find any more."""
        chosen = await self._partitions()
        own = {topic for topic, _ in chosen}
        metadata = await self.source.metadata(None)
        return {
            name
            for name, each in metadata.topics.items()
            if not each.is_internal and name != LEDGER_TOPIC and not name.startswith("_") and name not in own
        }

    async def _partitions(self) -> dict[PartitionKey, int]:
        """Return the partitions at the source that are copied, with their leaders."""
        metadata = await selected_topics(self.source, self.link.topics)
        names = set(self.link.topics.name_topics(metadata.topics).sources.values())
        return {(each.topic, each.partition): each.leader for each in partitions_of(metadata) if each.topic in names}

    async def _producers(self) -> dict[PartitionKey, tuple[ActiveProducer, ...]]:
        found = await active_producers(self.source, await self._partitions())
        for error in found.errors.values():
            raise error
        return dict(found.values)

    async def fence(self) -> None:
        """Stop all gateways from passing requests, and wait until all answers have come.

        :raises GateNotMet: A gateway does not report that.
        :raises ClusterError: A cluster does not answer.
        """
        self.on_step(f"waiting until {format_count(len(self._serving()), 'gateway')} of {self.source.cluster.alias} "
                     "take no requests and all answers have come")  # fmt: skip
        first_node = min(await self._target_ids())
        self._word = MoveDocument(
            source=self.source_id,
            source_alias=self.source.cluster.alias,
            target=self.target.cluster.cluster_id or "",
            target_alias=self.target.cluster.alias,
            link=self.link.name,
            move=str(uuid.uuid4()),
            step=MoveStep.FENCE,
            stay=self._next_stay(self._serving()),
            first_node=first_node,
            by=operator(),
            since_ms=now_ms(),
        )
        self._fenced_at = time.monotonic()
        self._beating = asyncio.create_task(self._beat(self._word))
        await self._await_drained()
        # Whatever clients have created until now is visible from here on.
        topics = {topic for topic, _ in await self._partitions()}
        if missing := sorted(topics - (await self.target.metadata(None)).topics.keys()):
            raise GateNotMet(
                f"{self.target.cluster.alias} does not have {first_few(missing)} yet: clients would not find it",
                hint=f"isthmus status {self.link.name} states why. Their clients stay where they were.",
            )
        if not self.aborted:
            self.aborted = await abort_transactions(self.source, topics)
        # Transactions that are in no log of these topics yet, such as commits of positions alone.
        self._ended += await abort_ongoing(self.source, partial(_is_moved, topics, await self._offsets_partitions()))
        # Until a commit has finished, its positions cannot be seen.
        await last_transactions(self.source)
        await self._dismiss()

    async def _dismiss(self) -> None:
        """Remove from their groups the members that clients left behind at the target when they moved away from there:
        while they are members no position can be written, and no new member is assigned a partition.

        :raises ClusterError: A coordinator does not remove them.
        """
        left = {
            name: group
            for name, group in (await self._members_there()).items()
            if self.is_back and group.type in REMOVABLE
        }
        for error in (await remove_members(self.target, left)).errors.values() if left else ():
            raise error

    async def _offsets_partitions(self) -> frozenset[PartitionKey]:
        """Return the partitions in which the source keeps the positions of the link's groups."""
        found = (await list_groups(self.source)).all()
        names = {
            each.group for of_broker in found.values() for each in of_broker if self.link.groups.matches(each.group)
        }
        topic = (await self.source.metadata([OFFSETS_TOPIC])).topics[OFFSETS_TOPIC]
        return frozenset((OFFSETS_TOPIC, offsets_partition(name, len(topic.partitions))) for name in names)

    @property
    def is_back(self) -> bool:
        """Whether clients have been at the target before."""
        there = self.target.cluster.cluster_id
        return any(each.source == there for each in (*self._here.find_finished(), *self._there.find_finished()))

    async def _members_there(self) -> dict[str, GroupDescription]:
        """Return the groups of the link that have members at the target. A group that the source does not have, or that
        has no positions, meets no client from there.
        """
        here, there = [await self._consuming(each) for each in (self.source, self.target)]
        groups = await describe_groups(self.target, {each for each in here & there if self.link.groups.matches(each)})
        return {name: group for name, group in groups.all().items() if group.members}

    async def _consuming(self, client: Client) -> set[str]:
        """Return the groups of a cluster that have positions, or may have some."""
        found = (await list_groups(client)).all()
        return {each.group for listings in found.values() for each in listings if each.protocol_type in _CONSUMING}

    async def _await_drained(self) -> None:
        """Wait until no gateway passes requests, and each has received all answers.

        :raises GateNotMet: A gateway does not report that, or the move was called off.
        """
        deadline = Deadline(self.timeout_s)
        while waiting := await self._find_undrained():
            if deadline.has_passed:
                raise GateNotMet(
                    f"{waiting[0].described} still waits for answers{_for_whom(waiting[0])}",
                    hint="Its clients go on where they were. Give the command again, perhaps with a longer --timeout.",
                )
            await asyncio.sleep(_LOOK_S)

    async def _find_undrained(self) -> list[MovableGatewayDocument]:
        """Return the gateways that are not known to have received all answers.

        :raises GateNotMet: A gateway has called the move off, or is silent.
        """
        await self._here.look()
        word = self._word
        if word is not None and self._here.away.has_ended(word.move):
            raise self._called_off_error()
        found = []
        for each in self._serving():
            if word is not None and each.move == word.move and each.is_drained:
                continue
            if self._here.silent_s(each.gateway) < _SILENT_S:
                found.append(each)
            elif self.is_forced:
                for client in (self.source, self.target):
                    await append_once(client, [Deletion(each.key)], replication_factor=None)
            else:
                raise GateNotMet(
                    f"{each.described} was not heard for {_SILENT_S:g} s: its clients may still write to "
                    f"{self.source.cluster.alias}",
                    hint="If it runs, see why it does not reach the ledger. If it has ended: isthmus gateway forget "
                    f"{self.source.cluster.alias} {each.gateway}, or --force.",
                )
        return found

    def _called_off_error(self) -> GateNotMet:
        """Return the error that the ledger had another word before this command's."""
        found = self._here.away.latest
        if found is None or (self._word is not None and found.move == self._word.move):
            by = "nobody" if found is None else found.by
            return GateNotMet(
                f"{by} heard nothing of this command for a while: clients go on where they were",
                hint="Is the ledger reached from there and from here? Then give the command again.",
            )
        return GateNotMet(
            f"another command moves these clients, with link {found.link}, given by {found.by}",
            hint="Wait for it. Give this one again if it is needed still.",
        )

    async def _beat(self, word: MoveDocument) -> None:
        """Write the heartbeat that gateways read, until cancelled."""
        writer = LedgerWriter(self.source)
        try:
            while True:
                word = replace(word, beat=word.beat + 1)
                with contextlib.suppress(ClusterError):
                    await writer.append([word], term_s=_BEAT_S)
                await asyncio.sleep(_BEAT_S)
        finally:
            writer.close()

    async def serve(self) -> float:
        """Let gateways serve their clients from the target, which has all that the source has; return for how long (s)
        no request passed.

        :raises GateNotMet: A gateway has called the move off, or is silent.
        :raises ClusterError: A cluster does not answer.
        """
        if self._word is None:
            raise AssertionError("gateways are fenced first")
        self.on_step("carrying the state of producers")
        # The target's transactional ids are carried as they are after their epochs were raised.
        await self._retry_while_leaders_change(self._raise_stale_epochs)
        await self._retry_while_leaders_change(self._carry_state)
        # A gateway that was started meanwhile must refuse requests as well.
        await self._await_drained()
        self.on_step(f"having gateways serve {self.target.cluster.alias}")
        await self._decide(replace(self._word, step=MoveStep.SERVE))
        await self._await_served(self._word)
        return time.monotonic() - self._fenced_at

    async def _retry_while_leaders_change(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat the work while leaders change: the steps before it cannot be undone."""
        deadline = Deadline(min(self.timeout_s, _PATIENCE_S))
        while True:
            try:
                return await work()
            except NotAuthorized:
                raise
            except ClusterError:
                if deadline.has_passed:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _carry_state(self) -> None:
        if self._word is not None:
            producers = await self._producers()
            await self._carry(self._word, self._producers_to_carry(producers), producers)
            await self._carry_transactions(self._word)

    async def _raise_stale_epochs(self) -> None:
        """Raise, at the target, the epochs of those transactional ids that were used elsewhere since they were there: a
        producer that stood still meanwhile is fenced there. Raise them too where both clusters by chance know the same
        producer at the same epoch: it could continue at the target within a transaction that is aborted.
        """
        further = await self._further()
        due = [
            each.transactional_id
            for each in await last_transactions(self.target, is_patient=False)
            if further.is_stale(each, is_back=self.is_back)
            and self._raised.get(each.transactional_id) != each.producer
            and not each.transactional_id.startswith(OWN_PREFIX)
        ]
        for at in range(0, len(due), _AT_ONCE):
            await asyncio.gather(*map(self._raise_epoch, due[at : at + _AT_ONCE]))

    async def _raise_epoch(self, transactional_id: str) -> None:
        transaction = Transaction(self.target, transactional_id)
        await transaction.initialize()
        self._raised[transactional_id] = transaction.producer_id, transaction.epoch

    async def _decide(self, word: MoveDocument) -> None:
        """Write to the ledger of the source that clients are served from the target, unless it holds by then that they
        are not; then to that of the target.

        :raises GateNotMet: The ledger holds that they are not.
        """
        self._is_decided = True
        await self._write_word(word, self.source)
        await self._here.look()
        if not self._here.away.is_decided(word.move):
            self._is_decided = False
            raise self._called_off_error()
        await self._write_word(word, self.target)

    async def finish(self) -> None:
        """Write to the target's ledger what the source's has decided, where a command was interrupted between the two.

        :raises ClusterError: It cannot be written.
        """
        word = self._here.away.latest
        if word is None or word.step is not MoveStep.SERVE or word.target != self.target.cluster.cluster_id:
            return
        if all(each.stay < word.stay for each in self._there.find_finished()):
            await self._write_word(word, self.target)

    async def serve_without_source(self, ends: Mapping[PartitionKey, int]) -> tuple[str, ...]:
        """Let the `stranded` gateways serve their clients from the target, whatever the source has; return those that
        do, in words, without silent ones. `ends` is up to where the target's partitions are copies of the source's.

        :raises GateNotMet: A gateway does not report that it does.
        :raises ClusterError: The target does not answer.
        """
        known = self.stranded
        found = await describe_cluster(self.target)
        word = MoveDocument(
            source=self.source_id,
            source_alias=self.source.cluster.alias,
            target=found.cluster_id,
            target_alias=self.target.cluster.alias,
            link=self.link.name,
            move=str(uuid.uuid4()),
            step=MoveStep.SERVE,
            stay=self._next_stay(known),
            first_node=min(await self._target_ids()),
            by=operator(),
            since_ms=now_ms(),
            is_lost=True,
        )
        self.on_step(f"having {format_count(len(known), 'gateway')} serve {self.target.cluster.alias}")
        await self._carry(word, (), ends, ends)
        await self._write_word(word, self.target)
        await self._await_served(word)
        left = {each.gateway for each in self.stranded}
        return tuple(each.described for each in known if each.gateway not in left)

    def _next_stay(self, gateways: Iterable[MovableGatewayDocument]) -> int:
        """Return the number of the next move of clients: gateways ignore one that is not beyond the last they know, and
        the ledgers read here may lack the moves between other clusters.
        """
        moves = [each.stay for each in (*self._here.find_finished(), *self._there.find_finished())]
        return max((*moves, *(each.stay for each in gateways)), default=0) + 1

    @property
    def _stay_here(self) -> int:
        """The number of the move that brought clients to the source, 0 if they have been there from the beginning."""
        arrived = arrived_by(self.source_id, self._here.find_finished())
        return arrived.stay if arrived is not None and arrived.target == self.source_id else 0

    def _producers_to_carry(self, producers: Mapping[PartitionKey, Iterable[ActiveProducer]]) -> list[CarriedProducer]:
        """Return what the target must know of producers without transactions."""
        # State from an earlier stay at the source is outdated: clients wrote elsewhere since.
        stay = self._stay_here
        known = (
            CarriedProducer(*key, each.producer_id, each.producer_epoch, each.last_sequence)
            for key, active in producers.items()
            for each in active
            if not each.is_transactional and not is_lone(each.producer_id) and each.last_sequence >= 0
        )
        before = (
            CarriedProducer(each.topic, *row)
            for each in CarriedDocument.find_all(self._here.documents.values())
            if each.stay == stay
            for row in each.producers
        )
        return carried_on(known, before, stay)

    async def _carry(
        self,
        word: MoveDocument,
        producers: Iterable[CarriedProducer],
        keys: Collection[PartitionKey],
        ends: Mapping[PartitionKey, int] | None = None,
    ) -> None:
        """Write to the target's ledger what is known of producers, and up to where logs are the same."""
        if ends is None:
            there = {(each.topic, each.partition) for each in partitions_of(await self.target.metadata(None))}
            keys = there.intersection(keys)
            found = await log_ranges(self.target, keys)
            for error in found.errors.values():
                raise error
            ends = {key: log.end for key, log in found.values.items()}
        states = partitions_of(await self.target.metadata(sorted({topic for topic, _ in keys})))
        epochs = {(each.topic, each.partition): each.leader_epoch for each in states}
        topics: dict[str, list[CommonPart]] = defaultdict(list)
        rows: dict[str, list[CarriedRow]] = defaultdict(list)
        for topic, partition in sorted(keys):
            key = topic, partition
            topics[topic].append(CommonPart(partition, ends[key], epochs.get(key, -1)))
        for each in producers:
            if each.key in keys:
                rows[each.topic].append(
                    CarriedRow(each.partition, each.producer_id, each.producer_epoch, each.last_sequence)
                )
        documents = [
            CarriedDocument(
                source=word.source,
                stay=word.stay,
                topic=topic,
                part=part,
                common=tuple(parts),
                producers=tuple(some),
            )
            for topic, commons in topics.items()
            for part, (parts, some) in enumerate(_in_parts(commons, rows[topic]))
        ]
        for document in documents:
            await append_once(self.target, [document], replication_factor=None)

    async def _further(self) -> CarriedFurther:
        """Return the last transactions of the producers that move."""
        stay = self._stay_here
        arrived = CarriedTransactionsDocument.find_all(self._here.documents.values())
        arrived = [each for each in arrived if each.stay == stay]
        found = carried_further(
            chain.from_iterable(each.transactions for each in arrived),
            chain.from_iterable(each.here for each in arrived),
            await last_transactions(self.source),
        )
        # A producer whose transaction was aborted keeps the epoch that it had before.
        ended = {each.transactional_id: each for each in self._ended}
        for each in self.aborted:
            if each.transactional_id is not None:
                name = each.transactional_id
                ended[name] = CarriedTransaction(name, each.producer_id, each.producer_epoch)
        return CarriedFurther(found.known | ended, found.idle - ended.keys())

    async def _carry_transactions(self, word: MoveDocument) -> None:
        """Write the last transactions to the target's ledger: a client without an answer to one asks again there."""
        known = (await self._further()).known
        there = {each.transactional_id: each for each in await last_transactions(self.target, is_patient=False)}
        found, step = tuple(known.values()), _ROWS // 2
        for part, begin in enumerate(range(0, len(found), step)):
            some = found[begin : begin + step]
            document = CarriedTransactionsDocument(
                source=word.source,
                stay=word.stay,
                part=part,
                transactions=some,
                here=tuple(there[each.transactional_id] for each in some if each.transactional_id in there),
            )
            await append_once(self.target, [document], replication_factor=None)

    async def _write_word(self, word: MoveDocument, client: Client) -> None:
        await append_once(client, [replace(word, beat=word.beat + 1_000_000)], replication_factor=None)

    async def _await_served(self, word: MoveDocument) -> None:
        """Wait until all gateways that are heard serve their clients from the target; the others are `unheard`.

        :raises GateNotMet: A gateway does not, or does not report it.
        """
        deadline = Deadline(self.timeout_s)
        while True:
            await self._there.look()
            left = [each for each in self._there.gateways() if each.serves == word.source]
            late = [each for each in left if self._there.silent_s(each.gateway) < _SILENT_S]
            if not late:
                self.unheard = tuple(sorted(each.described for each in left))
                return
            if deadline.has_passed:
                raise GateNotMet(
                    f"{late[0].described} does not serve {self.target.cluster.alias} yet",
                    hint="It does as soon as it reaches that cluster and its ledger; its log states the reason.",
                )
            await asyncio.sleep(_LOOK_S)

    async def aclose(self) -> None:
        """Stop the heartbeat; unless it is decided that clients move they continue where they were."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        try:
            if self._word is not None and not self._is_decided:
                # Once compacted the ledger has the last word only: the deciding one is written once more, as the last.
                latest = self._here.away.latest
                is_ours = latest is None or not self._here.away.has_ended(self._word.move)
                last = replace(self._word, step=MoveStep.OFF) if is_ours or latest is None else latest
                with contextlib.suppress(ClusterError):
                    await self._write_word(last, self.source)
        finally:
            self._here.close()
            self._there.close()


@contextlib.asynccontextmanager
async def client_move(
    link: Link,
    session: ClientSession,
    chosen: Collection[NamespaceMap],
    *,
    timeout_s: float,
    is_forced: bool,
    on_step: Callable[[str], None],
    is_lost: bool = False,
) -> AsyncIterator[ClientMove]:
    """Open the move of the clients of gateways before a link's source. Unless the block decides that they are served
    from the target, they continue where they were.

    :raises ClusterError: A cluster does not answer.
    """
    source, target = session.client(link.source), session.client(link.target)
    move = ClientMove(link, chosen, source, target, timeout_s, is_forced, on_step)
    try:
        await move.look(is_lost=is_lost)
        yield move
    finally:
        await move.aclose()


def find_unmarked(
    known: Mapping[PartitionKey, Iterable[ActiveProducer]], documents: Iterable[Document]
) -> list[tuple[PartitionKey, int]]:
    """Return the producers without transactions whose ids are those of their cluster alone, which no gateway assigned.
    `documents` are those of its ledger: links that write there are left out.
    """
    ours = {one for each in LinkDocument.find_all(documents) for one in (each.producer_id, each.marker_producer_id)}
    return [
        (key, each.producer_id)
        for key, active in sorted(known.items())
        for each in active
        if not (each.is_transactional or is_lone(each.producer_id) or is_tagged(each.producer_id))
        and each.producer_id not in ours
    ]


def _is_moved(topics: Collection[str], positions: frozenset[PartitionKey], partitions: frozenset[PartitionKey]) -> bool:
    """Whether a transaction of these partitions writes to topics that move, or only positions of groups that do."""
    return any(topic in topics for topic, _ in partitions) or partitions <= positions


def _in_parts(
    commons: list[CommonPart], rows: list[CarriedRow]
) -> list[tuple[tuple[CommonPart, ...], tuple[CarriedRow, ...]]]:
    """Split a topic into parts that fit into a ledger record."""
    count = max(-(-len(commons) // _ROWS), -(-len(rows) // _ROWS), 1)
    return [
        (tuple(commons[at * _ROWS : (at + 1) * _ROWS]), tuple(rows[at * _ROWS : (at + 1) * _ROWS]))
        for at in range(count)
    ]


def _for_whom(gateway: MovableGatewayDocument) -> str:
    return f" for {first_few(gateway.waits_for)}" if gateway.waits_for else ""


def _cannot_move_error(link: Link, why: str) -> PlanRefused:
    return PlanRefused(
        f"clients of gateways cannot go with link {link.name}: {why}",
        hint="With --leave-clients they stay where they are: end those gateways, or stop their clients, first.",
    )


def _should_not_move_error(link: Link, why: str, *, can_attach: bool) -> PlanRefused:
    """Return the error that clients would lack something there; `can_attach`: the link could carry some of it."""
    attach = f"isthmus link attach {link.name} (--map topics, --group-map groups) has the link carry more. "
    return PlanRefused(
        f"clients of gateways should not go with link {link.name}: {why}",
        hint=f"{attach if can_attach else ''}With --force they go all the same, whatever they lack there then; with "
        "--leave-clients they stay where they are.",
    )
