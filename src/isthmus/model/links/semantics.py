"""The abilities of a cluster when a link was declared, and whether it still has them (KIP-986,
"Compatibility"). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

SEMANTICS_LOOP: Final = "semantics"
KAFKA: Final = "kafka"
"""The releases that its brokers may be."""
FEATURES: Final = "features"
"""The levels that are in force of those features that decide how transactions and logs are kept."""
DECIDING: Final = ("metadata.version", "transaction.version")
TOPIC_IDS: Final = "topic_ids"
"""Whether brokers report the ids of topics: a topic that was created again is recognized by its id (KIP-516)."""
MARKERS: Final = "markers"
"""Whether brokers accept control records by WriteTxnMarkers; `doctor` checks whether the link may write them."""
SCHEMA: Final = "schema_version"
"""The schema of the ledger, of the Isthmus that made the handshake."""
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")
_ABLE: Final = {TOPIC_IDS: "reported the ids of topics", MARKERS: "took control records (WriteTxnMarkers)"}


def downgrade(declared: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe the abilities that a cluster has lost, in words; `None` if there are none. Abilities that were not
    recorded, as by releases before, are not missed.

    The oldest possible release of its brokers counts: the cluster can only do what each of them can.
    """
    return "; ".join(_find_losses(declared, now)) or None


def _find_losses(declared: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = _release(declared), _release(now)
    if before is not None and after is not None and after < before:
        yield f"it was Kafka {declared[KAFKA]}, and is {now[KAFKA]}"
    levels = now.get(FEATURES, {})
    for name, level in sorted(declared.get(FEATURES, {}).items()):
        if levels.get(name, 0) < level:
            yield f"its {name} was {level}, and is {levels.get(name, 0)}"
    for name, what in _ABLE.items():
        if declared.get(name) and not now.get(name):
            yield f"it {what}, and does so no more"
    if (schema := now.get(SCHEMA, 0)) < declared.get(SCHEMA, 0):
        yield f"its ledger had schema {declared[SCHEMA]}, and this Isthmus writes {schema}"


def _release(semantics: Mapping[str, Any]) -> tuple[int, int] | None:
    found = _RELEASE.search(str(semantics.get(KAFKA, "")))
    return None if found is None else (int(found[1]), int(found[2]))
