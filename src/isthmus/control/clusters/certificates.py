"""The PEM files that a configuration names, looked at before anybody is dialled."""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.findings import Finding, Level
from isthmus.wire.certificates import HINT, pem_problems


def certificate_findings(cluster: Cluster) -> Iterator[Finding]:
    """A finding for every file of a cluster that cannot be used now."""
    for problem in pem_problems(cluster.security.tls):
        message = problem.message(cluster.alias)
        yield Finding(level=Level.ERROR, subject=cluster.alias, check="certificates", message=message, hint=HINT)


def require_certificates(configuration: Configuration, name: str) -> None:
    """See that all PEM files of the configuration called `name` can be used now.

    Loading a configuration does not look: a file that is being renewed may be missing for a moment.

    :raises ConfigError: Some cannot; all are told.
    """
    found = [
        (f"clusters.{cluster.alias}.security.tls.{problem.key}", problem.message(cluster.alias))
        for cluster in configuration.clusters
        for problem in pem_problems(cluster.security.tls)
    ]
    if found:
        raise ConfigError("\n".join(f"{name}: {message}" for _, message in found), field=found[0][0], hint=HINT)
