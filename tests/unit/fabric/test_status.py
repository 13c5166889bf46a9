"""The status of a fabric, as a program has it."""

from __future__ import annotations

from isthmus.fabric.status import FabricStatus
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain
from testing.values.standing import link_at, topic_at


def test_it_is_a_tuple_of_links() -> None:
    """Whoever took the status apart before still can; JSON is the same."""
    link = link_at(topic_at("orders"))
    status = FabricStatus([link])
    assert status.as_dict() == {"links": [link.as_dict()]}
    assert status == (link,)
    assert status[0] is link
    assert plain(status) == [link.as_dict()]


def test_it_is_shown_as_a_table() -> None:
    """`repr` is one line, with what is wrong."""
    link = link_at(topic_at("orders", problem=Problem("too large")))
    status = FabricStatus([link])
    assert repr(status) == (
        "<FabricStatus: 1 link: 1 ACTIVE; 1 topic: 1 ACTIVE; lag 0 records, 1 topic has a problem; "
        "east-west/orders: too large>"
    )
    assert "orders" in str(status)
    assert "too large" in status._repr_html_()
    assert str(link) == str(status)
    assert str(FabricStatus()) == "0 links: none; 0 topics: none; lag 0 records"
