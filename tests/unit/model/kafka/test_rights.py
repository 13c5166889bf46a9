"""How rights are named, and how one asks for them."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.rights import Right, grant, on_cluster, on_group, on_topic, on_transactional_id


@pytest.mark.parametrize(
    ("right", "told"),
    [
        (on_topic("READ", "orders"), "READ on topic orders"),
        (on_topic("READ", "a", "b"), "READ on topics a, b"),
        (on_topic("READ", *"abcdefghijkl"), "READ on topics a, b, c, d, e, f, g, h, i, j and 2 more"),
        (on_topic("DESCRIBE"), "DESCRIBE on the topics concerned"),
        (on_group("DESCRIBE", "billing"), "DESCRIBE on group billing"),
        (on_transactional_id("WRITE", "isthmus.l.groups"), "WRITE on transactional id isthmus.l.groups"),
        (on_cluster("ALTER"), "ALTER on the cluster"),
    ],
)
def test_a_right_by_operation_and_resource(right: Right, told: str) -> None:
    """In the words of Kafka's ACLs; many names are cut short."""
    assert str(right) == told


def test_advice() -> None:
    """It says whom to grant the right, and what happens then if that is not plain."""
    assert grant(on_cluster("ALTER"), "west") == "Grant ALTER on the cluster to the principal of west."
    told = grant(on_group("READ", "g"), "east", "it goes on then")
    assert told == "Grant READ on group g to the principal of east; it goes on then."
