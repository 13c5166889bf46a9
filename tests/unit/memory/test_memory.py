"""What the ledger says of a link, read from its beginning."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import (
    ControllerDocument,
    Document,
    GatewayDocument,
    LeaseDocument,
    PauseDocument,
    ProgressDocument,
    encode_document,
)
from isthmus.ledger.log import News
from isthmus.ledger.records import Entry
from isthmus.memory import links as memory
from isthmus.memory.links import HEARING_S, LinkMemory, recorded_topics
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.state import ControllerState
from isthmus.topics.recording import build_document

NOW_MS = 1_000_000


def controller(generation: int) -> ControllerDocument:
    """A controller's word that it is alive."""
    return ControllerDocument(link="l", generation=generation, beat=1, started_ms=0)


def progress(generation: int, *positions: tuple[int, int]) -> ProgressDocument:
    """A task's word on partitions and their positions."""
    reports = tuple(
        LaneReport(key=LaneKey(TargetTopic("orders"), partition), state=LaneState.ACTIVE, position=position)
        for partition, position in positions
    )
    return ProgressDocument(link="l", slot=0, controller=generation, generation=1, is_full=False, reports=reports)


def read(documents: Iterable[Document | str], link: str = "l") -> LinkMemory:
    """The recollection of a ledger with these documents, or deletions of keys, a second apart."""
    return LinkMemory.of(
        link,
        (
            Entry(
                offset,
                document if isinstance(document, str) else document.key,
                None if isinstance(document, str) else encode_document(document),
                NOW_MS + 1000 * offset,
            )
            for offset, document in enumerate(documents)
        ),
    )


def test_partial_progress_adds_up() -> None:
    """Tasks report what moved; everything they said before still counts."""
    known = read([controller(1), progress(1, (0, 5), (1, 7)), progress(1, (0, 6))])
    assert {key.partition: r.position for key, r in known.reports.items()} == {0: 6, 1: 7}


def test_earlier_controllers_no_longer_count() -> None:
    """A new controller starts with a clean slate, and what old tasks say late is not heard."""
    known = read([controller(1), progress(1, (0, 5)), controller(2), progress(1, (0, 9))])
    assert known.reports == {}


def test_controller_is_alive_while_it_is_heard() -> None:
    """A controller counts as alive for ten seconds after its last word, and as gone when it said farewell."""
    alive = read([controller(1)])
    assert alive.controller_state(NOW_MS + 5_000) is ControllerState.ALIVE
    assert alive.controller_state(NOW_MS + 60_000) is ControllerState.SILENT
    assert read([]).controller_state(NOW_MS) is ControllerState.NONE
    ended = read([controller(1), "controller/l"])
    assert (ended.controller_state(NOW_MS), ended.heard_age_s(NOW_MS + 3_000)) == (ControllerState.NONE, 2.0)


def test_what_was_last_known_outlives_its_controller() -> None:
    """Positions of an earlier controller's lanes stay known, with their age; their states do not."""
    known = read([controller(1), progress(1, (0, 5)), controller(2)])
    key = LaneKey(TargetTopic("orders"), 0)
    assert (known.reports, known.last_known[key].position) == ({}, 5)
    assert known.report_age_s(key, NOW_MS + 61_000) == 60.0
    assert known.report_age_s(LaneKey(TargetTopic("orders"), 1), NOW_MS) is None


def test_a_lane_whose_task_has_ended_is_lost_until_another_reports_it() -> None:
    """The ledger says which tasks have ended, and the next one reports all its lanes at once."""
    key, later = LaneKey(TargetTopic("orders"), 0), NOW_MS + 60_000

    def lease(ended_through: int, controller: int = 1) -> LeaseDocument:
        return LeaseDocument(
            link="l", slot=0, controller=controller, generation=2, revision=1, lanes=(), ended_through=ended_through
        )

    known = read([controller(1), progress(1, (0, 5)), lease(1)])
    assert known.has_lost_task(key, later)
    assert not known.has_lost_task(key, NOW_MS + 5_000)
    assert not known.has_lost_task(LaneKey(TargetTopic("orders"), 1), later)
    assert not read([controller(1), progress(1, (0, 5)), lease(0)]).has_lost_task(key, later)
    assert not read([controller(1), progress(1, (0, 5)), lease(1, controller=2)]).has_lost_task(key, later)


def test_a_task_confirms_the_lanes_it_leaves_out() -> None:
    """A document holds what changed, so it is as new a word on the other lanes of its task."""
    known = read([controller(1), progress(1, (0, 5), (1, 7)), progress(1, (0, 6))])
    assert known.report_age_s(LaneKey(TargetTopic("orders"), 1), NOW_MS + 2_000) == 0.0


def test_pauses_come_and_go() -> None:
    """A pause counts until it is taken back."""
    whole = PauseDocument(link="l", since_ms=0)
    one = PauseDocument(link="l", topic=TargetTopic("orders"), since_ms=0)
    assert read([controller(1), whole, one]).paused.parts == {None, "orders"}
    assert read([controller(1), whole, one, whole.key]).paused.parts == {"orders"}


