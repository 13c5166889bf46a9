"""Remedies for a target topic that is in the way: deleting it loses the records that only it has, so these are counted
and shown.

Plans, lanes and the audit of idle partitions use the same sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.model.cluster import Cluster

BEGIN_ANEW: Final = (
    "Run again: the topic is mirrored again from its beginning, into the target topic that is there then or is created."
)
"""The remedy if the target topic is another one now, or gone."""
SOURCE_RECREATED: Final = "the source topic was deleted and created again"
"""The target holds the records of another topic: the source's has the name of that one."""
_NAMED_MAX: Final = 5
_UNKNOWN: Final = -1
_LINK: Final = "LINK"


class HeldOffsets(NamedTuple):
    """Offsets `[offset_begin, offset_end)` of one partition; the end is -1 if it is unknown."""

    partition: int
    offset_begin: int
    offset_end: int

    @property
    def is_empty(self) -> bool:
        return self.offset_end != _UNKNOWN and self.offset_begin >= self.offset_end

    @property
    def records_max(self) -> int:
        """The highest possible number of records."""
        return max(self.offset_end - self.offset_begin, 0)


def keep_or_delete(topic: str, target: Cluster, only_there: Sequence[HeldOffsets], link: str = _LINK) -> str:
    """Return the remedies if only the target topic has some records: leave it as it is, or delete it and start again.

    `only_there` are the offsets that only the target has, as far as is known: control records are among them, and
    records that were deleted since, so the count is an upper bound.
    """
    extents = [extent for extent in only_there if not extent.is_empty]
    if not extents:
        where = f"its partition {only_there[0].partition}" if len(only_there) == 1 else "it"
        return (
            f"{recover(topic, link)} deletes the target topic and has it filled again: {where} has no record that the "
            "source lacks."
        )
    more = f" and {len(extents) - _NAMED_MAX} more partitions" if len(extents) > _NAMED_MAX else ""
    named = ", ".join(_describe_extent(topic, extent) for extent in extents[:_NAMED_MAX]) + more
    count = sum(extent.records_max for extent in extents)
    is_counted = all(extent.offset_end != _UNKNOWN for extent in extents)
    likewise = "" if len(extents) == 1 else " and likewise for the others"
    records = f"at most {count:,} record{'' if count == 1 else 's'}"
    lost = f"{named}, {records if is_counted else 'however many records that are'}"
    return _ways(topic, lost, f"{console_consumer(topic, target, extents[0])}{likewise}", link)


def keep_or_delete_unknown(topic: str, target: Cluster, partition: int) -> str:
    """Return the same remedies as `keep_or_delete`, if another producer wrote between our records and the number is
    unknown.
    """
    lost = f"records that other producers wrote to it (`isthmus verify --topic {topic}` lists and counts them)"
    command = _command(topic, target, partition, "FIRST_OFFSET", "COUNT")
    return _ways(topic, lost, command)


def explain_recreated(topic: str, target: Cluster, only_there: Sequence[HeldOffsets], link: str = _LINK) -> str:
    """Return the remedies if the source topic was created again, and the target holds the former one."""
    ways = keep_or_delete(topic, target, only_there, link)
    return f"The target holds the topic that was deleted at the source. {ways}"


def recover(topic: str, link: str = _LINK) -> str:
    """Return the command that recreates a target topic without loss; if the link is unknown, the reader fills it in."""
    return f"`isthmus link recover {link} --topic {topic}`"


def console_consumer(topic: str, target: Cluster, extent: HeldOffsets) -> str:
    """Return the command that writes the records of an extent into a file, with Kafka's own console consumer."""
    # If a log begins at 0, the records to read may begin above it: an offset that is gone would be read from the end
    # on.
    begin = "earliest" if extent.offset_begin == 0 else str(extent.offset_begin)
    count = "" if extent.offset_end == _UNKNOWN else str(extent.records_max)
    return _command(topic, target, extent.partition, begin, count)


def _ways(topic: str, lost: str, command: str, link: str = _LINK) -> str:
    return (
        f"Records that only the target has: {lost}. {recover(topic, link)} sets them aside in a quarantine topic, "
        "deletes the target topic and has it filled again; with --way mapped the topic keeps them, and the link "
        "continues behind them. "
        f"To have nothing more come, exclude {topic} from the link (topics.exclude). By hand: {command}; then delete "
        "the target topic and run again."
    )


def _describe_extent(topic: str, extent: HeldOffsets) -> str:
    if extent.offset_end == _UNKNOWN:
        return f"{topic}-{extent.partition} from offset {extent.offset_begin} on"
    return f"offsets [{extent.offset_begin}, {extent.offset_end}) of {topic}-{extent.partition}"


def _command(topic: str, target: Cluster, partition: int, begin: str, count: str) -> str:
    login = "" if target.security.protocol == "PLAINTEXT" else " --consumer.config CLIENT_PROPERTIES"
    limit = f" --max-messages {count}" if count else ""
    shown = " ".join(f"--property print.{what}=true" for what in ("timestamp", "key", "headers"))
    return (
        f"`kafka-console-consumer --bootstrap-server {','.join(target.bootstrap_servers)}{login} --topic {topic} "
        f"--partition {partition} --offset {begin}{limit} --timeout-ms 10000 {shown} > {topic}-{partition}.txt`"
    )
