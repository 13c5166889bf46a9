"""Producer ids that are unique among clusters: a gateway marks each id with the cluster that it is from.

Every cluster counts producers up from 0. A producer that continues at another cluster under its id would collide with
one that has the same id there, and its records would be taken for those that the other one wrote already.

A producer that comes back to a cluster would collide with itself: leaders there remember its last batch, and accept
only the next one. So an id also holds how often clients had moved when it was given, and one that has been at a cluster
before goes there under the number of the present stay.
"""

from __future__ import annotations

import hashlib
from typing import Final

from isthmus.model.kafka.transactions import is_lone

_TAG_AT: Final = 40
_TAG_BITS: Final = 14
_STAY_AT: Final = _TAG_AT + _TAG_BITS
_STAYS: Final = 1 << 8


def cluster_tag(cluster_id: str) -> int:
    """Return the mark of this cluster's producer ids: 14 bits that follow from its id, and never 0."""
    found = int.from_bytes(hashlib.sha256(cluster_id.encode()).digest()[:8])
    return 1 + found % ((1 << _TAG_BITS) - 1)


def tagged_producer_id(producer_id: int, tag: int, stay: int = 0) -> int:
    """Return the id for clients of a gateway, given when clients had moved `stay` times. One with a tag, or of a link,
    stays as it is.
    """
    if producer_id < 0 or is_lone(producer_id) or is_tagged(producer_id):
        return producer_id
    return producer_id | tag << _TAG_AT | stay % _STAYS << _STAY_AT


def settled_producer_id(producer_id: int, stay: int) -> int:
    """Return the id under which a producer writes once clients have moved `stay` times: its own, unless it has been at
    that cluster before.
    """
    if not is_tagged(producer_id) or (stay - (producer_id >> _STAY_AT)) % _STAYS < 2:
        return producer_id
    return same_producer(producer_id) | stay % _STAYS << _STAY_AT


def same_producer(producer_id: int) -> int:
    """Return the part that all ids of a producer share, at whichever cluster it was."""
    return producer_id & ((1 << _STAY_AT) - 1) if is_tagged(producer_id) else producer_id


def is_tagged(producer_id: int) -> bool:
    """Return whether a gateway marked this id: no cluster counts that far by itself."""
    return not is_lone(producer_id) and producer_id >> _TAG_AT > 0
