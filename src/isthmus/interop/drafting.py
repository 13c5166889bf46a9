"""Converts a deployment into a configuration: its text, the files beside it, and notices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from isthmus.errors import ConfigError
from isthmus.interop.clients.security import ClusterDraft, cluster_draft
from isthmus.interop.deployment import Deployment, Flow, Impact, Notice, Setting
from isthmus.interop.gathering import Companion, Gathering, Surroundings
from isthmus.interop.links import RESETS_OF_CLUSTER, LinkDraft, OffsetsChoice, link_draft, link_names
from isthmus.interop.writing import KeyPath, format_file

_ALIAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_COPIED_BEFORE: Final = (
    "without --take-over the records that MirrorMaker 2 has copied are not known: into a topic of the target that "
    "holds records already, all of the source's are written once more, behind them"
)
_COPIED_CHANGED: Final = (
    "--take-over finds what MirrorMaker 2 has copied by its content: topics of which it has changed records, or left "
    "some out, are refused"
)
_WITHOUT_COPIES: Final = "Delete the copies of these topics, or give them another naming: they are copied again."
_OTHER_RIGHTS: Final = (
    "the user of MirrorMaker 2 may lack rights that Isthmus needs: it keeps a ledger at the target, and writes to it "
    "in transactions"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A configuration that is not written yet. Notices are in order, the gravest first."""

    text: str
    companions: tuple[Companion, ...]
    notices: tuple[Notice, ...]
    clusters: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether it can be run as it is."""
        return not any(notice.impact is Impact.NEEDED for notice in self.notices)


def draft_of(
    deployment: Deployment,
    surroundings: Surroundings,
    *,
    folder: str,
    offsets: OffsetsChoice = OffsetsChoice.AUTO,
    takes_over: bool = False,
) -> Draft:
    """Return the configuration that does the same as a deployment. `folder` is for secrets and PEM files. It
    `takes_over` the records that MirrorMaker 2 has copied if that is done beside it.

    :raises ConfigError: The deployment has values that cannot be used; with the key and the line.
    """
    gathering = Gathering(deployment, surroundings, folder, list(deployment.notices))
    _tell_placeholders(deployment, gathering)
    clusters = {alias: _cluster(alias, deployment, gathering) for alias in deployment.clusters}
    flows = {(flow.source, flow.target): flow for flow in deployment.flows}
    names = link_names(flows)
    links = [link_draft(flow, names[pair], deployment.clusters, offsets, gathering) for pair, flow in flows.items()]
    _tell_circles(flows, links, gathering)
    if offsets is not OffsetsChoice.SAME and not takes_over:
        todo = "Stop MirrorMaker 2, and import with --take-over; or delete its copies, or give topics another naming."
        gathering.tell(Impact.CHANGED, "offsets", _COPIED_BEFORE, todo)
    if takes_over and any("transform" in link.section for link in links):
        gathering.tell(Impact.CHANGED, "transforms", _COPIED_CHANGED, _WITHOUT_COPIES)
    if any("security" in cluster.section for cluster in clusters.values()):
        todo = "isthmus acls generate LINK prints the rights of a link, isthmus doctor reports missing ones."
        gathering.tell(Impact.CHANGED, "access rules", _OTHER_RIGHTS, todo)
    order = list(Impact)
    return Draft(
        text=_text(deployment, clusters, links),
        companions=tuple(gathering.companions.values()),
        notices=tuple(sorted(gathering.notices, key=lambda notice: order.index(notice.impact))),
        clusters=tuple(clusters),
        links=tuple(names.values()),
    )


def _tell_placeholders(deployment: Deployment, gathering: Gathering) -> None:
    """Add notices for placeholders in values that are filled in before MirrorMaker 2 reads the file: Kafka has no such
    references.
    """
    for settings in (*deployment.clusters.values(), *(flow.settings for flow in deployment.flows)):
        for key, setting in settings.items():
            for found in _PLACEHOLDER.finditer("" if key.startswith("transforms.") else setting.value):
                gathering.tell(
                    Impact.NEEDED,
                    setting,
                    f"{found[0]} is no reference of Kafka's: something fills it in before MirrorMaker 2 reads the file",
                    f"Import the file as it is when it is filled in; or write ${{env:{found[1]}}} there, if that is an "
                    "environment variable.",
                )


def _cluster(alias: str, deployment: Deployment, gathering: Gathering) -> ClusterDraft:
    if _ALIAS.fullmatch(alias) is None:
        raise ConfigError(
            f"{deployment.name}: {alias!r} cannot be the alias of a cluster",
            field="clusters",
            hint="An alias has at most 100 letters, digits, '.', '_' and '-' and begins with a letter or a digit. With "
            "another alias topics get other names, unless the policy is IdentityReplicationPolicy.",
        )
    settings = dict(deployment.clusters[alias])
    for key in RESETS_OF_CLUSTER:
        setting = settings.pop(key, None)
        # If a link reads from the cluster, the link handles the setting.
        if setting is not None and all(flow.source != alias for flow in deployment.flows):
            gathering.tell(Impact.UNNEEDED, setting, f"nothing is read from {alias}")
    return cluster_draft(alias, settings, gathering)


def _tell_circles(flows: dict[tuple[str, str], Flow], links: list[LinkDraft], gathering: Gathering) -> None:
    """Add notices for links both ways that keep names: MirrorMaker 2 copies records in a circle for ever, Isthmus
    refuses.
    """
    for (pair, flow), link in zip(flows.items(), links, strict=True):
        topics = link.section["topics"]
        if (
            pair[::-1] in flows
            and isinstance(topics, dict)
            and topics.get("naming") == "identity"
            and pair[0] < pair[1]
        ):
            setting = flow.settings.get("replication.policy.class", Setting("", "replication.policy.class"))
            why = f"{flow.name} and back keep names: a topic that would come back to its cluster is refused"
            gathering.tell(
                Impact.CHANGED, setting, why, "Have each link include the topics that are written at its source."
            )


def _text(deployment: Deployment, clusters: dict[str, ClusterDraft], links: list[LinkDraft]) -> str:
    comments: dict[KeyPath, str] = {}
    for alias, cluster in clusters.items():
        comments.update({("clusters", alias, *path): text for path, text in cluster.comments.items()})
    for position, link in enumerate(links):
        comments.update({("links", str(position), *path): text for path, text in link.comments.items()})
    sections: dict[str, object] = {
        "clusters": {alias: cluster.section for alias, cluster in clusters.items()},
        "links": [link.section for link in links],
    }
    # A name may contain anything, line ends included.
    name = " ".join(deployment.name.split())
    head = (
        f"Made by isthmus import from {name} ({deployment.form}).\n"
        "isthmus plan shows its effects; every key is in docs/configuration.md."
    )
    return format_file(sections, comments, head)
