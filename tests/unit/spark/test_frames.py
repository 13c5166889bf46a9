"""The columns of DataFrames."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus.model.links.rows import PartitionRow
from isthmus.model.text.plain import keys_of
from isthmus.spark.frames import schema_of
from isthmus.topics.plan import PlannedTopic


@pytest.mark.parametrize("kind", [PartitionRow, PlannedTopic])
def test_columns_are_the_keys_of_json(kind: Any) -> None:
    """In their order: who knows the JSON of a row can query it."""
    assert schema_of(kind).names == [key.key for key in keys_of(kind)]


def test_columns_are_typed() -> None:
    """Whatever can be missing is nullable, and only that."""
    fields = {each.name: (each.dataType.simpleString(), each.nullable) for each in schema_of(PartitionRow).fields}
    assert fields["link"] == ("string", False)
    assert fields["link_state"] == ("string", False)
    assert fields["topic"] == ("string", True)
    assert fields["partition"] == ("bigint", True)
    assert fields["offsets"] == ("string", True)
    assert fields["lag_records"] == ("bigint", True)
    assert fields["lag_seconds"] == ("double", True)
