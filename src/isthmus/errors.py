"""Every error Isthmus raises, each with a hint and an exit code.

    IsthmusError                        exit 1
    ├── ConfigError                     2   the YAML file or the command line is wrong
    ├── PlanRefused                     6   what was asked cannot be done as asked
    ├── GateNotMet                      5   a wait ended before its condition was met
    ├── ClusterError                        one cluster and what it said
    │   ├── Unreachable                 10  no broker answered
    │   ├── AuthenticationFailed        11  TLS or SASL refused us, or another protocol is spoken
    │   ├── NotAuthorized               12  an access rule is missing
    │   ├── UnsupportedByBroker         13  the brokers do not offer a message we need
    │   └── BrokerRefused               14  the broker answered with an error code
    ├── Fenced                          15  another controller has taken this link over
    ├── Occupied                        16  another controller runs this link; it was left to it
    ├── HostError                           this machine lacks something
    │   ├── JavaMissing                 20
    │   ├── PortBusy                    21
    │   └── JarsUnavailable             22
    └── InvariantError                  70  a bug in Isthmus: please report it

Interruption exits with 128 + the signal's number (130 for Ctrl-C, 143 for SIGTERM); a verification that found a
difference exits with 4 and a plan with pending changes (`plan --detailed-exitcode`) with 3: results, not errors.
"""

from __future__ import annotations

from typing import ClassVar


class IsthmusError(Exception):
    """Anything Isthmus refuses or fails to do.

    `hint` says what to do next; `retryable` says whether the same call may succeed later without a change.
    """

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class ConfigError(IsthmusError):
    """A configuration or command line that cannot be used. `field` is the dotted path, `line` the 1-based line."""

    exit_code = 2

    def __init__(self, message: str, *, field: str = "", line: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.line = line


class PlanRefused(IsthmusError):
    """What was asked for cannot be done as asked; nothing was written."""

    exit_code = 6


class GateNotMet(IsthmusError):
    """A wait ended before its condition was met."""

    exit_code = 5


class ClusterError(IsthmusError):
    """Something one cluster did. `cluster` is its alias."""

    def __init__(self, message: str, *, cluster: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.cluster = cluster


class Unreachable(ClusterError):
    """No broker of the cluster answered in time, or a connection broke."""

    exit_code = 10
    retryable = True


class AuthenticationFailed(ClusterError):
    """TLS or SASL refused us, or the listener speaks another protocol than is configured."""

    exit_code = 11


class NotAuthorized(ClusterError):
    """An access rule is missing."""

    exit_code = 12


class UnsupportedByBroker(ClusterError):
    """The brokers do not offer a message, or a version of it, that is needed."""

    exit_code = 13


class BrokerRefused(ClusterError):
    """The broker answered with an error code. `code` is Kafka's number, `name` its constant."""

    exit_code = 14

    def __init__(self, message: str, *, code: int, name: str, cluster: str = "", hint: str = "") -> None:
        super().__init__(message, cluster=cluster, hint=hint)
        self.code = code
        self.name = name


class Fenced(IsthmusError):
    """Another controller has taken this link over."""

    exit_code = 15


class Occupied(IsthmusError):
    """Another controller runs this link. Nothing was taken over, and nothing was written."""

    exit_code = 16


class HostError(IsthmusError):
    """This machine lacks something."""


class JavaMissing(HostError):
    """No usable Java runtime was found."""

    exit_code = 20


class PortBusy(HostError):
    """A port that was asked for is taken."""

    exit_code = 21


class JarsUnavailable(HostError):
    """The broker jars are neither in the cache nor could they be fetched."""

    exit_code = 22


class InvariantError(IsthmusError):
    """A rule Isthmus relies on was broken: a bug."""

    exit_code = 70
