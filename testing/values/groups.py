"""Groups and their positions, as both clusters show them."""

from __future__ import annotations

from typing import Any, Final

from isthmus.groups.observation import GroupsView, GroupView
from isthmus.groups.positions.translation import Translation
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.documents.kinds import Document, MapDocument
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.group import Committed, GroupDescription, GroupState, GroupType
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange

ORDERS: Final[Any] = "orders"
"""Its name on both sides."""
KEY: Final[tuple[Any, int]] = (ORDERS, 0)


def described(state: GroupState = GroupState.EMPTY, kind: GroupType = GroupType.CLASSIC) -> GroupDescription:
    return GroupDescription(
        group="billing", type=kind, state=state, protocol_type="", protocol="", members=(), coordinator=1
    )


def view(
    source: dict[tuple[Any, int], int],
    target: dict[tuple[Any, int], int],
    *,
    state: GroupState = GroupState.EMPTY,
    kind: GroupType = GroupType.CLASSIC,
) -> GroupsView:
    """One group on two clusters; the topic "orders" is mirrored and holds offsets from 0 to 100."""
    group = GroupView(
        group="billing",
        target_group="billing",
        positions={key: Committed(offset, 3, "noted") for key, offset in source.items()},
        target=described(state, kind),
        committed={key: Committed(offset) for key, offset in target.items()},
    )
    return GroupsView(
        link="east-west",
        settings=GroupSettings(),
        groups=(group,),
        mirrored={SourceTopic("orders"): TargetTopic("orders")},
        ranges={key: LogRange(0, 100, 100) for key in source if key[0] == "orders"},
        translated=Translation({(key, offset): offset for key, offset in source.items()}),
    )


def maps(*ranges: MappedRange, copied_to: int, also: Document | None = None) -> LinkMaps:
    """The maps of a link that has copied "orders" 0 up to there, and of its partition 1 nothing."""
    one = MapDocument(
        link="east-west",
        topic=TargetTopic(KEY[0]),
        partition=KEY[1],
        segment="1",
        ordinal_begin=0,
        ranges=ranges,
        cursor=Cursor(copied_to, sum(each.length for each in ranges), ranges[-1].target_end),
    )
    documents: dict[str, Document] = {each.key: each for each in (one, also) if each is not None}
    found = LinkMaps("east-west", documents)
    found.look()
    return found


SOME: Final = maps(MappedRange(0, 10, 5), MappedRange(5, 40, 5), copied_to=10)
