"""To which leaf of a subtree a distributor copies: read, asked for, and changed, in the ledger of its source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypedDict

from isthmus.cluster.offsets import log_ranges
from isthmus.control.lanes.maps import lane_cursors
from isthmus.control.links.memory import now_ms, remembered
from isthmus.errors import BrokerRefused, Fenced, PlanRefused
from isthmus.ledger.documents import AllowanceDocument, SwitchDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.ledger.topic import on_topic
from isthmus.ledger.view import Bookmark
from isthmus.model.configuration import LedgerSettings
from isthmus.model.instant import written_instant
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.plain import plain
from isthmus.model.problem import Problem, ProblemJson
from isthmus.model.switching import Allowance, LeafDoubt, TargetChoice, behind, choice_of
from isthmus.model.tree import Distributor
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

SWITCH_ROLE: Final = "switch"
_TRIES: Final = 3
_log = logging.getLogger(__name__)
Choose = Callable[[TargetChoice | None], TargetChoice | None]
"""What becomes of the choice there is; `None` for no change."""


class LeafDoubtJson(TypedDict):
    """A leaf that may lack what it was to get."""

    leaf: str
    state: Literal["RECONCILING", "IN_DOUBT"]
    records_max: int


class DistributorTargetJson(TypedDict):
    """To which leaf of its subtree a distributor copies."""

    distributor: str
    cluster: str
    level: int
    subtree: list[str]
    target: str | None
    wanted: str | None
    by_itself: str
    former: list[str]
    forced: bool
    in_doubt: list[LeafDoubtJson]
    since: str | None
    problem: ProblemJson | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributorTarget:
    """Where a distributor copies to: `target` now and `wanted` soon, `by_itself` without anybody's choice. `doubts` are
    of leaves that it left by force; one that it `finishes` gets what it lacks before all goes on. `problem` is why that
    is not known.
    """

    distributor: Distributor
    target: str
    wanted: str
    by_itself: str
    former: tuple[str, ...] = ()
    is_forced: bool = False
    doubts: tuple[LeafDoubt, ...] = ()
    finishes: str = ""
    since_ms: int = -1
    problem: Problem | None = None

    @classmethod
    def unknown(cls, distributor: Distributor, problem: Problem) -> DistributorTarget:
        """Of one whose source does not tell: `target` and `wanted` are empty."""
        return cls(distributor=distributor, target="", wanted="", by_itself=distributor.target, problem=problem)

    @classmethod
    def of(cls, distributor: Distributor, known: SwitchDocument | None) -> DistributorTarget:
        """What the source's ledger makes of a distributor as it is by itself."""
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
        """Whether it goes over to another leaf."""
        return self.wanted != self.target

    def as_dict(self) -> DistributorTargetJson:
        """Plain values under stable names."""
        return {
            "distributor": self.distributor.name,
            "cluster": self.distributor.cluster,
            "level": self.distributor.level,
            "subtree": list(self.distributor.leaves),
            "target": self.target or None,
            "wanted": self.wanted or None,
            "by_itself": self.by_itself,
            "former": list(self.former),
            "forced": self.is_forced,
            "in_doubt": [
                {
                    "leaf": each.leaf,
                    "state": "RECONCILING" if each.leaf == self.finishes else "IN_DOUBT",
                    "records_max": each.records_max,
                }
                for each in self.doubts
            ],
            "since": written_instant(self.since_ms) if self.since_ms >= 0 else None,
            "problem": plain(self.problem),
        }


async def read_choice(source: Client, link: str) -> SwitchDocument | None:
    """What was chosen for a distributor, `None` for nothing.

    :raises ClusterError: The ledger at the source cannot be read.
    """
    found = (await remembered(source)).of(link).documents.get(f"{SwitchDocument.KIND}/{link}")
    return found if isinstance(found, SwitchDocument) else None


