"""Every error Isthmus raises, each with a hint, an exit code, and a code of its own that stays what it is.

    IsthmusError                        exit 1   ISTH-ERROR
    ├── ConfigError                     2   the YAML file or the command line is wrong
    ├── PlanRefused                     6   the request cannot be carried out as it is
    ├── GateNotMet                      5   a wait ended before its condition was met
    ├── RowRefused                          a row of a DataFrame cannot be written to Kafka
    ├── EpochRefused                        what a target has of a sink contradicts what is to be written
    ├── RequestRefused                      the REST API does not accept a request as it was sent
    │   └── TokenRefused                    it came without a token that may do this
    ├── ClusterError                        one cluster and its answer
    │   ├── Unreachable                 10  no broker answered
    │   │   └── AnotherCluster              another cluster answers in its place
    │   ├── AuthenticationFailed        11  TLS or SASL refused us, or another protocol is spoken
    │   ├── NotAuthorized               12  an access rule is missing
    │   ├── UnsupportedByBroker         13  the brokers do not offer a message we need
    │   ├── BrokerRefused               14  the broker answered with an error code
    │   ├── RegistryUnreachable         17  a schema registry did not answer
    │   └── RegistryRefused             18  a schema registry answered with an error
    ├── Fenced                          15  another controller has taken this link over
    ├── Occupied                        16  another controller runs this link; it was left to it
    ├── SchemaConflict                  19  a registry has another schema where one is to go
    ├── HostError                           this machine lacks something
    │   ├── JavaMissing                 20
    │   ├── PortBusy                    21
    │   ├── JarsUnavailable             22
    │   ├── SparkMissing                23
    │   └── OutputFailed                    the results cannot be written
    └── InvariantError                  70  a bug in Isthmus: please report it

Interruption exits with 128 + the signal's number (130 for Ctrl-C, 143 for SIGTERM); a verification that found a
difference exits with 4 and a plan with pending changes (`plan --detailed-exitcode`) with 3: results, not errors.

docs/errors.md is made of the docstrings and remedies here: `make docs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final


class IsthmusError(Exception):
    """Something was refused or failed, and the error has no code of its own; the message states the reason.

    `hint` says what to do next; `retryable` says whether the same call may succeed later without a change.
    `error_code` names the class for people and programs, for good: it is in messages, in JSON and in docs/errors.md;
    `remedy` is what to do in general.
    """

    exit_code: ClassVar[int] = 1
    error_code: ClassVar[str] = "ISTH-ERROR"
    remedy: ClassVar[str] = "The suggestion behind the message states what to do."
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class ConfigError(IsthmusError):
    """The configuration file or the command line cannot be used.

    `field` is the dotted path, `line` the 1-based line.
    """

    exit_code = 2
    error_code = "ISTH-CONFIG"
    remedy = (
        "Correct the line and the key that the message names; docs/configuration.md has every key. `isthmus config "
        "check` "
        "reports all mistakes at once, without asking any cluster. Nothing was begun."
    )

    def __init__(self, message: str, *, field: str = "", line: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.line = line


class PlanRefused(IsthmusError):
    """The request cannot be carried out as it is; nothing was written."""

    exit_code = 6
    error_code = "ISTH-PLAN-REFUSED"
    remedy = (
        "Change the cause that the message names and try again. `isthmus plan` shows the topics that can be copied, "
        "and the reason for each of the others."
    )


class GateNotMet(IsthmusError):
    """A wait ended before its condition was met."""

    exit_code = 5
    error_code = "ISTH-GATE"
    remedy = (
        "Give it more time (`--timeout`), or find the cause with `isthmus status`: a pause, no controller, a topic "
        "that has stopped."
    )


class RowRefused(IsthmusError):
    """A row of a DataFrame cannot be written to Kafka. Nothing of its epoch becomes visible."""

    error_code = "ISTH-ROW"
    remedy = (
        "Correct the column, the topic or the limit that the message names, and write again: docs/spark.md has every "
        "column. A query that is started again on its checkpoint goes on with the same rows."
    )


class EpochRefused(IsthmusError):
    """The position that a target has of a sink contradicts what is to be written: another query, a later epoch, or
    other rows. Nothing of this attempt becomes visible, unless the message is about committing.
    """

    error_code = "ISTH-EPOCH"
    remedy = (
        "The message names the position and what contradicts it. Usually another query uses the same name, or a query "
        "was started from an older copy of its checkpoint: docs/spark.md has each case."
    )


class RequestRefused(IsthmusError):
    """The REST API does not accept a request as it was sent; nothing was done.

    `status` is the HTTP status it is answered with, `retry_after_s` when to ask again, where that helps. With `is_last`
    the connection ends: who asks for one that stays open would keep it so.
    """

    error_code = "ISTH-REQUEST"
    remedy = "The HTTP status and the message state why; docs/rest.md has what requests have to look like."

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        hint: str = "",
        retry_after_s: int | None = None,
        is_last: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s
        self.is_last = is_last


class TokenRefused(RequestRefused):
    """A request to the REST API came without a token, or with one that may not do this."""

    error_code = "ISTH-TOKEN"
    remedy = (
        "Send `Authorization: Bearer TOKEN` with a token whose role is enough: `isthmus token create` makes one, "
        "`isthmus token list` shows which there are."
    )


class ClusterError(IsthmusError):
    """A cluster did not do as requested.

    `cluster` is its alias.
    """

    error_code = "ISTH-CLUSTER"
    remedy = "The message names the cluster and its answer. `isthmus doctor` examines both sides of every link."

    def __init__(self, message: str, *, cluster: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.cluster = cluster


class Unreachable(ClusterError):
    """No broker of the cluster answered in time, or a connection broke."""

    exit_code = 10
    error_code = "ISTH-UNREACHABLE"
    remedy = (
        "Check `bootstrap_servers`, names, ports, firewalls, and whether the brokers run; their advertised listeners "
        "have to be reachable from here as well. A run tries again by itself."
    )
    retryable = True


class AnotherCluster(Unreachable):
    """Another cluster than the expected one answers at an address; the expected one counts as away. The id that was
    received is not the one that the configuration names, or with which a link, a lease or a command began.
    """

    error_code = "ISTH-ANOTHER-CLUSTER"
    remedy = (
        "Correct `bootstrap_servers`, names or addresses so that they lead to the cluster with the id that is meant. "
        "Nothing is read, written or created at the other one, and a run goes on by itself when the right one answers. "
        "If the cluster was created again on purpose, start the run again: it is another cluster for every link."
    )


class AuthenticationFailed(ClusterError):
    """TLS or SASL refused us, or the listener speaks another protocol than is configured."""

    exit_code = 11
    error_code = "ISTH-AUTHENTICATION"
    remedy = (
        "Compare `clusters.<alias>.security` with the listener: its protocol, the mechanism, the user, the certificate "
        "authority, and the name in the broker's certificate."
    )


class NotAuthorized(ClusterError):
    """An access rule is missing."""

    exit_code = 12
    error_code = "ISTH-NOT-AUTHORIZED"
    remedy = (
        "Grant the right that the message names to the user that it names. `isthmus doctor` lists all that are needed."
    )


class UnsupportedByBroker(ClusterError):
    """The brokers do not offer a message, or a version of it, that is needed."""

    exit_code = 13
    error_code = "ISTH-UNSUPPORTED"
    remedy = (
        "Isthmus works with Kafka 2.8 to 4.4. Upgrade the brokers, or do without the function that the message names."
    )


class BrokerRefused(ClusterError):
    """The broker answered with an error code.

    `code` is Kafka's number, `name` its constant.
    """

    exit_code = 14
    error_code = "ISTH-BROKER-REFUSED"
    remedy = (
        "The message has Kafka's own name for the reason, and the log of the broker often more. Errors that pass (a "
        "leader that moves) were retried before this was reported."
    )

    def __init__(self, message: str, *, code: int, name: str, cluster: str = "", hint: str = "") -> None:
        super().__init__(message, cluster=cluster, hint=hint)
        self.code = code
        self.name = name


class RegistryUnreachable(ClusterError):
    """The schema registry of the cluster did not answer in time, or a connection to it broke."""

    exit_code = 17
    error_code = "ISTH-REGISTRY-UNREACHABLE"
    remedy = (
        "Check `clusters.<alias>.schema_registry.url`, names, ports, certificates, and whether the registry runs. Data "
        "goes on meanwhile, and a run tries again by itself."
    )
    retryable = True


class RegistryRefused(ClusterError):
    """The schema registry of the cluster answered with an error.

    `status` is that of HTTP, `code` the registry's own number, 0 where it gave none.
    """

    exit_code = 18
    error_code = "ISTH-REGISTRY-REFUSED"
    remedy = (
        "The message has the registry's answer. If it refused a login, see `clusters.<alias>.schema_registry`; if it "
        "is about a mode, see `isthmus schemas primary`: only the primary registry accepts schemas from users."
    )

    def __init__(self, message: str, *, status: int, code: int = 0, cluster: str = "", hint: str = "") -> None:
        super().__init__(message, cluster=cluster, hint=hint)
        self.status = status
        self.code = code


class SchemaConflict(IsthmusError):
    """A registry has another schema under the id, or at the version, that a schema of the primary registry has."""

    exit_code = 19
    error_code = "ISTH-SCHEMA-CONFLICT"
    remedy = (
        "Nothing was overwritten. Of the two that the message names, delete the one that is not needed for good "
        "(softly, then with permanent=true), or begin with an empty registry. `isthmus schemas diff` shows all."
    )


class Fenced(IsthmusError):
    """Another controller has taken this link over."""

    exit_code = 15
    error_code = "ISTH-FENCED"
    remedy = (
        "Nothing, if the takeover was intended: the other controller resumes where this one stopped. Otherwise end "
        "the other controller, which the message names, before you start this one again."
    )


class Occupied(IsthmusError):
    """Another controller runs this link. Nothing was taken over, and nothing was written."""

    exit_code = 16
    error_code = "ISTH-OCCUPIED"
    remedy = (
        "Leave it to the other one, which the message names; wait for its end with `isthmus run --standby`; or take "
        "the link over at once with `isthmus run --take-over`."
    )


class HostError(IsthmusError):
    """This machine lacks something."""

    error_code = "ISTH-HOST"
    remedy = "Install or repair the thing that the message names. `isthmus doctor` examines this host as well."


class JavaMissing(HostError):
    """No usable Java runtime was found."""

    exit_code = 20
    error_code = "ISTH-JAVA"
    remedy = "Install a JDK of Java 17 or newer, and put `java` on the PATH or set JAVA_HOME."


class PortBusy(HostError):
    """A port that was asked for is taken."""

    exit_code = 21
    error_code = "ISTH-PORT"
    remedy = (
        "End the process that listens there, or choose another port: `isthmus local up --base-port`, `isthmus run "
        "--metrics`."
    )


class JarsUnavailable(HostError):
    """The broker jars are neither in the cache nor could they be fetched."""

    exit_code = 22
    error_code = "ISTH-JARS"
    remedy = (
        "Make sure that this host reaches its Maven repository, then try again: jars that were fetched stay in the "
        "cache."
    )


class SparkMissing(HostError):
    """No usable Spark was found."""

    exit_code = 23
    error_code = "ISTH-SPARK"
    remedy = (
        "Install one with Isthmus (`pip install 'isthmus[spark]'`), set SPARK_HOME to the folder of a Spark 3.5 or 4, "
        "or start the program with that Spark's spark-submit."
    )


class OutputFailed(HostError):
    """The results cannot be written where stdout leads."""

    error_code = "ISTH-OUTPUT"
    remedy = "Make room there, or send the output elsewhere."


class InvariantError(IsthmusError):
    """Isthmus violated a rule that it relies on: a bug."""

    exit_code = 70
    error_code = "ISTH-INVARIANT"
    remedy = "Please report it, with the output of the command with `-v`."


RESULTS: Final[Mapping[int, str]] = {
    0: "All is well, or the request is done.",
    1: "Something that was examined or copied is wrong: the results state what.",
    2: "The command line cannot be used.",
    3: "`plan --detailed-exitcode`: something would be created or copied.",
    4: "`verify`, `groups drill`, `schemas diff`: the two sides differ; `tree verify`: something is wrong.",
    5: "`run --until caught-up`: something is paused, or waits for an open transaction, and was "
    "not copied; `verify`: something at the end of the source waits for one, and could not be compared.",
    130: "Ctrl-C.",
    141: "The reader of the results has left, as `head` does.",
    143: "SIGTERM.",
}
"""Exit codes of what is no error: results, mistakes in the command line, and signals."""


def error_classes(root: type[IsthmusError] = IsthmusError) -> Iterator[type[IsthmusError]]:
    """All classes of errors that have a code of their own, each before those made of it."""
    if "error_code" in vars(root):
        yield root
    for derived in root.__subclasses__():
        yield from error_classes(derived)


def exit_codes() -> dict[int, list[str]]:
    """Every exit code there is, in order, and all that it may mean."""
    meanings = {code: [meaning] for code, meaning in RESULTS.items()}
    for each in error_classes():
        meanings.setdefault(each.exit_code, []).append(f"{each.error_code}: {what_happened(each)}")
    return dict(sorted(meanings.items()))


def what_happened(error: type[IsthmusError]) -> str:
    """What a class of errors stands for: the sentence its docstring begins with."""
    return (error.__doc__ or "").split("\n\n")[0].strip().replace("\n    ", " ")
