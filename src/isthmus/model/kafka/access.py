"""Access rules of a cluster (ACLs, KIP-11, KIP-290) for topics and groups, and the selection that a link carries."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass
from typing import Final, Self

from isthmus.errors import ConfigError
from isthmus.model.kafka.rights import Resource
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.text.patterns import NamePattern

EVERYTHING: Final = "*"
"""As the name of a literal rule: all resources of the kind. As a host: all hosts."""
EVERYBODY: Final = "User:*"


class RulePattern(enum.StrEnum):
    """Which resources a rule is about."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class PermissionType(enum.StrEnum):
    """The content of a rule. A DENY overrides every ALLOW."""

    ALLOW = "ALLOW"
    DENY = "DENY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: the principals that may, or may not, do an operation on which topics or groups. `operation` is Kafka's
    name.
    """

    resource: Resource
    name: str
    pattern: RulePattern
    principal: str
    host: str
    operation: str
    permission: PermissionType

    @property
    def prefix(self) -> str | None:
        """The prefix of the names that the rule is about; `None` if it is about one name."""
        if self.pattern is RulePattern.PREFIXED:
            return self.name
        return "" if self.name == EVERYTHING else None

    def covers(self, name: str) -> bool:
        """Return whether it is about the resource of that name."""
        return name == self.name if self.prefix is None else name.startswith(self.prefix)

    def overrides(self, allowing: Rule) -> bool:
        """Return whether this DENY removes a right that an ALLOW gives."""
        return (
            self.resource is allowing.resource
            and (EVERYBODY in (self.principal, allowing.principal) or self.principal == allowing.principal)
            and (EVERYTHING in (self.host, allowing.host) or self.host == allowing.host)
            and ("ALL" in (self.operation, allowing.operation) or self.operation in MEANS[allowing.operation])
            and self._meets(allowing)
        )

    def _meets(self, other: Rule) -> bool:
        if self.prefix is None:
            return other.covers(self.name)
        if other.prefix is None:
            return self.covers(other.name)
        return self.prefix.startswith(other.prefix) or other.prefix.startswith(self.prefix)

    @property
    def digest(self) -> str:
        """A short name for the rule, unique to it."""
        fields = [getattr(self, name) for name in self.__slots__]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:32]

    @property
    def subject(self) -> str:
        """The subject of the rule, in words."""
        if self.prefix is None:
            return f"{self.resource} {self.name}"
        return f"{self.resource}s {self.prefix}*"

    @property
    def grant(self) -> str:
        """The operation and its principal, in words."""
        return f"{self.operation} by {self.principal}{'' if self.host == EVERYTHING else f' from {self.host}'}"


class _Meanings(dict[str, tuple[str, ...]]):
    """The operations that an ALLOW implies besides itself, as Kafka's authorizers read it."""

    def __missing__(self, operation: str) -> tuple[str, ...]:
        return (operation,)


MEANS: Final = _Meanings(
    {operation: (operation, "DESCRIBE") for operation in ("READ", "WRITE", "DELETE", "ALTER")}
    | {"ALTER_CONFIGS": ("ALTER_CONFIGS", "DESCRIBE_CONFIGS")}
)


class AccessPolicy(enum.StrEnum):
    """Which rules a link carries."""

    OFF = "off"
    """None."""
    READ_ONLY = "read-only"
    """Of the rules about topics, those about reading."""
    FULL = "full"
    """All rules about topics and groups: for a target that is to take the source's place."""


@dataclass(frozen=True, slots=True)
class PrincipalPattern(NamePattern):
    """One pattern of principals, such as `User:team-*`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern as people write it; `str` gives the same text back.

        :raises ConfigError: It is empty, or the expression is broken.
        """
        if not text:
            raise ConfigError("'' matches no principal", hint="Write a principal such as User:alice, or User:team-*.")
        return cls.split(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Which rules a link carries, how often it looks for them, and the principals whose rules it leaves out.

    With `principals`, the namespaces of principals that are attached, it carries rules of these and of no others.
    """

    policy: AccessPolicy = AccessPolicy.OFF
    exclude_principals: tuple[PrincipalPattern, ...] = ()
    interval_s: float = 600.0
    principals: tuple[NamespaceMap, ...] = ()

    def at_target(self, principal: str) -> str | None:
        """Return the target's principal for one of the source; `None` if the rules of that principal are left out."""
        if any(pattern.matches(principal) for pattern in self.exclude_principals):
            return None
        if not self.principals:
            return principal
        # No principal of the target has the name of everybody.
        return None if principal == EVERYBODY else NamespaceNaming(self.principals).to_target(principal)

    def may_be_ours(self, principal: str) -> bool:
        """Whether the link may make rules for this principal of the target."""
        return not self.principals or NamespaceNaming(self.principals).to_source(principal) is not None
