"""Strimzi's KafkaMirrorMaker2 resource, with its secrets if they are in the same file."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from isthmus.config.reading.document import ConfigDocument, Path, format_path
from isthmus.errors import ConfigError
from isthmus.interop.connectors import Connector, deployment_of
from isthmus.interop.deployment import Deployment, Impact, MirrorConnector, Notice, Setting

FORM: Final = "Strimzi KafkaMirrorMaker2"
KIND: Final = "KafkaMirrorMaker2"
_START: Final = "It has to be the output of kubectl get kafkamirrormaker2 NAME -o yaml, or the file that was applied."
_CONNECTORS: Final = {
    "sourceConnector": MirrorConnector.SOURCE,
    "checkpointConnector": MirrorConnector.CHECKPOINT,
    "heartbeatConnector": MirrorConnector.HEARTBEAT,
}
_PATTERNS: Final = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.blacklist",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.blacklist",
}
_SASL: Final = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MIRROR_KEYS: Final = {*_CONNECTORS, *_PATTERNS, "source", "sourceCluster", "targetCluster"}
_WORKERS: Final = {
    "groupId": "group.id",
    "offsetStorageTopic": "offset.storage.topic",
    "configStorageTopic": "config.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}
"""The fields that the later version of the resource has beside the cluster of the workers, the earlier one in its
config.
"""
_CLUSTER_KEYS: Final = {"alias", "bootstrapServers", "tls", "authentication", "config", *_WORKERS}
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SPEC_KEYS: Final = {"clusters", "connectCluster", "target", "mirrors"}


def read_strimzi(text: str, name: str) -> Deployment:
    """Read the deployment in a resource.

    :raises ConfigError: There is none or more than one, it is no YAML, or lacks what it needs; with the line.
    """
    documents = ConfigDocument.parse_all(text, name)
    resources = [document for document in _items(documents) if _kind(document) == KIND]
    if len(resources) != 1:
        found = "no resource" if not resources else f"{len(resources)} resources"
        raise ConfigError(f"{name} holds {found} of kind {KIND}", hint=f"{_START} Import one at a time.")
    resource = _Resource(resources[0])
    return resource.deployment(dict(_secrets(_items(documents))))


def _items(documents: Iterable[ConfigDocument]) -> Iterator[ConfigDocument]:
    """Yield all resources, those in lists (`kubectl get ... -o yaml`) as well."""
    for document in documents:
        root = document.root
        items = root.get("items") if isinstance(root, Mapping) and _kind(document) == "List" else None
        if not isinstance(items, tuple):
            yield document
            continue
        for position, item in enumerate(items):
            begin: Path = ("items", position)
            lines = {path[2:]: line for path, line in document.lines.items() if path[:2] == begin}
            yield ConfigDocument(document.name, item, lines)


def _kind(document: ConfigDocument) -> object:
    return document.root.get("kind") if isinstance(document.root, Mapping) else None


def _secrets(documents: Iterable[ConfigDocument]) -> Iterator[tuple[tuple[str, str], bytes]]:
    for document in documents:
        root, metadata = document.root, None
        if isinstance(root, Mapping) and root.get("kind") == "Secret":
            metadata = root.get("metadata")
        if not isinstance(root, Mapping) or not isinstance(metadata, Mapping):
            continue
        for section in ("data", "stringData"):
            held = root.get(section)
            for key, value in held.items() if isinstance(held, Mapping) else ():
                try:
                    plain = str(value).encode()
                    content = base64.b64decode(plain, validate=True) if section == "data" else plain
                except (binascii.Error, ValueError):
                    line = document.line((section, key))
                    message = f"{document.name}:{line}: {section}.{key} of a secret is not base64"
                    raise ConfigError(message, line=line, hint="Plain text belongs below stringData.") from None
                yield (str(metadata.get("name")), str(key)), content


@dataclass(slots=True)
class _Resource:
    document: ConfigDocument
    notices: list[Notice] = field(default_factory=list)

    def deployment(self, secrets: Mapping[tuple[str, str], bytes]) -> Deployment:
        spec = self._section(("spec",), self.document.root, "spec")
        clusters = dict(self._clusters(spec, secrets))
        mirrors = spec.get("mirrors")
        if not isinstance(mirrors, tuple) or not mirrors:
            raise self._refusal(("spec", "mirrors"), "has to list the mirrors", _START)
        connectors = [
            connector
            for position, mirror in enumerate(mirrors)
            for connector in self._connectors(("spec", "mirrors", position), mirror, spec, clusters)
        ]
        for key in sorted(spec.keys() - _SPEC_KEYS):
            why = "it belongs to Strimzi or to Kafka Connect, which Isthmus runs without"
            self._tell(("spec", key), Impact.UNNEEDED, why)
        found = deployment_of(connectors, name=self.document.name, form=FORM, notices=self.notices)
        return Deployment(
            name=found.name,
            form=FORM,
            clusters=found.clusters,
            flows=found.flows,
            secrets=secrets,
            namespace=self._namespace(),
            notices=tuple(self.notices),
        )

    def _namespace(self) -> str:
        root = self.document.root
        metadata = root.get("metadata") if isinstance(root, Mapping) else None
        given = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        return given if isinstance(given, str) and _NAMESPACE.fullmatch(given) else ""

    def _clusters(
        self, spec: Mapping[str, object], secrets: Mapping[tuple[str, str], bytes]
    ) -> Iterator[tuple[str, dict[str, Setting]]]:
        """Return clusters by alias, wherever the version of the resource has them."""
        listed = spec.get("clusters")
        for position, cluster in enumerate(listed if isinstance(listed, tuple) else ()):
            yield self._cluster(("spec", "clusters", position), cluster, secrets)
        if isinstance(spec.get("target"), Mapping):
            yield self._cluster(("spec", "target"), spec["target"], secrets)
        mirrors = spec.get("mirrors")
        for position, mirror in enumerate(mirrors if isinstance(mirrors, tuple) else ()):
            if isinstance(mirror, Mapping) and isinstance(mirror.get("source"), Mapping):
                yield self._cluster(("spec", "mirrors", position, "source"), mirror["source"], secrets)

    def _cluster(
        self, path: Path, given: object, secrets: Mapping[tuple[str, str], bytes]
    ) -> tuple[str, dict[str, Setting]]:
        cluster = self._mapping(path, given)
        alias = self._text((*path, "alias"), cluster.get("alias"))
        settings: dict[str, Setting] = {}

        def put(key: str, value: str, *at: str) -> None:
            settings[key] = self._setting((*path, *at), value)

        put(
            "bootstrap.servers",
            self._text((*path, "bootstrapServers"), cluster.get("bootstrapServers")),
            "bootstrapServers",
        )
        settings.update(self._config((*path, "config"), cluster.get("config")))
        for key, name in _WORKERS.items():
            if cluster.get(key) is not None:
                put(name, self._text((*path, key), cluster[key]), key)
        tls, login = cluster.get("tls"), cluster.get("authentication")
        has_login = False
        if isinstance(login, Mapping):
            for key, value in self._login((*path, "authentication"), login):
                put(key, value, "authentication")
            has_login = "sasl.mechanism" in settings
        if isinstance(tls, Mapping):
            trusted = _refer_to_trusted(tls.get("trustedCertificates"), secrets)
            if trusted:
                put("ssl.truststore.certificates", trusted, "tls", "trustedCertificates")
        transport = "SSL" if isinstance(tls, Mapping) else "PLAINTEXT"
        put("security.protocol", f"SASL_{transport}" if has_login else transport, "tls")
        for key in sorted(cluster.keys() - _CLUSTER_KEYS):
            self._tell((*path, key), Impact.UNKNOWN, "neither Strimzi nor Isthmus knows it")
        return alias, settings

    def _login(self, path: Path, login: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        kind = self._text((*path, "type"), login.get("type"))
        if kind == "tls":
            held = self._mapping((*path, "certificateAndKey"), login.get("certificateAndKey"))
            yield "ssl.keystore.certificate.chain", _secret(held, "certificate")
            yield "ssl.keystore.key", _secret(held, "key")
        elif kind in _SASL:
            mechanism, module = _SASL[kind]
            password = self._mapping((*path, "passwordSecret"), login.get("passwordSecret"))
            username = self._text((*path, "username"), login.get("username"))
            yield "sasl.mechanism", mechanism
            yield "sasl.jaas.config", _jaas(module, username=username, password=_secret(password, "password"))
        elif kind == "oauth":
            secret = login.get("clientSecret")
            options = {
                "clientId": login.get("clientId"),
                "clientSecret": _secret(secret, "key") if isinstance(secret, Mapping) else None,
                "scope": login.get("scope"),
            }
            yield "sasl.mechanism", "OAUTHBEARER"
            yield "sasl.jaas.config", _jaas(_OAUTH, **{key: str(value) for key, value in options.items() if value})
            if login.get("tokenEndpointUri"):
                yield "sasl.oauthbearer.token.endpoint.url", str(login["tokenEndpointUri"])
        elif kind == "custom":
            for key, setting in self._config((*path, "config"), login.get("config")):
                yield key, setting.value
        else:
            yield "sasl.mechanism", kind.upper()

    def _connectors(
        self, path: Path, given: object, spec: Mapping[str, object], clusters: Mapping[str, Mapping[str, Setting]]
    ) -> Iterator[Connector]:
        mirror = self._mapping(path, given)
        ends = self._ends(path, mirror, spec, clusters)
        patterns = {
            key: self._setting((*path, pattern), self._text((*path, pattern), mirror[pattern]))
            for pattern, key in _PATTERNS.items()
            if mirror.get(pattern) is not None
        }
        shared: dict[str, Setting] = {}
        for side, alias in zip(("source", "target"), ends, strict=True):
            shared[f"{side}.cluster.alias"] = self._setting(path, alias)
            for key, setting in clusters[alias].items():
                client = key.partition(".")[0] in ("consumer", "producer", "admin")
                shared[f"{side}.{key}" if client else f"{side}.cluster.{key}"] = setting
        for name, kind in _CONNECTORS.items():
            if mirror.get(name) is None:
                continue  # Strimzi starts no such connector
            connector = self._mapping((*path, name), mirror[name])
            own = dict(self._config((*path, name, "config"), connector.get("config")))
            if connector.get("tasksMax") is not None:
                own["tasks.max"] = self._setting((*path, name, "tasksMax"), str(connector["tasksMax"]))
            for key in sorted(connector.keys() - {"config", "tasksMax"}):
                why = "it is how Kafka Connect runs a connector; isthmus pause and isthmus run take its place"
                self._tell((*path, name, key), Impact.UNNEEDED, why)
            # A connector's own settings take precedence over those of its clusters, and patterns over both.
            yield Connector(format_path((*path, name)), kind, {**shared, **own, **patterns}, ends)
        for key in sorted(mirror.keys() - _MIRROR_KEYS):
            self._tell((*path, key), Impact.UNKNOWN, "neither Strimzi nor Isthmus knows it")

    def _ends(
        self, path: Path, mirror: Mapping[str, object], spec: Mapping[str, object], clusters: Mapping[str, object]
    ) -> tuple[str, str]:
        source, target = mirror.get("source"), spec.get("target")
        names = (
            source.get("alias") if isinstance(source, Mapping) else mirror.get("sourceCluster"),
            target.get("alias")
            if isinstance(target, Mapping)
            else mirror.get("targetCluster") or spec.get("connectCluster"),
        )
        for key, alias in zip(("sourceCluster", "targetCluster"), names, strict=True):
            if alias not in clusters:
                problem = "is missing" if alias is None else "is the alias of no cluster"
                raise self._refusal((*path, key), problem, f"The clusters are {', '.join(clusters) or 'missing'}.")
        return str(names[0]), str(names[1])

    def _config(self, path: Path, given: object) -> Iterator[tuple[str, Setting]]:
        for key, value in self._mapping(path, given or {}).items():
            if value is not None:
                yield key, self._setting((*path, key), self._text((*path, key), value))

    def _setting(self, path: Path, value: str) -> Setting:
        return Setting(value, format_path(path), self.document.line(path))

    def _section(self, path: Path, root: object, key: str) -> Mapping[str, object]:
        return self._mapping(path, root.get(key) if isinstance(root, Mapping) else None)

    def _mapping(self, path: Path, given: object) -> Mapping[str, object]:
        if not isinstance(given, Mapping):
            raise self._refusal(path, "is missing" if given is None else "has to be a section with keys", _START)
        return given

    def _text(self, path: Path, given: object) -> str:
        if isinstance(given, bool):
            return str(given).lower()
        if isinstance(given, str | int | float):
            return str(given)
        raise self._refusal(path, "is missing" if given is None else "has to be a text", _START)

    def _refusal(self, path: Path, problem: str, hint: str) -> ConfigError:
        line = self.document.line(path)
        return ConfigError(
            f"{self.document.name}:{line}: {format_path(path)} {problem}", field=format_path(path), line=line, hint=hint
        )

    def _tell(self, path: Path, impact: Impact, why: str) -> None:
        notice = Notice(impact=impact, key=format_path(path), line=self.document.line(path), why=why)
        if notice not in self.notices:
            self.notices.append(notice)


def _secret(held: Mapping[str, object], key: str) -> str:
    return f"${{secrets:{held.get('secretName')}:{held.get(key)}}}"


def _jaas(module: str, **options: str) -> str:
    written = " ".join(f"{key}={_quote(value)}" for key, value in options.items())
    return f"{module} required {written};"


def _quote(value: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _refer_to_trusted(given: object, secrets: Mapping[tuple[str, str], bytes]) -> str:
    """Return references to all certificates to trust; a pattern stands for the matching keys of a secret, else for
    ca.crt.
    """
    found: list[str] = []
    for each in given if isinstance(given, tuple) else ():
        if not isinstance(each, Mapping):
            continue
        name, pattern = str(each.get("secretName")), each.get("pattern")
        fitting = [key for held, key in secrets if held == name and pattern and fnmatchcase(key, str(pattern))]
        keys = [str(each["certificate"])] if each.get("certificate") else fitting or ["ca.crt"]
        found += [f"${{secrets:{name}:{key}}}" for key in keys]
    return "\n".join(found)
