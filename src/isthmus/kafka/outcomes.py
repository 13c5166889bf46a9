"""The outcomes of many items: one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from isthmus.errors import ClusterError

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Outcomes(Generic[KeyT, ValueT]):
    """A value for every item that succeeded, an error for every one that failed; never both."""

    values: Mapping[KeyT, ValueT] = field(default_factory=dict)
    errors: Mapping[KeyT, ClusterError] = field(default_factory=dict)

    def all(self) -> Mapping[KeyT, ValueT]:
        """The values of all items.

        :raises ClusterError: One of them failed.
        """
        for error in self.errors.values():
            raise error
        return self.values
