"""How far a group has read, from its positions and the ends of the logs."""

from __future__ import annotations

from isthmus.model.kafka.consumption import GroupReport, Position
from isthmus.model.kafka.group import GroupDescription, GroupMember, GroupState, GroupType
from isthmus.model.text.plain import plain


def test_lag_counts_what_is_there_to_be_read() -> None:
    """Deleted offsets are not read any more, and a position behind the end has nothing left."""
    assert Position("t", 0, 10, 0, 25).lag_records == 15
    assert Position("t", 0, 10, 20, 25).lag_records == 5
    assert Position("t", 0, 30, 0, 25).lag_records == 0
    assert Position("t", 0, 30, None, None).lag_records is None


def test_group_lags_as_its_positions_do() -> None:
    """Records are summed, of the ages the oldest counts, and what was not told is left out."""
    positions = (
        Position("t", 0, 10, 0, 25, lag_seconds=3.5),
        Position("t", 1, 10, 0, 11, lag_seconds=90.0),
        Position("t", 2, 10, None, None),
    )
    report = GroupReport(group="g", positions=positions)
    assert (report.lag_records, report.lag_seconds) == (16, 90.0)
    assert GroupReport(group="g").lag_seconds is None


def test_group_is_told_with_its_members() -> None:
    """A summary counts members, the whole lists them."""
    member = GroupMember(
        member_id="m", instance_id=None, client_id="c", client_host="/127.0.0.1", assignment=(("t", 1),)
    )
    described = GroupDescription(
        group="g",
        type=GroupType.CONSUMER,
        state=GroupState.STABLE,
        protocol_type="consumer",
        protocol="uniform",
        members=(member,),
        coordinator=2,
        offsets_partition=7,
    )
    report = GroupReport(group="g", description=described)
    assert (report.summary()["members"], report.summary()["state"]) == (1, "Stable")
    members = plain(report)["members"]
    assert isinstance(members, list)
    assert [told["assignment"] for told in members] == [[{"topic": "t", "partition": 1}]]
