"""What it takes for a link to become synchronous, and what a failover tells of one that was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from isthmus.config.declared import declared_link
from isthmus.errors import PlanRefused
from isthmus.ledger.documents.kinds import NamespaceDocument
from isthmus.memory.declared import Declared, Merged
from isthmus.model.gateways.synchrony import FirstUnheld, OutOfSync, Synchrony, SyncState
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.declaration import ASYNC, SOURCE, TARGET, Declaration, attachment, letting_go
from isthmus.model.links.progress import LinkProgress, PartitionProgress, topic_of
from isthmus.model.links.promotion import LeftPartition, Promised
from isthmus.model.links.writability import KeptBy
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.registers import MODE, change_registers
from isthmus.model.state import LinkState
from isthmus.model.text.plain import plain
from isthmus.namespaces.namespace import ASYNC_ONLY
from isthmus.synchronous.synchronous import GivenUp, check_declared, check_synchronous, still_missing
from tests.unit.memory.pairs import _AUTHOR, _EAST, _KNOWN, _MAP, _WEST

_LINK = declared_link(_KNOWN, _EAST, _WEST)


def progress(lane: LaneState = LaneState.ACTIVE, *, lag: int = 0, kept: KeptBy = KeptBy.ACCESS_RULES) -> LinkProgress:
    partition = PartitionProgress(
        topic=TargetTopic("remote-1"), partition=0, state=lane, target_end=7, source_end=7 + lag
    )
    return LinkProgress(
        link="orders",
        source="east",
        target="west",
        state=LinkState.ACTIVE,
        topics=(topic_of(TargetTopic("remote-1"), SourceTopic("local-1"), [partition]),),
        namespaces=_LINK.namespaces,
        reserved={_MAP.target: kept},
    )


def declared(namespaces: Mapping[str, Mapping[Namespace, NamespaceDocument]] | None = None) -> Declared:
    return Declared(ids={"east": "S", "west": "T"}, links=Merged({"orders": _KNOWN}), namespaces=namespaces or {})


def test_what_follows_and_is_closed_may_be_synchronous() -> None:
    """Nothing is in the way."""
    check_synchronous(declared(), _KNOWN, progress(), _LINK)


@pytest.mark.parametrize(
    ("found", "link", "why"),
    [
        (progress(lag=5), _LINK, "it is CATCHING_UP, and has to be FOLLOWING"),
        (replace(progress(), state=LinkState.STOPPED), _LINK, "it is DISCONNECTED"),
        (progress(kept=KeptBy.AGREED_ONLY), _LINK, r"namespace remote-\* of west is not closed by access rules"),
        (progress(), replace(_LINK, topics=replace(_LINK.topics, offsets=OffsetPolicy.MAPPED)), "offsets are mapped"),
    ],
)
def test_what_is_in_the_way_is_named(found: LinkProgress, link: Link, why: str) -> None:
    """Each with what to do."""
    with pytest.raises(PlanRefused, match=f"link orders cannot be synchronous: .*{why}") as told:
        check_synchronous(declared(), _KNOWN, found, link)
    assert "isthmus" in (told.value.hint or "")


@pytest.mark.parametrize(("alias", "prefix"), [("east", "local-"), ("west", "remote-1"), ("east", "")])
def test_a_namespace_for_asynchronous_links_stays_out(alias: str, prefix: str) -> None:
    """On either side, and if it overlaps what is attached."""
    namespace = Namespace(prefix=prefix)
    cluster = {"east": "S", "west": "T"}[alias]
    document = NamespaceDocument(
        kind="topic", prefix=prefix, cluster=cluster, registers=change_registers((), {ASYNC_ONLY: True}, _AUTHOR)
    )
    with pytest.raises(PlanRefused, match=f"of {alias} is for asynchronous links only"):
        check_synchronous(declared({alias: {namespace: document}}), _KNOWN, progress(), _LINK)


@pytest.mark.parametrize(
    ("mode", "source", "source_id", "is_in_the_way"),
    [
        ("sync", "local-1", "S", True),
        ("sync", "", "S", True),
        ("async", "local-1", "S", False),
        ("sync", "other-", "S", False),
        ("sync", "local-1", "U", False),
    ],
)
def test_topics_wait_for_one_follower(mode: str, source: str, source_id: str, is_in_the_way: bool) -> None:
    """A gateway holds an acknowledgement for one link: of another one to a third cluster nothing would be held."""
    said = {
        SOURCE: {"cluster_id": source_id, "alias": "east"},
        TARGET: {"cluster_id": "N", "alias": "north"},
        MODE: mode,
        attachment(NamespaceMap.parse(f"{source}:copy-")): True,
    }
    other = Declaration(name="copies", registers=change_registers((), said, _AUTHOR))
    known = replace(declared(), links=Merged({"orders": _KNOWN, "copies": other}))
    if not is_in_the_way:
        return check_synchronous(known, _KNOWN, progress(), _LINK)
    with pytest.raises(PlanRefused, match="is in the synchronous link copies already"):
        check_synchronous(known, _KNOWN, progress(), _LINK)
    return None


def test_a_link_of_the_file_is_to_be_declared() -> None:
    """The file states no mode: the hint says what to do."""
    with pytest.raises(PlanRefused, match="only declared links can be synchronous"):
        check_declared("orders", is_of_file=True)


def test_what_lets_all_go_makes_it_asynchronous() -> None:
    """A synchronous link of which nothing is left holds nothing; a part of it may go, and the rest is as it was."""
    assert letting_go("failover", [_MAP], _KNOWN)[MODE] == ASYNC
    other = NamespaceMap.parse("more-:other-")
    assert MODE not in letting_go("failover", [other], _KNOWN)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Promised(out_of_sync=OutOfSync.CONSISTENT, was_in_sync=True, is_open=False, is_heard=False),
         "0 records that a gateway acknowledged with acks=all are missing, unless"),
        (Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True),
         r"\(available\): 0 records that a gateway acknowledged with acks=all are missing$"),
        (Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=False),
         "the source cannot be asked, and with `available` it may have answered without this cluster since$"),
        (Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True,
                      lets_go=(FirstUnheld(SourceTopic("local-1"), 0, 7),)),
         "1 partition answered without the follower: local-1-0 from offset 7$"),
        (Promised(out_of_sync=OutOfSync.CONSISTENT, was_in_sync=False, is_open=True, is_heard=True),
         "never in sync: nothing that was acknowledged is known to be here$"),
        (Promised(out_of_sync=OutOfSync.CONSISTENT, was_in_sync=True, is_open=True, is_heard=True),
         "a gateway has not proven that all it answered before is here$"),
        (Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True, unaware=("g",)),
         "what g answered since the failover began is not known, as it has not heard of it$"),
        (Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True, until_ms=0),
         "at 1970-01-01T00:00:00.*: answers since then were not held; nothing that .* before is missing$"),
    ],
)  # fmt: skip
def test_a_failover_tells_what_was_promised(found: Promised, told: str) -> None:
    """Nothing is called kept that is not proven: 0, the offsets, or why nobody can tell."""
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(found.in_words)
    is_zero = "0 records" in found.in_words
    assert (plain(found)["partitions"] == []) is is_zero


def test_what_is_told_of_some_namespaces_and_of_others_is_the_worse() -> None:
    """In each respect: nothing that is told of the one holds for the other."""
    good = Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True)
    lets_go = FirstUnheld(SourceTopic("local-1"), 0, 7), FirstUnheld(SourceTopic("local-1"), 0, 5)
    bad = Promised(
        out_of_sync=OutOfSync.AVAILABLE,
        was_in_sync=False,
        is_open=True,
        is_heard=False,
        lets_go=lets_go[:1],
        unaware=("g",),
        until_ms=5,
    )
    assert good.join(good) == good
    assert good.join(bad) == bad.join(good) == bad
    found = bad.join(replace(bad, lets_go=lets_go[1:], unaware=("f",), until_ms=3))
    assert (found.lets_go, found.unaware, found.until_ms) == (lets_go[1:], ("f", "g"), 3)


def test_what_came_to_the_follower_since_is_not_missing() -> None:
    """An offset before the follower's end is there, unless it is in a transaction that is aborted there."""
    left = LeftPartition(topic=TargetTopic("remote-1"), partition=0, source_topic=SourceTopic("local-1"), target_end=8)
    lets_go = (FirstUnheld(SourceTopic("local-1"), 0, 7), FirstUnheld(SourceTopic("local-1"), 1, 7))
    found = Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True, lets_go=lets_go)
    assert still_missing(found, [left]).lets_go == lets_go[1:]
    state = TransactionState.MIRRORED
    aborted = [OpenTransaction("remote-1", 0, state, 1 << 62, 0, 0, first, held_records=1) for first in (6, 7)]
    assert still_missing(found, [left], aborted[1:]).lets_go == lets_go
    assert still_missing(found, [left], aborted).lets_go == lets_go


def test_what_a_downgrade_gives_up() -> None:
    """How it stood, and by which offsets."""
    standing = Synchrony(
        state=SyncState.OUT_OF_SYNC, reason="DIVERGED", lets_go=(FirstUnheld(SourceTopic("local-1"), 0, 7),)
    )
    told = GivenUp(link="orders", target="west", standing=standing).in_words
    assert "it was OUT_OF_SYNC" in told
    assert "local-1-0 from offset 7" in told
