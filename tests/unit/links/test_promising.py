"""What the ledger keeps of what gateways acknowledged, verb by verb."""

from __future__ import annotations

from dataclasses import replace

from isthmus.ledger.documents.kinds import PromisedDocument
from isthmus.ledger.records import Deletion
from isthmus.links.promising import by_register, counting, join_promised, kept_alone, promised_again
from isthmus.model.gateways.synchrony import OutOfSync
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.links.declaration import attachment
from isthmus.model.links.promotion import Promised
from isthmus.model.namespace import NamespaceMap

HELD = Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True)
MAPS = {each: NamespaceMap.parse(f"{each}-:copy-{each}-") for each in "abc"}
A, B, C = (attachment(each) for each in MAPS.values())
PAST = PromisedDocument(link="l", said="1", maps=(A, B), promised=replace(HELD, until_ms=5), verb="detach",
                        is_whole=True)  # fmt: skip


def test_what_was_found_of_parts_counts_where_they_are_meant() -> None:
    """Of a failover that lets go of several too; what is not proven of one of them is not proven of all."""
    failover = PromisedDocument(link="l", said="2", maps=(C,), promised=HELD, is_whole=True)
    kept = by_register([*PAST.parts, *failover.parts])
    assert kept.keys() == {A, B, C}
    found = join_promised(kept, "failover")
    assert found is not None
    assert (found.maps, found.verb, found.is_whole, found.promised) == ((A, B, C), "failover", True, PAST.promised)
    kept[C] = replace(failover, is_whole=False)
    found = join_promised(kept, "failover")
    assert found is not None
    assert (found.said, found.is_whole, found.promised.is_open) == ("2", False, True)
    assert join_promised({}, "failover") is None


def test_what_a_failover_was_to_tell_of_what_it_detached_counts_beside_what_is_attached() -> None:
    """Interrupted before gateways had heard of it, and given again for more than that: of what is attached still it has
    found nothing that counts.
    """
    failover = PromisedDocument(link="l", said="2", maps=(A, B), promised=HELD)
    kept = by_register(failover.parts)
    assert counting(kept, {A, B}, {A}, is_synchronous=True).keys() == {A}
    assert counting(kept, {A, B}, {A, B}, is_synchronous=True).keys() == {A, B}
    assert not counting(kept, {B}, (), is_synchronous=True)
    detached = by_register(PAST.parts)
    assert counting(detached, {A, C}, (), is_synchronous=True).keys() == {A}


def test_of_namespaces_that_are_over_nothing_is_kept() -> None:
    """Of others it is, each by itself; what is found anew takes the place of what there was."""
    one, other = PAST.parts
    assert {one.key, other.key}.isdisjoint({PAST.key, "promised/l"})
    failover = replace(PAST, verb="failover", maps=(A,))
    assert kept_alone(PAST.parts, [MAPS["a"]], None) == [Deletion(one.key)]
    assert kept_alone(PAST.parts, [MAPS["a"]], failover) == failover.parts
    assert kept_alone(PAST.parts, MAPS.values(), None) == [Deletion(one.key), Deletion(other.key)]
    assert kept_alone(PAST.parts, [MAPS["c"]], None) == []


def test_what_an_older_release_wrote_of_all_counts() -> None:
    """It has one document for all that a verb let go of, of which others keep what is theirs."""
    ours, theirs = (OpenTransaction(f"copy-{each}-1", 0, TransactionState.MIRRORED, 7, 0, 0, 0, 1) for each in "ab")
    past = replace(PAST, committed=(ours, theirs))
    failover = replace(PAST, verb="failover", maps=(A,))
    rest = replace(PAST, maps=(B,), committed=(theirs,))
    assert by_register([failover, past]) == {A: failover, B: past}
    assert by_register([*failover.parts, replace(failover, said="0")]) == {A: failover.parts[0]}
    assert kept_alone([past, failover], [MAPS["a"]], None) == [rest, Deletion("promised/l")]
    assert kept_alone([past, failover], [MAPS["a"]], failover) == [*failover.parts, rest, Deletion("promised/l")]
    assert kept_alone([past], MAPS.values(), None) == [Deletion("promised/l/detach")]


def test_what_was_found_is_told_by_whoever_ends_a_failover() -> None:
    """All was released by then: what it has found is in the ledger alone."""
    meant, other = NamespaceMap.parse("a-:b-"), NamespaceMap.parse("c-:d-")
    past = replace(PAST, maps=(attachment(meant),), is_whole=True)
    failover = replace(past, verb="failover", promised=HELD)
    assert promised_again([past, failover], [meant, other]) == HELD
    assert promised_again([past], [meant]) == past.promised
    assert promised_again([replace(failover, is_whole=False)], [meant]) == replace(HELD, is_open=True)
    assert promised_again([past, failover], [other]) is None
    assert promised_again([], [meant]) is None
