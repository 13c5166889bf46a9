"""What the routes ask: the fabric as it is now, with the links that are declared on its clusters."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from isthmus.control.clusters.administration import Administration
from isthmus.control.fabric import Fabric, open_fabric
from isthmus.control.links.declared import DeclaredLink
from isthmus.control.links.declaring import DeclaredLinks
from isthmus.errors import ConfigError, RequestRefused
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.web.conditions import check_match, etag_of

FoundT = TypeVar("FoundT")


class FabricDesk:
    """Opens the fabric for each request, so that links which were declared meanwhile are there."""

    def __init__(self, configuration: Configuration, file: Path | None = None) -> None:
        self.configuration = configuration
        self.file = file
        """Where it is written, for commands that are called."""
        self.declaring = threading.Lock()
        """Read, compared and written by one at a time: of two who change the same one gets 412."""

    @property
    def declarations(self) -> DeclaredLinks:
        """The links that are declared on the clusters, to be changed."""
        return Fabric(self.configuration).declarations

    def fabric(self, link: str | None = None) -> Fabric:
        """The fabric; its clusters are asked for what is declared unless the `link` is a mirror of the file."""
        if any(each.name == link and not each.tree for each in self.configuration.links):
            return Fabric(self.configuration)
        return open_fabric(self.configuration, declared=True)

    def links(self) -> tuple[Link, ...]:
        """All links there are now."""
        return self.fabric().configuration.links

    def link(self, name: str) -> tuple[Fabric, Link]:
        """A link, and the fabric that has it.

        :raises RequestRefused: There is none of that name.
        """
        fabric = self.fabric(name)
        return fabric, found(lambda: fabric.configuration.link(name))

    @contextlib.contextmanager
    def known(self, link: str, if_match: str | None, *, is_needed: bool = False) -> Iterator[DeclaredLinks]:
        """Where a declared link is changed that is as the caller knows it: by one at a time.

        :raises RequestRefused: None of that name is declared, or it was changed since it was read.
        """
        with self.declaring:
            links = self.declarations
            check_match(if_match, link_etag(found(lambda: links.describe(link))), is_needed=is_needed)
            yield links

    def administration(self, alias: str) -> Administration:
        """A cluster of the file, to be asked.

        :raises RequestRefused: There is none of that alias.
        """
        return found(lambda: Fabric(self.configuration).cluster(alias))


def found(look: Callable[[], FoundT]) -> FoundT:
    """What a path names.

    :raises RequestRefused: It names nothing, as `look` tells by a ConfigError.
    """
    try:
        return look()
    except ConfigError as error:
        raise RequestRefused(error.message, status=HTTPStatus.NOT_FOUND, hint=error.hint) from None


def link_summary(link: Link, *, is_declared: bool) -> dict[str, Any]:
    """A link as the configuration has it, in plain values; of its clusters only the aliases."""
    return {
        "link": link.name,
        "source": link.source.alias,
        "target": link.target.alias,
        "declared": is_declared,
        "topics_include": [str(pattern) for pattern in link.topics.include],
        "topics_exclude": [str(pattern) for pattern in link.topics.exclude],
        "namespaces": [{"kind": each.kind, "map": str(each)} for each in link.namespaces],
        "limits": limits_of(link),
        "on_data_gap": link.on_data_gap,
        "aborted": str(link.transactions.aborted),
    }


def limits_of(link: Link) -> dict[str, int | None]:
    """How much a link may take."""
    return {"bytes_per_s": link.limits.bytes_per_s, "bytes_in_flight": link.limits.bytes_in_flight}


def link_etag(declared: DeclaredLink) -> str:
    """The ETag of a declared link: another one as soon as anybody has said something else of it."""
    return etag_of([register.as_dict() for register in declared.declaration.registers])
