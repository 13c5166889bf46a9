"""Which quotas of attached principals are set at the target, and which are taken back."""

from __future__ import annotations

from isthmus.model.kafka.access import AccessPolicy, AccessSettings, PrincipalPattern
from isthmus.model.kafka.quotas import (
    DEFAULT_CLIENT,
    ClientQuota,
    MadeQuota,
    QuotaKey,
    QuotaStep,
    bounding,
    quota_steps,
)
from isthmus.model.namespace import NamespaceMap

ATTACHED = AccessSettings(
    policy=AccessPolicy.READ_ONLY,
    exclude_principals=(PrincipalPattern.parse("User:local-admin"),),
    principals=(NamespaceMap.parse("User:local-:User:remote-", "principal"),),
)
RATE = "producer_byte_rate"
HERE, THERE = QuotaKey("local-ann", None, RATE), QuotaKey("remote-ann", None, RATE)


def test_one_quota_counts_for_a_client() -> None:
    """The nearest of all there are: of the user's client, of its clients, of the user, of users without one, and of
    clients without a user last; one of somebody else never does.
    """
    order: list[tuple[str | None, str | None]] = [(user, each) for user in ("ann", "") for each in ("app", "", None)]
    order += [(None, "app"), (None, "")]
    others = [ClientQuota("bob", "app", RATE, 1.0), ClientQuota("ann", "app", "consumer_byte_rate", 1.0)]
    for number, nearest in enumerate(order):
        quotas = [*others, *(ClientQuota(*who, RATE, 2.0) for who in reversed(order[number:]))]
        assert bounding(quotas, "ann", "app", RATE) == ClientQuota(*nearest, RATE, 2.0)
    assert bounding(others, "ann", "app", RATE) is None
    assert bounding([ClientQuota("ann", None, RATE, 1.0)], None, "app", RATE) is None
    of_users, of_client = ClientQuota("", None, RATE, 1.0), ClientQuota(None, "app", RATE, 2.0)
    assert bounding([of_client, of_users], None, "app", RATE) == of_users
    assert [ClientQuota(*who, RATE, 1.0).subject for who in order[3:]] == [
        "user <default>, client app",
        "user <default>, client <default>",
        "user <default>",
        "client app",
        "client <default>",
    ]


def test_quotas_of_attached_principals_follow() -> None:
    """Under their names at the target, for their clients too; those of others and of everybody do not."""
    of_clients = [QuotaKey("local-ann", client, "request_percentage") for client in ("app", DEFAULT_CLIENT)]
    others = [QuotaKey("bob", None, RATE), QuotaKey("local-admin", None, RATE)]
    found = quota_steps(ATTACHED, dict.fromkeys([HERE, *of_clients, *others], 5.0), {}, {})
    assert {step.key for step in found.steps} == {
        THERE,
        *(key._replace(user="remote-ann") for key in of_clients),
    }
    assert all((step.before, step.after, step.is_others) == (None, 5.0, False) for step in found.steps)
    assert quota_steps(AccessSettings(policy=AccessPolicy.FULL), {HERE: 5.0}, {}, {}).steps == ()


def test_what_others_have_set_stays() -> None:
    """Before the link or after it; what is the source's by chance is nobody's to tell of."""
    assert quota_steps(ATTACHED, {HERE: 5.0}, {THERE: 7.0}, {}).steps == (QuotaStep(THERE, 7.0, 5.0, is_others=True),)
    assert quota_steps(ATTACHED, {HERE: 5.0}, {THERE: 5.0}, {}).steps == ()
    made = {THERE: MadeQuota(value=5.0)}
    assert quota_steps(ATTACHED, {HERE: 6.0}, {THERE: 9.0}, made).steps[0].is_others
    assert quota_steps(ATTACHED, {}, {THERE: 9.0}, made) == ((), (THERE,))


def test_what_the_link_set_changes_and_goes() -> None:
    """As the source's does; after a detachment it stays."""
    made = {THERE: MadeQuota(value=5.0)}
    assert quota_steps(ATTACHED, {HERE: 6.0}, {THERE: 5.0}, made).steps == (QuotaStep(THERE, 5.0, 6.0),)
    assert quota_steps(ATTACHED, {}, {THERE: 5.0}, made).steps == (QuotaStep(THERE, 5.0, None),)
    assert quota_steps(ATTACHED, {}, {}, made) == ((), (THERE,))
    other = AccessSettings(
        policy=AccessPolicy.READ_ONLY, principals=(NamespaceMap.parse("User:x-:User:y-", "principal"),)
    )
    assert quota_steps(other, {HERE: 6.0}, {THERE: 5.0}, made) == ((), ())


def test_what_was_interrupted_is_ours_before_and_after() -> None:
    """Whichever of both the target has, it becomes what the source has by now."""
    made = {THERE: MadeQuota(value=6.0, before=5.0, is_certain=False)}
    for there in (5.0, 6.0):
        assert quota_steps(ATTACHED, {HERE: 8.0}, {THERE: there}, made).steps == (QuotaStep(THERE, there, 8.0),)
    assert quota_steps(ATTACHED, {HERE: 8.0}, {THERE: 7.0}, made).steps[0].is_others
    taken_back = {THERE: MadeQuota(value=None, before=5.0, is_certain=False)}
    assert quota_steps(ATTACHED, {}, {THERE: 5.0}, taken_back).steps == (QuotaStep(THERE, 5.0, None),)


def test_a_link_does_not_slow_itself_down() -> None:
    """A quota of the user that it logs in as at the target is told, and not set."""
    ours = QuotaStep(THERE, None, 5.0, is_own=True)
    assert quota_steps(ATTACHED, {HERE: 5.0}, {}, {}, own="User:remote-ann").steps == (ours,)
    assert quota_steps(ATTACHED, {HERE: 5.0}, {}, {}, own="User:remote-ben").steps == (ours._replace(is_own=False),)
