"""Both logs of links compared on Spark, once it is known what is to be compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from isthmus.errors import ConfigError
from isthmus.fabric.blocking import in_loop
from isthmus.kafka.session import ClientSession
from isthmus.memory.filtering import in_force
from isthmus.memory.named import Opened
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.link import Link
from isthmus.model.links.verdict import Verdicts
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.application import SparkApplication
from isthmus.status.verified import remember_verdict
from isthmus.topics.names import find_topics
from isthmus.topics.observation import find_treatment

if TYPE_CHECKING:
    from isthmus.spark.compare.links import OnVerified, Verdict


class OpenedWithSpark(Opened):
    """An opened configuration, and the `application` that its runs and comparisons share on Spark."""

    def __init__(self, configuration: Configuration, session: ClientSession, application: SparkApplication) -> None:
        super().__init__(configuration, session)
        self.application = application


async def comparison(
    opened: OpenedWithSpark,
    *,
    link: str | None = None,
    topics: Collection[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    allow_lag: bool = False,
    on_progress: OnVerified | None = None,
) -> Callable[[], Verdicts]:
    """What compares both logs on Spark, by link: every offset, timestamp, key, value and header. What is to be
    compared is settled here; the function that is returned blocks for as long as the comparison takes, and programs
    without an event loop get its result.

    Records of topics with other offsets at the target are compared with those that the link's map names. Records that
    the link changes on the way (`transform`) are made again, and compared with the copies.

    `topics` are only these, of those the links select; `since_ms` and `until_ms` are the timestamps to begin and to
    end at. Records the target does not have yet are missing, unless `allow_lag`. What all topics of a link came to
    is kept in its ledger, for `status`. Aborted records that it lacks are counted as left out, unless the link is
    configured to copy them: then they are missing.

    :raises ConfigError: There is no link of that name, or no link has a topic of that name.
    :raises ClusterError: A cluster could not be read; the function raises that too.
    """
    session, application = opened.session, opened.application
    links = await in_force(opened.links(link), session)
    if not links:
        raise ConfigError(
            "there is no link to be compared",
            hint="Write one into the file, or declare it (isthmus link create): comparing nothing proves nothing.",
        )
    selected = await _select_topics(links, topics, session)
    mirrored = await _select_topics(links, (), session) if topics else selected
    policies = await asyncio.gather(*(find_treatment(each, session.client(each.target)) for each in links))
    treatments = {each.name: treatment.policy for each, treatment in zip(links, policies, strict=True)}

    def compare() -> Verdicts:
        application.find()
        from isthmus.spark.compare.links import LinkTransforms, verify
        from isthmus.spark.logs import Copying

        verdicts = {
            link.name: verify(
                application.session(),
                link.source,
                link.target,
                selected[link.name],
                since_ms=since_ms,
                until_ms=until_ms,
                allow_lag=allow_lag,
                # Under `auto` they may have been left out at another time.
                may_lack_aborted=link.transactions.aborted is not AbortedPolicy.COPY,
                link=link.name,
                copying=Copying(link.level, link.distributor.flags) if link.distributor else None,
                transforms=LinkTransforms.of(link, mirrored[link.name]),
                progress=on_progress,
            )
            for link in links
        }
        if not topics and since_ms is None and until_ms is None:
            in_loop(_remember(links, verdicts, opened.configuration.ledger))
        return Verdicts({name: replace(verdict, aborted=str(treatments[name])) for name, verdict in verdicts.items()})

    return compare


async def _remember(links: tuple[Link, ...], verdicts: Mapping[str, Verdict], ledger: LedgerSettings) -> None:
    """Keep the verdicts in the ledgers, over a session of its own: this runs in another loop, long after the first."""
    async with ClientSession() as session:
        for each in links:
            await remember_verdict(each, session.client(each.target), verdicts[each.name], ledger)


async def _select_topics(
    links: tuple[Link, ...], topics: Collection[str], session: ClientSession
) -> dict[str, dict[SourceTopic, TargetTopic]]:
    """The topics of each link that are there, all of them or those named, as at the source or as at the target; by
    the name at the source that at the target.

    :raises ConfigError: No link has a topic of that name.
    """
    selected: dict[str, dict[SourceTopic, TargetTopic]] = {}
    seen: set[str] = set()
    for link in links:
        found = await find_topics(session.client(link.source), link.topics)
        there = {own: name for name, own in found.there.items()}
        seen.update(there, there.values())
        selected[link.name] = {own: name for own, name in there.items() if not topics or {own, name} & {*topics}}
    for name in topics:
        if name not in seen:
            raise ConfigError(
                f"no link mirrors a topic named {name}",
                hint=f"There are {', '.join(sorted(seen)) or 'none at all'}.",
            )
    return selected
