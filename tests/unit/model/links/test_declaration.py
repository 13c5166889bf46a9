"""What a declaration says of the namespaces that its link let go of."""

from __future__ import annotations

from isthmus.model.links.declaration import LET_GO, Declaration, attachment, letting_go, said_name
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import Author, change_registers

A, B = NamespaceMap.parse("a-:x-"), NamespaceMap.parse("b:y", is_exact=True)
ATTACHED = Declaration(
    name="l",
    registers=change_registers((), {attachment(A): True, attachment(B): True}, Author(by="ann", at_ms=1, where="W")),
)


def said(known: Declaration, values: dict[str, object], at_ms: int = 2, where: str = "W") -> Declaration:
    """The declaration after somebody has said this."""
    return known.join(change_registers(known.registers, values, Author(by="ann", at_ms=at_ms, where=where)))


def test_each_verb_knows_what_it_let_go_of_last() -> None:
    """Not what another did before or since, nor what is attached again, and saying it again says nothing new."""
    left = said(said(ATTACHED, letting_go("detach", [B], ATTACHED)), letting_go("failover", [A], ATTACHED))
    assert (left.let_go_by("failover"), left.let_go_by("detach"), left.detached) == ((A,), (), (A, B))
    assert said(left, letting_go("failover", [A], ATTACHED), at_ms=9) == left
    assert said(left, {attachment(A): True}).let_go_by("failover") == ()
    assert said(ATTACHED, letting_go("reverse", [B, A], ATTACHED)).let_go_by("reverse") == (A, B)
    assert said_name(LET_GO) == "let-go"


def test_an_older_release_does_not_say_which_verb_it_was() -> None:
    """So that no verb takes for its own what was detached by then."""
    left = said(ATTACHED, {attachment(A): False})
    assert left.detached == (A,)
    assert [left.let_go_by(verb) for verb in ("detach", "promote", "failover", "reverse")] == [()] * 4


def test_of_verbs_that_were_given_apart_the_later_one_goes_on() -> None:
    """Whoever merges, and in which order: the other one has to name what it means."""
    east = said(ATTACHED, letting_go("detach", [A, B], ATTACHED), at_ms=5, where="E")
    west = said(ATTACHED, letting_go("failover", [A], ATTACHED), at_ms=6)
    for both in (east.join(west.registers), west.join(east.registers)):
        assert (both.let_go_by("failover"), both.let_go_by("detach"), both.detached) == ((A,), (), (A, B))


def test_who_knows_of_a_detachment_is_told_apart_from_who_knows_of_the_one_before() -> None:
    """Though the same namespaces are let go of again, by the same verb: that is not even written anew."""
    left = said(ATTACHED, letting_go("failover", [A], ATTACHED))
    back = said(left, {attachment(A): True})
    again = said(back, letting_go("failover", [A], back))
    assert len({each.attached_said for each in (ATTACHED, left, back, again)}) == 4
    assert said(again, {"settings/x": 1}).attached_said == again.attached_said
