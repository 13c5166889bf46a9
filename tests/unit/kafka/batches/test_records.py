"""Records whose headers have keys of any bytes: what aiokafka's codec refuses is decoded and encoded all the same."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.batches.batch import LOG_APPEND_TIME, crc_ok
from isthmus.kafka.batches.records import encode_records, header_key, records_in
from testing.records.stored import PLAIN, Given, given_records, octets, one, patched, stored

NOT_UTF_8 = b"\xff\xfe\x80"
STAND_IN = "abc"
MANY = st.lists(given_records, min_size=1, max_size=6)


def odd(data: bytes, base_offset: int = 0) -> bytes:
    """A stored batch, uncompressed, with bytes that are no UTF-8 where the key `STAND_IN` was."""
    return patched(data.replace(STAND_IN.encode(), NOT_UTF_8), base_offset)


@given(base=st.integers(0, 2**40), records=MANY)
def test_decoded_as_the_compiled_codec_does(base: int, records: list[Given]) -> None:
    """All fields of all records, but for the one key that it refuses."""
    strange = PLAIN._replace(headers=[(STAND_IN, b"x"), ("z", None)])
    batch = one(odd(stored(base, [*records, strange]), base))
    with pytest.raises(UnicodeDecodeError):
        list(DefaultRecordBatch(bytes(batch.view)))

    *found, last = records_in(batch)

    assert [Given(r.timestamp, r.key, r.value, r.headers) for r in found] == records
    assert [r.offset for r in (*found, last)] == list(range(base, base + len(records) + 1))
    assert {r.timestamp_type for r in found} == {0}
    assert [(header_key(name), value) for name, value in last.headers] == [(NOT_UTF_8, b"x"), (b"z", None)]


@given(
    records=st.lists(
        st.builds(
            Given,
            st.integers(0, 4_000_000_000_000),
            octets,
            octets,
            st.lists(st.tuples(st.binary(max_size=5).map(lambda b: b.decode(errors="surrogateescape")), octets)),
        ),
        min_size=1,
    )
)
def test_there_and_back(records: list[Given]) -> None:
    """Keys of any bytes come back as they were, in a batch that a broker takes."""
    batch = one(encode_records(records))

    assert crc_ok(batch)
    assert batch.is_dense
    assert (batch.base_timestamp, batch.max_timestamp) == (records[0].timestamp, max(r.timestamp for r in records))
    assert [Given(r.timestamp, r.key, r.value, r.headers) for r in records_in(batch)] == records


def test_the_broker_s_stamp() -> None:
    """With LogAppendTime all records have the latest timestamp, as consumers see it."""
    late = PLAIN._replace(timestamp=PLAIN.timestamp + 7, headers=[(STAND_IN, b"")])
    batch = one(patched(odd(stored(3, [PLAIN, late])), 3, attributes=LOG_APPEND_TIME))

    found = [(record.timestamp, record.timestamp_type) for record in records_in(batch)]
    assert found == [(late.timestamp, 1)] * 2


def test_bytes_that_are_no_records() -> None:
    """Wherever such a batch was cut off: never records that were not written."""
    whole = odd(stored(0, [PLAIN, PLAIN._replace(headers=[(STAND_IN, b"")])]))
    for cut in range(61, len(whole)):
        short = patched(whole[:8] + (cut - 12).to_bytes(4, "big") + whole[12:cut], 0)
        with pytest.raises(Exception, match=r"."):
            records_in(one(short))
