"""The judge of the soak holds the maps that are stored of mapped lanes against both logs."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from isthmus.ledger.documents.kinds import MapDocument, encode_document
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange
from soak.history import Event
from soak.judge.claims import i9_stored_map, i12_ledger_soundness
from soak.judge.evidence import Case, Lane, Log, Seen, paired
from soak.judge.progress import i8_torn_views
from soak.judge.records import i6_no_aborted_read
from soak.judge.stored import Entry, Place, TopicIds, stored_maps
from soak.judge.timeline import Sufferings, Timeline
from soak.naming import Names

NAMES = Names("copies.")
IDS = {"soak.t": TopicIds(uuid.UUID(int=1), uuid.UUID(int=2))}
QUIET: Event = {"kind": "phase", "at": 99.0, "name": "quiet"}


def log(records: list[tuple[int, str]], *, high: int, hidden: frozenset[int] = frozenset()) -> Log:
    """A log of these offsets and ids that begins at 0."""
    seen = tuple(
        Seen(offset=offset, id=each, content=b"", key=b"", is_null=False, is_sound=True) for offset, each in records
    )
    visible = frozenset(offset for offset, _ in records) - hidden
    return Log(start=0, stable=high, high=high, records=seen, visible=visible)


SOURCE = log([(at, f"w.0.{at}") for at in (0, 1, 2, 4, 5, 6, 7)], high=8)
"""At 3 the source has a control record."""
THERE = ("x.0.0", "w.0.0", "w.0.1", "w.0.2", "w.0.4", "w.0.5", "x.0.1", "w.0.6", "w.0.7")
TARGET = log(list(enumerate(THERE)), high=9)
"""Where strangers' records stand at 0 and 6."""


def document(name: str, ranges: list[list[int]], source: int, target: int, **more: Any) -> Entry:
    """One segment, as JSON."""
    number = sum(each[2] for each in ranges)
    cursor = {"source_offset": source, "target_offset": target, "ordinal": number, **more.pop("cursor", {})}
    told = {
        "topic": "copies.t",
        "partition": 0,
        "ranges": ranges,
        "cursor": cursor,
        "source_topic_id": str(uuid.UUID(int=1)),
        "target_topic_id": str(uuid.UUID(int=2)),
        **more,
    }
    return f"map/soak/copies.t-0/{name}".encode(), json.dumps(told).encode()


FIRST = document("1", [[0, 1, 3]], 4, 4)
SECOND = document("2", [[4, 4, 2], [6, 7, 2]], 8, 9)


def lane(*entries: Entry, target: Log = TARGET) -> Lane:
    """The lane, with the map that these records of the ledger make."""
    found = Lane(topic="soak.t", partition=0, source=SOURCE, target=target, keeps_offsets=False)
    stored = stored_maps(entries, "soak", NAMES, IDS)
    return replace(found, pairing=paired(SOURCE, target, {}), stored=stored.get(("soak.t", 0)))


def judged(found: Lane, *events: Event) -> set[str]:
    """What does not hold of a map, by the judge's short names."""
    case = Case(events=events, lanes=(found,))
    rules = (i9_stored_map, i12_ledger_soundness)
    return {each.invariant.split()[0] for rule in rules for each in rule(case, Sufferings(case.events))}


def test_a_map_that_is_so_holds() -> None:
    """All of it, what it was before, and what is said twice, of other links, of other topics or by nobody."""
    assert judged(lane(FIRST, SECOND), QUIET) == set()
    older = document("2", [[4, 4, 1]], 5, 5)
    others = [(b"map/other/copies.t-0/1", FIRST[1]), (b"topic/soak/copies.t", b"{}"), (b"\xff", b"\x00"), (b"", None)]
    forged = [(b"map/soak/copies.t-0/9", b"[]"), (b"map/soak/copies.t-0/8", b"{}"), (None, b"")]
    again = document("0", [[1, 2, 2]], 4, 4)
    assert judged(lane(*others, older, FIRST, SECOND, *forged, again), QUIET) == set()
    before = document("7", [[0, 90, 3]], 4, 93, target_topic_id=str(uuid.UUID(int=9)))
    assert judged(lane(before, FIRST, SECOND), QUIET) == set(), "of a topic that had its name before"
    assert judged(lane(FIRST)) == set(), "the rest is found in the target's log"


