"""The leaf of a subtree to which a distributor copies: read, requested and changed in the ledger of its source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

from isthmus.errors import BrokerRefused, Fenced, PlanRefused, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import ends_of_epochs, log_ranges, newest_epochs
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.lanes.maps import lane_cursors
from isthmus.ledger.documents.kinds import AllowanceDocument, SwitchDocument, TopicDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.ledger.topic import on_topic
from isthmus.ledger.view import Bookmark
from isthmus.memory.links import LedgerMemory, now_ms, read_ledger
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopicPartition
from isthmus.model.offsets import Cursor
from isthmus.model.problem import Problem
from isthmus.model.text.plain import Hidden, PlainValue, TextOrNull, computed_field, instant_or_null
from isthmus.model.trees.switching import Allowance, LeafDoubt, LeftAt, TargetChoice, behind, choice_of
from isthmus.model.trees.tree import Distributor

SWITCH_ROLE: Final = "switch"
_TRIES: Final = 3
_log = logging.getLogger(__name__)
Choose = Callable[[TargetChoice | None], TargetChoice | None]
"""Return the new choice for the present one; `None` for no change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedLeaf:
    """A leaf that may lack messages that it was to get."""

    SCHEMA: ClassVar = "LeafDoubt"

    leaf: str
    state: Literal["RECONCILING", "IN_DOUBT"]
    records_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributorTarget(PlainValue):
    """To which leaf of its subtree a distributor copies.

    It copies to `target` now and `wanted` soon, `by_itself` without an operator's choice. `doubts` are about leaves
    that it left by force; the leaf in `finishes` gets the records it lacks before all goes on. `problem` is why that is
    unknown.
    """

    distributor: Hidden[Distributor]
    target: TextOrNull
    wanted: TextOrNull
    by_itself: str
    former: tuple[str, ...] = ()
    is_forced: Annotated[bool, "forced"] = False
    doubts: Hidden[tuple[LeafDoubt, ...]] = ()
    finishes: Hidden[str] = ""
    since_ms: Annotated[int, "since", instant_or_null] = -1
    problem: Problem | None = None

    @classmethod
    def unknown(cls, distributor: Distributor, problem: Problem) -> DistributorTarget:
        """Return the target of a distributor whose source does not answer: `target` and `wanted` are empty."""
        return cls(distributor=distributor, target="", wanted="", by_itself=distributor.target, problem=problem)

    @classmethod
    def of(cls, distributor: Distributor, known: SwitchDocument | None) -> DistributorTarget:
        """Return the target by the source's ledger, of a distributor without any choice applied."""
        by_itself = distributor.target
        if known is None or not known.choice.is_of(distributor.leaves):
            return cls(distributor=distributor, target=by_itself, wanted=by_itself, by_itself=by_itself)
        choice = known.choice
        return cls(
            distributor=distributor,
            target=choice.target,
            wanted=choice.wanted,
            by_itself=by_itself,
            former=choice.former,
            is_forced=choice.is_forced,
            doubts=choice.doubts,
            finishes=choice.finishes,
            since_ms=known.since_ms,
        )

    @property
    def is_under_way(self) -> bool:
        """Whether it changes to another leaf."""
        return self.wanted != self.target

    @computed_field(before="distributor")
    def name(self) -> Annotated[str, "distributor"]:
        return self.distributor.name

    @computed_field(before="distributor")
    def cluster(self) -> str:
        return self.distributor.cluster

    @computed_field(before="distributor")
    def level(self) -> int:
        return self.distributor.level

    @computed_field(before="distributor")
    def subtree(self) -> tuple[str, ...]:
        return self.distributor.leaves

    @computed_field(before="since_ms")
    def in_doubt(self) -> tuple[DoubtedLeaf, ...]:
        """The leaves that may lack records."""
        return tuple(
            DoubtedLeaf(
                leaf=each.leaf,
                state="RECONCILING" if each.leaf == self.finishes else "IN_DOUBT",
                records_max=each.records_max,
            )
            for each in self.doubts
        )


async def read_choice(source: Client, link: str) -> SwitchDocument | None:
    """Read what was chosen for a distributor, `None` for nothing.

    :raises ClusterError: The ledger at the source cannot be read.
    """
    return SwitchDocument.find((await read_ledger(source)).of(link).documents, link)