async def read_allowances(source: Client, link: str, target: str) -> tuple[Allowance, ...] | None:
    """How far a distributor may have gone with its target, `None` where it never said.

    :raises ClusterError: The ledger at the source cannot be read.
    """
    found = (await remembered(source)).of(link).documents.get(f"{AllowanceDocument.KIND}/{link}")
    return found.lanes if isinstance(found, AllowanceDocument) and found.target == target else None


async def write_choice(
    source: Client, link: str, choose: Choose, *, replication_factor: int | None = None
) -> SwitchDocument | None:
    """Have the ledger at the source hold what is chosen, in view of what is chosen there now; what it holds then.

    Whoever does so at the same time is fenced, looks again and so sees what this one wrote.

    :raises ClusterError: The ledger at the source cannot be read or written.
    :raises Fenced: Others write all the time.
    """
    tried: SwitchDocument | None = None
    others: tuple[AllowanceDocument, ...] = ()
    for left in reversed(range(_TRIES)):
        writer = FencedWriter(source, link, role=SWITCH_ROLE)
        try:
            await writer.take_over()
            known = await on_topic(source, partial(read_choice, source, link), replication_factor=replication_factor)
            choice = choose(None if known is None else known.choice)
            if choice is not None:
                tried = SwitchDocument(link=link, choice=choice, since_ms=now_ms())
                before = choice.target if known is None else known.choice.target
                has_gone_over = before != choice.target and before in choice.former
                # Nothing was sent to the new target yet: should it be gone before more is stated, that is known.
                others = (AllowanceDocument(link=link, target=choice.target, lanes=()),) if has_gone_over else ()
            elif known is None or known != tried:
                return known
            # What was fenced before it was committed is read by everybody, and has to stay.
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
    """Have the source know nothing of where a distributor copied that ended, before another one has its name.

    :raises ClusterError: The ledger at the source cannot be read or written.
    """
    known = (await remembered(source)).of(link).documents
    keys = [key for kind in (SwitchDocument, AllowanceDocument) if (key := f"{kind.KIND}/{link}") in known]
    if keys:
        await append_once(source, map(Deletion, keys), replication_factor=None)


def changed(known: TargetChoice, wanted: TargetChoice, now: TargetChoice | None) -> TargetChoice | None:
    """What becomes of a choice, if it is still the one that was known."""
    return wanted if now is not None and now.serial == known.serial else None


async def leave(source: Client, each: Distributor, choice: TargetChoice) -> None:
    """Have a distributor begin at the leaf that it was forced to, now that nothing of it reaches the present one: what
    it sends ends `REVOCATION_S` after that was written (`spark.tenure`).

    :raises ClusterError: The source does not answer.
    """
    allowed = await read_allowances(source, each.name, choice.target)
    if allowed is None:
        _log.warning("%s: how far it came with %s is not known", each.name, choice.target)
        return
    found = await log_ranges(source, [(lane.topic, lane.partition) for lane in allowed])
    for error in found.errors.values():
        if not (isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION):
            raise error
    ends = {key: log.stable_end for key, log in found.values.items()}
    await write_choice(source, each.name, partial(changed, choice, choice.left(allowed, ends)))
    _log.warning("%s: copies to %s now", each.name, choice.wanted)


def check_certain(distributor: Distributor, leaf: str, known: TargetChoice | None) -> None:
    """See that a leaf lacks nothing that a distributor sent to it: as its target it would begin behind that, and never
    get it.

    :raises PlanRefused: It is in doubt.
    """
    if known is not None and known.is_of(distributor.leaves) and known.doubt(leaf) is not None:
        raise PlanRefused(
            f"{leaf} is IN_DOUBT: it may lack what {distributor.name} sent to it",
            hint="It gets that by itself when it is back: isthmus tree targets shows how it stands.",
        )


