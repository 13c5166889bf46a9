"""How far away a cluster is, as the time its answers take tells, and what is worth doing about it. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

RESPONSE_BYTES: Final = 1 << 20
RESPONSE_BYTES_FAR: Final = 8 << 20
_FAR_TARGET_S: Final = 0.005
_FAR_SOURCE_S: Final = 0.015
_SLOW_S: Final = 1.0
_NEAR_BYTES_PER_S: Final = 200_000_000
_WORTH_BYTES_PER_S: Final = 50_000_000
_SAMPLES_MIN: Final = 8
_SAMPLES_MAX: Final = 16
_SAMPLE_EVERY_S: Final = 5.0


class TargetDistance:
    """How long a broker lets us wait for the answer to a request that it finds nothing before.

    It is far if it never answers soon: the way is long, or its replicas are. A broker that is only busy answers soon
    now and then. `far_s` is the least it takes, beyond what the bytes of the request do; 0 while it counts as near.
    """

    def __init__(self) -> None:
        self.far_s = 0.0
        self._waits_s: deque[float] = deque(maxlen=_SAMPLES_MAX)
        self._sampled_at_s = 0.0

    def answered(self, took_s: float, size_bytes: int, now_s: float) -> None:
        """A request of `size_bytes` that was alone was answered after `took_s`."""
        self._sampled_at_s = now_s
        self._waits_s.append(took_s - size_bytes / _NEAR_BYTES_PER_S)
        nearest_s = min(self._waits_s)
        self.far_s = nearest_s if nearest_s > _FAR_TARGET_S and len(self._waits_s) >= _SAMPLES_MIN else 0.0

    def is_unsure(self, now_s: float) -> bool:
        """Whether the next request should be alone again."""
        return len(self._waits_s) < _SAMPLES_MIN or now_s - self._sampled_at_s > _SAMPLE_EVERY_S

    @property
    def worth_bytes(self) -> int:
        """For how many bytes in a request joining batches costs less than waiting does: none if the target is near."""
        return int(self.far_s * _WORTH_BYTES_PER_S)


def next_bytes(bytes_max: int, size_bytes: int, took_s: float) -> int:
    """How large the source's next answer may be, after one of `size_bytes` that was well filled and took so long.

    There is one on its way at a time (KIP-227), so what comes from far away has to come in larger ones. Where the line
    is narrow they would only be late.
    """
    waited_s = took_s - size_bytes / _NEAR_BYTES_PER_S
    if waited_s < _FAR_SOURCE_S / 2 or took_s > _SLOW_S * 2:
        return max(bytes_max // 2, RESPONSE_BYTES)
    if waited_s > _FAR_SOURCE_S and took_s < _SLOW_S:
        return min(bytes_max * 2, RESPONSE_BYTES_FAR)
    return bytes_max
