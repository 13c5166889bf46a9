"""Client quotas of users (KIP-13, KIP-546), and those to set or remove at a link's target. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.model.kafka.access import AccessSettings

DEFAULT_CLIENT: Final = "<default>"
"""The client id of a quota for all clients of a user without a quota of their own, as Kafka's tools write it."""
_USER: Final = "User:"


class QuotaKey(NamedTuple):
    """The limit (`producer_byte_rate`) and its subject: a user, or with `client_id` one of its clients."""

    user: str
    client_id: str | None
    limit: str

    @property
    def subject(self) -> str:
        """The user and client it is for, in words."""
        return f"user {self.user}" if self.client_id is None else f"user {self.user}, client {self.client_id}"


class ClientQuota(NamedTuple):
    """A quota as brokers keep it: for a user, a client id or both; `None` is a part that it is not about, and `""`
    stands for all without a quota of their own. Rates in bytes a second, times in percent, of each broker.
    """

    user: str | None
    client_id: str | None
    limit: str
    value: float

    @property
    def subject(self) -> str:
        """The user and client it is for, in words."""
        named = (("user", self.user), ("client", self.client_id))
        return ", ".join(f"{kind} {name or DEFAULT_CLIENT}" for kind, name in named if name is not None)


def bounding(quotas: Iterable[ClientQuota], user: str | None, client_id: str, limit: str) -> ClientQuota | None:
    """Return the quota in force for a client of a user: the first in the brokers' order (KIP-55).

    For an unknown user, `None`, those of users by name are skipped.
    """
    known = {(each.user, each.client_id): each for each in quotas if each.limit == limit}
    users = (user, "") if user else ("",)
    order = [(each, client) for each in users for client in (client_id, "", None)] + [(None, client_id), (None, "")]
    return next((known[each] for each in order if each in known), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeQuota:
    """A quota that a link has set to `value`, or removed. Until that `is_certain` the quota may
    still be as `before`.
    """

    value: float | None
    before: float | None = None
    is_certain: bool = True

    def is_ours(self, there: float | None) -> bool:
        """Return whether the link itself has set the target's value."""
        return there == self.value or (not self.is_certain and there == self.before)


class QuotaStep(NamedTuple):
    """A quota of the target that is to become `after`. One that `is_others` was set by another client: it stays. One
    that `is_own` would slow the link itself down: it is not set.
    """

    key: QuotaKey
    before: float | None
    after: float | None
    is_others: bool = False
    is_own: bool = False


class QuotaSteps(NamedTuple):
    """The steps to take at the target, and the quotas that need not be remembered any more."""

    steps: tuple[QuotaStep, ...] = ()
    forgotten: tuple[QuotaKey, ...] = ()


def quota_steps(
    settings: AccessSettings,
    source: Mapping[QuotaKey, float],
    target: Mapping[QuotaKey, float],
    made: Mapping[QuotaKey, MadeQuota],
    *,
    own: str | None = None,
) -> QuotaSteps:
    """Return the steps that give attached principals the quotas of the source; quotas that another client has set are
    not changed. `own` is the link's principal at the target, as far as that is known.

    Quotas of principals that are no longer attached stay, as their rules do.
    """
    wanted = {there: value for key, value in source.items() if (there := _at_target(settings, key)) is not None}
    steps = [
        QuotaStep(
            key,
            target.get(key),
            value,
            is_others=not _may_change(key, target, made),
            is_own=f"{_USER}{key.user}" == own,
        )
        for key, value in sorted(wanted.items(), key=_order)
        if target.get(key) != value
    ]
    forgotten = []
    for key, memory in sorted(made.items(), key=_order):
        if key in wanted or not settings.may_be_ours(f"{_USER}{key.user}"):
            continue
        held = target.get(key)
        if held is not None and memory.is_ours(held):
            steps.append(QuotaStep(key, held, None))
        else:
            forgotten.append(key)
    return QuotaSteps(tuple(steps), tuple(forgotten))


def attached_user(settings: AccessSettings, user: str) -> str | None:
    """Return the user at the target for a user of the source, `None` if it is not attached."""
    principal = settings.at_target(f"{_USER}{user}") if settings.principals else None
    return None if principal is None else principal.removeprefix(_USER)


def _at_target(settings: AccessSettings, key: QuotaKey) -> QuotaKey | None:
    user = attached_user(settings, key.user)
    return None if user is None else key._replace(user=user)


def _may_change(key: QuotaKey, target: Mapping[QuotaKey, float], made: Mapping[QuotaKey, MadeQuota]) -> bool:
    there = target.get(key)
    return there is None or (key in made and made[key].is_ours(there))


def _order(each: tuple[QuotaKey, object]) -> tuple[str, str, str]:
    key = each[0]
    return key.user, key.client_id or "", key.limit
