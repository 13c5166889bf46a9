"""What is written of a gateway that an operator says has ended."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from isthmus.errors import PlanRefused
from isthmus.ledger.documents.declared import DeclarationDocument
from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.ledger.documents.kinds import Document, GatewayDocument, GatewayPairDocument, MovableGatewayDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.links.forgottengateways import _check_gone, forgotten_in
from isthmus.local.host import whereabouts
from isthmus.memory.links import LedgerMemory
from isthmus.model.gateways.registered import RegisteredGateway
from isthmus.model.gateways.synchrony import SYNC, FirstUnheld, OutOfSync, SyncState
from isthmus.model.links.declaration import ASYNC, Declaration
from isthmus.model.naming import SourceTopic
from isthmus.model.registers import MODE, Author, change_registers
from tests.unit.memory.pairs import _KNOWN

IDS: Final = {"east": "S", "west": "T"}
GATEWAY: Final = GatewayDocument(
    gateway="gone", host="h", pid=1, advertised="kafka:19092", ports=(1, 2), version="1", since_ms=0, beat=7
)
MOVABLE: Final = MovableGatewayDocument(gateway="gone", described="kafka:19092", serves="S", ports=2)
WORD: Final = GatewayPairDocument(
    link="orders", gateway="gone", said=_KNOWN.mode_said, by="gone", state=SyncState.OUT_OF_SYNC, since_ms=1,
    out_of_sync=OutOfSync.AVAILABLE, lets_go=(FirstUnheld(SourceTopic("a"), 0, 5),),
)  # fmt: skip


def declared(*modes: str) -> Declaration:
    """The link, which was synchronous at first, once it was declared to have these modes."""
    known = _KNOWN
    for mode in modes:
        known = known.join(change_registers(known.registers, {MODE: mode}, Author(by="anna", at_ms=9, where="T")))
    return known


def ledger(known: Declaration, *documents: Document) -> LedgerMemory:
    """A ledger that has the link as it is known there, and these documents."""
    said = DeclarationDocument(link="orders", cluster="T", registers=known.registers)
    words = {each.key: each for each in (said, *documents) if isinstance(each, DocumentOfLink)}
    unlinked = {each.key: each for each in documents if each.key not in words}
    of = SimpleNamespace(documents=words)
    return cast(LedgerMemory, SimpleNamespace(links=["orders"], find_unlinked=lambda: unlinked, of=lambda _: of))


def written(east: Declaration, west: Declaration) -> dict[str, list[LedgerChange]]:
    """What is written where the ledgers of a link's clusters know it so."""
    ledgers = {"east": ledger(east, GATEWAY, MOVABLE, WORD), "west": ledger(west, MOVABLE, WORD)}
    return forgotten_in(ledgers, IDS, {"gone"})


def test_what_it_has_let_go_stays_in_both_ledgers_until_it_is_proven() -> None:
    """A failover goes by what the target's ledger has, where the source is lost before anybody has proven it."""
    movable = Deletion(MOVABLE.key)
    assert written(declared(), declared()) == {
        "east": [replace(GATEWAY, has_ended=True), movable],
        "west": [movable],
    }


def test_a_link_is_synchronous_if_one_ledger_has_heard_so() -> None:
    """The newer word counts, as it does for gateways."""
    older, newer = declared(ASYNC), declared(ASYNC, SYNC)
    assert written(older, newer) == written(newer, older) == written(newer, newer)
    assert written(older, newer) != written(older, older)


def test_nothing_is_left_of_it_where_no_link_is_synchronous() -> None:
    """Nobody asks for its words any more."""
    west = [Deletion(MOVABLE.key), Deletion(WORD.key)]
    assert written(declared(ASYNC), declared(ASYNC)) == {"east": [Deletion(GATEWAY.key), *west], "west": west}


def test_one_that_runs_here_is_not_forgotten() -> None:
    """Whichever ledger tells of it: one that may not write to its own is in others."""
    us = whereabouts()
    here: dict[str, Any] = {"host_id": us.host_id, "pid": us.pid, "process_start": us.process_start}
    one = RegisteredGateway(ids=("gone",), address="kafka:19092", serves="east", silent=1)
    for each in (replace(GATEWAY, **here), replace(MOVABLE, **here)):
        with pytest.raises(PlanRefused, match="runs on this host"):
            _check_gone(one, {"gone"}, [each])
    _check_gone(one, {"gone"}, [GATEWAY, MOVABLE, WORD])
