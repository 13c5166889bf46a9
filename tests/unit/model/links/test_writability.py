"""The state of a namespace: what was said of it, and what every leader shows."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.kafka.access import PermissionType, Rule
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.links.writability import NamespaceState, Probe, Wish, namespace_state, waits_for
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem
from tests.unit.model.rules import allow

LOCAL = Namespace(prefix="local-")
ALLOW = allow("local-")
DENY = allow("local-", permission=PermissionType.DENY)
CLOSED, OPEN = frozenset({ALLOW, DENY}), frozenset({ALLOW})
SILENT = Problem("it does not answer")
TRANSACTION = OpenTransaction("local-1", 0, TransactionState.OPEN, 7, 0, 0, 12, 3, transactional_id="app")
ENFORCED = Wish(is_reserved=True, is_enforced=True, keep=("User:isthmus",), made=(DENY,))
RELEASED = Wish(is_reserved=False, made=(DENY,))


def state(wish: Wish, probe: Probe) -> tuple[NamespaceState, tuple[str, ...]]:
    left = waits_for(LOCAL, wish, probe)
    return namespace_state(wish.is_reserved, left), left


def test_a_reservation_counts_once_every_broker_knows_its_rules() -> None:
    """Until then it is RESERVING, and names the brokers that would let somebody in, or that do not tell."""
    rules: dict[int, frozenset[Rule] | Problem] = {2: CLOSED, 1: OPEN, 3: SILENT}
    assert state(ENFORCED, Probe(rules=rules)) == (
        NamespaceState.RESERVING,
        (
            "broker 1 has the rule WRITE by User:alice on topics local-*",
            "broker 3 does not report its access rules: it does not answer",
        ),
    )
    assert state(ENFORCED, Probe(rules={1: CLOSED, 2: CLOSED, 3: CLOSED})) == (NamespaceState.RESERVED, ())


def test_who_still_writes_is_named() -> None:
    """An open transaction and a log that grows hold a reservation up, whether rules are asked for or not."""
    probe = Probe(transactions=(TRANSACTION,), grown=("local-2-0",))
    left = ("a transaction of app is open in local-1-0", "a producer writes to local-2-0")
    for wish in (Wish(is_reserved=True), ENFORCED):
        assert state(wish, replace(probe, rules={1: CLOSED})) == (NamespaceState.RESERVING, left)
    untold = Probe(problem=SILENT)
    assert state(Wish(is_reserved=True), untold)[0] is NamespaceState.RESERVING


def test_what_a_link_has_open_is_no_writers() -> None:
    """A transaction without a coordinator, by which a link copies an aborted one, does not hold a reservation up."""
    probe = Probe(transactions=(TRANSACTION._replace(state=TransactionState.MIRRORED),))
    assert state(Wish(is_reserved=True), probe) == (NamespaceState.RESERVED, ())


def test_a_release_counts_once_no_broker_has_a_rule_of_it() -> None:
    """Until then it is RELEASING; rules of others are none of its own, and writers are welcome."""
    assert state(RELEASED, Probe(rules={1: OPEN, 2: CLOSED})) == (
        NamespaceState.RELEASING,
        ("broker 2 still has the rule DENY WRITE by User:alice on topics local-*",),
    )
    assert state(RELEASED, Probe(rules={1: SILENT}))[0] is NamespaceState.RELEASING
    theirs = frozenset({replace(DENY, principal="User:bob")})
    busy = Probe(rules={1: theirs}, transactions=(TRANSACTION,), grown=("local-2-0",))
    assert state(RELEASED, busy) == (NamespaceState.WRITABLE, ())
    assert state(Wish(is_reserved=False), busy) == (NamespaceState.WRITABLE, ())


@given(
    st.builds(Wish, is_reserved=st.booleans(), is_enforced=st.booleans(), made=st.sampled_from([(), (DENY,)])),
    st.dictionaries(st.integers(1, 3), st.sampled_from([CLOSED, OPEN, SILENT])),
    st.booleans(),
)
def test_a_state_says_which_way_it_goes(
    wish: Wish, rules: dict[int, frozenset[Rule] | Problem], is_written: bool
) -> None:
    """What was said decides between the two ends, and what is left whether one is reached; one broker more that is
    not through never completes a state.
    """
    probe = Probe(rules=rules, grown=("local-2-0",) if is_written else ())
    found, left = state(wish, probe)
    reserved = {NamespaceState.RESERVED, NamespaceState.RESERVING}
    assert (found in reserved) is wish.is_reserved
    assert bool(left) is (found in {NamespaceState.RESERVING, NamespaceState.RELEASING})
    more = replace(probe, rules={**rules, 4: SILENT})
    assert set(left) <= set(state(wish, more)[1])
