"""Whether the login of a gateway may read the topics of a synchronous link: without that it can compare nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import Operation, topic_operations
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.model.text.wording import first_few

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 30.0
_SOON_S: Final = 2.0
"""How soon (s) to look again for missing rights: an operator may be granting them."""


class ReadRights:
    """The rights on the topics of one link. `missing` says which READ is missing, "" for none."""

    def __init__(self, source: Client, target: Client) -> None:
        self.missing = ""
        self._sides = source, target
        self._looked_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether the rights are due to be looked at again."""
        return lasting_s() - self._looked_at > (_SOON_S if self.missing else _AGAIN_S)

    async def look(self, topics: Mapping[str, str]) -> None:
        """Ask brokers of both sides for the rights on these topics, given as names at the source and the target. If one
        does not answer, the former result stays.
        """
        self._looked_at = lasting_s()
        found = [""]
        for client, names in zip(self._sides, (sorted(topics), sorted(topics.values())), strict=True):
            try:
                found.append(await _find_missing(client, names))
            except ClusterError as error:
                _log.debug("rights at %s are not known: %s", client.cluster.alias, error)
                return
        self.missing = max(found, key=bool)


async def _find_missing(client: Client, names: Collection[str]) -> str:
    allowed = await topic_operations(client, names) if names else {}
    refused = {name for name, operations in allowed.items() if Operation.READ not in operations}
    if unseen := sorted(set(names) - allowed.keys()):
        # Without DESCRIBE brokers do not even report the rights; a topic that does not exist needs none.
        found = (await client.metadata(unseen)).topics
        refused |= {name for name in unseen if found[name].error_code == codes.TOPIC_AUTHORIZATION_FAILED}
    return f"a gateway's login may not READ {first_few(sorted(refused))} of {client.cluster.alias}" if refused else ""
