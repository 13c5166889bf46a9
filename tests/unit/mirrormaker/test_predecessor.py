"""The positions that Kafka Connect keeps of MirrorMaker 2, and what is none of them."""

from __future__ import annotations

import pytest

from isthmus.mirrormaker.predecessor import Progress, progress_of
from isthmus.model.naming import SourceTopic

KEY = b'["MirrorSourceConnector",{"cluster":"a","partition":3,"topic":"orders"}]'


def test_the_next_offset_lies_behind_the_last_one_copied() -> None:
    """MirrorMaker 2 keeps the offset of the last record, and goes on behind it; a tombstone takes a position back."""
    assert progress_of(KEY, b'{"offset":41}') == Progress("MirrorSourceConnector", "a", (SourceTopic("orders"), 3), 42)
    assert progress_of(KEY, None) == Progress("MirrorSourceConnector", "a", (SourceTopic("orders"), 3), None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]', b'{"offset":0}'),
        (b'["MirrorCheckpointConnector",{"group":"g","topic":"orders","partition":3}]', b'{"offset":0}'),
        (b"no JSON", b'{"offset":41}'),
        (None, b'{"offset":41}'),
        (b"7", b'{"offset":41}'),
        (KEY, b"no JSON"),
        (KEY, b"[]"),
    ],
)
def test_what_others_write_there_is_passed_over(key: bytes | None, value: bytes) -> None:
    """Other connectors keep positions of other kinds."""
    assert progress_of(key, value) is None