def wished(
    distributor: Distributor,
    leaf: str,
    known: TargetChoice | None,
    *,
    is_forced: bool = False,
    is_resent: bool = False,
) -> TargetChoice | None:
    """What becomes of a choice where another leaf is wanted of a distributor, which is given as it is by itself; `None`
    where that is so already.

    :raises PlanRefused: That leaf is in doubt.
    """
    check_certain(distributor, leaf, known)
    known = choice_of(distributor.target, distributor.leaves, known)
    is_so = leaf == known.wanted and (not known.is_under_way or known.is_forced or not is_forced)
    return None if is_so else known.asked(leaf, is_forced=is_forced, is_resent=is_resent)


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
    """Have a distributor go over to a leaf of its subtree: whoever runs it does so in good order, or without asking the
    present one if that `is_forced`. It is given as it is by itself.

    :raises PlanRefused: That leaf is in doubt.
    :raises ClusterError: The ledger at the source cannot be read or written.
    """
    choose = partial(wished, distributor, leaf, is_forced=is_forced, is_resent=is_resent)
    if dry_run:
        known = await read_choice(source, distributor.name)
        choice = choose(None if known is None else known.choice)
        found = known if choice is None else SwitchDocument(link=distributor.name, choice=choice, since_ms=now_ms())
    else:
        found = await write_choice(source, distributor.name, choose, replication_factor=ledger.replication_factor)
    return DistributorTarget.of(distributor, found)


async def lacking(target: Client, link: str, source: str, logs: Mapping[PartitionKey, LogRange]) -> str:
    """What a distributor has not brought to its target yet of these logs of its source, "" where nothing is missing.

    :raises ClusterError: The ledger at the target cannot be read.
    """
    late = behind(logs, lane_cursors(link, (await remembered(target)).of(link).documents))
    return "" if late is None else f"{target.cluster.alias} has not got all of {late} from {source} yet ({link})"


async def check_choice(link: Link, source: Client) -> None:
    """See that a distributor is run as its source says, whose word may be newer than what this process has heard: to
    another leaf everything would come once more.

    :raises PlanRefused: Another leaf is chosen, it goes over to another one, or it copied to one that nobody left.
    :raises ClusterError: The ledger at the source cannot be read.
    """
    if link.distributor is None:
        return
    memory = await remembered(source)
    documents = memory.of(link.name).documents
    # Whatever is chosen from now on is to be heard by leases.
    memory.mark(source.companion(Bookmark))
    known = documents.get(f"{SwitchDocument.KIND}/{link.name}")
    stated = documents.get(f"{AllowanceDocument.KIND}/{link.name}")
    check_source_agrees(
        link,
        known.choice if isinstance(known, SwitchDocument) else None,
        stated.target if isinstance(stated, AllowanceDocument) else "",
    )


def check_source_agrees(link: Link, choice: TargetChoice | None, stated: str) -> None:
    """See that a distributor copies to the leaf that its source has for it: what was chosen there, and the leaf of
    which was `stated` how far it may get something, "" for none.

    :raises PlanRefused: It does not.
    """
    role = link.distributor
    if role is None:
        return
    if choice is not None:
        wanted = link.target.alias if role.going is None else role.going.to
        finishing = choice.finishing
        said = choice.leaf, choice.leaf if finishing else choice.wanted, (finishing or choice).begins
        if (*said, finishing and finishing.ends) != (link.target.alias, wanted, role.begins, role.ends):
            told = f"{choice.leaf}, and soon to {choice.wanted}," if choice.leaf != choice.wanted else choice.leaf
            raise PlanRefused(
                f"link {link.name} copies to {told} by what {link.source.alias} says, which is newer than what this "
                "process has heard",
                hint="isthmus run follows within seconds. A program opens its configuration with declared=True.",
            )
    left = () if choice is None else (choice.target, *choice.former)
    if stated and stated not in (link.target.alias, *left):
        # A leaf that is in the file no more is asked by nobody, and what others have of the source came through it.
        raise PlanRefused(
            f"link {link.name} copied to {stated} until now by what {link.source.alias} says, and is to copy to "
            f"{link.target.alias}: everything would come once more",
            hint="Write the clusters of the tree as they were, then: isthmus tree switch for another leaf, isthmus "
            "tree remove for a cluster that leaves.",
        )
