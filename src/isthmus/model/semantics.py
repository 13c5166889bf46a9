"""What a cluster could keep when a link was declared, and whether it still can (KIP-986, "Compatibility"). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

SEMANTICS_LOOP: Final = "semantics"
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


def downgrade(declared: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What of a cluster is less than it was, in words; `None` where nothing is.

    Of releases the oldest counts that its brokers may be: what one of them cannot keep the cluster cannot.
    """
    before, after = _release(declared), _release(now)
    if before is not None and after is not None and after < before:
        return f"it was Kafka {declared['kafka']}, and is {now['kafka']}"
    return None


def _release(semantics: Mapping[str, Any]) -> tuple[int, int] | None:
    found = _RELEASE.search(str(semantics.get("kafka", "")))
    return None if found is None else (int(found[1]), int(found[2]))
