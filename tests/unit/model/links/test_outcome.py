"""How the end of a run is shown."""

from __future__ import annotations

from isthmus.errors import Fenced
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.state import LinkState
from testing.values.standing import link_at, topic_at


def test_an_outcome_is_a_table_of_its_topics() -> None:
    """With what was copied, and whether that was all."""
    links = (link_at(topic_at("orders"), topic_at("clicks")),)
    outcome = RunOutcome(links=links, caught_up=frozenset({"east-west"}), is_to_catch_up=True, duration_s=2.0)
    assert str(outcome).splitlines()[0] == "20 records (1,400 bytes) in 2.0 s, caught up"
    assert "orders" in str(outcome)
    assert repr(outcome) == "<RunOutcome: 20 records (1,400 bytes) in 2.0 s, caught up>"


def test_an_outcome_names_what_ended_its_links() -> None:
    """Wherever it is shown."""
    failed = link_at(topic_at("orders"), state=LinkState.FAILED)
    outcome = RunOutcome(links=(failed,), errors={"east-west": Fenced("taken over", hint="Nothing to do.")})
    for shown in (str(outcome), repr(outcome), outcome._repr_html_()):
        assert "east-west has ended: taken over. Nothing to do." in shown
