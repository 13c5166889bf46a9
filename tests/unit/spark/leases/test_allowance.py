"""What a lease of a distributor may do by the word of its source."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from isthmus.errors import ClusterError
from isthmus.ledger.documents.kinds import AllowanceDocument, Document, SwitchDocument, encode_document
from isthmus.ledger.log import Poll
from isthmus.ledger.records import Deletion, Entry
from isthmus.model.naming import SourceTopic
from isthmus.model.trees.switching import Allowance, TargetChoice
from isthmus.spark.leases.allowance import SourceWord
from isthmus.spark.leases.tenure import SILENCE_S

LINK = "t.a.2"
SLOT = 3


def lane(end: int) -> Allowance:
    return Allowance(SourceTopic("x"), uuid.UUID(int=4), 0, 5, end)


def poll(
    *changes: Document | Deletion,
    at: int = 0,
    asked_at: float = 0.0,
    at_end: bool = True,
    is_other_log: bool = False,
) -> Poll:
    """What a look showed from offset `at` on."""
    entries = [
        Entry(offset, each.key, None if isinstance(each, Deletion) else encode_document(each))
        for offset, each in enumerate(changes, at)
    ]
    return Poll(entries, asked_at, at_end, is_other_log)


def word_of(allow: Callable[[Iterable[Allowance]], None] = lambda _: None) -> SourceWord:
    return SourceWord(LINK, SLOT, "c", allow)


def stated(target: str, end: int) -> AllowanceDocument:
    return AllowanceDocument(link=LINK, target=target, lanes=(lane(end),))


def chosen(choice: TargetChoice, link: str = LINK) -> SwitchDocument:
    return SwitchDocument(link=link, choice=choice, since_ms=0)


def test_nothing_is_written_without_what_the_source_took() -> None:
    """What the lease had the ledger take has come back to it: all that was written there before it has heard. That
    holds from the moment before it was sent, and for as long as at the target. Which of the two is heard of first, that
    it was taken or that it is there, is of no account.
    """
    word = word_of()
    assert word.write_until < 0
    word.take(poll(at=7))
    word.note_mark(10.0, 7)
    assert word.write_until < 0
    word.take(poll(word.mark, at=7, at_end=False))
    assert word.write_until == 10.0 + SILENCE_S
    word.take(poll(word.mark, at=8))
    assert word.write_until == 10.0 + SILENCE_S
    word.note_mark(12.0, 8)
    assert word.write_until == 12.0 + SILENCE_S


def test_a_leader_that_is_cut_off_lets_nobody_write() -> None:
    """It says for ever that there is nothing more, and what others have the ledger take it does not know: who reads
    there has had its last word in time, whoever else's is heard still.
    """
    word = word_of()
    word.note_mark(10.0, 7)
    word.take(poll(word.mark, at=7))
    word.note_mark(13.0, 9)
    for _ in range(3):
        word.take(poll())
    word.take(poll(SourceWord(LINK, SLOT + 1, "c", lambda _: None).mark, at=8))
    assert word.write_until == 10.0 + SILENCE_S


def test_who_does_not_show_what_was_taken_is_not_who_leads() -> None:
    """One mark may be taken after the answer left; that the one before it is missing too tells. What a quota holds back
    tells nothing.
    """
    word = word_of()
    word.note_mark(10.0, 7)
    assert not word.is_elsewhere(poll(asked_at=12.0), 7)
    word.note_mark(13.0, 8)
    assert not word.is_elsewhere(poll(asked_at=12.9), 7)
    assert not word.is_elsewhere(poll(asked_at=13.0, at_end=False), 7)
    assert word.is_elsewhere(poll(asked_at=13.0), 7)
    assert not word.is_elsewhere(poll(asked_at=13.0), 8)
    word.take(poll(word.mark, word.mark, at=7))
    assert not word.is_elsewhere(poll(asked_at=13.0), 9)


def test_why_nothing_may_be_written_is_told() -> None:
    """With what the source said last, as long as it takes nothing; that another leaf is chosen is told elsewhere."""
    word = word_of()
    word.note_refusal(ClusterError("WRITE is missing", hint="Grant it."))
    found = word.withheld(5.0)
    assert found is not None
    assert (found.message.endswith(": WRITE is missing"), found.hint) == (True, "Grant it.")
    word.note_mark(5.0, 7)
    word.take(poll(word.mark, at=7))
    assert word.withheld(6.0) is None
    told = word.withheld(16.0)
    assert told is not None
    assert told.message.endswith("so the lease may not write to c")
    word.take(poll(chosen(TargetChoice(target="d", wanted="d")), at=8))
    assert word.withheld(16.0) is None


def test_a_ledger_that_begins_anew_has_taken_nothing() -> None:
    """What lies at the same offset there is another word."""
    word = word_of()
    word.note_mark(10.0, 7)
    word.take(poll(at=0, is_other_log=True))
    word.take(poll(word.mark, at=7))
    assert word.write_until < 0


def test_whoever_forces_another_leaf_bars_the_present_one() -> None:
    """At once, and until that is taken back; a wish in good order bars nobody, nor does one of another distributor.
    A leaf that gets what it lacks gets it from another lease than one that was there before it was gone.
    """
    word = word_of()
    word.note_mark(20.0, 0)
    word.take(poll(word.mark))
    choice = TargetChoice(target="c", wanted="c")
    for document, is_barred in (
        (chosen(choice.ask_for("d")), False),
        (chosen(choice.ask_for("d", is_forced=True)), True),
        (chosen(choice.ask_for("c")), False),
        (chosen(TargetChoice(target="d", wanted="d"), link="t.b.2"), False),
        (chosen(TargetChoice(target="d", wanted="d")), True),
        (chosen(TargetChoice(target="d", wanted="d", finishes="c")), True),
        (chosen(choice), False),
        (chosen(TargetChoice(target="c", wanted="c", finishes="d")), True),
    ):
        word.take(poll(document, at=1))
        assert (word.write_until < 0) == is_barred, document


def test_only_the_newest_statement_counts() -> None:
    """Of those that were read together an earlier one may be of an earlier time at the same target."""
    heard: list[Allowance] = []
    word = word_of(heard.extend)
    word.take(poll(stated("c", 900), at_end=False))
    word.take(poll(stated("d", 700)))
    assert heard == []
    word.take(poll(stated("c", 900), stated("d", 700), stated("c", 40)))
    word.take(poll())
    assert heard == [lane(40)]
