"""The filters of a link that an operator has set while it runs: by a document in the ledger, not by the file."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import Document, FiltersDocument
from isthmus.ledger.fencing import write_by_one
from isthmus.ledger.poison import pass_over
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.local.operator import operator
from isthmus.memory.links import now_ms, read_ledger
from isthmus.memory.livesettings import SaidBy, changed_meanwhile, settings_of
from isthmus.memory.named import Opened
from isthmus.model.configsettings import PropertyPattern
from isthmus.model.groupsettings import GroupPattern
from isthmus.model.link import Link
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class FiltersInForce:
    """The selection of a link. `dropped` are the patterns of the file that count no more, by list."""

    SCHEMA: ClassVar = "Filters"

    link: str
    topics_include: list[str]
    topics_exclude: list[str]
    groups_include: list[str]
    groups_exclude: list[str]
    configs_exclude: list[str]
    changed: list[str]
    dropped: dict[str, list[str]]
    said_by: Flat[SaidBy]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidFilters:
    """The selection of a link that an operator made in place of the file."""

    changed: Mapping[str, Sequence[str]]
    said_by: Flat[SaidBy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a link, as patterns are written in the configuration; `None` for a list that the file decides.

    `since_ms` is when an operator changed them last, -1 for never, and `by` who that was, "" where that is unknown.
    """

    topics_include: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    groups_include: tuple[str, ...] | None = None
    groups_exclude: tuple[str, ...] | None = None
    configs_exclude: tuple[str, ...] | None = None
    since_ms: int = -1
    by: str = ""

    @property
    def changed(self) -> dict[str, tuple[str, ...]]:
        """The lists that differ from the file."""
        lists = {name: getattr(self, name) for name in FILTERS}
        return {name: texts for name, texts in lists.items() if texts is not None}

    @property
    def is_as_written(self) -> bool:
        """Whether all lists are those of the file."""
        return not self.changed

    def over(self, other: Filters) -> Filters:
        """Return these lists where they are set, else the other ones."""
        return Filters(since_ms=self.since_ms, by=self.by, **{**other.changed, **self.changed})

    def added_to(self, now: Filters, link: Link) -> Filters:
        """Return the lists in force with these appended. `now` is what an operator has set for the link, `link` is as
        the file has it.
        """
        lists = _lists(now.of(link))
        longer: dict[str, Any] = {n: tuple(dict.fromkeys((*lists[n], *texts))) for n, texts in self.changed.items()}
        return Filters(**longer)

    def taken_from(self, now: Filters, link: Link) -> Filters:
        """Return the lists in force without these entries.

        :raises ConfigError: An entry is not in its list.
        """
        lists = _lists(now.of(link))
        for name, texts in self.changed.items():
            for text in texts:
                if text not in lists[name]:
                    there = ", ".join(lists[name]) or "nothing"
                    raise ConfigError(
                        f"{text!r} is not among the {name.replace('_', ' ')} of {link.name}", hint=f"There is: {there}."
                    )
        left: dict[str, Any] = {
            n: tuple(each for each in lists[n] if each not in texts) for n, texts in self.changed.items()
        }
        return Filters(**left)

    def lost_of(self, now: Filters, link: Link) -> list[str]:
        """Return what these would remove from the lists in force."""
        before, after = _lists(now.of(link)), _lists(self.over(now).of(link))
        return [text for name in FILTERS for text in before[name] if text not in after[name]]

    def check(self) -> None:
        """Require that all patterns can be used.

        :raises ConfigError: One cannot be used.
        """
        for text in (*(self.topics_include or ()), *(self.topics_exclude or ())):
            TopicPattern.parse(text)
        for text in (*(self.groups_include or ()), *(self.groups_exclude or ())):
            GroupPattern.parse(text)
        for text in self.configs_exclude or ():
            PropertyPattern.parse(text)

    def of(self, link: Link) -> Link:
        """Return the link with these filters.

        :raises ConfigError: A pattern is broken.
        """
        topics, groups, configs = link.topics, link.groups, link.configs
        if self.topics_include is not None:
            topics = replace(topics, include=tuple(map(TopicPattern.parse, self.topics_include)))
        if self.topics_exclude is not None:
            topics = replace(topics, exclude=tuple(map(TopicPattern.parse, self.topics_exclude)))
        if self.groups_include is not None:
            groups = replace(groups, include=tuple(map(GroupPattern.parse, self.groups_include)))
        if self.groups_exclude is not None:
            groups = replace(groups, exclude=tuple(map(GroupPattern.parse, self.groups_exclude)))
        if self.configs_exclude is not None:
            configs = replace(configs, exclude=tuple(map(PropertyPattern.parse, self.configs_exclude)))
        return replace(link, topics=topics, groups=groups, configs=configs)

    def in_force(self, link: Link) -> FiltersInForce:
        """Return what is in force, and which lists differ from the file. `dropped` are the patterns of the file that no
        longer count, by list. `link` is as the file has it.
        """
        now, written = _lists(self.of(link)), _lists(link)
        dropped = {name: [text for text in written[name] if text not in now[name]] for name in FILTERS}
        return FiltersInForce(
            link=link.name,
            **now,
            changed=list(self.changed),
            dropped={name: texts for name, texts in dropped.items() if texts},
            said_by=SaidBy(since_ms=self.since_ms, by=self.by),
        )

    def summarize(self) -> SaidFilters | None:
        """Return what differs from the file, and who set it; `None` for nothing."""
        by = SaidBy(since_ms=self.since_ms, by=self.by)
        return None if self.is_as_written else SaidFilters(changed=self.changed, said_by=by)