@pytest.mark.parametrize("is_mapped", [False, True])
def test_what_a_topic_was_begun_with_is_known_again(is_mapped: bool) -> None:
    """The topics on both sides, and whether offsets are the same or mapped."""
    ids = TopicIds(
        source_topic=SourceTopic("orders"), source=uuid.UUID(int=1), target=uuid.UUID(int=2), is_mapped=is_mapped
    )
    known = read([build_document("l", TargetTopic("copies"), ids)])
    assert recorded_topics("l", known.documents) == {"copies": ids}
    assert recorded_topics("other", known.documents) == {}


def test_other_links_are_not_read() -> None:
    """A ledger is shared by all links into a cluster."""
    assert read([controller(1), progress(1, (0, 5))], link="other").reports == {}


def test_a_source_that_is_lost_is_not_heard_by_what_is_told_of_it() -> None:
    """Its age counts from the last report before; a task that never heard it does not forget where it ended."""
    key = LaneKey(TargetTopic("orders"), 0)

    def told(state: LaneState, source_end: int, generation: int = 1) -> ProgressDocument:
        stable_end = min(source_end, 4)
        reports = (LaneReport(key=key, state=state, position=3, source_end=source_end, stable_end=stable_end),)
        return replace(progress(1), generation=generation, reports=reports)

    lost = [told(LaneState.SOURCE_UNAVAILABLE, 5), progress(1), told(LaneState.SOURCE_UNAVAILABLE, -1, generation=2)]
    documents = [controller(1), told(LaneState.ACTIVE, 5), *lost]
    known = read(documents)
    assert known.source_age_s(key, NOW_MS + 61_000) == 60.0 + HEARING_S
    assert (known.last_known[key].source_end, known.last_known[key].stable_end) == (5, 4)
    known = read([*documents, told(LaneState.ACTIVE, 6, generation=2)])
    assert known.source_age_s(key, NOW_MS + 61_000) == 56.0 + HEARING_S
    assert known.source_age_s(LaneKey(TargetTopic("orders"), 1), NOW_MS) is None


_SAID = (
    *(controller(generation) for generation in (1, 2)),
    *(progress(generation, (0, generation), (generation, 7)) for generation in (1, 2)),
    *(PauseDocument(link="l", topic=TargetTopic(topic), since_ms=since_ms) for topic in "ab" for since_ms in (1, 2)),
    *(
        build_document(
            "l",
            TargetTopic("copies"),
            TopicIds(source_topic=SourceTopic(topic), source=uuid.UUID(int=1), target=uuid.UUID(int=2)),
        )
        for topic in "ab"
    ),
)


@given(st.lists(st.tuples(st.sampled_from(_SAID), st.booleans()), max_size=30))
def test_what_was_replaced_need_not_be_read(said: list[tuple[Document, bool]]) -> None:
    """A ledger that is looked at as a whole amounts to what it does read record by record."""
    entries = [
        Entry(offset, document.key, None if is_deleted else encode_document(document), NOW_MS + 1000 * offset)
        for offset, (document, is_deleted) in enumerate(said)
    ]
    one_by_one = LinkMemory("l")
    for entry in entries:
        one_by_one.take(entry)
    assert LinkMemory.of("l", entries) == one_by_one


class Log:
    """A ledger of which each look shows what was written by then, and takes a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.written: list[Entry] = []
        self.is_other_log = False
        monkeypatch.setattr(memory, "lasting_s", lambda: self.now)

    async def look(self) -> News:
        """What is new; it takes half a second."""
        found, self.written, self.now = self.written, [], self.now + 0.5
        return News(found, self.is_other_log)


def test_for_how_long_nothing_came_is_seen_and_not_reckoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock of who wrote it showed. What the first look brings may have been there for any time."""
    log, known = (
        Log(monkeypatch),
        memory.LedgerMemory(Client(Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)))),
    )
    monkeypatch.setattr(known, "_view", log)
    beat = GatewayDocument(gateway="g", host="h", pid=1, advertised="a:1", ports=(1, 1), version="1", since_ms=0)

    def after(wait_s: float, *, is_written: bool) -> tuple[float, float]:
        log.now += wait_s
        if is_written:
            log.written = [
                Entry(0, each.key, encode_document(each), NOW_MS + 3_600_000) for each in (controller(1), beat)
            ]
        asyncio.run(known.refresh())
        (one,) = known.unlinked_silences(NOW_MS).values()
        assert one.told_s == 0.0, "its clock is ahead"
        return one.least_s, one.most_s

    assert after(0.0, is_written=True) == (0.0, math.inf)
    assert after(3.0, is_written=False) == (3.0, math.inf)
    assert after(2.0, is_written=True) == (0.0, 3.0), "it came since the look before began"
    assert after(4.0, is_written=False) == (4.0, 7.5)
    log.is_other_log = True
    assert after(1.0, is_written=True) == (0.0, math.inf), "another ledger is read from its beginning"
