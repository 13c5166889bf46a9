"""Read the copies of other clusters' committed positions that a cluster holds (docs/groups.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any

from isthmus.errors import ConfigError
from isthmus.groups.sealing import is_sealed, unseal
from isthmus.kafka.client import Client
from isthmus.kafka.commits.records import CommitKey, commit_key, commit_value
from isthmus.kafka.log.contents import raw_records
from isthmus.model.kafka.group import Committed
from isthmus.model.offsetscopy import COPY_PREFIX, LINK_HEADER, copy_topic
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import FormMark, PlainValue, computed_field

KeyOf = Callable[[str], bytes | None]
"""Returns the key of a group, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedCommit(PlainValue):
    """A position of another cluster's group; null for values that cannot be read.

    `committed` is `None` where it is encrypted and cannot be read.

    `link` wrote it at `copied_at_ms`; `source_id` is the id of the cluster on which it was committed.
    """

    source_id: Annotated[str, "source_cluster_id"]
    group: str
    topic: str
    partition: int
    committed: Annotated[Committed | None, FormMark.EMBEDDED]
    is_encrypted: Annotated[bool, "encrypted"]
    copied_at_ms: Annotated[int, "copied_at", written_instant]
    link: str

    @computed_field(before="copied_at_ms")
    def readable(self) -> bool:
        return self.committed is not None


def no_key(_group: str) -> bytes | None:
    """Return no key for any group."""
    return None


async def read_copy(client: Client, source_id: str, key_of: KeyOf) -> dict[CommitKey, CopiedCommit]:
    """Read the copy of one source's positions, by group and partition.

    :raises ClusterError: It cannot be read, or there is none.
    """
    found: dict[CommitKey, CopiedCommit] = {}
    async for record in raw_records(client, copy_topic(source_id)):
        try:
            key = None if record.key is None else commit_key(bytes(record.key))
        except ValueError:
            continue
        if key is None:
            continue
        if record.value is None:
            found.pop(key, None)
        else:
            found[key] = _commit(source_id, key, record, key_of)
    return found


def _commit(source_id: str, key: CommitKey, record: Any, key_of: KeyOf) -> CopiedCommit:
    value: bytes | None = bytes(record.value)
    is_encrypted = is_sealed(bytes(record.value))
    if is_encrypted:
        own = key_of(key.group)
        value = None if own is None else unseal(own, bytes(record.key), bytes(record.value))
    link = next((held for name, held in record.headers if name == LINK_HEADER and held is not None), b"")
    return CopiedCommit(
        source_id=source_id,
        group=key.group,
        topic=key.topic,
        partition=key.partition,
        is_encrypted=is_encrypted,
        committed=None if value is None else _position(value),
        copied_at_ms=record.timestamp,
        link=bytes(link).decode(errors="replace"),
    )


def _position(value: bytes) -> Committed | None:
    try:
        return commit_value(value)
    except ValueError:
        return None


async def copied_commits(
    client: Client, *, source_id: str | None = None, groups: Collection[str] = (), key: bytes | None = None
) -> tuple[CopiedCommit, ...]:
    """Read the positions of other clusters that this one has copies of: of one source or all, of these groups or all.

    `key` opens the values of the group it belongs to.

    :raises ConfigError: It holds no copy, or none of that source.
    :raises ClusterError: It cannot be read.
    """
    names = [name for name in (await client.metadata(None)).topics if name.startswith(COPY_PREFIX)]
    sources = sorted(name.removeprefix(COPY_PREFIX) for name in names)
    chosen = [each for each in sources if source_id in (None, each)]
    if not chosen:
        raise ConfigError(
            f"{client.cluster.alias} holds no copy of positions" + ("" if source_id is None else f" of {source_id}"),
            hint=f"There are copies of {', '.join(sources)}." if sources else "Links make them: groups.offsets_copy.",
        )
    copies = [await read_copy(client, each, lambda _: key) for each in chosen]
    found = [commit for copy in copies for commit in copy.values() if not groups or commit.group in groups]
    return tuple(sorted(found, key=lambda each: (each.source_id, each.group, each.topic, each.partition)))
