"""The settings of a link that runs: those in force, and those that come at the next look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from isthmus.control.links.filtering import operated
from isthmus.control.running.following import without, without_detached
from isthmus.ledger.declared import declaration_of
from isthmus.ledger.link import LinkLedger
from isthmus.model.link import Link

Respect = Callable[[Link], Awaitable[None]]


class LinkSettings:
    """The link as its settings are in force (`link`): as it is written, with the filters and settings that an
    operator gave it.

    Before others come into force `respect` finds out what links of others write of what it then wants.
    """

    def __init__(self, link: Link, ledger: LinkLedger, respect: Respect) -> None:
        self._written = link
        self._ledger = ledger
        self.link = self._attached
        self._respect = respect
        # What an operator has it select comes into force at the first look, when it is known what others write of it.
        self._wanted: Link | None = None
        self.reread()

    @property
    def _attached(self) -> Link:
        """What is written, without what the target's ledger says is detached. That is heard at once; a look at all
        clusters may take seconds, in which lanes would begin that whoever detached something knows nothing of.
        """
        return without(self._written, declaration_of(self._written.name, self._ledger.documents.values()).detached)

    @property
    def attached_said(self) -> str:
        """Which statements of the target's ledger say what is attached (`Declaration.attached_said`)."""
        return declaration_of(self._written.name, self._ledger.documents.values()).attached_said

    def follow(self, link: Link) -> None:
        """Other settings are written."""
        self._written = link
        self.reread()

    def part(self) -> Link | None:
        """The settings that are in force without namespaces that are not written any more, `None` if all of them are.
        Whoever takes less need not hear what others write, and may not wait for it: a cluster may be gone for good.
        """
        link = without_detached(self.link, self._attached)
        if link is self.link:
            return None
        self.link = link
        return link

    def reread(self) -> None:
        """Have a look at what an operator has it select and go by, and has detached."""
        self._wanted = operated(self._attached, self._ledger.documents)

    async def renew(self) -> Link | None:
        """The settings that are in force from now on, `None` if nothing changes. To be asked between two looks, so that
        none is half of each.

        :raises ClusterError: What others write cannot be read now; it is tried again.
        """
        link = self._wanted
        if link is None or link == self.link:
            self._wanted = None
            return None
        await self._respect(link)
        # Others may have come meanwhile, and what was detached is not to come any more.
        self._wanted = None if self._wanted is link else self._wanted
        self.link = without_detached(link, self._attached)
        return self.link