async def read_allowances(source: Client, link: str, target: str) -> tuple[Allowance, ...] | None:
    """Read how far a distributor may have copied to its target, `None` where it never wrote that down.

    :raises ClusterError: The ledger at the source cannot be read.
    """
    found = await _read_allowance(source, link, target)
    return None if found is None else found.lanes


async def _read_allowance(source: Client, link: str, target: str) -> AllowanceDocument | None:
    return _allowance_in(await read_ledger(source), link, target)


def _allowance_in(memory: LedgerMemory, link: str, target: str) -> AllowanceDocument | None:
    found = AllowanceDocument.find(memory.of(link).documents, link)
    return found if found is not None and found.target == target else None


async def write_choice(
    source: Client, link: str, choose: Choose, *, replication_factor: int | None = None
) -> SwitchDocument | None:
    """Write to the ledger at the source what is chosen, given the choice there now; return what it holds then.

    A concurrent writer is fenced, looks again and so sees what this one wrote.

    :raises ClusterError: The ledger at the source cannot be read or written.
    :raises Fenced: Others write all the time.
    """
    tried: SwitchDocument | None = None
    others: tuple[AllowanceDocument, ...] = ()
    for left in reversed(range(_TRIES)):
        writer = FencedWriter(source, link, role=SWITCH_ROLE)
        try:
            await writer.take_over()
            async with writer.looking(replication_factor=replication_factor):
                look = partial(read_choice, source, link)
                known = await on_topic(source, look, replication_factor=replication_factor)
            choice = choose(None if known is None else known.choice)
            if choice is not None:
                tried = SwitchDocument(link=link, choice=choice, since_ms=now_ms())
                before = choice.target if known is None else known.choice.target
                has_gone_over = before != choice.target and before in choice.former
                # Nothing was sent to the new target yet: if it is lost before more is written down, that is known.
                others = (AllowanceDocument(link=link, target=choice.target, lanes=()),) if has_gone_over else ()
            elif known is None or known != tried:
                return known
            # A record that was fenced before it was committed can be read by all, and has to stay.
            await on_topic(source, partial(writer.append, [tried, *others]), replication_factor=replication_factor)
        except Fenced:
            if not left:
                raise
        else:
            return tried
        finally:
            writer.close()
    raise AssertionError


async def forget_choice(source: Client, link: str) -> None:
    """Delete from the source's ledger where an ended distributor copied, before another one gets its name.

    :raises ClusterError: The ledger at the source cannot be read or written.
    """
    known = (await read_ledger(source)).of(link).documents
    keys = [key for key in (SwitchDocument.key_of(link), AllowanceDocument.key_of(link)) if key in known]
    if keys:
        await append_once(source, map(Deletion, keys), replication_factor=None)


def replace_choice(known: TargetChoice, wanted: TargetChoice, now: TargetChoice | None) -> TargetChoice | None:
    """Return the new choice, if the present one is still the one that was known."""
    return wanted if now is not None and now.serial == known.serial else None


async def leave(source: Client, each: Distributor, choice: TargetChoice) -> None:
    """Let a distributor begin at the leaf that it was forced to, now that none of its records reach the present one:
    its sending ends `REVOCATION_S` after that was written (`spark.tenure`).

    :raises ClusterError: The source does not answer.
    """
    stated = await _read_allowance(source, each.name, choice.target)
    if stated is None:
        _log.warning("%s: how far it came with %s is not known", each.name, choice.target)
        return
    left, memory = choice.leave(stated.lanes, await _ends(source, stated)), source.companion(LedgerMemory)

    def over(now: TargetChoice | None) -> TargetChoice | None:
        # Only now it is certain that the whole ledger was read.
        is_newest = _allowance_in(memory, each.name, choice.target) == stated
        return replace_choice(choice, left, now) if is_newest else None

    written = await write_choice(source, each.name, over)
    if written is not None and written.choice == left:
        _log.warning("%s: copies to %s now", each.name, choice.wanted)