@pytest.mark.parametrize(
    "entries",
    [
        (FIRST, document("2", [[4, 4, 2], [6, 6, 2]], 8, 8)),
        (FIRST, document("2", [[4, 4, 4]], 8, 9)),
        (document("1", [[0, 1, 4]], 4, 4), document("2", [[4, 4, 2], [6, 7, 2]], 8, 9)),
        (FIRST, document("2", [[4, 4, 2], [6, 7, 3]], 9, 10)),
        (FIRST, document("2", [[5, 4, 1], [4, 5, 1], [6, 7, 2]], 8, 9)),
        (FIRST, SECOND, document("3", [[2, 7, 1]], 3, 8)),
        (FIRST, document("2", [[4, 4, 2], [7, 8, 1]], 8, 9)),
        (FIRST, (SECOND[0], None)),
        (),
    ],
    ids=["elsewhere", "through a stranger", "a control record", "beyond", "swapped", "twice", "a hole", "lost", "none"],
)
def test_a_map_that_is_not_so_is_found(entries: tuple[Entry, ...]) -> None:
    """One range that is wrong, or missing when all is quiet, is a violation of I9."""
    assert "I9" in judged(lane(*entries), QUIET)


def test_a_map_lacks_nothing_before_the_place_it_has_come_to() -> None:
    """Also while it goes on; what lies behind needs not be in it yet."""
    assert judged(lane(document("1", [[0, 1, 2]], 4, 4))) == {"I9"}
    assert judged(lane(document("1", [[0, 1, 2]], 2, 3))) == set()


def test_a_map_may_lack_what_the_source_has_lost() -> None:
    """Whoever compares both logs to find a place again cannot know where that lay; what is there still has to be."""
    whole = lane(document("1", [[0, 1, 2], [4, 4, 2], [6, 7, 2]], 8, 9))
    for gone, found in ((2, set[str]()), (1, {"I9"})):
        cleaned = replace(SOURCE, records=tuple(each for each in SOURCE.records if each.offset != gone))
        assert judged(replace(whole, source=cleaned, is_compacted=True), QUIET) == found


def test_what_the_targets_cleaner_took_has_been_there() -> None:
    """A record whose key comes again at the target says nothing of how far that was; one that is the last of its key
    does.
    """
    source = replace(
        SOURCE, records=tuple(each._replace(key=b"b" if each.offset == 4 else b"a") for each in SOURCE.records)
    )
    cleaned = replace(TARGET, records=tuple(each for each in TARGET.records if each.id in {"w.0.6", "w.0.7"}))
    found = [paired(source, cleaned, {}, is_compacted=kind).source_end(5) for kind in (False, True)]
    assert found == [0, 4]
    assert paired(SOURCE, cleaned, {}, is_compacted=True).source_end(5) == 6
    early = replace(cleaned, records=cleaned.records[:1])
    assert paired(SOURCE, early, {}, is_compacted=True).source_end(9) == 7, "the last one is not there"
    first = replace(cleaned, records=TARGET.records[1:2])
    assert paired(SOURCE, first, {}, is_compacted=True).source_end(9) == 1, "none of its key came later"
    aborted = log([(at, f"w.0.{at}") for at in range(8)], high=8, hidden=frozenset({7}))
    last = replace(cleaned, records=TARGET.records[-1:])
    assert paired(aborted, last, {}, is_compacted=True).source_end(5) == 0, "what was aborted takes nobody's place"


