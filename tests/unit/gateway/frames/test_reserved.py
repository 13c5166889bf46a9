"""Which names a gateway takes for reserved, by the records of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isthmus.gateway.arriving import take_reserved
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.ledger.documents.kinds import NamespaceDocument, encode_document
from isthmus.ledger.records import Entry
from isthmus.model.links.writability import KEPT
from isthmus.model.namespace import NamespaceKind
from isthmus.model.registers import RESERVED, Author, change_registers

HERE: Final = "E"


def record(
    offset: int,
    prefix: str,
    cluster: str = HERE,
    *,
    kind: NamespaceKind = "topic",
    is_reserved: bool = True,
    kept: Sequence[str] = (),
) -> Entry:
    """What a ledger holds of a namespace; `kept` by rules for these principals."""
    said = {RESERVED: is_reserved, **({KEPT: list(kept)} if kept else {})}
    registers = change_registers((), said, Author(by="somebody", at_ms=1, where=cluster))
    document = NamespaceDocument(
        kind=kind,
        prefix=prefix,
        is_exact=False,
        cluster=cluster,
        registers=registers,
    )
    return Entry(offset, document.key, encode_document(document))


def held(*entries: Entry) -> ReservedNames:
    """What is taken for reserved then."""
    found = ReservedNames()
    take_reserved(found, entries, HERE)
    return found


def test_what_is_reserved_here_and_is_not_closed_by_rules() -> None:
    """A namespace of another cluster, one that rules close, and one that is released are none; the newest record of
    each counts, in whichever order readers tell them, and a deletion is one.
    """
    kept = record(0, "kept.")

    assert held(kept).holds("topic", "kept.orders")
    assert not held(kept).holds("group", "kept.orders")
    assert held(record(0, "kept.", kind="group")).holds("group", "kept.a")
    assert not held(kept).holds("topic", "keptorders")
    assert not held(record(0, "kept.", "another cluster"))
    assert not held(record(0, "kept.", kept=["User:link"]))
    released = record(7, "kept.", is_reserved=False)
    assert not held(kept, released)
    assert not held(released, kept)
    assert not held(kept, Entry(9, kept.key, None))
    assert held(kept, released, record(8, "kept."))


def test_namespaces_that_overlap_are_each_for_themselves() -> None:
    """As long as any of them is reserved a name is; another log has none of what was before, whatever its offsets."""
    whole, part = record(0, "kept."), record(1, "kept.orders.")
    found = held(whole, part)
    take_reserved(found, [record(2, "kept.", is_reserved=False)], HERE)
    assert (found.holds("topic", "kept.orders.a"), found.holds("topic", "kept.a")) == (True, False)

    found.forget()
    assert not found
    take_reserved(found, [whole], HERE)
    assert found.holds("topic", "kept.a")
