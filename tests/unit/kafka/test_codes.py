"""What an error code of a broker becomes."""

from __future__ import annotations

import pytest

from isthmus.errors import BrokerRefused, NotAuthorized
from isthmus.kafka import codes
from isthmus.model.kafka.rights import on_cluster, on_group, on_topic, on_transactional_id

RIGHTS = on_group("READ", "billing"), on_topic("READ", "orders"), on_transactional_id("WRITE", "isthmus.l.groups")


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (codes.GROUP_AUTHORIZATION_FAILED, "READ on group billing"),
        (codes.TOPIC_AUTHORIZATION_FAILED, "READ on topic orders"),
        (codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "WRITE on transactional id isthmus.l.groups"),
    ],
)
def test_the_right_that_is_missing_is_named(code: int, missing: str) -> None:
    """Of several that a request needs the code tells which it is; so does the message, and the hint asks for it."""
    error = codes.error_for(code, "committing for group billing", *RIGHTS, cluster="west")
    assert isinstance(error, NotAuthorized)
    begin, _, name = error.message.partition(f"{missing} is missing")
    assert begin == "west does not allow committing for group billing: "
    assert name == f" ({codes.name_of(code)})"
    assert error.hint == f"Grant {missing} to the principal of west."


def test_a_code_for_something_else_than_was_thought_of() -> None:
    """Then the first right is named: better than none."""
    assert codes.missing_right(codes.CLUSTER_AUTHORIZATION_FAILED, *RIGHTS) is RIGHTS[0]


def test_other_codes() -> None:
    """They are told with the broker's own words, and no right is asked for."""
    error = codes.error_for(codes.INVALID_RECORD, "writing", on_cluster("ALTER"), cluster="west", detail="too old")
    assert isinstance(error, BrokerRefused)
    assert error.message == "west refused writing: INVALID_RECORD (too old)"
    assert "Grant" not in error.hint
