"""What a lease of a distributor may do by the word of its source."""

from __future__ import annotations

import uuid

from isthmus.ledger.documents import AllowanceDocument, Document, SwitchDocument, encoded
from isthmus.ledger.log import Poll
from isthmus.ledger.records import Entry
from isthmus.model.naming import SourceTopic
from isthmus.model.switching import Allowance, TargetChoice
from isthmus.spark.allowance import SourceWord
from isthmus.spark.tenure import SILENCE_S

LINK = "t.a.2"


def lane(end: int) -> Allowance:
    return Allowance(SourceTopic("x"), uuid.UUID(int=4), 0, 5, end)


def poll(*documents: Document, asked_at: float = 0.0, at_end: bool = True) -> Poll:
    entries = [Entry(offset, each.key, encoded(each)) for offset, each in enumerate(documents)]
    return Poll(entries, asked_at, at_end, is_other_log=False)


def stated(target: str, end: int) -> AllowanceDocument:
    return AllowanceDocument(link=LINK, target=target, lanes=(lane(end),))


def chosen(choice: TargetChoice, link: str = LINK) -> SwitchDocument:
    return SwitchDocument(link=link, choice=choice, since_ms=0)


def test_nothing_is_written_without_all_of_the_ledger() -> None:
    """What was asked for when it was read to its end counts, and for as long as at the target."""
    word = SourceWord(LINK, "c", lambda _: None)
    assert word.write_until < 0
    word.take(poll(asked_at=10.0, at_end=False))
    assert word.write_until < 0
    word.take(poll(asked_at=11.0))
    word.take(poll(asked_at=12.0, at_end=False))
    assert word.write_until == 11.0 + SILENCE_S


def test_whoever_forces_another_leaf_bars_the_present_one() -> None:
    """At once, and until that is taken back; a wish in good order bars nobody, nor does one of another distributor.
    A leaf that gets what it lacks gets it from another lease than one that was there before it was gone.
    """
    word = SourceWord(LINK, "c", lambda _: None)
    choice = TargetChoice(target="c", wanted="c")
    for document, is_barred in (
        (chosen(choice.asked("d")), False),
        (chosen(choice.asked("d", is_forced=True)), True),
        (chosen(choice.asked("c")), False),
        (chosen(TargetChoice(target="d", wanted="d"), link="t.b.2"), False),
        (chosen(TargetChoice(target="d", wanted="d")), True),
        (chosen(TargetChoice(target="d", wanted="d", finishes="c")), True),
        (chosen(choice), False),
        (chosen(TargetChoice(target="c", wanted="c", finishes="d")), True),
    ):
        word.take(poll(document, asked_at=20.0))
        assert (word.write_until < 0) == is_barred, document


def test_only_the_newest_statement_counts() -> None:
    """Of those that were read together an earlier one may be of an earlier time at the same target."""
    heard: list[Allowance] = []
    word = SourceWord(LINK, "c", heard.extend)
    word.take(poll(stated("c", 900), at_end=False))
    word.take(poll(stated("d", 700)))
    assert heard == []
    word.take(poll(stated("c", 900), stated("d", 700), stated("c", 40)))
    word.take(poll())
    assert heard == [lane(40)]
