"""The judge of runs with gateways: each law finds what breaks it, and leaves alone what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from soak.gateway.judge import (
    Answered,
    Committed,
    Record,
    Trial,
    Word,
    answers_of,
    client_of,
    g1_held,
    g2_positions,
    g3_nothing_lost,
    g4_once_in_order,
    g5_aborted,
    g6_own_answers,
    g7_own_ids,
    judged,
    words_of,
)

LOG: Final = tuple(Record(offset, f"exact.0.{offset}", True) for offset in range(5))
SOUND: Final = Trial(
    is_consistent=False,
    in_force=100.0,
    failed_over=200.0,
    answered=tuple(
        Answered(
            client="exact",
            records=((0, each.offset, each.id),),
            sent=110.0 + each.offset,
            at=110.5 + each.offset,
            asked=110.6 + each.offset,
            highs={0: each.offset + 1},
        )
        for each in LOG
    ),
    committed=(
        Committed(client="member", positions={0: 3}, sent=120.0, at=120.1, asked=120.2, told=120.3, there={0: 3}),
    ),
    exact=frozenset({"exact"}),
    source={0: LOG},
    target={0: LOG},
    producers=frozenset({7 << 40}),
)
LATE: Final = replace(SOUND.answered[-1], highs={0: 4})
"""An answer whose record the follower did not have: at offset 4, of 114.5, asked at 114.6."""
MISSING: Final = {0: LOG[:4]}
UNSEEN: Final = {0: (*LOG[:4], LOG[4]._replace(is_visible=False))}


def given_up(
    offset: int = 4, begin: float = 114.0, end: float = float("inf"), partition: int = 0, key: str = "a"
) -> Word:
    """What a gateway had written down."""
    return Word(key=key, begin=begin, end=end, is_out=True, lets_go={partition: offset})


def test_what_is_sound_breaks_no_law() -> None:
    """Nothing is found where nothing is wrong."""
    assert judged(SOUND) == []


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, True),
        ({"words": (given_up(),)}, False),
        ({"words": (given_up(3),)}, False),
        ({"words": (given_up(5),)}, True),
        ({"words": (given_up(partition=1),)}, True),
        # Written down after the answer had come, or taken back before the follower was asked.
        ({"words": (given_up(begin=114.55),)}, True),
        ({"words": (given_up(begin=112.0, end=114.55),)}, True),
        # Its gateway went on having it in its next word, or another one wrote it down too late.
        ({"words": (given_up(begin=112.0, end=114.55), given_up(3, begin=114.54))}, False),
        ({"words": (given_up(begin=112.0, end=114.55), given_up(5, begin=114.54))}, True),
        ({"words": (given_up(begin=112.0, end=114.55), given_up(begin=114.54, key="b"))}, True),
        ({"words": (given_up(),), "is_consistent": True}, True),
        # Before the link was in sync, and after it was given up, nobody is promised anything.
        ({"in_force": 114.1}, False),
        ({"failed_over": 114.4}, False),
    ],
)
def test_an_answer_waits_for_the_follower(changes: dict[str, Any], is_found: bool) -> None:
    """Or the ledger has the offset, from before the answer until after the follower was asked."""
    assert bool(list(g1_held(replace(SOUND, answered=(LATE,), **changes)))) is is_found


def test_a_follower_that_does_not_tell_proves_nothing() -> None:
    """Neither of records nor of positions."""
    silent = replace(SOUND.committed[0], there=None)
    assert list(g1_held(replace(SOUND, answered=(replace(LATE, highs={}),)))) == []
    assert list(g2_positions(replace(SOUND, committed=(silent,)))) == []


def test_all_partitions_of_a_transaction_are_there() -> None:
    """One that is missing is found."""
    whole = replace(LATE, records=((0, 3, "exact.0.3"), (1, 0, "exact.1.1")), highs={0: 4, 1: 0}, is_commit=True)
    (found,) = g1_held(replace(SOUND, answered=(whole,)))
    assert "exact.1.1 at 1:0 committed" in str(found)


@pytest.mark.parametrize(
    ("there", "words", "is_consistent", "is_found"),
    [
        ({0: 3}, (), False, False),
        ({0: 2}, (), False, True),
        ({0: 4}, (), False, True),
        ({}, (), False, True),
        ({0: 2}, (given_up(begin=119.0),), False, False),
        ({0: 2}, (given_up(begin=119.0),), True, True),
        ({0: 2}, (given_up(begin=110.0, end=119.0),), False, True),
        # Written down after the answer had come.
        ({0: 2}, (given_up(begin=120.15),), False, True),
    ],
)
def test_positions_are_equal(
    there: dict[int, int], words: tuple[Word, ...], is_consistent: bool, is_found: bool
) -> None:
    """Unless the ledger had the link out of sync meanwhile, and it prefers to be available."""
    committed = (replace(SOUND.committed[0], there=there),)
    trial = replace(SOUND, committed=committed, words=words, is_consistent=is_consistent)
    assert bool(list(g2_positions(trial))) is is_found


@pytest.mark.parametrize(
    ("client", "sent", "is_found"), [("member", 120.25, False), ("member", 120.35, True), ("other", 120.25, True)]
)
def test_a_position_may_be_that_of_the_next_commit(client: str, sent: float, is_found: bool) -> None:
    """Of the same client, if it was sent before the follower had told its position."""
    first = replace(SOUND.committed[0], there={0: 4})
    then = replace(first, client=client, positions={0: 4}, sent=sent, at=120.4, asked=120.5, told=120.6)
    assert bool(list(g2_positions(replace(SOUND, committed=(first, then))))) is is_found


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, True),
        ({"words": (given_up(),)}, False),
        ({"words": (given_up(),), "given_up": {0: 4}}, False),
        # The command names less than is missing, or the ledger had taken it back.
        ({"words": (given_up(),), "given_up": {}}, True),
        ({"words": (given_up(),), "given_up": {0: 5}}, True),
        ({"words": (given_up(end=150.0),)}, True),
        ({"words": (given_up(),), "is_consistent": True}, True),
    ],
)
def test_nothing_is_missing_after_a_failover(changes: dict[str, Any], is_found: bool) -> None:
    """But what was written down. What consumers at read_committed do not see is missing."""
    for log in (MISSING, UNSEEN):
        assert bool(list(g3_nothing_lost(replace(SOUND, target=log, **changes)))) is is_found


def test_an_answer_without_an_offset_is_about_where_its_record_stands() -> None:
    """It is held like any other, and its record has to be there."""
    late = replace(LATE, records=((0, -1, LOG[4].id),))
    assert [each.invariant for each in judged(replace(SOUND, answered=(late,)))] == ["G1 held"]
    lost = replace(late, records=((0, -1, "exact.0.9"),))
    assert [each.invariant for each in judged(replace(SOUND, answered=(lost,)))] == [
        "G3 nothing lost",
        "G6 own answers",
    ]


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0)])
def test_an_idempotent_producer_is_neither_doubled_nor_out_of_order(order: tuple[int, ...]) -> None:
    """At either side; of others it is no matter."""
    log = tuple(Record(offset, f"exact.0.{number}", True) for offset, number in enumerate(order))
    for trial in (replace(SOUND, source={0: log}), replace(SOUND, target={0: log})):
        assert len(list(g4_once_in_order(trial))) == 1
    assert list(g4_once_in_order(replace(SOUND, exact=frozenset(), source={0: log}))) == []


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        (g5_aborted, {"aborted": frozenset({"exact.0.2"})}),
        (g6_own_answers, {"source": {0: (*LOG[:4], Record(4, "exact.0.9", True))}}),
        (g6_own_answers, {"source": {0: (*LOG[:4], Record(4, "exact.0.4", False))}}),
        (g6_own_answers, {"source": {0: LOG[:4]}}),
        (g7_own_ids, {"producers": frozenset({7 << 40, 1003})}),
    ],
)
def test_what_else_is_found(law: Callable[[Trial], Any], broken: dict[str, Any]) -> None:
    """Aborted records that are seen, answers about other records, ids that another cluster gives as well."""
    assert list(law(SOUND)) == []
    assert list(law(replace(SOUND, **broken))) != []


def test_what_gateways_said() -> None:
    """A word counts from when it was not there yet until the next one was read; who takes it back ends it."""

    def word(key: str, state: str | None, at: float, lets_go: list[list[Any]]) -> dict[str, Any]:
        times = {"written": at - 0.1, "absent": at, "heard": at + 1}
        return {"kind": "word", "key": key, "state": state, "lets_go": lets_go, **times}

    events = [
        word("a", "IN_SYNC", 1.0, []),
        {"kind": "fault", "name": "other"},
        word("a", "OUT_OF_SYNC", 5.0, [["orders", 2, 17]]),
        word("b", "SYNCING", 6.0, []),
        word("a", None, 9.0, []),
    ]
    assert words_of(events) == [
        Word(key="a", begin=1.0, end=6.0, is_out=False, lets_go={}),
        Word(key="a", begin=5.0, end=10.0, is_out=True, lets_go={2: 17}),
        Word(key="b", begin=6.0, end=float("inf"), is_out=False, lets_go={}),
    ]


def test_what_clients_were_told() -> None:
    """A commit of a transaction tells of records and of positions; an abort of what is to be seen nowhere."""
    events: list[dict[str, Any]] = [
        {"kind": "ack", "id": "c.1.1", "partition": 1, "offset": 5, "sent": 1.0, "at": 2.0, "asked": 3.0, "highs": {}},
        {"kind": "commit", "records": [[0, 7, "c.0.1"]], "sent": 4.0, "at": 5.0, "asked": 6.0, "highs": {"0": 8},
         "positions": {"0": 3}, "positions_asked": 7.0, "positions_told": 7.5, "there": {"0": 3}},
        {"kind": "abort", "ids": ["c.0.2"]},
        {"kind": "over"},
    ]  # fmt: skip
    answered, committed, aborted = answers_of("c", events)
    assert [(each.records, each.highs, each.is_commit) for each in answered] == [
        (((1, 5, "c.1.1"),), {}, False),
        (((0, 7, "c.0.1"),), {0: 8}, True),
    ]
    assert [(each.positions, each.there, each.asked) for each in committed] == [({0: 3}, {0: 3}, 7.0)]
    assert aborted == {"c.0.2"}


def test_whose_records_they_are() -> None:
    """Java's have no partition in their ids."""
    assert [client_of("python-idempotent.3.18"), client_of("9.44")] == ["python-idempotent", "9"]
