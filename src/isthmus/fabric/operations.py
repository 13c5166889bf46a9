"""What operators do with one link."""

from __future__ import annotations

from collections.abc import Callable, Collection

from isthmus.links import pausing
from isthmus.links.promotion import Promoter
from isthmus.memory import livesettings
from isthmus.memory.named import NamedLink
from isthmus.mirrormaker.takeover import execution
from isthmus.model.gateways.moves import Clients
from isthmus.model.links.recovery import RecoveryWay
from isthmus.model.namespace import NamespaceMap
from isthmus.recovery import deleting, holdings
from isthmus.recovery.links import LinkRecoverer
from isthmus.status import waiting


class AsyncLinkOperations(NamedLink):
    """One link, to be paused, waited for, promoted and recovered: `fabric.link(name)`.

    Each verb asks the clusters that it needs, by the clients of the session. A link that is declared has to be one of
    the configuration, but for what a `promoter` does.
    """

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

    delete_departed = deleting.delete_departed
    pause = pausing.pause
    resume = pausing.resume
    pauses = pausing.pauses
    settings = livesettings.read_settings
    change_settings = livesettings.write_settings
    wait = waiting.wait_until
    quarantine = holdings.holdings
    show_quarantine = holdings.show
    replay = holdings.replay_of
    take_over = execution.take_over
