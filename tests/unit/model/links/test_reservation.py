"""Which rules keep others out of a reserved namespace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.kafka.access import PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.links.reservation import CLOSED, is_enforceable, reservation, rule_values, rules_of
from isthmus.model.namespace import Namespace
from tests.unit.model.rules import allow

REMOTE = Namespace(prefix="remote-")

RULES = st.builds(
    allow,
    st.sampled_from(["remote-", "remote-a", "re", "local-", "*"]),
    st.sampled_from(["WRITE", "READ", "ALL", "DELETE", "DESCRIBE"]),
    st.sampled_from(["User:alice", "User:bob", "User:isthmus"]),
    pattern=st.sampled_from(list(RulePattern)),
    permission=st.sampled_from(list(PermissionType)),
    host=st.sampled_from(["*", "10.0.0.1"]),
)


@given(st.lists(RULES, max_size=8))
def test_what_is_missing_closes_it(rules: list[Rule]) -> None:
    """With the rules that are missing nobody but the link may write, and these are about nothing else."""
    found = reservation(REMOTE, rules, ["User:isthmus"])
    assert all(rule.permission is PermissionType.DENY and rule.name == "remote-" for rule in found.missing)
    assert "User:isthmus" not in {rule.principal for rule in found.missing}
    after = reservation(REMOTE, [*rules, *found.missing], ["User:isthmus"])
    assert (after.open, after.missing) == ((), ())
    assert rules_of(rule_values(rules)) == tuple(rules)


def test_everybody_cannot_be_denied_without_denying_the_link() -> None:
    """A rule for all users is told; only a link that is a super user can do without them all."""
    rules = [allow("remote-a", principal="User:*")]
    found = reservation(REMOTE, rules, ["User:isthmus"])
    assert (found.open, found.missing, found.everybody) == (tuple(rules), (), tuple(rules))
    (denial,) = reservation(REMOTE, rules, (), has_super_user=True).missing
    assert (denial.principal, denial.operation) == ("User:*", "WRITE")


def test_reading_stays_allowed() -> None:
    """Who may do everything may read and describe afterwards, and no more."""
    found = reservation(REMOTE, [allow("*", "ALL", pattern=RulePattern.LITERAL)], ())
    assert {rule.operation for rule in found.missing} == {*CLOSED["topic"]}


def test_a_group_that_is_reserved_cannot_commit() -> None:
    """Consumers of the group are denied READ on it, by which they join and commit."""
    rule = allow("app-", "READ", resource=Resource.GROUP)
    (denial,) = reservation(Namespace(kind="group", prefix="app-"), [rule], ()).missing
    assert (denial.resource, denial.operation) == (Resource.GROUP, "READ")


def test_one_name_alone() -> None:
    """The rules of an exact namespace leave others that begin like it alone."""
    exact = Namespace(prefix="remote-clicks", is_exact=True)
    assert not reservation(exact, [allow("remote-clicks2", pattern=RulePattern.LITERAL)], ()).open
    (denial,) = reservation(exact, [allow("remote-")], ()).missing
    assert denial.pattern is RulePattern.LITERAL


def test_all_names_cannot_be_enforced() -> None:
    """No rule is about all names but those with an underscore; and none is about principals."""
    assert not is_enforceable(Namespace(prefix=""))
    assert not is_enforceable(Namespace(kind="principal", prefix="User:"))
    assert is_enforceable(REMOTE)
