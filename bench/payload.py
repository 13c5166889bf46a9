"""The records that are copied: seeded, all different, and compressible as real ones are."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isthmus.engine.batches.rebatch import Record, encode
from isthmus.kafka.batches.batch import CODECS, Batch

RECORD_BYTES: Final = 256
_SEED: Final = 20131231
_KEY_BYTES: Final = 8
_TEMPLATE_BYTES: Final = 4 << 20
_TEMPLATES_MAX: Final = 512
_CARRIERS: Final = ("UA", "AA", "DL", "B6", "EV", "WN", "US", "MQ", "9E", "VX")
_AIRPORTS: Final = ("EWR", "LGA", "JFK", "IAH", "MIA", "BQN", "ATL", "ORD", "FLL", "IAD", "MCO", "PBI", "LAX", "SFO")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a producer batches: `batch_records` records of 256 bytes (key and value together), compressed by `codec`."""

    codec: str
    batch_records: int


def templates(shape: Shape) -> list[Batch]:
    """Distinct batches of one shape; a topic is filled by repeating them. The same on every run but for timestamps."""
    rng = random.Random(_SEED)
    now_ms = int(time.time() * 1000)
    count = max(min(_TEMPLATES_MAX, _TEMPLATE_BYTES // (shape.batch_records * RECORD_BYTES)), 8)
    codec = CODECS.index(shape.codec)
    return [encode(list(_records(rng, shape.batch_records, now_ms)), codec) for _ in range(count)]


def _records(rng: random.Random, count: int, now_ms: int) -> Iterator[Record]:
    for offset in range(count):
        key = f"{rng.getrandbits(32):08x}".encode()
        yield Record(offset, now_ms, key, flight(rng, RECORD_BYTES - _KEY_BYTES), [])


def flight(rng: random.Random, size_bytes: int) -> bytes:
    """A flight as JSON, filled up to `size_bytes`. lz4 makes batches of them three to four times smaller."""
    text = (
        f'{{"flight_id":{rng.randrange(10**8)},"carrier":"{rng.choice(_CARRIERS)}","flight":{rng.randrange(1, 9999)},'
        f'"tailnum":"N{rng.randrange(10**5):05d}","origin":"{rng.choice(_AIRPORTS)}","dest":"{rng.choice(_AIRPORTS)}",'
        f'"sched_dep":"2013-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:'
        f'{rng.randrange(60):02d}:00Z","dep_delay":{rng.randrange(-20, 300)},"arr_delay":{rng.randrange(-40, 300)},'
        f'"air_time":{rng.randrange(20, 600)},"distance":{rng.randrange(80, 4983)},"trace":"'
    )
    filling = f"{rng.getrandbits(32):x}".rjust(size_bytes - len(text) - 2, "0")
    return f'{text}{filling}"}}'.encode()
