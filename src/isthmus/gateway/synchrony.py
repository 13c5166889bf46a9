"""The synchronous links of a gateway: it registers, follows the ledgers, and writes its state there before it acts.

The state of a link is derived from what its gateways write (`model/synchrony.py`), so the order matters: register, then
read the ledger, then answer clients; write OUT_OF_SYNC, then release answers; prove, then write IN_SYNC.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from isthmus.config.declared import declared_link
from isthmus.control.clusters.closed import following, reserved
from isthmus.control.links.filtering import operated
from isthmus.control.links.hearing import Beats
from isthmus.control.links.leaving import ended_lanes, followed_topics, source_logs
from isthmus.control.links.memory import LedgerMemory, now_ms, remembered
from isthmus.control.links.sameness import same_before
from isthmus.control.links.status import StatusReader
from isthmus.control.links.synchronous import gateway_words
from isthmus.control.pool import ClusterPool
from isthmus.errors import ClusterError, ConfigError, NotAuthorized, PlanRefused
from isthmus.gateway.beside import watched
from isthmus.gateway.crossing import cross, is_crossing
from isthmus.gateway.duties import Duties, Duty, SyncLink
from isthmus.gateway.farewell import Farewell
from isthmus.gateway.moving import moving_with
from isthmus.gateway.others import OtherGateways
from isthmus.gateway.readable import ReadRights
from isthmus.gateway.registering import beaten, registration
from isthmus.gateway.server import Gateway, GatewaySettings, check_settings, listening
from isthmus.gateway.targets import WRITE_S, Target
from isthmus.gateway.unusable import LostNamespaces, UnheardLinks, UnusableLink
from isthmus.ledger.declared import declaration_of
from isthmus.ledger.documents import (
    Document,
    GatewayDocument,
    GatewayPairDocument,
    PreparedDocument,
    ReadableDocument,
    SynchronizedDocument,
)
from isthmus.ledger.gateways import is_readable, was_in_sync
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.ledger.topic import LEDGER_TOPIC, on_topic
from isthmus.model.carrying import PARTED
from isthmus.model.configuration import Configuration
from isthmus.model.declaration import Declaration
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.pair import PairState
from isthmus.model.prepared import PreparedCommit
from isthmus.model.progress import LinkProgress
from isthmus.model.synchrony import (
    FENCE_S,
    HEARD_S,
    LOOK_S,
    SYNC,
    GatewayWord,
    SyncEvidence,
    SyncPart,
    SyncSettings,
    SyncState,
    SyncWord,
    synchrony,
)
from isthmus.model.transactions import Visibility
from isthmus.model.wording import first_few
from isthmus.model.writability import KeptBy
from isthmus.wire.client import Client
from isthmus.wire.clock import lasting_s
from isthmus.wire.offsets import PartitionKey

_log = logging.getLogger(__name__)
_RETRY_S: Final = 0.2
_UNHELD: Final = (Duty.PASS, Duty.LET_GO)


@contextlib.asynccontextmanager
async def standing(configuration: Configuration, alias: str, settings: GatewaySettings) -> AsyncIterator[Gateway]:
    """Run a gateway for as long as the block runs: it listens, holds the acknowledgements of the synchronous links of
    the cluster that it serves, and moves its clients with links.

    Raises what `listening` does.
    """
    # Before it is in any ledger: a gateway that a wrong setting ends at once must not be registered.
    check_settings(configuration.cluster(alias), settings)
    await require_ledger(configuration, alias, settings)
    held, leaving = [await _begin_links(configuration, alias, settings)], dict[str, Farewell]()

    @contextlib.asynccontextmanager
    async def beside(gateway: Gateway) -> AsyncIterator[None]:
        async def duties_at(alias: str) -> Duties:
            is_traced = False
            if alias in leaving:
                former = leaving[alias]
                # The former farewell would delete the documents that are written there again.
                await former.end()
                is_traced = former.leaves_traces
            links = await _begin_links(configuration, alias, settings, held[0].document, is_traced=is_traced)
            leaving.pop(alias, None)
            links.stand_behind(gateway)
            held.append(links)
            left = held.pop(0)
            # The farewell begins once the gateway has turned.
            leaving[left.alias] = Farewell(left)
            return links

        held[0].stand_behind(gateway)
        gateway.duties_at = duties_at
        async with moving_with(configuration, settings, held[0].document)(gateway):
            yield

    try:
        async with listening(configuration.cluster(alias), settings, held[0], beside) as gateway:
            yield gateway
    finally:
        await asyncio.gather(*(each.end() for each in leaving.values()), *(each.aclose() for each in held))


async def require_ledger(configuration: Configuration, alias: str, settings: GatewaySettings) -> None:
    """Require that a gateway may read and write the ledger of the cluster that it is to serve.

    :raises NotAuthorized: It may not: controllers could not know that this gateway holds nothing, nor wait for it.
    :raises ClusterError: The ledger cannot be read or written.
    """
    # A deletion of a key that does not exist tests the right to write, and changes nothing.
    nothing = [Deletion(registration(settings).key)]
    async with Client(configuration.cluster(alias)) as client:
        writer = LedgerWriter(client, in_order=True)
        try:
            write = partial(writer.append, nothing, term_s=WRITE_S)
            await on_topic(client, write, replication_factor=configuration.written.ledger.replication_factor)
        except NotAuthorized as error:
            raise NotAuthorized(
                f"a gateway is waited for by the ledger of {alias}, where it has to be written: {error}",
                cluster=alias,
                hint=error.hint or f"Allow its login WRITE on topic {LEDGER_TOPIC} of {alias}.",
            ) from error
        finally:
            writer.close()
        try:
            await remembered(client)
        except NotAuthorized as error:
            raise _unreadable_error(alias, error) from error


async def _begin_links(
    configuration: Configuration,
    alias: str,
    settings: GatewaySettings,
    known: GatewayDocument | None = None,
    *,
    is_traced: bool = False,
) -> GatewayLinks:
    """Register a gateway at a cluster, as `known` if another cluster has it already, and return the links there.

    :raises ClusterError: The ledger of the cluster cannot be read.
    """
    links = GatewayLinks(configuration, alias, settings, known, is_traced=is_traced)
    try:
        await links.begin()
    except BaseException:
        await links.aclose()
        raise
    return links


class GatewayLinks:
    """The synchronous links of the cluster that a gateway serves: its `Duties`. If it `is_traced` it has ended there
    before, and other gateways may be about to overwrite the documents it left.
    """

    def __init__(
        self,
        configuration: Configuration,
        alias: str,
        settings: GatewaySettings,
        known: GatewayDocument | None = None,
        *,
        is_traced: bool = False,
    ) -> None:
        self._configuration = configuration.written
        self._cluster = configuration.cluster(alias)
        self.document = known or registration(settings)
        self.source = Client(self._cluster)
        self.targets: dict[tuple[str, str], Target] = {}
        self.gateway: Gateway | None = None
        self._writer = LedgerWriter(self.source, in_order=True)
        self._cluster_id = ""
        self._links: dict[str, HeldLink] = {}
        self._unusable: dict[str, UnusableLink] = {}
        self._lost: list[LostNamespaces] = []
        self._of: dict[str, SyncLink | None] = {}
        self._heard_at = self._back_at = float("-inf")
        self._tasks = set[asyncio.Task[None]]()
        self._others = OtherGateways(self)
        self._known: Collection[SyncLink] = ()
        self._unheard = UnheardLinks(alias)
        self.is_registered = False
        self._is_traced = is_traced
        self.leaves_traces = True
        """Whether ledgers keep documents of this gateway after its end, which other gateways may delete."""

    @property
    def alias(self) -> str:
        """The cluster."""
        return self._cluster.alias

    @property
    def held(self) -> Collection[HeldLink]:
        """The links that it holds acknowledgements for."""
        return self._links.values()

    @property
    def holds_all(self) -> bool:
        """Whether it can hold acknowledgements for all synchronous links."""
        return not self._unusable

    @property
    def links(self) -> Collection[SyncLink]:
        """See `Duties`. An unregistered gateway knows its links only as long as it hears the ledger."""
        return self._known if self.is_registered or self.is_heard else (*self._known, self._unheard)

    def of(self, source_topic: str) -> SyncLink | None:
        """See `Duties`."""
        if source_topic not in self._of:
            found = (each for each in self._known if each.target_topic(source_topic) is not None)
            self._of[source_topic] = next(found, None)
        found_link = self._of[source_topic]
        return self._unheard if found_link is None and not (self.is_registered or self.is_heard) else found_link

    @property
    def is_heard(self) -> bool:
        """Whether the ledger was read and written within `FENCE_S`; otherwise the gateway is fenced."""
        return lasting_s() - self._heard_at <= FENCE_S

    @property
    def is_trusted(self) -> bool:
        """Whether it is heard, and has been for longer than `HEARD_S`, so that no other gateway takes it for gone.
        Until then another gateway that has not heard of its return may delete what it writes.
        """
        return self.is_heard and lasting_s() - self._back_at > HEARD_S

    @property
    def is_blind(self) -> bool:
        """Whether answers are in flight that cannot be held."""
        return self.gateway is not None and self.gateway.is_blind

    @property
    def _doubted_at(self) -> float:
        """When the process last stood still (`lasting_s`), after which the ledger has to be read again."""
        return float("-inf") if self.gateway is None else self.gateway.doubted_at

    def stand_behind(self, gateway: Gateway) -> None:
        """Set the gateway that clients are connected to."""
        self.gateway = gateway

    async def begin(self) -> None:
        """Register, and read which links to hold for, before any client is answered. If the login may not write to the
        ledger of the cluster to which clients have moved, the gateway refuses the topics of synchronous links there and
        forwards everything else.

        :raises NotAuthorized: It may not read the ledger, so it could not know for which links to hold.
        :raises ClusterError: The ledger cannot be read.
        """
        self._cluster_id = (await self.source.metadata()).cluster_id or ""
        try:
            replication_factor = self._configuration.ledger.replication_factor
            await on_topic(self.source, partial(self.write, [self.document]), replication_factor=replication_factor)
            self.is_registered = True
        except NotAuthorized as error:
            _log.warning(
                "this gateway holds nothing, and refuses the topics of synchronous links, and all while it does not "
                "hear which these are: it cannot register in the ledger of %s (%s)", self._cluster.alias, error,
            )  # fmt: skip
        try:
            await self._cycle()
        except NotAuthorized as error:
            raise _unreadable_error(self._cluster.alias, error) from error
        self.start(self._follow())

    async def say_farewell(self) -> None:
        """Cancel all tasks, and write to the ledger that this gateway has ended.

        :raises ClusterError: The ledger cannot be written.
        """
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.is_registered:
            await self._say_farewell()
            self.is_registered = False

    async def aclose(self) -> None:
        """Say farewell if the ledger can be written, and close."""
        with contextlib.suppress(ClusterError, TimeoutError):
            await self.say_farewell()
        for link in self._links.values():
            await link.leave()
            await link.aclose()
        self.leaves_traces = self.leaves_traces or any(target.has_notes for target in self.targets.values())
        for target in self.targets.values():
            await target.aclose()
        self._writer.close()
        await self.source.aclose()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work as a task until it is cancelled or this is closed."""
        task = asyncio.create_task(watched(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Avoids the warning about a coroutine that was cancelled before it began.
        task.add_done_callback(lambda _: work.close())
        return task

    async def write(self, changes: Iterable[LedgerChange]) -> None:
        """Append changes to the ledger of the source; durable when it returns.

        :raises ClusterError: They were rejected, or not written within `WRITE_S`.
        """
        await self._writer.append(changes, term_s=WRITE_S)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._cycle()
            except (ClusterError, PlanRefused, TimeoutError) as error:
                why = str(error) or "it does not answer in time"
                _log.warning("the ledger of %s is not heard: %s", self._cluster.alias, why)
            except Exception:  # noqa: BLE001 - what is held stays held, and it is tried again
                _log.exception("the ledger of %s could not be looked at", self._cluster.alias)

    async def _cycle(self) -> None:
        """Write a heartbeat, read the ledger, and only then count as heard."""
        begun, doubted_at = lasting_s(), self._doubted_at
        self.document = beaten(self.document, self.gateway)
        async with asyncio.timeout(2 * FENCE_S):
            if self.is_registered:
                await self.write([self.document])
            memory = await remembered(self.source)
        self._take(memory, begun)
        self._hear(begun)
        if self.gateway is not None and self._doubted_at == doubted_at:
            self.gateway.fence(is_up=False, why="links")
        for link in self._links.values():
            if not link.is_lost:
                link.step()
        for link in self._links.values():
            link.reveal(gateway_words(link.link, memory))
        if self.is_registered:
            await self._say_unusable(memory)
            self._others.watch(memory)

    def _hear(self, begun: float) -> None:
        """Note a look that succeeded; after more than `FENCE_S` without one the gateway has just come back."""
        if self._is_traced or FENCE_S < begun - self._heard_at < float("inf"):
            self._back_at, self._is_traced = begun, False
        self._heard_at = begun

    def _take(self, memory: LedgerMemory, begun: float) -> None:
        """Take in the links that the ledger declares now, and their documents."""
        declared = {known.name: known for known in self._find_declarations(memory)}
        why = f"a gateway may not write to the ledger of {self._cluster.alias}"
        found = {
            known.name: self._link(known) if self.is_registered else self._build_unusable(known, why)
            for known in declared.values()
            if known.mode == SYNC and not known.is_deleted
        }
        self._detach_lost(declared)
        for name, held in list(self._links.items()):
            # A link that cannot be used here as it is declared now is held as before.
            declared_now = found.get(name)
            now = held.link if isinstance(declared_now, UnusableLink) else declared_now
            if now is None and name in declared and held.is_lost_at(declared[name]):
                continue
            if now is None or now.mode_said != held.link.mode_said:
                _log.info("link %s is not synchronous any more: all that was held leaves", name)
                held.part.end()
                del self._links[name]
                self.start(self._retract(held))
        self._refuse(found)
        for name, link in found.items():
            if isinstance(link, UnusableLink):
                continue
            documents = memory.of(name).documents
            owes = was_in_sync(name, link.mode_said, documents.values())
            if name not in self._links:
                _log.info("link %s is synchronous", name)
                self._links[name] = HeldLink(self, self._target(link), link, declared[name], owes=owes)
            held = self._links[name]
            if owes and not self.is_trusted:
                held.part.owe()
            held.update(operated(link, held.target.documents(name)))
            written = documents.get(held.document(SyncWord()).key)
            is_written = isinstance(written, GatewayPairDocument) and written.word == held.part.word
            if held.part.word is not None and not is_written and held.written_at < begun:
                held.part.lost()
        for held in self._links.values():
            held.known_at = min(begun, held.target.begun_at)
        cross(
            self.held, lambda known: was_in_sync(known.name, known.mode_said, memory.of(known.name).documents.values())
        )
        self.order()

    def order(self) -> None:
        """Order the links by which a topic is looked up: lost namespaces first, as a link that is held as before may
        still map them, and links that have yielded to another one last, once that is written.
        """
        held = sorted(self._links.values(), key=lambda each: each.part.has_yielded)
        self._known = (*self._lost, *held, *self._unusable.values())
        self._of.clear()

    def _detach_lost(self, declared: Mapping[str, Declaration]) -> None:
        """Handle namespaces that were detached from held links: nothing more of them reaches the follower, and other
        clients write to those that were failed over.
        """
        for name, held in self._links.items():
            known = declared.get(name)
            if known is None or held.known.attached_said == known.attached_said:
                continue
            gone = [each for each in held.known.maps if each not in known.maps]
            held.go_by(known)
            lost = known.may_have_failed_over(gone)
            if gone and known.maps:
                held.losses += 1
            if lost:
                _log.warning(
                    "link %s: %s failed over: what is held of that is not at the follower, and is told so",
                    name, first_few(map(str, lost)),
                )  # fmt: skip
                if known.maps:
                    self._lost.append(LostNamespaces(known, lost))
                else:
                    held.lose(lost)
        self._lost = [each for each in self._lost if not each.is_over(declared.get(each.name))]

    def _refuse(self, found: Mapping[str, Link | UnusableLink]) -> None:
        """Refuse the topics of links that cannot be used, except for those that are held as before."""
        for name, each in self._unusable.items():
            if self.is_registered and name not in found:
                self.start(self.write([Deletion(each.document(self.document).key)]))
        self._unusable = {
            name: each for name, each in found.items() if isinstance(each, UnusableLink) and name not in self._links
        }

    def _find_declarations(self, memory: LedgerMemory) -> Iterable[Declaration]:
        """Yield the declarations of links whose source is this cluster, joined from both ledgers."""
        for name in memory.links:
            known = declaration_of(name, memory.of(name).documents.values())
            for target in self.targets.values():
                known = known.joined(declaration_of(name, target.documents(name).values()).registers)
            if known.is_whole and known.source.cluster_id == self._cluster_id:
                yield known

    def _link(self, known: Declaration) -> Link | UnusableLink:
        alias = known.target.alias
        try:
            target = self._configuration.cluster(alias).logged_in(known.target_login)
            # The configuration may have another cluster by that name: its data would prove nothing.
            return declared_link(known, self._cluster, replace(target, cluster_id=known.target.cluster_id))
        except ConfigError as error:
            return self._build_unusable(known, f"a gateway cannot hold for it: {error}")

    def _build_unusable(self, known: Declaration, why: str) -> UnusableLink:
        if known.name not in self._unusable and known.name not in self._links:
            _log.error("link %s is synchronous, and its topics are refused here: %s", known.name, why)
        return UnusableLink(known, why)

    async def _say_unusable(self, memory: LedgerMemory) -> None:
        """Write to the ledger which links this gateway refuses, and why.

        :raises ClusterError: The ledger cannot be written.
        """
        documents = [each.document(self.document) for each in self._unusable.values()]
        if changes := [each for each in documents if memory.of(each.link).documents.get(each.key) != each]:
            await self.write(changes)

    def _target(self, link: Link) -> Target:
        key = link.target.alias, link.target.cluster_id
        if key not in self.targets:
            self.targets[key] = Target(self._configuration, *key)
            self.start(self.targets[key].follow())
        return self.targets[key]

    async def _retract(self, held: HeldLink) -> None:
        """Delete the documents of a link that is not synchronous any more."""
        key = Deletion(held.document(SyncWord()).key)
        with contextlib.suppress(ClusterError):
            await self.write([key])
        with contextlib.suppress(ClusterError):
            await held.target.write([key])
        await held.leave()
        await held.aclose()

    async def _say_farewell(self) -> None:
        """Delete the documents of links that are proven in sync; mark the gateway as ended if there are others."""
        words = [Deletion(each.document(self.document).key) for each in self._unusable.values()]
        proven = list[Deletion]()
        for link in self._links.values():
            word = link.part.word
            if word is not None and word.state is SyncState.IN_SYNC and link.part.due is None:
                proven.append(Deletion(link.document(word).key))
        is_clean = len(proven) == len(self._links)
        if is_clean:
            # Otherwise they stay: they prove that the ended gateway answered nothing there that the follower lacks.
            words += proven
        last = Deletion(self.document.key) if is_clean else replace(self.document, has_ended=True)
        await self.write([*words, last])
        self.leaves_traces = not is_clean
        for link in self._links.values():
            with contextlib.suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(WRITE_S):
                    await link.target.write(words)


class HeldLink:
    """A synchronous link as this gateway sees it: see `SyncLink`."""

    def __init__(self, owner: GatewayLinks, target: Target, link: Link, known: Declaration, *, owes: bool) -> None:
        self.link = link
        self.known = known
        self.losses = 0
        """See `SyncLink`."""
        self.target = target
        self.part = SyncPart(link.sync, owes=owes)
        self.written_at = float("inf")
        self.follower = target.follower
        self._owner = owner
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._since_ms = now_ms()
        self._beats = Beats()
        self._proving: tuple[int, asyncio.Task[None]] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._to_copy: list[Document] = []
        self._copying: asyncio.Task[None] | None = None
        self._losses: dict[PartitionKey, tuple[int, int]] = dict(target.follower.losses)
        self._notes = target.notes(link.name, owner.document.gateway)
        self._cleaning: asyncio.Task[None] | None = None
        self._revealing: asyncio.Task[None] | None = None
        self._rights = ReadRights(owner.source, target.client)
        self._lost: LostNamespaces | None = None
        self.known_at = float("-inf")
        """All that both ledgers held before this time (`lasting_s`) was taken in here."""

    @property
    def name(self) -> str:
        """See `SyncLink`."""
        return self.link.name

    @property
    def settings(self) -> SyncSettings:
        """See `SyncLink`."""
        return self.link.sync

    @property
    def topics(self) -> Collection[str]:
        """See `SyncLink`."""
        memory = self.target.memory
        return () if memory is None else sorted(followed_topics(self.link, memory.of(self.name)))

    @property
    def parted_groups(self) -> Collection[str]:
        """See `SyncLink`."""
        memory = self.target.memory
        found = () if memory is None else memory.of(self.name).groups(now_ms())
        return {each.group for each in found if each.standing in PARTED}

    def target_topic(self, source_topic: str) -> str | None:
        """See `SyncLink`."""
        topics, name = self.link.topics, SourceTopic(source_topic)
        if self._lost is not None and self._lost.target_topic(source_topic) is None:
            return None
        return topics.target_of(name) if topics.matches(name) else None

    def target_group(self, source_group: str) -> str | None:
        """See `SyncLink`."""
        groups = self.link.groups
        if self._lost is not None and self._lost.target_group(source_group) is None:
            return None
        return groups.naming.to_target(source_group) if groups.commit and groups.matches(source_group) else None

    def copies_open(self, key: PartitionKey) -> bool:
        """See `SyncLink`."""
        topic, memory = self.target_topic(key[0]), self.target.memory
        if topic is None:
            return False
        # A lane that moved to another task or controller counts as before, until it reports otherwise.
        known = {} if memory is None else memory.of(self.name).last_known
        report = known.get(LaneKey(TargetTopic(topic), key[1]))
        if report is None or report.source_end < 0:
            return self.link.transactions.visibility is not Visibility.RECORD
        return report.is_whole

    async def note(self, commit: PreparedCommit) -> None:
        """See `SyncLink`. Other gateways that take this one for gone may delete what it writes."""
        while not self._owner.is_trusted:
            await asyncio.sleep(_RETRY_S)
        await self._notes.add(commit)

    def forget(self, producer_id: int, ends: Mapping[PartitionKey, int]) -> None:
        """See `SyncLink`."""
        self._notes.forget(producer_id, ends)

    def stand_still(self, late: Mapping[PartitionKey, int]) -> None:
        """See `SyncLink`."""
        self.part.stand_still(late, self._lag_of(late))
        self._owner.start(self._write())

    def _lag_of(self, late: Iterable[PartitionKey]) -> str:
        named = first_few(f"{topic}-{partition}" for topic, partition in late)
        return f"the follower got nothing of {named} for {self.settings.lag_max_ms:,} ms"

    def duty(self, *, is_transactional: bool) -> Duty:
        """See `SyncLink`. A gateway that does not hear the ledger, or is not heard there, answers nothing unheld."""
        if self.is_lost:
            return Duty.REFUSE
        duty = self.part.duty(is_transactional=is_transactional)
        if self.part.is_over or self._owner.is_trusted or (self._owner.is_heard and duty not in _UNHELD):
            return duty
        return Duty.HOLD if self._owner.is_heard else Duty.REFUSE

    async def compared(self, ends: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, bool | None]:
        """See `SyncLink`. Partitions that are no longer copied cannot be compared."""
        asked = {
            key: ((topic, key[1]), end) for key, end in ends.items() if (topic := self.target_topic(key[0])) is not None
        }
        found = dict.fromkeys(ends.keys() - asked) | await same_before(self._owner.source, self.target.client, asked)
        if other := sorted(key for key, is_same in found.items() if is_same is False):
            named = first_few(
                f"{topic}-{partition} before offset {ends[topic, partition]}" for topic, partition in other
            )
            self.part.stop(f"SOURCE CHANGED: the follower has not what the source has in {named}")
        return found

    async def let_go(self, late: Mapping[PartitionKey, int]) -> None:
        """See `SyncLink`."""
        reason = self._lag_of(late)
        while True:
            self.part.let_go(late, reason)
            if self._may_leave(late):
                return
            self._changed.clear()
            await self._write()
            if self._may_leave(late):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S):
                    await self._changed.wait()

    @property
    def said(self) -> str:
        """The id of the statement that made it synchronous."""
        return self.link.mode_said

    @property
    def attached_said(self) -> str:
        """The ids of the statements that attach its namespaces."""
        return self.known.attached_said

    @property
    def noted_by(self) -> Collection[str]:
        """The gateways with prepared commits in the ledger of the target, as it was read last."""
        found = self.target.documents(self.name).values()
        return {each.gateway for each in found if isinstance(each, PreparedDocument)}

    async def write_there(self, changes: Iterable[LedgerChange]) -> None:
        """Append changes to the ledger of the target.

        :raises ClusterError: They were rejected, or not written within `WRITE_S`.
        """
        await self.target.write(changes)

    @property
    def is_lost(self) -> bool:
        """See `SyncLink`."""
        return self._lost is not None

    @property
    def is_current(self) -> bool:
        """See `SyncLink`. A failover of the link waits for gateways that are heard."""
        return lasting_s() - self.known_at <= FENCE_S

    def is_lost_at(self, known: Declaration) -> bool:
        """Whether this declaration is of a link that was failed over, and its lost namespaces are still refused."""
        return self._lost is not None and not known.maps and not self._lost.is_over(known)

    def lose(self, lost: Collection[NamespaceMap]) -> None:
        """Mark namespaces as failed over, and the link as over: requests for other topics pass."""
        self._lost = LostNamespaces(self.known, lost)
        self.part.lose()

    def go_by(self, known: Declaration) -> None:
        """Take in a declaration with other attachments, and write to the ledger that it is known here."""
        self.known = known
        if self._proving is not None:
            # The follower may never get what was detached meanwhile.
            self._proving[1].cancel()
            self._proving = None
        self.part.say_again()
        self._owner.start(self._write())

    def _may_leave(self, late: Mapping[PartitionKey, int]) -> bool:
        return not self.is_lost and (self._owner.is_trusted or self.part.is_over) and self.part.may_leave(late)

    def update(self, link: Link) -> None:
        """Take in the link as it is declared now."""
        self.link, self.part.settings = link, link.sync

    def step(self) -> None:
        """Take in the evidence, and start the tasks that the state of the link needs."""
        before = self.part.state
        self.part.look(SyncEvidence(trouble=self._trouble()))
        self.part.explain(self._rights.missing)
        self._take_losses()
        if self.part.state is not before:
            _log.warning("link %s: %s", self.name, self.part.state)
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = self._owner.start(self._notes.clean())
        if self._rights.is_due:
            self._owner.start(self._look_at_rights())
        if self.part.due is not None:
            self._owner.start(self._write())
        elif not self.part.is_holding:
            self._begin_looking()
        elif self.part.state is not SyncState.IN_SYNC and not is_crossing(self._owner.held):
            self._begin_proving()

    def reveal(self, words: Collection[GatewayWord]) -> None:
        """Write to the ledger of the target that the link is no longer SYNCING, once the words of all gateways prove
        it: from then on clients may read its topics there.
        """
        document = ReadableDocument(link=self.name, said=self.link.mode_said, since_ms=now_ms())
        known = self.target.documents(self.name).values()
        is_known = self.target.memory is None or is_readable(self.name, document.said, known)
        is_syncing = synchrony(words, trouble="", was_in_sync=False).state is SyncState.SYNCING
        if is_known or is_syncing or self.is_lost or (self._revealing is not None and not self._revealing.done()):
            return
        self._revealing = self._owner.start(self.target.write([document]))

    def _take_losses(self) -> None:
        """Let go where the follower lost data: records that were acknowledged may be missing there."""
        topics = {self.target_topic(name): name for name in self.topics}
        for key, (was, ends) in self.follower.losses.items():
            source = topics.get(key[0])
            if source is not None and self._losses.get(key) != (was, ends):
                self._losses[key] = was, ends
                reason = f"FOLLOWER LOST DATA: {key[0]}-{key[1]} ended at {was}, and then at {ends}"
                self.part.let_go({(source, key[1]): ends}, reason)

    def _trouble(self) -> str:
        """Return what keeps the lanes from following, by their ledger; "" where nothing does."""
        target, alias = self.target, self.link.target.alias
        if self._notes.late_s >= self.settings.lag_max_ms / 1000:
            return f"the ledger of {alias} cannot be written: commits over several partitions have to be noted there"
        if target.memory is None or target.is_away:
            return f"{alias} is not heard" if target.is_away else ""
        known = target.memory.of(self.name)
        if self._beats.is_gone(known):
            return "no controller runs the link"
        if known.paused.is_whole:
            return "the link is paused"
        ended = [f"{key} {state}" for key, state in sorted(ended_lanes(known).items())]
        if ended or self._rights.missing:
            return first_few(ended) or self._rights.missing
        kept = reserved(self.link, target.memory, target.cluster_id)
        open_ones = [str(each) for each in following(self.link) if kept.get(each) is not KeptBy.ACCESS_RULES]
        return f"{first_few(open_ones)} of {alias} is not closed by access rules" if open_ones else ""

    def _begin_looking(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self._owner.start(self._look())

    async def _look(self) -> None:
        """Find out whether the link follows, by the logs of both clusters."""
        async with ClusterPool() as pool:
            # Read as an asynchronous link: only whether it follows matters here.
            (found,) = await StatusReader((replace(self.link, mode="async"),), pool).read()
        is_following = found.pair_state is PairState.FOLLOWING and not self._lacks(found)
        self.part.look(SyncEvidence(trouble=self._trouble(), is_following=is_following))

    def _lacks(self, found: LinkProgress) -> bool:
        """Whether the follower still lacks the offsets it lacked when it stood still: its lanes may have nothing to
        copy while they wait for an open transaction. Records that the source deleted are not waited for.
        """
        partitions = {each.key: each for topic in found.topics for each in topic.partitions}
        for (topic, partition), offset in self.part.lacked.items():
            target = self.target_topic(topic)
            seen = None if target is None else partitions.get(LaneKey(TargetTopic(target), partition))
            if seen is not None and seen.target_end <= offset and not 0 <= seen.source_log_end <= offset:
                return True
        return False

    def _begin_proving(self) -> None:
        if self._proving is not None:
            begun, task = self._proving
            if begun == self.part.round and not task.done():
                return
            task.cancel()
        self._proving = self.part.round, self._owner.start(self._prove(self.part.round))

    async def _prove(self, begun: int) -> None:
        """Wait until the follower has all that the source has at this time; acknowledgements are held meanwhile."""
        while self._owner.is_blind:
            await asyncio.sleep(_RETRY_S)
        await self._look_at_rights()
        if not self._rights.missing:
            await self.covered()
            self.part.prove(begun)
            await self._write()

    async def _look_at_rights(self) -> None:
        await self._rights.look({name: there for name in self.topics if (there := self.target_topic(name))})

    async def covered(self) -> None:
        """Wait until the follower has all that the source has now, and the end of each transaction that is open there,
        as it may have been committed already.

        :raises ClusterError: The source does not answer, or the records differ.
        """
        before = logs = await self._source_logs()
        while any(log.stable_end < before[key].end for key, log in logs.items() if key in before):
            await asyncio.sleep(_RETRY_S)
            logs = await self._source_logs()
        ends, there = {key: log.end for key, log in logs.items() if log.end > 0}, dict[PartitionKey, int]()
        for (topic, partition), end in ends.items():
            target = self.target_topic(topic)
            if target is not None:
                there[target, partition] = end
        await self.follower.covered(there)
        found = await self.compared(ends)
        if any(found.get(key, False) is False for key in ends):
            raise ClusterError(f"{self.name}: it is not seen that the follower has what the source has")

    async def _source_logs(self) -> Mapping[PartitionKey, LogRange]:
        memory = self.target.memory
        if memory is None:
            memory = await remembered(self.target.client)
        return await source_logs(self.link, self._owner.source, followed_topics(self.link, memory.of(self.name)))

    def document(self, word: SyncWord) -> GatewayPairDocument:
        """Build the document of this gateway for the link, with this word."""
        return GatewayPairDocument(
            link=self.name,
            gateway=self._owner.document.gateway,
            said=self.link.mode_said,
            by=self._owner.document.described,
            state=word.state,
            since_ms=self._since_ms,
            out_of_sync=self.settings.out_of_sync,
            reason=word.reason,
            lets_go=word.lets_go,
            principal=self.target.client.cluster.principal or "",
            attached_said=self.known.attached_said,
        )

    def word_of(self, other: GatewayDocument) -> GatewayPairDocument:
        """Build the document that another gateway would write for this link when it is in sync."""
        word = self.document(SyncWord(state=SyncState.IN_SYNC))
        return replace(word, gateway=other.gateway, by=other.described)

    def _synchronized(self) -> SynchronizedDocument:
        """Build the document that this gateway is in sync. Topics that clients read at the target stay readable."""
        mode_said, known = self.link.mode_said, self.target.documents(self.name).values()
        reveals = not is_readable(self.name, mode_said, known)
        return SynchronizedDocument(link=self.name, said=mode_said, since_ms=self._since_ms, reveals=reveals)

    async def _write(self) -> None:
        """Write the due words to the ledger before the link acts on them."""
        async with self._writing:
            while (word := self.part.due) is not None and not self.part.is_over:
                if self.part.word is None or self.part.word.state is not word.state:
                    self._since_ms = now_ms()
                document = self.document(word)
                changes: list[Document] = [document]
                if word.state is SyncState.IN_SYNC:
                    changes.append(self._synchronized())
                try:
                    self.written_at = float("inf")
                    await self._owner.write(changes)
                except ClusterError as error:
                    _log.warning("link %s: %s could not be written down: %s", self.name, word.state, error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                if document.attached_said != self.known.attached_said:
                    # The attachments changed meanwhile: the same word is due again.
                    continue
                self.written_at = lasting_s()
                self.part.wrote(word)
                self._owner.order()
                self._changed.set()
                _log.warning("link %s is %s here%s", self.name, word.state, f": {word.reason}" if word.reason else "")
                # Documents that the target lacks yet are copied with the newer ones.
                self._to_copy = list({each.key: each for each in (*self._to_copy, *changes)}.values())
                if self._copying is None or self._copying.done():
                    self._copying = self._owner.start(self._copy())

    async def _copy(self) -> None:
        """Copy the newest documents to the ledger of the target, for readers that cannot reach the source any more."""
        while changes := self._to_copy:
            try:
                await self.target.write(changes)
            except ClusterError:
                await asyncio.sleep(LOOK_S)
            else:
                if self._to_copy is changes:
                    self._to_copy = []

    async def leave(self) -> None:
        """Delete documents from the ledger of the target that are no longer needed."""
        await self._notes.leave()

    async def aclose(self) -> None:
        """Cancel the tasks of this link."""
        for task in (
            self._looking,
            self._copying,
            self._cleaning,
            self._revealing,
            None if self._proving is None else self._proving[1],
        ):
            if task is not None:
                task.cancel()


def _unreadable_error(alias: str, error: NotAuthorized) -> NotAuthorized:
    return NotAuthorized(
        f"a gateway goes by the ledger of {alias}, which says what is synchronous: {error}",
        cluster=alias,
        hint=error.hint or f"Allow its login READ on topic {LEDGER_TOPIC} of {alias}.",
    )
