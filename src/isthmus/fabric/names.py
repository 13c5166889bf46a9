"""What there is to name: topics and groups of links, as their clusters have them now."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.memory.filtering import in_force
from isthmus.memory.named import Opened
from isthmus.model.link import Link
from isthmus.topics.names import find_topics

ASKED_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNames:
    """The topics of a link, by their names on both sides, and the groups it carries, by those at the source. Sorted."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


async def live_names(opened: Opened) -> dict[str, LinkNames]:
    """The topics and groups of each link whose source answers within ten seconds; the others are not there."""
    links = opened.configuration.links
    found = await asyncio.gather(
        *(_names(link, opened.session.client(link.source)) for link in await in_force(links, opened.session))
    )
    return {link.name: names for link, names in zip(links, found, strict=True) if names is not None}


async def _names(link: Link, source: Client) -> LinkNames | None:
    with contextlib.suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(ASKED_S):
            there = (await find_topics(source, link.topics)).there
            groups = merge_listings(await list_groups(source)) if link.groups.is_configured else {}
        topics = sorted({*there, *there.values()})
        return LinkNames(topics=tuple(topics), groups=tuple(name for name in groups if link.groups.matches(name)))
    return None
