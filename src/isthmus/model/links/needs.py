"""The access rights a link needs: one table, which `doctor` checks and `isthmus acls generate` grants."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from isthmus.model.kafka.access import AccessPolicy
from isthmus.model.kafka.findings import Level
from isthmus.model.link import Link
from isthmus.model.mirrormaker import SyncsPlace
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.offsetscopy import OffsetsCopy
from isthmus.model.onerror import OnError


class Side(enum.StrEnum):
    """An end of a link."""

    SOURCE = "source"
    TARGET = "target"


class About(enum.StrEnum):
    """The resource of a right."""

    MIRRORED = "mirrored topics"
    LEDGER = "the ledger"
    GROUP_LOG = "the log of commits"
    OFFSET_SYNCS = "the topic of pairs of offsets"
    CHECKPOINTS = "the topic of checkpoints"
    HEARTBEATS = "the topic of heartbeats"
    POSITIONS = "the map of positions"
    DEAD_LETTERS = "topics for dead letters"
    OFFSETS_COPY = "the copy of committed positions"
    EVERY_GROUP = "all groups"
    GROUPS = "groups"
    TRANSACTIONS = "transactional ids"
    CLUSTER = "the cluster"
    ACCESS = "the cluster's access rules"
    QUOTAS = "client quotas"
    NAMESPACES = "the declarations of namespaces"


def _always(_: Link) -> bool:
    return True


def _groups(link: Link) -> bool:
    return link.groups.is_configured


def _committing_groups(link: Link) -> bool:
    return link.groups.is_configured and link.groups.commit


def _translating_groups(link: Link) -> bool:
    return link.groups.is_configured and not link.groups.commit


def _distributing_groups(link: Link) -> bool:
    return link.groups.is_configured and link.distributor is not None


def _deleting_groups(link: Link) -> bool:
    return _committing_groups(link) and link.groups.delete_at_target


def _same_offsets(link: Link) -> bool:
    return link.topics.offsets is not OffsetPolicy.MAPPED


def _changing_configs(link: Link) -> bool:
    return link.configs.sync or _same_offsets(link)


def _rules(link: Link) -> bool:
    return link.access.policy is not AccessPolicy.OFF


def _quotas(link: Link) -> bool:
    return _rules(link) and bool(link.access.principals)


def _has_namespaces(link: Link) -> bool:
    return bool(link.namespaces)


def _choosing(link: Link) -> bool:
    return link.distributor is not None and link.distributor.has_allowance


def _syncs_at_source(link: Link) -> bool:
    return link.mm2.offset_syncs is SyncsPlace.SOURCE


def _syncs_at_target(link: Link) -> bool:
    return link.mm2.offset_syncs is SyncsPlace.TARGET


def _checkpoints(link: Link) -> bool:
    return link.mm2.checkpoints


def _heartbeats(link: Link) -> bool:
    return link.mm2.heartbeats


def _copying(link: Link) -> bool:
    return link.groups.offsets_copy is not OffsetsCopy.NONE


def _commits(link: Link) -> bool:
    return _groups(link) or _copying(link)


def _dead_letters(link: Link) -> bool:
    return any(each.on_error is OnError.DEAD_LETTER for each in link.transforms)


def _copying_all(link: Link) -> bool:
    return link.groups.offsets_copy is OffsetsCopy.ALL


@dataclass(frozen=True, slots=True)
class Need:
    """One right, by Kafka's name of the operation, and its purpose; without those that are no `ERROR` mirroring works,
    but not as well. Links for which `when` is false do not need it.
    """

    side: Side
    about: About
    operation: str
    level: Level
    purpose: str
    when: Callable[[Link], bool] = _always

    @property
    def is_required(self) -> bool:
        """Whether the link, or the part of it that needs the right, does not work without it."""
        return self.level is Level.ERROR


_S, _T, _ERROR, _WARN = Side.SOURCE, Side.TARGET, Level.ERROR, Level.WARN
_KEPT: Final = "check that its topic keeps its records"
_KEEP: Final = "see whether it is kept as tools of MirrorMaker 2 need it"
_MAKE: Final = "create it where it is missing"
_GO_ON: Final = "go on where it ends after a restart"


def _needs_to_write(side: Side, about: About, when: Callable[[Link], bool], *more: Need) -> tuple[Need, ...]:
    """Return the rights on a topic that is written for tools of MirrorMaker 2."""
    return (
        Need(side, about, "CREATE", _ERROR, _MAKE, when),
        Need(side, about, "WRITE", _ERROR, "write it", when),
        Need(side, about, "DESCRIBE_CONFIGS", _WARN, _KEEP, when),
        *more,
    )


NEEDS: Final[tuple[Need, ...]] = (
    Need(_S, About.MIRRORED, "READ", _ERROR, "copy its records"),
    Need(_S, About.MIRRORED, "DESCRIBE_CONFIGS", _ERROR, "see how its records are kept"),
    Need(_T, About.MIRRORED, "CREATE", _ERROR, "create the topics that are missing"),
    Need(_T, About.MIRRORED, "WRITE", _ERROR, "write its records"),
    Need(_T, About.MIRRORED, "READ", _ERROR, "look at the log's end after a broken connection, and verify"),
    Need(_T, About.MIRRORED, "DESCRIBE_CONFIGS", _ERROR, "see whether it takes the batches as they are"),
    Need(
        _T,
        About.MIRRORED,
        "DELETE",
        _WARN,
        "delete what fills the offsets before the source's log start: a lane that has to fill some waits for it",
        _same_offsets,
    ),
    Need(_T, About.MIRRORED, "ALTER", _WARN, "add partitions when the source adds some"),
    Need(
        _T,
        About.MIRRORED,
        "ALTER_CONFIGS",
        _WARN,
        "have its configuration follow the source, and set the cleanup policy once offsets are filled",
        _changing_configs,
    ),
    Need(_T, About.LEDGER, "CREATE", _ERROR, "create it where no link was before"),
    Need(_T, About.LEDGER, "WRITE", _ERROR, "record the work of the link"),
    Need(_T, About.LEDGER, "READ", _ERROR, "read its earlier work"),
    Need(_T, About.LEDGER, "DESCRIBE_CONFIGS", _WARN, _KEPT),
    Need(_T, About.TRANSACTIONS, "WRITE", _ERROR, "be the only controller of the link"),
    # Written and kept the same on both clusters (docs/links.md).
    Need(_S, About.LEDGER, "CREATE", _ERROR, "create it where nothing was declared before", _has_namespaces),
    Need(_S, About.LEDGER, "READ", _ERROR, "read the declarations", _has_namespaces),
    Need(_S, About.LEDGER, "WRITE", _ERROR, "keep declarations the same on both clusters", _has_namespaces),
    Need(_S, About.LEDGER, "DESCRIBE_CONFIGS", _WARN, _KEPT, _has_namespaces),
    Need(_S, About.TRANSACTIONS, "WRITE", _ERROR, "declare it by one at a time", _has_namespaces),
    Need(_S, About.NAMESPACES, "WRITE", _ERROR, "declare namespaces by one at a time", _has_namespaces),
    Need(_T, About.NAMESPACES, "WRITE", _ERROR, "declare and release namespaces by one at a time", _has_namespaces),
    # The following are for targets that may have to be left while they are gone (docs/trees.md).
    Need(_S, About.LEDGER, "CREATE", _ERROR, "create it where no link was before", _choosing),
    Need(_S, About.LEDGER, "READ", _ERROR, "know which leaf is chosen, and how far to go", _choosing),
    Need(_S, About.LEDGER, "WRITE", _ERROR, "state how far it goes, without which its tasks write nothing", _choosing),
    Need(_S, About.LEDGER, "DESCRIBE_CONFIGS", _WARN, _KEPT, _choosing),
    Need(_S, About.TRANSACTIONS, "WRITE", _ERROR, "be the only one who states that", _choosing),
    Need(_T, About.CLUSTER, "DESCRIBE_CONFIGS", _WARN, "see producer.id.expiration.ms"),
    Need(
        _T,
        About.CLUSTER,
        "ALTER",
        _WARN,
        "write control records for transactions and holes itself, exactly once; without it coordinators do, "
        "more slowly and sometimes twice",
    ),
    Need(_S, About.GROUPS, "DESCRIBE", _ERROR, "see their positions", _groups),
    Need(
        _S,
        About.GROUP_LOG,
        "READ",
        _WARN,
        "follow commits within milliseconds; without it they are asked for once a second",
        _commits,
    ),
    Need(
        _S,
        About.LEDGER,
        "READ",
        _WARN,
        "know which links write there, so that what these committed is not taken for a consumer's",
        _groups,
    ),
    Need(_T, About.GROUPS, "READ", _ERROR, "commit their positions", _committing_groups),
    Need(_T, About.GROUPS, "DESCRIBE", _ERROR, "see their positions", _translating_groups),
    Need(_T, About.GROUPS, "DELETE", _WARN, "delete those that are gone at the source", _deleting_groups),
    Need(
        _T,
        About.GROUP_LOG,
        "READ",
        _WARN,
        "find transactions of consumers that left their group with one open",
        _committing_groups,
    ),
    Need(_S, About.POSITIONS, "READ", _WARN, "pass on positions that came from other clusters", _distributing_groups),
    Need(_T, About.POSITIONS, "CREATE", _ERROR, "create it where no position came before", _distributing_groups),
    Need(_T, About.POSITIONS, "WRITE", _ERROR, "send positions", _distributing_groups),
    Need(_T, About.POSITIONS, "READ", _ERROR, "commit the positions that were sent", _distributing_groups),
    Need(_S, About.ACCESS, "DESCRIBE", _ERROR, "list its access rules", _rules),
    Need(_T, About.ACCESS, "ALTER", _ERROR, "create access rules", _rules),
    Need(_S, About.QUOTAS, "DESCRIBE_CONFIGS", _WARN, "list the quotas of attached principals", _quotas),
    Need(_T, About.QUOTAS, "DESCRIBE_CONFIGS", _WARN, "see which quotas attached principals have", _quotas),
    Need(_T, About.QUOTAS, "ALTER_CONFIGS", _WARN, "set the quotas of attached principals", _quotas),
    *_needs_to_write(
        _S,
        About.OFFSET_SYNCS,
        _syncs_at_source,
        Need(_S, About.OFFSET_SYNCS, "READ", _WARN, _GO_ON, _syncs_at_source),
    ),
    *_needs_to_write(
        _T,
        About.OFFSET_SYNCS,
        _syncs_at_target,
        Need(_T, About.OFFSET_SYNCS, "READ", _WARN, _GO_ON, _syncs_at_target),
    ),
    *_needs_to_write(
        _T, About.CHECKPOINTS, _checkpoints, Need(_T, About.CHECKPOINTS, "READ", _WARN, _GO_ON, _checkpoints)
    ),
    *_needs_to_write(_T, About.HEARTBEATS, _heartbeats),
    Need(_T, About.DEAD_LETTERS, "CREATE", _ERROR, "create those that are missing", _dead_letters),
    Need(_T, About.DEAD_LETTERS, "WRITE", _ERROR, "keep records that cannot be changed", _dead_letters),
    Need(_T, About.DEAD_LETTERS, "READ", _ERROR, "know which are there already", _dead_letters),
    Need(_T, About.DEAD_LETTERS, "ALTER", _WARN, "add partitions when the source adds some", _dead_letters),
    Need(_S, About.EVERY_GROUP, "DESCRIBE", _ERROR, "see the positions of all groups, which are copied", _copying_all),
    Need(_T, About.OFFSETS_COPY, "CREATE", _ERROR, _MAKE, _copying),
    Need(_T, About.OFFSETS_COPY, "WRITE", _ERROR, "write it", _copying),
    Need(
        _T,
        About.OFFSETS_COPY,
        "READ",
        _ERROR,
        "remove copies of positions that are not to be copied any more",
        _copying,
    ),
    Need(_T, About.OFFSETS_COPY, "DESCRIBE_CONFIGS", _WARN, "see whether it is compacted", _copying),
)
"""Implied rights are left out: DESCRIBE comes with READ, WRITE, DELETE and ALTER. So does IDEMPOTENT_WRITE with WRITE
on any topic (KIP-679).
"""


def needs_of(link: Link, side: Side, about: About | None = None) -> tuple[Need, ...]:
    """Return the rights that a link needs at one side: all, or those for one kind of thing."""
    return tuple(need for need in NEEDS if need.side is side and about in (None, need.about) and need.when(link))
