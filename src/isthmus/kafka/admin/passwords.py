"""Lists the users with SCRAM passwords (DescribeUserScramCredentials, API 50, KIP-554). Brokers show no password."""

from __future__ import annotations

from typing import Final

from kafka.protocol.admin import DescribeUserScramCredentialsRequest

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.model.kafka.rights import on_cluster

_TIMEOUT_S: Final = 30.0


async def users_with_passwords(client: Client) -> frozenset[str]:
    """The users that may log in with a SCRAM password, of any mechanism. Needs DESCRIBE on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises Unreachable: No broker answered.
    """
    answer = await client.any(DescribeUserScramCredentialsRequest(users=None), timeout_s=_TIMEOUT_S)
    codes.raise_for_code(
        answer.error_code,
        "listing users with passwords",
        on_cluster("DESCRIBE"),
        cluster=client.cluster.alias,
        detail=answer.error_message,
    )
    return frozenset(each.user for each in answer.results if not each.error_code)