def test_a_claim_of_more_than_is_there_is_found() -> None:
    """Whoever wrote that all before an offset is at the target, when it was not, lied; the last word may be true."""
    lost = replace(TARGET, records=tuple(each for each in TARGET.records if each.id != "w.0.7"), high=8)
    assert "I12" in judged(lane(FIRST, SECOND, target=lost))
    early = document("1", [[0, 1, 3]], 6, 4)
    assert judged(lane(early, FIRST, SECOND), QUIET) == {"I12"}
    beyond = document("1", [[0, 1, 3]], 4, 40)
    assert judged(lane(beyond, FIRST, SECOND), QUIET) == {"I12"}
    suffered = {"kind": "suffered", "at": 0.0, "topic": "soak.t", "what": "target truncated"}
    assert "I12" not in judged(lane(beyond, FIRST, SECOND), QUIET, suffered)


def test_what_is_written_after_going_back_takes_the_place_of_what_was_before() -> None:
    """Where the target had lost records the lane wrote them again, somewhere else."""
    gone_back = document("2", [[4, 4, 2], [6, 7, 2]], 8, 9, cursor={"rewound": 1})
    lost = document("1", [[0, 1, 3], [4, 4, 3]], 7, 7)
    suffered = {"kind": "suffered", "at": 0.0, "topic": "soak.t", "what": "target truncated"}
    assert judged(lane(lost, gone_back), QUIET, suffered) == set()
    assert judged(lane(lost, SECOND), QUIET, suffered) == {"I9"}


def test_what_the_product_writes_is_read() -> None:
    """The judge has a decoder of its own, of the same documents."""
    written = MapDocument(
        link="soak",
        topic=TargetTopic("copies.t"),
        partition=0,
        segment="7.1.0",
        ordinal_begin=0,
        ranges=(MappedRange(0, 1, 3), MappedRange(4, 4, 2)),
        cursor=Cursor(6, 5, 6, rewound=2),
        taken_at=40,
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=2),
    )
    found = stored_maps([(written.key.encode(), encode_document(written))], "soak", NAMES, IDS)["soak.t", 0]
    assert found.places() == [Place(0, 1, 3), Place(4, 4, 2)]
    assert (found.newest.source_next, found.newest.target_next, found.newest.reach) == (6, 6, (40, 2, 5, 6))


def test_of_several_writers_the_last_one_counts() -> None:
    """What a former one says of the same records, and says late, it may have lost again."""
    late = document("late", [[4, 7, 2]], 8, 9, cursor={"rewound": 1, "ordinal": 5}, taken_at=1)
    found = lane(FIRST, document("2", [[4, 4, 2], [6, 7, 2]], 8, 9, taken_at=2), late).stored
    assert found is not None
    assert found.places() == [Place(0, 1, 3), Place(4, 4, 2), Place(6, 7, 2)]


def test_committed_records_that_are_hidden_at_a_mapped_target_are_found() -> None:
    """They are there once, and consumers of committed data do not see them."""
    found = lane(FIRST, SECOND)
    assert list(i6_no_aborted_read(found)) == []
    hidden = replace(TARGET, visible=TARGET.visible - {5})
    assert len(list(i6_no_aborted_read(lane(FIRST, SECOND, target=hidden)))) == 1


def looked_at(at: float, side: str, high: int) -> Event:
    ends = {"side": side, "begun": at - 0.1, "changed": {"soak.t:0": [0, high, high]}, "unseen": []}
    return {"kind": "ends", "at": at, **ends}


@pytest.mark.parametrize(
    ("seen", "others", "torn"),
    [(5, [], 1), (4, [], 0), (8, [], 1), (9, [], 0), (5, [[5, 5]], 0)],
    ids=["a part", "nothing", "all but one", "all", "where another begins"],
)
def test_torn_views_of_mapped_lanes_are_counted(seen: int, others: list[list[int]], torn: int) -> None:
    """A view of the target that ends within a transaction of the source, whatever its offsets are there."""
    spans = [[4, 7], *others]
    transactions = [
        {"kind": "txn", "at": 0.0, "topic": "soak.t", "ended": "committed", "spans": [[0, *span]]} for span in spans
    ]
    case = Case(events=(looked_at(1, "target", seen), *transactions), lanes=(lane(FIRST, SECOND),))
    assert i8_torn_views(case, Timeline(case.events, case.lanes)) == torn
