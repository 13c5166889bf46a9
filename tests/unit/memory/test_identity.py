"""Which producer ids a link has by its ledger, and when it must not use them."""

from __future__ import annotations

import pytest

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.errors import PlanRefused
from isthmus.ledger.documents.kinds import LinkDocument
from isthmus.memory.identity import known_identity

DOCUMENT = LinkDocument(link="l", source_cluster_id="E", target_cluster_id="W", producer_id=7, marker_producer_id=8)
LEDGER = {DOCUMENT.key: DOCUMENT}


def test_ids_belong_to_the_target_cluster() -> None:
    """Another target has given other ids, or none yet; so has another link."""
    ids = ProducerIdentity(producer_id=7, marker_producer_id=8)
    assert known_identity("l", LEDGER, source_id="E", target_id="W") == ids
    assert known_identity("l", LEDGER, source_id="E", target_id="X") is None
    assert known_identity("other", LEDGER, source_id="E", target_id="W") is None


def test_other_source_is_refused() -> None:
    """Offsets of another cluster mean other records, so the link is neither run nor planned as if nothing had been."""
    with pytest.raises(PlanRefused, match="mirrored from cluster E until now") as refused:
        known_identity("l", LEDGER, source_id="X", target_id="W")
    assert "new name" in refused.value.hint
