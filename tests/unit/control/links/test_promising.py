"""What the ledger keeps of what gateways acknowledged, verb by verb."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.control.links.promising import beside, kept_alone, promised_again
from isthmus.ledger.documents import PromisedDocument
from isthmus.ledger.records import Deletion
from isthmus.model.declaration import attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.promotion import Promised
from isthmus.model.synchrony import OutOfSync
from isthmus.model.transactions import OpenTransaction, TransactionState

HELD = Promised(out_of_sync=OutOfSync.AVAILABLE, was_in_sync=True, is_open=False, is_heard=True)
MAPS = {each: NamespaceMap.parse(f"{each}-:copy-{each}-") for each in "abc"}
A, B, C = (attachment(each) for each in MAPS.values())
PAST = PromisedDocument(link="l", said="1", maps=(A, B), promised=replace(HELD, until_ms=5), verb="detach")


@pytest.mark.parametrize(
    ("verb", "maps", "kept", "until_ms"),
    [
        ("failover", (C,), (C,), -1),
        ("failover", (A, C), (A, C), 5),
        ("detach", (C,), (A, B, C), 5),
    ],
)
def test_what_was_detached_before_counts_where_it_is_meant(
    verb: str, maps: tuple[str, ...], kept: tuple[str, ...], until_ms: int
) -> None:
    """Of a failover that lets go of some of it too; and `detach` has one document for all."""
    document = PromisedDocument(link="l", said="2", maps=maps, promised=HELD, verb=verb)
    found = beside(document, PAST)
    assert (found.maps, found.promised.until_ms) == (kept, until_ms)
    assert beside(document, None) == document


def test_of_namespaces_that_are_over_nothing_is_kept() -> None:
    """Of others it is, and what was committed there; what is found anew takes the place of what there was."""
    ours, theirs = (OpenTransaction(f"copy-{each}-1", 0, TransactionState.MIRRORED, 7, 0, 0, 0, 1) for each in "ab")
    past = replace(PAST, committed=(ours, theirs))
    failover = replace(PAST, verb="failover", maps=(A,))
    rest = replace(PAST, maps=(B,), committed=(theirs,))
    assert kept_alone([past, failover], [MAPS["a"]], None) == [rest, Deletion("promised/l")]
    assert kept_alone([past, failover], [MAPS["a"]], failover) == [failover, rest]
    assert kept_alone([past], MAPS.values(), None) == [Deletion("promised/l/detach")]
    assert kept_alone([past], [MAPS["c"]], None) == []


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
