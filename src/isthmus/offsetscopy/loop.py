"""A copy of the positions that groups commit at the source, in a topic of the target (docs/groups.md)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from isthmus.errors import ClusterError
from isthmus.groups.sealing import group_key, seal
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.admin.internal_topics import InternalTopics, is_missing
from isthmus.kafka.batches.batch import scan
from isthmus.kafka.batches.records import Headers, encode_records
from isthmus.kafka.client import Client
from isthmus.kafka.commits.records import CommitKey, commit_key_bytes, commit_value_bytes
from isthmus.kafka.commits.source import CommitSource, KnownCommits
from isthmus.kafka.transactions.appending import CurrentAppender
from isthmus.loops.loop import LinkView
from isthmus.memory.links import now_ms
from isthmus.model.cluster import Secret
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.group import Committed
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.offsetscopy import LINK_HEADER, OffsetsCopy, copy_topic
from isthmus.model.problem import Problem, problem_of
from isthmus.offsetscopy.copies import no_key, read_copy

_INTERVAL_S: Final = 1.0
_RECORDS_MAX: Final = 500
_UNSET: Final = "offsets_copy_secret"
CopiedCommits = dict[CommitKey, Committed | None]
"""The positions that the link wrote last; `None` for one that has to be written again."""
Sealing = Callable[[str, bytes, bytes], bytes]
"""Maps a group, the key of a record and its value to the value that is written."""


class OffsetsCopyLoop:
    """Writes each position that changed, and a tombstone for each that is gone or not to be copied any more.

    The topic is read first: a position that it has is not written again, and one that is gone since is noticed. Records
    of other links in the same topic are left alone.
    """

    name = "offsets-copy"

    def __init__(self) -> None:
        self._topics = InternalTopics(self.name)
        self._appender = CurrentAppender()
        self._commits: CommitSource | None = None
        self._settings: GroupSettings | None = None
        self._known: CopiedCommits | None = None
        self._known_in: tuple[str, uuid.UUID | None, OffsetsCopy] | None = None

    def interval_s(self, link: Link) -> float | None:
        """How often positions that changed are written, in seconds."""
        return None if link.groups.offsets_copy is OffsetsCopy.NONE else _INTERVAL_S

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Whether the topic is missing at the target, and whether there is a secret where one is needed.

        :raises ClusterError: A cluster cannot be asked.
        """
        if view.link.groups.offsets_copy is OffsetsCopy.ENCRYPTED and view.link.source.offsets_copy_secret is None:
            return (self._secretless(view.link),)
        return await self._topics.look(view.target, await _topic(view.source))

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Create the topic, and write the changes.

        :raises ClusterError: The source cannot be read, or the target rejects them.
        """
        if any(change.setting == _UNSET for change in changes):
            return changes
        left = await self._topics.create(view.target, changes)
        topic = await _topic(view.source)
        if is_missing(topic, left):
            return left
        followed = await self._follow_commits(view)
        await followed.wait_for_changes(0)
        commits = followed.known
        unread = commits.errors

        def is_told(group: str) -> bool:
            # A coordinator may omit the last commits of one that died; the log does not. Commits older than the part of
            # the log that is read come from brokers that list their groups.
            return commits.way == "log" and group not in unread and not commits.unheard

        try:
            known = await self._read_back(view, topic)
            due = changed_positions(_positions(commits), known, view.link.groups.is_copied, is_told)
            await self._write(view, topic, due)
            known.update({key: position for key, position in due.items() if position is not None})
            for key in [key for key, position in due.items() if position is None]:
                del known[key]
        except ClusterError:
            # Some of it may have been written.
            self._known = None
            self._topics.doubt()
            raise
        return (*left, *(self._unread(group, error) for group, error in sorted(unread.items())))

    async def aclose(self) -> None:
        """Close the connections."""
        self._appender.close()
        commits, self._commits = self._commits, None
        if commits is not None:
            await commits.aclose()

    async def _follow_commits(self, view: LinkView) -> CommitSource:
        """Return the commits of the groups that are copied by the current settings."""
        settings = view.link.groups
        if self._commits is None or self._settings != settings:
            await self.aclose()
            literals = () if settings.offsets_copy is OffsetsCopy.ALL else settings.literals
            self._commits = CommitSource(view.source, settings.is_copied, literals)
            self._settings = settings
        return self._commits

    async def _read_back(self, view: LinkView, topic: str) -> CopiedCommits:
        """Return the positions that the link has written; read them when the topic or the way of copying changed."""
        way = view.link.groups.offsets_copy
        place = (topic, self._topics.topic_id(view.target, topic), way)
        if self._known is None or self._known_in != place:
            self._known, self._known_in = {}, None
            if place[1] is not None:
                source_id = (await describe_cluster(view.source)).cluster_id
                secret = view.link.source.offsets_copy_secret
                key_of = no_key if secret is None else partial(group_key, secret)
                found = await read_copy(view.target, source_id, key_of)
                is_encrypted = way is OffsetsCopy.ENCRYPTED
                for key, commit in found.items():
                    if commit.link == view.link.name:
                        self._known[key] = commit.committed if commit.is_encrypted is is_encrypted else None
                self._known_in = place
        return self._known

    async def _write(self, view: LinkView, topic: str, due: Mapping[CommitKey, Committed | None]) -> None:
        secret = view.link.source.offsets_copy_secret
        way = view.link.groups.offsets_copy
        sealing = partial(_seal_value, secret) if way is OffsetsCopy.ENCRYPTED and secret is not None else _plain
        headers: Headers = [(LINK_HEADER, view.link.name.encode())]
        records = list(_records(due, sealing, headers, now_ms()))
        for begin in range(0, len(records), _RECORDS_MAX):
            batch = next(scan(encode_records(records[begin : begin + _RECORDS_MAX])))
            await self._appender.to(view.target, topic).write(batch)

    def _secretless(self, link: Link) -> Change:
        problem = Problem(
            f"positions of {link.source.alias} are to be encrypted, and it has no offsets_copy_secret",
            f"Give clusters.{link.source.alias}.offsets_copy_secret in the file of the operator who runs the link.",
        )
        return self._build_problem(f"cluster {link.source.alias}", _UNSET, problem)

    def _unread(self, group: str, error: ClusterError) -> Change:
        return self._build_problem(f"group {group}", "positions", problem_of(error))

    def _build_problem(self, subject: str, setting: str, problem: Problem) -> Change:
        return Change(loop=self.name, subject=subject, setting=setting, before=None, after=None, problem=problem)


def changed_positions(
    positions: Mapping[CommitKey, Committed],
    known: Mapping[CommitKey, Committed | None],
    is_copied: Callable[[str], bool],
    is_told: Callable[[str], bool],
) -> dict[CommitKey, Committed | None]:
    """Return the positions to write: those that differ from the ones written last, and `None` for those to delete.

    To delete are positions of groups that are no longer copied, and positions that are gone if `is_told` says that all
    positions of the group are known.
    """
    due: dict[CommitKey, Committed | None] = {
        key: position for key, position in positions.items() if known.get(key) != position
    }
    for key in known.keys() - positions.keys():
        if not is_copied(key.group) or is_told(key.group):
            due[key] = None
    return due


async def _topic(source: Client) -> str:
    return copy_topic((await describe_cluster(source)).cluster_id)


def _positions(commits: KnownCommits) -> dict[CommitKey, Committed]:
    return {
        CommitKey(group, topic, partition): committed
        for group, own in commits.positions.items()
        for (topic, partition), committed in own.items()
        if committed.offset >= 0
    }


def _records(
    due: Mapping[CommitKey, Committed | None], sealing: Sealing, headers: Headers, now_ms: int
) -> Iterator[tuple[int, bytes, bytes | None, Headers]]:
    for key, position in due.items():
        record_key = commit_key_bytes(key)
        value = None if position is None else commit_value_bytes(position, now_ms=now_ms)
        yield now_ms, record_key, None if value is None else sealing(key.group, record_key, value), headers


def _plain(_group: str, _key: bytes, value: bytes) -> bytes:
    return value


def _seal_value(secret: Secret, group: str, record_key: bytes, value: bytes) -> bytes:
    return seal(group_key(secret, group), record_key, value)
