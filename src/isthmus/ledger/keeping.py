"""Checks whether the ledger's topic keeps its records. Documents that are written once and deleted for their age would
be lost: links, pauses, and the maps of mapped lanes.
"""

from __future__ import annotations

from typing import Final

from isthmus.errors import ClusterError, PlanRefused
from isthmus.kafka.admin.configs import describe_topic_configs
from isthmus.kafka.client import Client
from isthmus.ledger.topic import LEDGER_TOPIC, is_missing
from isthmus.model.kafka.topic import Configs
from isthmus.model.problem import Problem

_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_BYTES: Final = "max.message.bytes"
_BYTES_LEAST: Final = 1_000_000
"""The size that one batch of documents may have."""


def unkept(configs: Configs, alias: str) -> Problem | None:
    """The problem of a ledger whose configuration does not keep records, None if it does or that is not known."""
    wanted: dict[str, str] = {}
    found: list[str] = []
    policy, bytes_max = (configs[name].value if name in configs else None for name in (_POLICY, _BYTES))
    if policy is not None and policy.strip() != _COMPACT:
        wanted[_POLICY] = _COMPACT
        found.append(f"{_POLICY}={policy}: its records are deleted after some time")
    if bytes_max is not None and int(bytes_max) < _BYTES_LEAST:
        wanted[_BYTES] = str(8 << 20)
        found.append(f"{_BYTES}={bytes_max}: some writes to it are refused")
    if not found:
        return None
    changed = ",".join(f"{name}={value}" for name, value in wanted.items())
    return Problem(
        f"topic {LEDGER_TOPIC} of {alias} has {', and '.join(found)}",
        "Mend it: kafka-configs.sh --bootstrap-server ... --alter --entity-type topics "
        f"--entity-name {LEDGER_TOPIC} --add-config {changed}. Records that were deleted before do not come back.",
    )


async def look_at_keeping(client: Client) -> Problem | None:
    """The problem of a cluster's ledger that does not keep its records, None if it does, or there is no ledger.

    :raises ClusterError: Its configuration cannot be read.
    """
    outcome = await describe_topic_configs(client, [LEDGER_TOPIC], only=[_POLICY, _BYTES])
    for error in outcome.errors.values():
        if is_missing(error):
            return None
        raise error
    return unkept(outcome.values[LEDGER_TOPIC], client.cluster.alias)


async def require_kept(client: Client) -> None:
    """Refuse a ledger that does not keep its records. `doctor` reports one that cannot be checked.

    :raises PlanRefused: The ledger does not keep its records.
    """
    try:
        problem = await look_at_keeping(client)
    except ClusterError:
        return
    if problem is not None:
        raise PlanRefused(problem.message, hint=problem.hint)
