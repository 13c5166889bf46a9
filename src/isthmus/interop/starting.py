"""A configuration to start with: two clusters, one link, and the other settings in comments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.clusters.survey import ClusterSurvey
from isthmus.interop.clients.security import ClusterDraft, cluster_draft
from isthmus.interop.deployment import Deployment, Setting, Settings
from isthmus.interop.drafting import Draft
from isthmus.interop.gathering import Gathering, Surroundings
from isthmus.interop.properties import read_settings
from isthmus.interop.writing import KeyPath, format_file
from isthmus.model.text.wording import format_count

_FORM: Final = "client properties"
_HEAD: Final = (
    "Made by isthmus init. Next: isthmus doctor, isthmus plan, isthmus run.\n"
    "Every key is in docs/configuration.md; secrets belong outside: ${env:NAME}, ${file:/path}."
)
_SECURITY: Final = (
    "security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: isthmus, "
    'password: "${env:KAFKA_PASSWORD}", tls: {ca_file: /etc/kafka/ca.pem}}'
)
_LINK: Final = {
    "groups": 'groups: {include: ["*"]} carries the positions of consumer groups as well.',
    "limits": "limits: {bytes_per_s: 50 MB} leaves room for others.",
    "configs": "configs: {sync: false} would leave the configurations of topics alone, which follow by default.",
}
_TOPICS: Final = {
    "naming": 'naming: {mm2: {separator: "."}} would prefix names with the alias of the source.',
    "offsets": "offsets: mapped is for topics that the target has already; records keep their offsets otherwise.",
}
_NAMED_MAX: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The known facts about one cluster: its alias, and the settings of a client of it as Kafka's
    own tools take them.
    """

    alias: str
    settings: Settings

    @classmethod
    def of(cls, alias: str, bootstrap_servers: str, properties: bytes | None, name: str) -> Start:
        """Return the addresses, and a properties file of a client (`--command-config`) if there is one.

        :raises ConfigError: The file cannot be read as one.
        """
        settings = {} if properties is None else read_settings(properties, name)
        return cls(
            alias=alias, settings={**settings, "bootstrap.servers": Setting(bootstrap_servers, "bootstrap.servers")}
        )


def starter(
    source: Start,
    target: Start,
    surroundings: Surroundings,
    *,
    include: Collection[str],
    folder: str,
    seen: Mapping[str, ClusterSurvey] | None = None,
) -> Draft:
    """The configuration of one link. `folder` is for secrets and PEM files; `seen` has what clusters answered.

    :raises ConfigError: Settings have values that cannot be used.
    """
    seen = seen or {}
    deployment = Deployment(name="isthmus init", form=_FORM, clusters={}, flows=())
    gathering = Gathering(deployment, surroundings, folder)
    clusters = {each.alias: cluster_draft(each.alias, each.settings, gathering) for each in (source, target)}
    name = f"{source.alias}-{target.alias}"
    topics = {"include": list(include)}
    link = {"name": name, "source": source.alias, "target": target.alias, "topics": topics}
    return Draft(
        text=format_file(
            {"clusters": {alias: cluster.section for alias, cluster in clusters.items()}, "links": [link]},
            _comments(clusters, source.alias, seen),
            _HEAD,
        ),
        companions=tuple(gathering.companions.values()),
        notices=tuple(gathering.notices),
        clusters=tuple(clusters),
        links=(name,),
    )


def clusters_only(starts: Collection[Start], surroundings: Surroundings, *, folder: str) -> Draft:
    """The configuration of clusters without any link, for one command.

    :raises ConfigError: Settings have values that cannot be used.
    """
    gathering = Gathering(Deployment(name="-b", form=_FORM, clusters={}, flows=()), surroundings, folder)
    clusters = {start.alias: cluster_draft(start.alias, start.settings, gathering) for start in starts}
    return Draft(
        text=format_file({"clusters": {alias: draft.section for alias, draft in clusters.items()}}, {}, ""),
        companions=tuple(gathering.companions.values()),
        notices=tuple(gathering.notices),
        clusters=tuple(clusters),
        links=(),
    )


def _comments(
    clusters: Mapping[str, ClusterDraft], source: str, seen: Mapping[str, ClusterSurvey]
) -> dict[KeyPath, str]:
    found: dict[KeyPath, str] = {}
    for alias, cluster in clusters.items():
        if alias in seen:
            found["clusters", alias] = _summarize(seen[alias])
        found.update({("clusters", alias, *path): text for path, text in cluster.comments.items()})
        if "security" not in cluster.section:
            found["clusters", alias, "security"] = _SECURITY
    there = seen[source].topics if source in seen else ()
    found["links", "0", "topics", "include"] = "Names, prefixes* and /regular expressions/." + _list_topics(there)
    found.update({("links", "0", "topics", key): text for key, text in _TOPICS.items()})
    found.update({("links", "0", key): text for key, text in _LINK.items()})
    return found


def _summarize(cluster: ClusterSurvey) -> str:
    counts = (
        format_count(cluster.brokers, "broker"),
        format_count(len(cluster.topics), "topic"),
        format_count(len(cluster.groups), "group"),
    )
    return f"{', '.join(counts)}; cluster id {cluster.cluster_id}"


def _list_topics(topics: Collection[str]) -> str:
    if not topics:
        return ""
    names = sorted(topics)[:_NAMED_MAX]
    more = f" and {len(topics) - _NAMED_MAX} more" if len(topics) > _NAMED_MAX else ""
    return f" There are now: {', '.join(names)}{more}."
