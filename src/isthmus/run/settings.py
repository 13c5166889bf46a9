"""The settings of a running link: those in force, and those that come at the next look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.link import LinkLedger
from isthmus.memory.filtering import apply_overrides
from isthmus.model.link import Link
from isthmus.run.following import without, without_detached

Respect = Callable[[Link], Awaitable[None]]


class LinkSettings:
    """The link with its settings in force (`link`): as it is written, with the filters and settings of operators.

    Before new settings come into force `respect` reads what links of others write of the topics it then wants.
    """

    def __init__(self, link: Link, ledger: LinkLedger, respect: Respect) -> None:
        self._written = link
        self._ledger = ledger
        self.link = self._attached
        self._respect = respect
        # An operator's filters come into force at the first look, when it is known what others write of those topics.
        self._wanted: Link | None = None
        self.reread()

    @property
    def _attached(self) -> Link:
        """The written link, without the namespaces that the target's ledger has as detached. That is read at once; a
        look at all clusters may take seconds, in which lanes would begin unknown to the verb that detached them.
        """
        return without(self._written, declaration_of(self._written.name, self._ledger.documents.values()).detached)

    @property
    def attached_said(self) -> str:
        """The statements of the target's ledger that determine what is attached (`Declaration.attached_said`)."""
        return declaration_of(self._written.name, self._ledger.documents.values()).attached_said

    def follow(self, link: Link) -> None:
        """Take over other written settings."""
        self._written = link
        self.reread()

    def part(self) -> Link | None:
        """Drop namespaces that are no longer written from the settings in force; return the link, `None` if there are
        none. A link that takes less need not read what others write, and may not wait for it: a cluster may be gone for
        good.
        """
        link = without_detached(self.link, self._attached)
        if link is self.link:
            return None
        self.link = link
        return link

    def reread(self) -> None:
        """Read again what an operator has set and detached."""
        self._wanted = apply_overrides(self._attached, self._ledger.documents)

    async def renew(self) -> Link | None:
        """Apply the wanted settings; return the link, `None` if nothing changes. Call it between two looks, so that
        none is half of each.

        :raises ClusterError: What others write cannot be read now; it is retried.
        """
        link = self._wanted
        if link is None or link == self.link:
            self._wanted = None
            return None
        await self._respect(link)
        # Other settings may have come meanwhile, and detached namespaces must not come back.
        self._wanted = None if self._wanted is link else self._wanted
        self.link = without_detached(link, self._attached)
        return self.link