FILTERS: Final = ("topics_include", "topics_exclude", "groups_include", "groups_exclude", "configs_exclude")
"""The names of the lists in the ledger, in REST and in answers."""


def _lists(link: Link) -> dict[str, list[str]]:
    lists = (link.topics.include, link.topics.exclude, link.groups.include, link.groups.exclude, link.configs.exclude)
    return {name: [str(pattern) for pattern in patterns] for name, patterns in zip(FILTERS, lists, strict=True)}


def filters_of(link: str, documents: Mapping[str, Document]) -> Filters:
    """Return the filters that an operator has set for a link."""
    document = FiltersDocument.find(documents, link)
    if document is None:
        return Filters()
    found = Filters(**{name: getattr(document, name) for name in (*FILTERS, "since_ms", "by")})
    try:
        found.check()
    except ConfigError as error:
        # Another program wrote it: this command writes no such document.
        pass_over(f"the record {document.key}", error)
        return Filters()
    return found


def apply_overrides(link: Link, documents: Mapping[str, Document]) -> Link:
    """Return the link of the configuration with the filters and settings that operators have set for it."""
    return settings_of(link, documents).of(filters_of(link.name, documents).of(link))


async def in_force(links: Collection[Link], session: ClientSession) -> tuple[Link, ...]:
    """Return the links with what operators have set for them; as in the file where a ledger cannot be read."""
    ledgers = {link.target.alias: session.client(link.target) for link in links}
    found = await asyncio.gather(*map(_documents, ledgers.values()))
    documents = dict(zip(ledgers, found, strict=True))
    return tuple(apply_overrides(link, documents[link.target.alias]) for link in links)


async def _documents(client: Client) -> Mapping[str, Document]:
    try:
        return (await read_ledger(client)).documents()
    except ClusterError:
        return {}


async def read_filters(opened: Opened, link: str) -> Filters:
    """Read what an operator has a link select in place of what the configuration says.

    :raises ConfigError: There is no link of that name.
    :raises ClusterError: The ledger at the target cannot be read.
    """
    target = opened.session.client(opened.configuration.link(link).target)
    return filters_of(link, (await read_ledger(target)).of(link).documents)


async def write_filters(
    opened: Opened, link: str, filters: Filters, *, known: Filters | None = None, dry_run: bool = False
) -> Filters:
    """Set the lists that are given in these filters, and keep the others; the controller of the link follows within a
    second, without a new lease. Filters without any list reset it to the file. `known` are the filters that the caller
    saw when it looked, by default those of now.

    :raises ConfigError: There is no link of that name, or a pattern is broken.
    :raises PlanRefused: The filters were changed since.
    :raises ClusterError: The ledger at the target cannot be read or written.
    """
    target = opened.session.client(opened.configuration.link(link).target)
    filters.check()
    known = await read_filters(opened, link) if known is None else known
    is_reset = filters.is_as_written
    found = Filters() if is_reset else replace(filters.over(known), since_ms=now_ms(), by=operator())

    async def change() -> LedgerChange:
        held = await read_filters(opened, link)
        # A writer that was fenced half-way may read back its own document.
        if held not in (known, found):
            raise changed_meanwhile("filters", link, since_ms=held.since_ms, by=held.by)
        document = FiltersDocument(link=link, since_ms=found.since_ms, by=found.by, **found.changed)
        return Deletion(document.key) if is_reset else document

    if not dry_run and found != known:
        replication_factor = opened.configuration.ledger.replication_factor
        await write_by_one(target, link, change, role="filters", replication_factor=replication_factor)
    return found


def patterns(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return patterns from a command line: a single empty argument, `""`, empties the list."""
    found = None if given is None else tuple(given)
    return () if found == ("",) else found or None
