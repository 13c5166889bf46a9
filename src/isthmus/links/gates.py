"""The gates of a promotion, by the ledger and both logs: the rules, and the errors for operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from isthmus.errors import GateNotMet
from isthmus.groups.plan import GroupPlan, worst
from isthmus.groups.positions.carrying import Standing
from isthmus.links.resuming import options_of
from isthmus.links.writers import format_partitions
from isthmus.model.kafka.log import LogRange
from isthmus.model.links.promotion import LeftPartition
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopicPartition
from isthmus.model.text.wording import first_few

_UNCARRIED: Final = frozenset(
    {
        Standing.DUE,
        Standing.CATCHING_UP,
        Standing.WAITING_FOR_MAP,
        Standing.UNAVAILABLE,
        Standing.NOT_AUTHORIZED,
        Standing.OFFSETS_DIFFER,
        Standing.MIRROR_ENDED,
        Standing.NAMES_MEET,
    }
)
"""Where a group would not continue at the target where it stopped at the source, without anybody's intention."""


def require_copies(link: str, left: Iterable[LeftPartition], *, is_detached: bool = False) -> None:
    """Require that no lane waits for an operator.

    :raises GateNotMet: A lane does: the end of its log at the target proves nothing.
    """
    found = [each for each in left if each.state is not None]
    if not found:
        return
    states = first_few(f"{each.topic}-{each.partition} is {each.state}" for each in found)
    is_recoverable = all(each.state is not None and each.state.is_recoverable for each in found)
    first = f"isthmus link reattach {link}. " if is_detached else ""
    raise GateNotMet(
        f"link {link}: {states}: it is not proven that the target holds all records of the source",
        hint=f"{first}{_ways_out(link) if is_recoverable else f'isthmus status has the remedy. {_as_it_is(link)}'}",
    )


def is_beyond(each: LeftPartition) -> bool:
    """Whether the target was seen to have more than its source."""
    return not each.is_mapped and 0 <= each.source_end < each.target_end


def require_within(link: str, left: Iterable[LeftPartition], here: Mapping[SourceTopicPartition, LogRange]) -> None:
    """Require that the target has no more than its source, as it is `here` and was seen later.

    :raises GateNotMet: It has more, whether a lane has noticed that or not.
    """
    seen = {(each.source_topic, each.partition): each for each in left if is_beyond(each)}
    found = [each for key, each in seen.items() if key in here and each.target_end > here[key].end]
    if found:
        shown = format_partitions((each.topic, each.partition) for each in found)
        raise GateNotMet(f"link {link}: the target has more than its source in {shown}", hint=_ways_out(link))


def _ways_out(link: str) -> str:
    return f"isthmus link recover {link} makes both sides alike again; then give this command again. {_as_it_is(link)}"


def _as_it_is(link: str) -> str:
    return f"As it is: isthmus link failover {link}."


def not_copied(link: str, behind: Iterable[LeftPartition], timeout_s: float) -> GateNotMet:
    """Return the error that the target lacks records of the source, and how long they were waited for."""
    shown = format_partitions((each.topic, each.partition) for each in behind)
    return GateNotMet(
        f"link {link} has not copied {shown} to the end within {timeout_s:g} s",
        hint="isthmus status states why; a link has to be run (isthmus run) to catch up. Without the source: "
        f"isthmus link failover {link}.",
    )


def left_behind(link: str, maps: Iterable[NamespaceMap], behind: Iterable[LeftPartition]) -> GateNotMet:
    """Return the error that detached namespaces lack records of the source, which do not come any more."""
    shown, options = format_partitions((each.topic, each.partition) for each in behind), options_of(maps)
    return GateNotMet(
        f"link {link} was detached, and lacks what its source has in {shown}: nothing more comes there",
        hint=f"Have it catch up: isthmus link reattach {link} {options}; then give this command again. "
        f"As it is: isthmus link failover {link} {options}.",
    )


class CarriedGroups:
    """How groups stand, as far as positions in some namespaces go: those of their topics, and all of their groups.

    A group that cannot be described may have positions there: it counts. `is_tried` means that all that was due has
    been written, or could not be.
    """

    def __init__(self, plans: Iterable[GroupPlan], maps: Iterable[NamespaceMap], *, is_tried: bool) -> None:
        spaces = [each.source for each in maps]
        self._topics = [each for each in spaces if each.kind == "topic"]
        self._groups = [each for each in spaces if each.kind == "group"]
        self._found = [(plan, tuple(self._standings(plan, is_tried=is_tried))) for plan in plans]

    @property
    def standings(self) -> dict[str, str]:
        """The standing of each group: that of its position that needs most attention."""
        found = ((plan, standings) for plan, standings in self._found if standings)
        return {plan.group: str(worst(each) if plan.positions else plan.standing) for plan, each in found}

    def in_the_way(self, passed: Collection[Standing], *, is_moved: bool = False) -> list[str]:
        """Return the groups that would not continue where they stopped, and how they stand; those in `passed` are
        accepted. Where clients are moved, they are the source's: members at the target are then no reason to accept a
        group.
        """
        wrong = (_UNCARRIED | {Standing.ACTIVE_AT_TARGET} if is_moved else _UNCARRIED) - set(passed)
        found = ((plan.group, sorted(wrong.intersection(each))) for plan, each in self._found)
        return [f"{group} is {' and '.join(standings)}" for group, standings in found if standings]

    def _standings(self, plan: GroupPlan, *, is_tried: bool) -> Iterator[Standing]:
        is_meant = any(each.holds(plan.group) for each in self._groups)
        if not plan.positions and (is_meant or self._topics):
            yield plan.standing
        for position in plan.positions:
            if is_meant or any(each.holds(position.topic) for each in self._topics):
                # The reason why a position could not be written belongs to the group as a whole.
                yield plan.standing if is_tried and position.commit is not None else position.standing
