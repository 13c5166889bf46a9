"""A link as operators declared it on its clusters, beside those that the configuration file has (KIP-986)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypedDict

from isthmus.model.namespace import Namespace, NamespaceKind, NamespaceMap
from isthmus.model.registers import ATTACHED, DELETED, MODE, SETTINGS, Declarable

SOURCE: Final = "source"
TARGET: Final = "target"
SEMANTICS: Final = "semantics/"
"""Of the cluster whose id follows: what it can keep, as the handshake found."""
LET_GO: Final = "let-go"
"""Which namespaces the link let go of last, in one step, and by which verb: a repeated verb goes on with its own."""
ASYNC: Final = "async"
TARGET_LOGIN: Final = "target_login"
"""The setting with the login that a link has at its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One of a link's two clusters: its id, and what the file called it where the link was created."""

    cluster_id: str
    alias: str


class NamedClusterJson(TypedDict):
    """A cluster, and what it is called."""

    cluster_id: str
    alias: str


class AttachedJson(TypedDict):
    """Two namespaces of which one follows the other."""

    kind: NamespaceKind
    source: str
    target: str
    exact: bool


class DeclarationJson(TypedDict):
    """A link as it was declared."""

    link: str
    source: NamedClusterJson
    target: NamedClusterJson
    mode: str
    deleted: bool
    attached: list[AttachedJson]
    detached: list[AttachedJson]
    settings: dict[str, Any]
    semantics: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration(Declarable):
    """All that was said of a link, and what it comes to."""

    KIND: ClassVar[str] = "link"

    @property
    def is_whole(self) -> bool:
        """Whether it says between which clusters the link is."""
        return bool(self.value(SOURCE) and self.value(TARGET))

    @property
    def source(self) -> End:
        return End(**self.value(SOURCE))

    @property
    def target(self) -> End:
        return End(**self.value(TARGET))

    @property
    def mode(self) -> str:
        return str(self.value(MODE, ASYNC))

    @property
    def mode_said(self) -> str:
        """Which statement the mode is by; "" where nobody ever made one."""
        found = next((each for each in self.registers if each.name == MODE), None)
        return "" if found is None else f"{found.version}@{found.where}"

    @property
    def attached_said(self) -> str:
        """Which statements say what is attached and what is not: a digest, another one after any attachment or
        detachment.
        """
        said = [(each.name, each.version, each.where) for each in self.registers if each.name.startswith(ATTACHED)]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    @property
    def target_login(self) -> str:
        """Which of the target's logins it has there, "" being the cluster's own."""
        return str(self.settings.get(TARGET_LOGIN) or "")

    @property
    def maps(self) -> tuple[NamespaceMap, ...]:
        """The namespaces that are attached."""
        return tuple(each for each, is_attached in self._maps() if is_attached)

    @property
    def detached(self) -> tuple[NamespaceMap, ...]:
        """Those that were attached once, and are no more."""
        return tuple(each for each, is_attached in self._maps() if not is_attached)

    def let_go_by(self, verb: str) -> tuple[NamespaceMap, ...]:
        """Those that are detached, and were the last to be, by this verb. Older releases did not write that down."""
        said = self.value(LET_GO)
        if not said or said["verb"] != verb:
            return ()
        wanted = [_map(*each) for each in said["maps"]]
        return tuple(each for each in self.detached if each in wanted)

    def may_have_failed_over(self, gone: Collection[NamespaceMap]) -> tuple[NamespaceMap, ...]:
        """Those of what was detached since somebody looked last that may have been failed over. Of what was let go of
        before the last step an older release did not say by which verb.
        """
        said = self.value(LET_GO)
        told = [_map(*each) for each in _not_failed_over(said)] if said else gone
        return tuple(each for each in gone if each not in told)

    def shared_with(self, other: Declaration) -> Namespace | None:
        """A namespace of topics at the source in which this link and another one have topics, `None` for none."""
        if other.name == self.name or other.source.cluster_id != self.source.cluster_id:
            return None
        own, theirs = ([each.source for each in link.maps if each.kind == "topic"] for link in (self, other))
        return next((each for each in theirs if any(map(each.overlaps, own))), None)

    def _maps(self) -> Iterable[tuple[NamespaceMap, bool]]:
        for register in self.registers:
            if register.name.startswith(ATTACHED):
                yield _map(*json.loads(register.name.removeprefix(ATTACHED))), bool(register.said)

    @property
    def semantics(self) -> Mapping[str, Any]:
        """What the clusters can keep, by their ids."""
        found = {register.name: register.said for register in self.registers if register.name.startswith(SEMANTICS)}
        return {name.removeprefix(SEMANTICS): value for name, value in found.items()}

    def as_dict(self) -> DeclarationJson:
        """Plain values under stable names."""
        return {
            "link": self.name,
            "source": {"cluster_id": self.source.cluster_id, "alias": self.source.alias},
            "target": {"cluster_id": self.target.cluster_id, "alias": self.target.alias},
            "mode": self.mode,
            "deleted": self.is_deleted,
            "attached": [map_dict(each) for each in self.maps],
            "detached": [map_dict(each) for each in self.detached],
            "settings": dict(self.settings),
            "semantics": dict(self.semantics),
        }


def map_dict(each: NamespaceMap) -> AttachedJson:
    """A map as plain values."""
    return {"kind": each.kind, "source": str(each.source), "target": str(each.target), "exact": each.source.is_exact}


def attachment(each: NamespaceMap) -> str:
    """The register that says whether two namespaces are attached."""
    return ATTACHED + json.dumps(_parts(each))


def letting_go(verb: str, maps: Collection[NamespaceMap], known: Declaration) -> dict[str, Any]:
    """What is said where a verb detaches namespaces of a link, by the names of the registers. A synchronous link of
    which nothing is left is asynchronous from then on.
    """
    said: dict[str, Any] = {"verb": verb, "maps": sorted(map(_parts, maps))}
    before = known.value(LET_GO)
    if others := [each for each in _not_failed_over(before) if each not in said["maps"]] if before else []:
        said["others"] = others
    is_over = known.mode != ASYNC and set(known.maps) <= set(maps)
    return {**dict.fromkeys(map(attachment, maps), False), LET_GO: said, **({MODE: ASYNC} if is_over else {})}


def _not_failed_over(said: Mapping[str, Any]) -> list[list[Any]]:
    """Of which namespaces a statement of what was let go of says that it was by another verb."""
    own = said["maps"] if said["verb"] != "failover" else []
    return [*own, *(each for each in said.get("others", ()) if each not in own)]


def deletion(known: Declaration) -> dict[str, Any]:
    """What is said where a link is deleted: all that it attaches is detached."""
    return {DELETED: True, **(letting_go("detach", known.maps, known) if known.maps else {})}


def said_name(name: str) -> str:
    """What a register is about, for people."""
    if name.startswith(ATTACHED):
        each = _map(*json.loads(name.removeprefix(ATTACHED)))
        return f"attached {'' if each.kind == 'topic' else f'{each.kind} '}{each}"
    return name.removeprefix(SETTINGS).replace("/", " ")


def _parts(each: NamespaceMap) -> list[Any]:
    return [each.kind, each.source.prefix, each.target.prefix, each.source.is_exact]


def _map(kind: NamespaceKind, source: str, target: str, is_exact: bool) -> NamespaceMap:
    return NamespaceMap(source=_namespace(kind, source, is_exact), target=_namespace(kind, target, is_exact))


def _namespace(kind: NamespaceKind, prefix: str, is_exact: bool) -> Namespace:
    return Namespace(kind=kind, prefix=prefix, is_exact=is_exact)