async def _ends(source: Client, stated: AllowanceDocument) -> dict[SourceTopicPartition, LeftAt]:
    """Return the present ends of the source's logs that a distributor was allowed to copy, without topics that the
    source does not know: a broker that has just started may not know them yet.

    :raises ClusterError: An end of the others is unknown.
    """
    found = await log_ranges(source, [(lane.topic, lane.partition) for lane in stated.lanes])
    for error in found.errors.values():
        if not (isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION):
            raise error
    # A former leader that does not know it was replaced reports an end that others have passed since.
    newest = await newest_epochs(source, {topic for topic, _ in found.values})
    for key, log in found.values.items():
        if newest.get(key, log.leader_epoch) > log.leader_epoch:
            alias = source.cluster.alias
            raise Unreachable(
                f"{key[0]}-{key[1]} of {alias} has another leader than the one that reported its end", cluster=alias
            )
    epochs = {(each.topic, each.partition): each for each in stated.epochs}
    asked = {key: epochs[key].epoch for key in found.values if key in epochs}
    kept = await ends_of_epochs(source, asked) if asked else {}
    lost = {key: epochs[key] for key, end in kept.items() if 0 <= end < epochs[key].copied_to}
    return {key: LeftAt(log.stable_end, log.leader_epoch, lost.get(key)) for key, log in found.values.items()}


def check_certain(distributor: Distributor, leaf: str, known: TargetChoice | None) -> None:
    """Require that a leaf lacks no records that a distributor sent to it: as the target it would begin behind them, and
    never receive them.

    :raises PlanRefused: The leaf is in doubt.
    """
    if known is not None and known.is_of(distributor.leaves) and known.doubt(leaf) is not None:
        raise PlanRefused(
            f"{leaf} is IN_DOUBT: it may lack what {distributor.name} sent to it",
            hint="It gets that by itself when it is back: isthmus tree targets shows how it stands.",
        )


def wish_for_leaf(
    distributor: Distributor,
    leaf: str,
    known: TargetChoice | None,
    *,
    is_forced: bool = False,
    is_resent: bool = False,
) -> TargetChoice | None:
    """Return the new choice where another leaf is wanted of a distributor, which is given without choices applied;
    `None` where it is chosen already.

    :raises PlanRefused: That leaf is in doubt.
    """
    check_certain(distributor, leaf, known)
    known = choice_of(distributor.target, distributor.leaves, known)
    is_so = leaf == known.wanted and (not known.is_under_way or known.is_forced or not is_forced)
    return None if is_so else known.ask_for(leaf, is_forced=is_forced, is_resent=is_resent)


async def ask_for(
    source: Client,
    distributor: Distributor,
    leaf: str,
    ledger: LedgerSettings,
    *,
    is_forced: bool = False,
    is_resent: bool = False,
    dry_run: bool,
) -> DistributorTarget:
    """Request that a distributor changes to a leaf of its subtree: its controller does so in good order, or without the
    present leaf if that `is_forced`. The distributor is given without choices applied.

    :raises PlanRefused: That leaf is in doubt.
    :raises ClusterError: The ledger at the source cannot be read or written.
    """
    choose = partial(wish_for_leaf, distributor, leaf, is_forced=is_forced, is_resent=is_resent)
    if dry_run:
        known = await read_choice(source, distributor.name)
        choice = choose(None if known is None else known.choice)
        found = known if choice is None else SwitchDocument(link=distributor.name, choice=choice, since_ms=now_ms())
    else:
        found = await write_choice(source, distributor.name, choose, replication_factor=ledger.replication_factor)
    return DistributorTarget.of(distributor, found)


async def lacking(source: Client, target: Client, link: str, logs: Mapping[PartitionKey, LogRange]) -> str:
    """Describe what a distributor has not yet copied to its target of these logs of its source, "" for nothing. A
    position beyond them proves nothing where it copied another topic, or records that the source lost since.

    :raises ClusterError: The ledger at the target cannot be read, or the source does not answer.
    """
    documents = (await read_ledger(target)).of(link).documents
    cursors, alias = lane_cursors(link, documents), source.cluster.alias
    late = behind(logs, cursors)
    if late is not None:
        return f"{target.cluster.alias} has not got all of {late} from {alias} yet ({link})"
    copied = {key: cursor for key, cursor in cursors.items() if key in logs}
    shown = (await source.metadata(sorted({key.topic for key in copied}))).topics if copied else {}
    for key in copied:
        known, now = TopicDocument.find(documents, link, key.topic), shown[key.topic]
        if now.error_code:
            return f"{alias} does not show {key} now ({codes.name_of(now.error_code)})"
        ids = set() if known is None else {now.topic_id, known.source_topic_id}
        if len(ids) > 1 and NO_TOPIC_ID not in ids:
            return f"{target.cluster.alias} has got {key} from {alias} that was there before, not this one ({link})"
    lost = await _find_cut_off(source, {key: (cursor.source_epoch, cursor.copied_to) for key, cursor in copied.items()})
    if lost is None:
        return ""
    return (
        f"{alias} lost what {link} had copied of {lost}, and {target.cluster.alias} did not get what came "
        "since. Read that there, and delete the topic there, if it is not needed in the tree"
    )


