"""Brokers that do not list their groups, as one does that has just been cut off or is starting."""

from __future__ import annotations

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.commits import follower, poller
from isthmus.kafka.groups.groups import list_groups
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.group import GroupListing
from isthmus.model.kafka.log import LogRange


def committed_long_ago(patch: pytest.MonkeyPatch) -> None:
    """What groups have committed is longer ago than is read of the log of commits."""

    def end(log: LogRange) -> int:
        return log.stable_end

    patch.setattr(follower, "_begin", end)


def unlisted(patch: pytest.MonkeyPatch) -> None:
    """All brokers leave open which groups they have, but for one more that has none; the log does not tell either."""

    async def listing(client: Client) -> Outcomes[int, tuple[GroupListing, ...]]:
        heard = await list_groups(client)
        silent = Unreachable("broker 1 did not answer", cluster=client.cluster.alias)
        return Outcomes({-1: ()}, dict.fromkeys(heard.values, silent))

    patch.setattr(poller, "list_groups", listing)
    committed_long_ago(patch)
