"""What operators do with one link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from isthmus.engine.mapped.transformer import Changed, Portion
from isthmus.errors import ConfigError
from isthmus.fabric.trying import change_portions
from isthmus.kafka.session import ClientSession
from isthmus.links import pausing
from isthmus.links.promotion import Promoter
from isthmus.memory import livesettings
from isthmus.memory.named import NamedLink
from isthmus.mirrormaker.takeover import execution
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import Clients
from isthmus.model.links.recovery import RecoveryWay, SetAside
from isthmus.model.links.transform import Transform
from isthmus.model.namespace import NamespaceMap
from isthmus.recovery import deleting, holdings
from isthmus.recovery.letterreplay import ChangeRecords
from isthmus.recovery.links import LinkRecoverer
from isthmus.recovery.replaying import QuarantineFilter, ReplayedPartition
from isthmus.spark.application import SparkApplication
from isthmus.status import waiting


class AsyncLinkOperations(NamedLink):
    """One link, to be paused, waited for, promoted and recovered: `fabric.link(name)`.

    Each verb asks the clusters that it needs, by the clients of the session. A link that is declared has to be one of
    the configuration, but for what a `promoter` does. Transforms by expressions are applied by the Spark of the
    `application`, or one of our own.
    """

    def __init__(
        self,
        configuration: Configuration,
        session: ClientSession,
        name: str,
        application: SparkApplication | None = None,
    ) -> None:
        super().__init__(configuration, session, name)
        self._application = application

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
            session=self.session,
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
            session=self.session,
            name=self.name,
            topics=tuple(topics),
            way=way,
            sets_aside=sets_aside,
            quiet_s=quiet_s,
            timeout_s=timeout_s,
            on_step=on_step,
        )

    async def replay(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        into: str | None = None,
        selected: QuarantineFilter | None = None,
        is_raw: bool = False,
        dry_run: bool = False,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> tuple[ReplayedPartition, ...]:
        """Replay the records set aside of a topic, each once, to the source's topic unless another one is named; dead
        letters to the target's, as the link's present transform changes them, or as they were if the replay `is_raw`.
        `on_step` is called with each step in words.

        :raises ConfigError: There is no such link or cluster, or the link never mirrored the topic, or dead letters
            were asked for by a producer or for another cluster, or others as they were.
        :raises PlanRefused: The other topic is not there, or has fewer partitions; or the transform cannot be applied.
        :raises GateNotMet: A transaction in the other topic does not end.
        :raises ClusterError: A cluster cannot be read or written; a repeated call continues.
        """
        selected = selected or QuarantineFilter()
        if is_raw and selected.kind is not SetAside.DEAD_LETTER:
            raise ConfigError(
                "only dead letters are changed by a replay, and can be written as they were (raw)",
                hint="Name them: --kind dead-letter. Or leave --raw out.",
            )
        if selected.kind is SetAside.DEAD_LETTER:
            if selected.producer_id is not None or cluster not in (None, self.link.target.alias):
                raise ConfigError(
                    "dead letters have no producer, and are replayed within the target of their link",
                    hint="Leave --producer and --cluster out.",
                )
            async with self._changing() as change:
                return await holdings.replay_letters(
                    self, topic, into=into, change=None if is_raw else change, dry_run=dry_run, on_step=on_step
                )
        return await holdings.replay_of(
            self, topic, cluster=cluster, into=into, selected=selected, dry_run=dry_run, on_step=on_step
        )

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[ChangeRecords]:
        """Changes records; a Spark that it had to start goes on until the end."""
        application = self._application or SparkApplication(self.configuration)

        async def change(transform: Transform, portions: Sequence[Portion]) -> Sequence[Sequence[Changed]]:
            source = self.session.client(self.link.source)
            return await change_portions(self.link, source, transform, portions, application)

        try:
            yield change
        finally:
            if self._application is None:
                await asyncio.to_thread(application.close)

    delete_departed = deleting.delete_departed
    pause = pausing.pause
    resume = pausing.resume
    pauses = pausing.pauses
    settings = livesettings.read_settings
    change_settings = livesettings.write_settings
    wait = waiting.wait_until
    quarantine = holdings.holdings
    show_quarantine = holdings.show
    take_over = execution.take_over