async def lost_there(target: Client, cursors: Mapping[LaneKey, Cursor], logs: Mapping[PartitionKey, LogRange]) -> str:
    """Describe what a target has lost of the records sent to it, "" for nothing, given its `logs`: lanes that are held
    do not look, and a lane that copies on has all that is left there.

    :raises ClusterError: It does not answer.
    """
    sent = {key: cursor.target_offset for key, cursor in cursors.items() if key in logs and cursor.has_appended}
    lost = next((key for key, end in sent.items() if logs[key].end < end), None)
    lost = lost or await _find_cut_off(target, {key: (logs[key].leader_epoch, end) for key, end in sent.items()})
    if lost is None:
        return ""
    return f"{target.cluster.alias} lost messages that were sent to it of {lost} (unclean leader election)"


async def _find_cut_off(client: Client, places: Mapping[LaneKey, tuple[int, int]]) -> LaneKey | None:
    """Return the first partition whose log was cut off before an offset since it held the earlier records in a leader
    epoch (-1 where that is unknown).
    """
    asked: dict[PartitionKey, int] = {key: epoch for key, (epoch, _) in places.items() if epoch >= 0}
    kept = await ends_of_epochs(client, asked) if asked else {}
    return next((key for key, (_, end) in places.items() if 0 <= kept.get(key, end) < end), None)


async def check_choice(link: Link, source: Client) -> None:
    """Require that a distributor is run as its source's ledger has it, which may be newer than what this process has
    read: to another leaf everything would be copied again.

    :raises PlanRefused: Another leaf is chosen or being changed to, or it copied to one that was never left.
    :raises ClusterError: The ledger at the source cannot be read.
    """
    if link.distributor is None:
        return
    memory = await read_ledger(source)
    documents = memory.of(link.name).documents
    # Leases have to notice any choice from now on.
    memory.mark(source.companion(Bookmark))
    known = SwitchDocument.find(documents, link.name)
    stated = AllowanceDocument.find(documents, link.name)
    check_source_agrees(
        link,
        None if known is None else known.choice,
        "" if stated is None else stated.target,
    )


def check_source_agrees(link: Link, choice: TargetChoice | None, stated: str) -> None:
    """Require that a distributor copies to the leaf that its source has for it: the one chosen there, and the one
    `stated` there with how far it may get records, "" for none.

    :raises PlanRefused: It copies to another leaf.
    """
    role = link.distributor
    if role is None:
        return
    if choice is not None:
        wanted = link.target.alias if role.going is None else role.going.to
        finishing = choice.finishing
        chosen = choice.leaf, choice.leaf if finishing else choice.wanted, (finishing or choice).begins
        if (*chosen, finishing and finishing.ends) != (link.target.alias, wanted, role.begins, role.ends):
            leaves = f"{choice.leaf}, and soon to {choice.wanted}," if choice.leaf != choice.wanted else choice.leaf
            raise PlanRefused(
                f"link {link.name} copies to {leaves} by what {link.source.alias} says, which is newer than the last "
                "report that this process has read",
                hint="isthmus run follows within seconds. A program opens its configuration with declared=True.",
            )
    left = () if choice is None else (choice.target, *choice.former)
    if stated and stated not in (link.target.alias, *left):
        # No process asks a leaf that is no longer in the file, and others got records of the source through it.
        raise PlanRefused(
            f"link {link.name} copied to {stated} until now by what {link.source.alias} says, and is to copy to "
            f"{link.target.alias}: everything would come once more",
            hint="Write the clusters of the tree as they were, then: isthmus tree switch for another leaf, isthmus "
            "tree remove for a cluster that leaves.",
        )
