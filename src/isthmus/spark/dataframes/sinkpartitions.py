"""Which partition a row goes to, for many rows at once: as Kafka's own producer decides it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_VECTOR_BYTES_MAX: Final = 256
"""Longer keys are hashed one by one: each step of the vectors would be about few keys."""
_ROWS_TOGETHER: Final = 100
"""Rows without a key stay together by so many, as a request and a marker for each partition cost more than they do."""


def murmur2(data: bytes) -> int:
    """Return the hash by which Kafka's producer spreads keys (`Utils.murmur2`), as an unsigned number."""
    length = len(data)
    h = (_SEED ^ length) & _UINT32
    for (k,) in np.frombuffer(data, "<u4", length // 4).reshape(-1, 1).tolist():
        k = k * _M & _UINT32
        k = (k ^ k >> 24) * _M & _UINT32
        h = h * _M & _UINT32 ^ k
    if rest := data[length & ~3 :]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _UINT32
    h = (h ^ h >> 13) * _M & _UINT32
    return h ^ h >> 15


def murmur2_of(data: np.ndarray[Any, Any], begins: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> Any:
    """Return the hashes of many keys, which are `data[begin:end]` each (octets)."""
    lengths = (ends - begins).astype(np.int64)
    hashes = np.empty(len(lengths), np.uint32)
    for row in np.flatnonzero(lengths > _VECTOR_BYTES_MAX):
        hashes[row] = murmur2(data[begins[row] : ends[row]].tobytes())
    for length in np.unique(lengths[lengths <= _VECTOR_BYTES_MAX]):
        rows = np.flatnonzero(lengths == length)
        octets = data[begins[rows][:, None] + np.arange(length)] if length else np.empty((len(rows), 0), np.uint8)
        hashes[rows] = _hash_equal(octets.astype(np.uint32), int(length))
    return hashes


def _hash_equal(octets: Any, length: int) -> Any:
    """Return the hashes of keys of one length, a row each."""
    m = np.uint32(_M)
    h = np.full(len(octets), (_SEED ^ length) & _UINT32, np.uint32)
    for at in range(0, length & ~3, 4):
        k = octets[:, at] | octets[:, at + 1] << 8 | octets[:, at + 2] << 16 | octets[:, at + 3] << 24
        k = k * m
        k ^= k >> 24
        k = k * m
        h = h * m ^ k
    if length & 3:
        for n in range(length & 3):
            h ^= octets[:, (length & ~3) + n] << (8 * n)
        h = h * m
    h ^= h >> 13
    h = h * m
    return h ^ h >> 15


def partitions_by_key(hashes: Any, count: int) -> Any:
    """Return the partitions of keys with these hashes, of a topic with `count` partitions."""
    return ((hashes & np.uint32(_POSITIVE)) % np.uint32(count)).astype(np.int32)


def spread(rows: int, count: int, begin: int) -> Any:
    """Return partitions for rows without a key: some rows together, then those of the next partition."""
    used = min(count, max(1, rows // _ROWS_TOGETHER))
    return ((begin + np.arange(rows) * used // max(rows, 1)) % count).astype(np.int32)


def runs(order: Any, values: Any) -> Any:
    """Return where runs of equal values begin, and behind the last one, for values that are sorted by `order`."""
    placed = values[order]
    return np.concatenate(([0], np.flatnonzero(placed[1:] != placed[:-1]) + 1, [len(placed)]))
