"""A synchronous link between two clusters as a gateway sees it, with real lanes that run, or stand still."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from isthmus.gateway.frames.duties import Duty, SyncLink
from isthmus.gateway.synchronous.follower import FollowerWatch
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.gateways.prepared import PreparedCommit
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition
from isthmus.synchronous.sameness import same_before
from testing.gateways.gateways import Running, gateway
from testing.patience import TERM_S
from testing.runs.mirror import Mirror


@dataclass(slots=True, eq=False)
class Link:
    """What a test says of a link. Whatever is let go is written into `gone`, and then may leave. If it `is_whole`, the
    commits that are let through are in `notes` once `may_note` is set.
    """

    follower: FollowerWatch
    source: Client
    topics: Collection[SourceTopic]
    settings: SyncSettings = field(default_factory=SyncSettings)
    plain: Duty = Duty.HOLD
    transactional: Duty = Duty.HOLD
    gone: dict[SourceTopicPartition, int] = field(default_factory=dict)
    parted_groups: set[str] = field(default_factory=set)
    other: set[SourceTopicPartition] = field(default_factory=set)
    compared_count: int = 0
    name: str = "orders"
    is_whole: bool = False
    notes: dict[int, PreparedCommit] = field(default_factory=dict)
    may_note: threading.Event = field(default_factory=threading.Event)
    is_lost: bool = False
    is_current: bool = True
    losses: int = 0

    def target_topic(self, source_topic: SourceTopic) -> TargetTopic | None:
        """The same name."""
        return TargetTopic(source_topic) if source_topic in self.topics else None

    def target_group(self, source_group: str) -> str | None:
        """The same name, where it is one of the test's."""
        return source_group if source_group.startswith("carried") else None

    def copies_open(self, key: SourceTopicPartition) -> bool:
        """As the test says."""
        return self.is_whole

    async def note(self, commit: PreparedCommit) -> None:
        """Wait until the test is ready for it."""
        self.notes[commit.producer_id] = commit
        while not self.may_note.is_set():
            await asyncio.sleep(0.01)

    def forget(self, producer_id: int, ends: Mapping[TargetTopicPartition, int]) -> None:
        """It has ended everywhere."""
        self.notes.pop(producer_id, None)

    def stand_still(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """Out of sync from now on."""
        self.plain, self.transactional = Duty.LET_GO, Duty.REFUSE

    def duty(self, *, is_transactional: bool) -> Duty:
        """As the test says."""
        return self.transactional if is_transactional else self.plain

    async def compare(self, ends: Mapping[SourceTopicPartition, int]) -> Mapping[SourceTopicPartition, bool | None]:
        """Out of sync from now on, if something is another one."""
        self.compared_count += len(ends)
        asked = {key: ((TargetTopic(key[0]), key[1]), end) for key, end in ends.items()}
        found = await same_before(self.source, self.follower.client, asked)
        self.other |= {key for key, is_same in found.items() if is_same is False}
        if self.other:
            self.plain, self.transactional = Duty.LET_GO, Duty.REFUSE
        return found

    async def let_go(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """Out of sync from now on, as links are that prefer to be available."""
        for key, first in late.items():
            self.gone.setdefault(key, first)
        self.plain, self.transactional = Duty.LET_GO, Duty.REFUSE


@dataclass(slots=True)
class Links:
    """The links of a gateway."""

    links: Sequence[SyncLink]

    def of(self, source_topic: str) -> SyncLink | None:
        """The one that copies it."""
        return next((link for link in self.links if source_topic in link.topics), None)


@contextmanager
def synchronous(
    source: LocalCluster, target: LocalCluster, *topics: str, away: Collection[str] = ()
) -> Iterator[tuple[Running, Link]]:
    """A gateway before the source that holds what goes into these topics until the target has it. Those that are `away`
    have a link to a cluster that nobody reaches.
    """
    nowhere = Cluster(alias="away", bootstrap_servers=("127.0.0.1:1",))
    asking = Client(source.cluster())
    link = Link(FollowerWatch(Client(target.cluster())), asking, [*map(SourceTopic, topics)])
    links = [link, Link(FollowerWatch(Client(nowhere)), asking, [*map(SourceTopic, away)], name="away")]
    with gateway(source.cluster(), duties=Links(links)) as running:
        try:
            yield running, link
        finally:
            endings = [ending for each in links for ending in (each.follower.aclose(), each.follower.client.aclose())]
            for ending in (*endings, asking.aclose()):
                asyncio.run_coroutine_threadsafe(ending, running.loop).result(TERM_S)


@contextmanager
def lanes(mirror: Mirror, *topics: str, **settings: bool) -> Iterator[None]:
    """Lanes of these topics, in a thread and event loop of their own, which copy until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="lanes")
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(TERM_S)

    context = mirror.running(*topics, **settings)
    try:
        done(context.__aenter__())
        try:
            yield
        finally:
            done(context.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
