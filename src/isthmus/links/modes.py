"""The mode of a declared link: the checks to become synchronous, and the report of one that is no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isthmus.errors import ConfigError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.links.promising import keep_promised
from isthmus.memory.attaching import away, check_mode
from isthmus.memory.declarations import read_declarations
from isthmus.memory.declared import Declared
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.link import Link
from isthmus.model.links.declaration import ASYNC, Declaration
from isthmus.model.links.progress import LinkProgress
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import MODE
from isthmus.status.status import StatusReader
from isthmus.synchronous.synchronous import GivenUp, check_declared, check_synchronous, require_gateways


def mode_among(settings: Mapping[str, Any] | None, mode: str | None) -> tuple[str | None, Mapping[str, Any] | None]:
    """Return the mode that is asked for by itself or as a setting, and the other settings; null is the default.

    :raises ConfigError: Both are given and differ.
    """
    if not settings or MODE not in settings:
        return mode, settings
    given = settings[MODE]
    asked = ASYNC if given is None else str(given)
    if mode not in (None, asked):
        raise ConfigError(f"the mode is to be {mode} and {asked}", hint="Give one of both.")
    return asked, {key: value for key, value in settings.items() if key != MODE}


def check_attachable(known: Declaration) -> None:
    """Require that namespaces may be attached to a link.

    :raises PlanRefused: It is synchronous: producers would wait for what is still to be copied.
    """
    if known.mode == SYNC:
        raise PlanRefused(
            f"link {known.name} is synchronous: its producers would wait for all that is still to be copied",
            hint=f"isthmus link update {known.name} --mode async, attach them, and --mode sync again once it follows.",
        )


@dataclass(slots=True)
class ModeChange:
    """A link that is to get another mode. `examined` are the namespaces that were found to follow."""

    configuration: Configuration
    session: ClientSession
    name: str
    mode: str
    examined: tuple[NamespaceMap, ...] = ()

    def require_as_checked(self, now: Declaration) -> None:
        """Require that nothing was attached since the link was found to follow: the check waits for gateways.

        :raises PlanRefused: A namespace was.
        """
        if self.mode != SYNC or now.mode == SYNC:
            return
        if more := [each for each in now.maps if each not in self.examined]:
            raise PlanRefused(
                f"link {self.name} cannot become synchronous: {more[0]} was attached meanwhile",
                hint=f"Wait until it follows: isthmus wait {self.name} --for state=FOLLOWING; then ask again.",
            )

    async def check(self) -> str:
        """Require that the link can have it; return what is given up by that, in words, "" for nothing.

        :raises ConfigError: There is no such mode, or no such link.
        :raises PlanRefused: The link cannot be synchronous as it stands.
        :raises ClusterError: A cluster does not answer that a synchronous link needs.
        """
        check_mode(self.mode)
        if self.mode == SYNC:
            check_declared(self.name, is_of_file=any(link.name == self.name for link in self.configuration.links))
        _, declared = await read_declarations(self.configuration.written, self.session)
        known = declared.links.get(self.name)
        if known is None or known.is_deleted or known.mode == self.mode:
            # The caller that writes it reports this.
            return ""
        link = declared.link(known, self.configuration)
        if self.mode == SYNC:
            await self._check_sync(declared, known, link)
            self.examined = tuple(known.maps)
            return ""
        found = None if link is None else await _progress(link, self.session)
        standing = None if found is None or found.problem is not None else found.sync
        return GivenUp(link=self.name, target=known.target.alias, standing=standing).in_words

    async def _check_sync(self, declared: Declared, known: Declaration, link: Link | None) -> None:
        ends = known.source, known.target
        aliases = [declared.alias_of(end) for end in ends]
        if any(alias is None or not declared.is_there(alias) for alias in aliases):
            raise away(declared, [end for end, alias in zip(ends, aliases, strict=True)
                                  if alias is None or not declared.is_there(alias)])  # fmt: skip
        if link is None:
            raise PlanRefused(
                f"link {self.name} cannot be used here", hint=f"isthmus link describe {self.name} states why."
            )
        check_synchronous(declared, known, await _progress(link, self.session), link)
        await require_gateways(link, self.session.client(link.source))
        # Earlier acknowledgements count no more once all that follows is there.
        await keep_promised(self.name, known.maps, self.session.client(link.target), self.configuration.ledger)


async def _progress(link: Link, session: ClientSession) -> LinkProgress:
    (found,) = await StatusReader((link,), session).read()
    return found
