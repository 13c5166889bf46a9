"""Access rights as Kafka names them: the operation, the resource, and the advice for a missing one."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.model.text.wording import first_few

_NAMED_MAX: Final = 10


class Resource(enum.StrEnum):
    """The resource of a right."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Right:
    """An operation, by its name in Kafka's ACLs, on resources of one kind.

    The cluster has no name, and neither have resources that the brokers' error does not name.
    """

    operation: str
    resource: Resource
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.resource is Resource.CLUSTER:
            return f"{self.operation} on the cluster"
        if not self.names:
            return f"{self.operation} on the {self.resource}s concerned"
        plural = "" if len(self.names) == 1 else "s"
        return f"{self.operation} on {self.resource}{plural} {join_names(self.names)}"


def on_topic(operation: str, *names: str) -> Right:
    return Right(operation, Resource.TOPIC, names)


def on_group(operation: str, *names: str) -> Right:
    return Right(operation, Resource.GROUP, names)


def on_transactional_id(operation: str, *names: str) -> Right:
    return Right(operation, Resource.TRANSACTIONAL_ID, names)


def on_cluster(operation: str) -> Right:
    return Right(operation, Resource.CLUSTER)


def grant(right: Right, cluster: str, then: str = "") -> str:
    """Return the advice to grant a right at the cluster of this alias, and its effect (`then`)."""
    return f"Grant {right} to the principal of {cluster or 'the cluster'}{then and f'; {then}'}."


def join_names(names: Sequence[str]) -> str:
    """Join names in a sentence, the first of them if there are many."""
    return first_few(names, _NAMED_MAX)
