"""An operator pauses and resumes a link, or one topic of it, by documents in the ledger."""

from __future__ import annotations

from functools import partial

from isthmus.control.recollection import now_ms
from isthmus.errors import ConfigError
from isthmus.ledger.documents import PauseDocument
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import Change, Deletion
from isthmus.ledger.topic import on_topic
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.wire.client import Client


async def pause(link: Link, topic: str | None, ledger: LedgerSettings) -> None:
    """Pause the link or one of its topics; its controller obeys within a second, now or when it starts.

    :raises ConfigError: The link does not mirror the topic.
    :raises ClusterError: The ledger at the target cannot be written.
    """
    await _write(link, _document(link, topic), ledger)


async def resume(link: Link, topic: str | None, ledger: LedgerSettings) -> None:
    """Take a pause back. What was not paused stays as it is.

    :raises ConfigError: The link does not mirror the topic.
    :raises ClusterError: The ledger at the target cannot be written.
    """
    await _write(link, Deletion(_document(link, topic).key), ledger)


def _document(link: Link, topic: str | None) -> PauseDocument:
    if topic is not None and not link.topics.matches(topic):
        raise ConfigError(
            f"link {link.name} does not mirror topic {topic}",
            hint="isthmus plan shows which topics a link mirrors.",
        )
    return PauseDocument(link=link.name, topic=topic, since_ms=now_ms())


async def _write(link: Link, change: Change, ledger: LedgerSettings) -> None:
    async with Client(link.target) as target:
        writer = LedgerWriter(target)
        try:
            append = partial(writer.append, [change])
            await on_topic(target, append, replication_factor=ledger.replication_factor)
        finally:
            writer.close()
