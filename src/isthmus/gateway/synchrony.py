"""The synchronous links of a gateway: it registers, follows the ledgers, and knows which link a topic is held for.

The order matters: register, then read the ledger, then answer clients. What one link writes is in `heldlink.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from isthmus.config.declared import declared_link
from isthmus.errors import ClusterError, ConfigError, NotAuthorized, PlanRefused
from isthmus.gateway.frames.duties import SyncLink
from isthmus.gateway.registering import beaten, registration
from isthmus.gateway.server import Gateway, GatewaySettings
from isthmus.gateway.synchronous.beside import log_failure
from isthmus.gateway.synchronous.crossing import cross
from isthmus.gateway.synchronous.heldlink import HeldLink
from isthmus.gateway.synchronous.others import OtherGateways
from isthmus.gateway.synchronous.targets import WRITE_S, Target
from isthmus.gateway.synchronous.unusable import LostNamespaces, UnheardLinks, UnusableLink
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.gateways import was_in_sync
from isthmus.ledger.documents.kinds import (
    GatewayDocument,
    GatewayPairDocument,
)
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.ledger.topic import LEDGER_TOPIC, on_topic
from isthmus.memory.filtering import apply_overrides
from isthmus.memory.links import LedgerMemory, read_ledger
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import (
    FENCE_S,
    HEARD_S,
    LOOK_S,
    SYNC,
    SyncState,
    SyncWord,
)
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.naming import SourceTopic
from isthmus.model.text.wording import first_few
from isthmus.synchronous.synchronous import gateway_words

_log = logging.getLogger(__name__)


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
        self._session = ClientSession()
        self.source = self._session.client(self._cluster)
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
        """The alias of the cluster that the gateway serves."""
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
            found = (each for each in self._known if each.target_topic(SourceTopic(source_topic)) is not None)
            self._of[source_topic] = next(found, None)
        found_link = self._of[source_topic]
        return self._unheard if found_link is None and not (self.is_registered or self.is_heard) else found_link

    @property
    def is_heard(self) -> bool:
        """Whether the ledger was read, and written if the gateway is registered, within `FENCE_S`; otherwise it is
        fenced.
        """
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
        """When (monotonic s) the process last stood still, after which the ledger has to be read again."""
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
            raise unreadable_error(self._cluster.alias, error) from error
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
        await self._session.aclose()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work as a task until it is cancelled or this is closed."""
        task = asyncio.create_task(log_failure(work))
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
            memory = await read_ledger(self.source)
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
        """Note a look that succeeded. The gateway has just come back if it is the first one of a gateway that has ended
        here before, or the first one for more than `FENCE_S`.
        """
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
        self._note_detached(declared)
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
            held.update(apply_overrides(link, held.target.documents(name)))
            written = GatewayPairDocument.find(documents, name, self.document.gateway)
            is_written = written is not None and written.word == held.part.word
            if held.part.word is not None and not is_written and held.written_at < begun:
                held.part.note_loss()
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

    def _note_detached(self, declared: Mapping[str, Declaration]) -> None:
        """Take in that namespaces were detached from held links: nothing more of them reaches the follower, where other
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
                    "link %s: %s failed over: its held answers are not acknowledgements, and clients get an error",
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
                known = known.join(declaration_of(name, target.documents(name).values()).registers)
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
        """Delete the documents of this gateway if it is in sync for all links that it holds. Otherwise keep those of
        held links, and mark the gateway as ended, so that others know that it acknowledges nothing more.
        """
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


def unreadable_error(alias: str, error: NotAuthorized) -> NotAuthorized:
    """Build the error that the login of a gateway may not read the ledger that it goes by."""
    return NotAuthorized(
        f"a gateway goes by the ledger of {alias}, which says what is synchronous: {error}",
        cluster=alias,
        hint=error.hint or f"Allow its login READ on topic {LEDGER_TOPIC} of {alias}.",
    )
