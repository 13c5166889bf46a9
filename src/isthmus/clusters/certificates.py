"""Check the PEM files of a configuration before any connection."""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.errors import ConfigError
from isthmus.kafka.connect.certificates import HINT, pem_problems
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.findings import Finding, Level


def certificate_findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield a finding for every file of a cluster that cannot be used now."""
    for _, message in _problems(cluster):
        yield Finding(level=Level.ERROR, subject=cluster.alias, check="certificates", message=message, hint=HINT)


def require_certificates(configuration: Configuration, name: str) -> None:
    """Require that all PEM files of the configuration called `name` can be used now.

    Loading a configuration does not check them: a file that is being renewed may be missing for a moment.

    :raises ConfigError: Some files cannot be used; the error names all of them.
    """
    found = [problem for cluster in configuration.clusters for problem in _problems(cluster)]
    if found:
        raise ConfigError("\n".join(f"{name}: {message}" for _, message in found), field=found[0][0], hint=HINT)


def _problems(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the keys of files that cannot be used, each with the reason as a sentence."""
    sections = {"security": cluster.security.tls}
    sections.update((f"logins.{login.name}.security", login.security.tls) for login in cluster.logins)
    if cluster.proxy is not None:
        sections["proxy"] = cluster.proxy.tls
    if cluster.zookeeper is not None and cluster.zookeeper.tls is not None:
        sections["zookeeper"] = cluster.zookeeper.tls
    if cluster.schema_registry is not None:
        sections["schema_registry"] = cluster.schema_registry.tls
    for section, tls in sections.items():
        for problem in pem_problems(tls):
            key = f"clusters.{cluster.alias}.{section}.tls.{problem.key}"
            yield key, problem.message(cluster.alias, section)
