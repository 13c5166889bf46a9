"""What operators do with one link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from isthmus.errors import ConfigError
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.links import pausing
from isthmus.links.pausing import Resumed
from isthmus.links.promotion import Promoter
from isthmus.memory.livesettings import LiveSettings, read_settings, write_settings
from isthmus.mirrormaker.predecessor import Predecessor
from isthmus.mirrormaker.takeover.execution import OnProgress, TakeoverSettings, take_over
from isthmus.mirrormaker.takeover.plan import LinkTakeover
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import Clients
from isthmus.model.link import Link
from isthmus.model.links.pauses import Pauses
from isthmus.model.links.recovery import RecoveryWay
from isthmus.model.namespace import NamespaceMap
from isthmus.recovery.deleting import delete_departed
from isthmus.recovery.holdings import holdings, replay_of
from isthmus.recovery.links import LinkRecoverer
from isthmus.recovery.replaying import QuarantinedPartition, QuarantineFilter, ReplayedPartition
from isthmus.status.condition import WaitCondition
from isthmus.status.waiting import Waiting, wait_until


class AsyncLinkOperations:
    """One link, to be paused, waited for, promoted and recovered: `fabric.link(name)`.

    Each verb asks the clusters that it needs, by the clients of the session. A link that is declared has to be one of
    the configuration, but for what a `promoter` does.
    """

    def __init__(self, configuration: Configuration, session: ClientSession, name: str) -> None:
        self.configuration = configuration
        self.name = name
        self._session = session

    def _choose(self) -> tuple[Link, Client]:
        """Return the link, and the client of its target.

        :raises ConfigError: There is no such link.
        """
        link = self.configuration.link(self.name)
        return link, self._session.client(link.target)

    def promoter(
        self,
        maps: Collection[NamespaceMap] = (),
        *,
        quiet_s: float = 5.0,
        timeout_s: float = 60.0,
        max_lag: int = 0,
        clients: Clients = "move",
        on_step: Callable[[str], None] = lambda _: None,
        on_progress: Callable[[int, int], None] = lambda _, __: None,
    ) -> Promoter:
        """What makes followers leaders, of these namespaces or of all that the link attaches; see `Promoter`."""
        return Promoter(
            configuration=self.configuration,
            session=self._session,
            name=self.name,
            maps=tuple(maps),
            quiet_s=quiet_s,
            timeout_s=timeout_s,
            max_lag=max_lag,
            clients=clients,
            on_step=on_step,
            on_progress=on_progress,
        )

    def recoverer(
        self,
        topics: Collection[str] = (),
        *,
        way: RecoveryWay | None = None,
        sets_aside: bool = False,
        quiet_s: float = 2.0,
        timeout_s: float = 60.0,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> LinkRecoverer:
        """What brings topics back that have diverged, these or all; see `LinkRecoverer`."""
        return LinkRecoverer(
            configuration=self.configuration,
            session=self._session,
            name=self.name,
            topics=tuple(topics),
            way=way,
            sets_aside=sets_aside,
            quiet_s=quiet_s,
            timeout_s=timeout_s,
            on_step=on_step,
        )

    async def delete_departed(self, topics: Collection[str], *, dry_run: bool = False) -> None:
        """Delete topics at the target whose source topics were deleted; the ledger still knows them. See
        `deleting.delete_departed`.

        :raises ConfigError: There is no such link, no topic is named, or the link never mirrored one of them.
        :raises PlanRefused: That the source has none, or that the target's holds nothing else, is not proven.
        :raises GateNotMet: Somebody is at work in one of them.
        :raises ClusterError: A cluster does not answer.
        """
        await delete_departed(self.configuration, self._session, self.name, topics, dry_run=dry_run)

    async def pause(
        self,
        topic: str | None = None,
        *,
        namespace: str | None = None,
        task: str | None = None,
        dry_run: bool = False,
    ) -> bool:
        """Pause the link, one of its topics, a namespace or a task; whether it was paused before. See `pausing.pause`.

        :raises ConfigError: There is no such link, the topic or task is none of it, or several are given.
        :raises ClusterError: The ledger at the target cannot be written.
        """
        chosen, target = self._choose()
        named = pausing.Named(topic=topic, namespace=namespace, task=task)
        return await pausing.pause(chosen, target, named, self.configuration.ledger, dry_run=dry_run)

    async def resume(
        self,
        topic: str | None = None,
        *,
        namespace: str | None = None,
        task: str | None = None,
        dry_run: bool = False,
    ) -> Resumed:
        """Take a pause back; what was paused, and what still is. See `pausing.resume`.

        :raises ConfigError: There is no such link, the topic or task is none of it, or several are given.
        :raises ClusterError: The ledger at the target cannot be written.
        """
        chosen, target = self._choose()
        named = pausing.Named(topic=topic, namespace=namespace, task=task)
        return await pausing.resume(chosen, target, named, self.configuration.ledger, dry_run=dry_run)

    async def pauses(self) -> Pauses:
        """What is paused of the link.

        :raises ConfigError: There is no such link.
        :raises ClusterError: The ledger at the target cannot be read.
        """
        chosen, target = self._choose()
        return await pausing.pauses(chosen.name, target)

    async def settings(self) -> LiveSettings:
        """What an operator has set of the link in place of what the configuration says. See `read_settings`.

        :raises ConfigError: There is no such link.
        :raises ClusterError: The ledger at the target cannot be read.
        """
        return await read_settings(*self._choose())

    async def change_settings(
        self,
        settings: Mapping[str, Any],
        *,
        unset: Collection[str] = (),
        reset: bool = False,
        known: LiveSettings | None = None,
        dry_run: bool = False,
    ) -> LiveSettings:
        """Have the link go by other limits, or another `mm2`, whether it runs or not. See `write_settings`.

        What was set before it was declared can be taken back, and nothing else be set.

        :raises ConfigError: There is no such link, it is declared, a key cannot be set or a value is not possible.
        :raises PlanRefused: Somebody changed them since they were as they are `known`.
        :raises ClusterError: The ledger at the target cannot be read or written.
        """
        chosen, target = self._choose()
        if settings and self.name in (self.configuration.declared or ()):
            raise ConfigError(
                f"link {self.name} is declared, not written in the file",
                hint=f"isthmus link update {self.name} --set KEY=VALUE changes its settings.",
            )
        return await write_settings(
            chosen,
            target,
            self.configuration.ledger,
            settings=settings,
            unset=unset,
            reset=reset,
            known=known,
            dry_run=dry_run,
        )

    async def wait(
        self,
        topic: str | None,
        conditions: Sequence[WaitCondition],
        *,
        timeout_s: float,
        on_look: Callable[[Waiting], None] = lambda _: None,
    ) -> Waiting:
        """Look once a second until all conditions hold, or the time is over; the last look. See `wait_until`.

        :raises ConfigError: There is no such link, or it does not mirror the topic.
        """
        chosen = self.configuration.link(self.name)
        return await wait_until(chosen, self._session, topic, conditions, timeout_s=timeout_s, on_look=on_look)

    async def quarantine(self, topic: str | None = None) -> tuple[QuarantinedPartition, ...]:
        """What was set aside of the topics of the link, or of one of them.

        :raises ConfigError: There is no such link, or it does not mirror the topic.
        :raises ClusterError: The target cannot be read.
        """
        return await holdings(*self._choose(), topic)

    async def replay(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        into: str | None = None,
        selected: QuarantineFilter | None = None,
        dry_run: bool = False,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> tuple[ReplayedPartition, ...]:
        """Write what was set aside of a topic somewhere else, each record once. See `replay_of`.

        :raises ConfigError: There is no such link or cluster, it does not mirror the topic, or nothing was set aside.
        :raises PlanRefused: The other topic is not there, or has fewer partitions.
        :raises ClusterError: A cluster cannot be read or written; a repeated call goes on.
        """
        return await replay_of(
            self.configuration,
            self._session,
            self.name,
            topic,
            cluster=cluster,
            into=into,
            selected=selected,
            dry_run=dry_run,
            on_step=on_step,
        )

    async def take_over(
        self, predecessor: Predecessor, settings: TakeoverSettings, on_progress: OnProgress
    ) -> LinkTakeover:
        """Have the link go on where a flow of MirrorMaker 2 stopped. See `execution.take_over`.

        :raises ConfigError: There is no such link.
        :raises GateNotMet: MirrorMaker 2 has not stopped.
        :raises PlanRefused: A controller runs the link, or MirrorMaker 2 keeps no positions there.
        :raises ClusterError: A cluster or a log cannot be read, or the ledger not be written.
        """
        chosen, ledger = self.configuration.link(self.name), self.configuration.ledger
        return await take_over(chosen, self._session, predecessor, settings, ledger, on_progress)
