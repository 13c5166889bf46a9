"""Batches of a producer, in bytes."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from isthmus.kafka.batches.batch import scan, stamp
from isthmus.model.gateways.producerids import cluster_tag, tagged_producer_id

ME = tagged_producer_id(1001, cluster_tag("east"))


def batch(sequence: int, *, producer: int = ME, size: int = 10) -> bytes:
    """A batch of one record with a right checksum."""
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
                                        batch_size=1 << 20)  # fmt: skip
    builder.append(0, 0, b"key", b"v" * size, [])
    (made,) = scan(bytes(builder.build()))
    return stamp(made, producer, 3, sequence) + bytes(made.view[61:])
