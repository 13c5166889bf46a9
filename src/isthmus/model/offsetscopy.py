"""A copy of the positions that groups commit at a source, kept in a topic of the target (KIP-986, "Consumer Offsets &
Metadata Replication"): the copied positions, and the name of the topic.
"""

from __future__ import annotations

import enum
from typing import Final

from isthmus.model.naming import OFFSETS_TOPIC

COPY_PREFIX: Final = f"{OFFSETS_TOPIC}_"
"""The prefix of such topics; the id of the source cluster follows."""
LINK_HEADER: Final = "isthmus.link"
"""The header that names the link which wrote a record."""
SECRET_CHARACTERS_MIN: Final = 32
"""Keys are derived from the secret as it is, so that it has to be as hard to guess as a key."""


class OffsetsCopy(enum.StrEnum):
    """The positions that are copied into the topic, in the order in which KIP-986 lists its options."""

    NONE = "none"
    ALL = "all"
    """Those of all groups of the source: the target is trusted."""
    GROUPS = "groups"
    """The groups that the link selects: the target learns of no others."""
    ENCRYPTED = "encrypted"
    """The same, each value encrypted with a key of its group, for readers that were given that key."""


def copy_topic(source_id: str) -> str:
    """Return the name of the topic at the target, by the id of the source cluster."""
    return COPY_PREFIX + source_id
