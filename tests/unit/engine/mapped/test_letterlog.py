"""How much of a log of dead letters is read at once, and what in it is a letter."""

from __future__ import annotations

import pytest

from isthmus.engine.batches.rebatch import Record, encode
from isthmus.engine.mapped.letterlog import FIRST_OFFSETS, SPAN_BYTES, SpanLetters, next_offsets
from isthmus.engine.mapped.letters import as_letter
from isthmus.engine.mapped.transformer import DeadLetter
from isthmus.kafka.batches.batch import Batch, scan, stamp
from isthmus.kafka.log.reading import OffsetRange
from testing.records.stored import marker
from testing.values.letters import LETTERED

MARKER_BYTES = 78


@pytest.mark.parametrize(("total", "each_bytes", "spans_max"), [(1_000_000, MARKER_BYTES, 24), (20_000, 1_000, 8)])
def test_a_long_log_takes_few_spans(total: int, each_bytes: int, spans_max: int) -> None:
    """Also one of thousands of markers of aborted transactions, as a retry each few seconds leaves them."""
    offsets, spans = FIRST_OFFSETS, 0
    while total > 0:
        read = min(offsets, total)
        total, spans, offsets = total - read, spans + 1, next_offsets(read, read * each_bytes)
    assert spans <= spans_max


def test_large_letters_are_read_few_at_once() -> None:
    """A span has some MiB, whatever the letters' size."""
    assert next_offsets(FIRST_OFFSETS, 64 * SPAN_BYTES) == FIRST_OFFSETS
    assert next_offsets(10_000, 10_000 * 8_192) == SPAN_BYTES // 8_192
    assert next_offsets(FIRST_OFFSETS, 0) == 16 * FIRST_OFFSETS


def stored(*offsets: int, base: int, producer: int = 7) -> Batch:
    """A batch of letters from these source offsets, as a broker stores it at `base`; without a producer of none."""
    dead = [DeadLetter(Record(each, 1, b"k", b"v", [("h", b"x")]), 0, False, "no") for each in offsets]
    batch = encode([as_letter(each, LETTERED, "east", 9)._replace(offset=n) for n, each in enumerate(dead)], 0)
    header = stamp(batch, producer, 0, 0, transactional=producer >= 0)
    # The broker writes the base offset, the first eight bytes.
    (whole,) = scan(memoryview(base.to_bytes(8) + header[8:] + bytes(batch.view[len(header) :])))
    return whole


def end_of(base: int, *, commit: bool, producer: int = 7) -> Batch:
    """The marker of a transaction's end."""
    (found,) = scan(memoryview(marker(base, producer, commit=commit)))
    return found


LOG = (
    stored(1, base=0),
    stored(2, base=1, producer=8),
    end_of(2, commit=False),
    stored(3, 4, 5, base=3),
    end_of(6, commit=True),
    stored(6, base=7, producer=-1),
    end_of(8, commit=True, producer=8),
    stored(7, base=9),
    stored(8, base=10, producer=8),
    end_of(11, commit=False, producer=8),
)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 12])
def test_letters_of_committed_transactions_are_found_in_spans_of_any_length(length: int) -> None:
    """Transactions and batches reach over their borders; one that is open, or was aborted, has no letters."""
    ended, end, found = dict[int, bool](), 12, list[Record]()
    while end > 0:
        span = OffsetRange("t", 0, max(end - length, 0), end)
        letters = SpanLetters(span, ended)
        for batch in LOG:
            if batch.offset_end > span.offset_begin and batch.base_offset < span.offset_end:
                letters.take(batch)
        found += [each.record for each in reversed(letters.finish())]
        end = span.offset_begin
    assert found == [Record(n, 1, None, None, []) for n in (6, 5, 4, 3, 2)]
