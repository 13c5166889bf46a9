"""A link as operators declared it on its clusters, beside those that the configuration file has (KIP-986)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from isthmus.model.namespace import Namespace, NamespaceKind, NamespaceMap
from isthmus.model.registers import ATTACHED, DELETED, MODE, SETTINGS, Declarable
from isthmus.model.text.plain import computed_field

SOURCE: Final = "source"
TARGET: Final = "target"
SEMANTICS: Final = "semantics/"
"""The prefix for the abilities of a cluster, as the handshake found them; its id follows."""
LET_GO: Final = "let-go"
"""The namespaces that the link detached last, in one step, and by which verb: a repeated verb resumes its own."""
ASYNC: Final = "async"
TARGET_LOGIN: Final = "target_login"
"""The setting with the login that a link has at its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A cluster, and its names.

    It is one of a link's two, and `alias` what the file called it where the link was created.
    """

    SCHEMA: ClassVar = "NamedCluster"

    cluster_id: str
    alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration(Declarable):
    """A link as it was declared.

    It has all statements about it.
    """

    KIND: ClassVar[str] = "link"

    name: Annotated[str, "link"]

    @property
    def is_whole(self) -> bool:
        """Whether it names both clusters of the link."""
        return bool(self.value(SOURCE) and self.value(TARGET))

    @computed_field(before="is_deleted")
    def source(self) -> End:
        return End(**self.value(SOURCE))

    @computed_field(before="is_deleted")
    def target(self) -> End:
        return End(**self.value(TARGET))

    @computed_field(before="is_deleted")
    def mode(self) -> str:
        return str(self.value(MODE, ASYNC))

    @property
    def mode_said(self) -> str:
        """The statement that sets the mode; "" if there is none."""
        found = next((each for each in self.registers if each.name == MODE), None)
        return "" if found is None else f"{found.version}@{found.where}"

    @property
    def attached_said(self) -> str:
        """The statements about attachments: a digest, which each attachment or detachment changes."""
        versions = [(each.name, each.version, each.where) for each in self.registers if each.name.startswith(ATTACHED)]
        return hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:16]

    @property
    def target_login(self) -> str:
        """Which of the target's logins it has there, "" being the cluster's own."""
        return str(self.settings.get(TARGET_LOGIN) or "")

    @computed_field
    def maps(self) -> Annotated[tuple[NamespaceMap, ...], "attached"]:
        """The namespaces that are attached."""
        return tuple(each for each, is_attached in self._maps() if is_attached)

    @computed_field
    def detached(self) -> tuple[NamespaceMap, ...]:
        """The maps that were attached once, and are detached now."""
        return tuple(each for each, is_attached in self._maps() if not is_attached)

    def let_go_by(self, verb: str) -> tuple[NamespaceMap, ...]:
        """Return the maps that this verb detached, and that were the last to be detached. Older releases did not record
        that.
        """
        statement = self.value(LET_GO)
        if not statement or statement["verb"] != verb:
            return ()
        wanted = [_map(*each) for each in statement["maps"]]
        return tuple(each for each in self.detached if each in wanted)

    def may_have_failed_over(self, gone: Collection[NamespaceMap]) -> tuple[NamespaceMap, ...]:
        """Return those of the maps detached since the last look that may have been failed over. An older release did
        not record which verb detached a map before the last step.
        """
        statement = self.value(LET_GO)
        excluded = [_map(*each) for each in _not_failed_over(statement)] if statement else gone
        return tuple(each for each in gone if each not in excluded)

    def shared_with(self, other: Declaration) -> Namespace | None:
        """Return a namespace of topics at the source in which both this link and another one have topics, `None` for
        none.
        """
        if other.name == self.name or other.source.cluster_id != self.source.cluster_id:
            return None
        own, theirs = ([each.source for each in link.maps if each.kind == "topic"] for link in (self, other))
        return next((each for each in theirs if any(map(each.overlaps, own))), None)

    def _maps(self) -> Iterable[tuple[NamespaceMap, bool]]:
        for register in self.registers:
            if register.name.startswith(ATTACHED):
                yield _map(*json.loads(register.name.removeprefix(ATTACHED))), bool(register.decoded)

    @computed_field
    def semantics(self) -> Mapping[str, Any]:
        """The abilities of the clusters, by their ids."""
        found = {register.name: register.decoded for register in self.registers if register.name.startswith(SEMANTICS)}
        return {name.removeprefix(SEMANTICS): value for name, value in found.items()}

    @computed_field(before="semantics")
    def own_settings(self) -> Annotated[Mapping[str, Any], "settings"]:
        return self.settings


def attachment(each: NamespaceMap) -> str:
    """Return the register for whether two namespaces are attached."""
    return ATTACHED + json.dumps(_parts(each))


def letting_go(verb: str, maps: Collection[NamespaceMap], known: Declaration) -> dict[str, Any]:
    """Return the statements with which a verb detaches namespaces of a link, by the names of the registers. A
    synchronous link without any namespace left becomes asynchronous.
    """
    statement: dict[str, Any] = {"verb": verb, "maps": sorted(map(_parts, maps))}
    before = known.value(LET_GO)
    if others := [each for each in _not_failed_over(before) if each not in statement["maps"]] if before else []:
        statement["others"] = others
    is_over = known.mode != ASYNC and set(known.maps) <= set(maps)
    return {**dict.fromkeys(map(attachment, maps), False), LET_GO: statement, **({MODE: ASYNC} if is_over else {})}


def _not_failed_over(statement: Mapping[str, Any]) -> list[list[Any]]:
    """Return the maps that another verb than failover detached, by a statement about detached maps."""
    own = statement["maps"] if statement["verb"] != "failover" else []
    return [*own, *(each for each in statement.get("others", ()) if each not in own)]


def deletion(known: Declaration) -> dict[str, Any]:
    """Return the statements with which a link is deleted: all its namespaces are detached."""
    return {DELETED: True, **(letting_go("detach", known.maps, known) if known.maps else {})}


def said_name(name: str) -> str:
    """Return the subject of a register, for people."""
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
