"""The access rules that give a link what it needs, and nothing that Kafka's rules can leave out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.access import EVERYTHING, MEANS, PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.links.deadletters import DEAD_LETTERS_PREFIX
from isthmus.model.links.needs import About, Side, needs_of
from isthmus.model.mirrormaker import HEARTBEATS, SyncsPlace
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import LEDGER_TOPIC, OFFSETS_TOPIC, Naming, PrefixNaming, moved_prefix
from isthmus.model.offsetscopy import COPY_PREFIX
from isthmus.model.text.patterns import NamePattern
from isthmus.model.trees.positions import POSITIONS_TOPIC

CLUSTER_NAME: Final = "kafka-cluster"
_KINDS: Final = {
    About.GROUPS: Resource.GROUP,
    About.EVERY_GROUP: Resource.GROUP,
    About.TRANSACTIONS: Resource.TRANSACTIONAL_ID,
    About.NAMESPACES: Resource.TRANSACTIONAL_ID,
    About.CLUSTER: Resource.CLUSTER,
    About.ACCESS: Resource.CLUSTER,
    About.QUOTAS: Resource.CLUSTER,
}
_SPECIAL: Final = frozenset(".^$*+?{}[]|()")
_QUANTIFIERS: Final = frozenset("*?{")


class RulePlace(NamedTuple):
    """The names that a rule is about."""

    name: str
    pattern: RulePattern

    def covers(self, other: RulePlace) -> bool:
        """Return whether it covers all names of the other one."""
        if self.pattern is RulePattern.PREFIXED:
            return other.name.startswith(self.name) and other.name != EVERYTHING
        return self == other or self.name == EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One rule to make, its side, and its purpose."""

    side: Side
    rule: Rule
    purpose: str
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """All rules of a link, and notes about them."""

    grants: tuple[Grant, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """An access rule that a link needs."""

    SCHEMA: ClassVar = "Grant"

    side: Side
    cluster: str
    principal: str
    host: str
    resource: Resource
    name: str
    pattern: RulePattern
    operation: str
    permission: PermissionType
    needed_to: str
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedSide:
    """One end of a link, its principal there, the rules to grant, and notes."""

    side: Side
    cluster: Cluster
    principal: str
    grants: Sequence[Grant]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[GrantRow, ...]:
        """A row for each rule."""
        return tuple(self._row(grant) for grant in self.grants)

    def _row(self, grant: Grant) -> GrantRow:
        rule = grant.rule
        return GrantRow(
            side=self.side,
            cluster=self.cluster.alias,
            principal=rule.principal,
            host=rule.host,
            resource=rule.resource,
            name=CLUSTER_NAME if rule.resource is Resource.CLUSTER else rule.name,
            pattern=rule.pattern,
            operation=rule.operation,
            permission=rule.permission,
            needed_to=grant.purpose,
            is_required=grant.is_required,
        )


def granted_sides(
    link: Link,
    principals: Mapping[Side, str | None],
    *,
    others: Iterable[Link] = (),
    side: Side | None = None,
    only_required: bool = False,
) -> list[GrantedSide]:
    """Return the rights of a link's users at both ends, or at one. `principals` are given where a login does not name
    them. Of `others`, links of the same clusters, rules may reach those of the same principal.

    :raises ConfigError: It is not known who Isthmus is at one of them, or rules would reach a link of somebody else.
    """
    sides: list[GrantedSide] = []
    for one in Side if side is None else (side,):
        cluster = link.source if one is Side.SOURCE else link.target
        principal = _principal(one, cluster, principals.get(one))
        found = grants_of(link, one, principal, only_required=only_required)
        notes = (*found.notes, *_find_reached(found.grants, link, cluster, principal, others))
        sides.append(GrantedSide(side=one, cluster=cluster, principal=principal, grants=found.grants, notes=notes))
    return sides


def _find_reached(
    grants: Sequence[Grant], link: Link, cluster: Cluster, principal: str, others: Iterable[Link]
) -> Iterator[str]:
    """Yield which other links at a cluster, whose principal is not known, have names that rules of a link reach.

    :raises ConfigError: Another principal has such a link.
    """
    own = f".{link.name}."
    names = sorted({each.rule.name for each in grants if each.rule.name.endswith(own)})
    for other in others if names else ():
        ends = (each for each in (other.source, other.target) if each.alias == cluster.alias)
        there = next(ends, None)
        if there is None or there.principal == principal or not other.name.startswith(f"{link.name}."):
            continue
        what = f"what begins with {' or '.join(names)}, as that of link {other.name} does"
        if there.principal is not None:
            raise ConfigError(
                f"{principal} would have rights on {what}, which {there.principal} runs",
                field=f"links.{link.name}.name",
                hint="Give one of both links another name before it first runs, or both the same login.",
            )
        yield f"these rules are about {what}: have one principal run both, or give one of them another name"


def _principal(side: Side, cluster: Cluster, given: str | None) -> str:
    principal = given or cluster.principal
    if principal is None or ":" not in principal:
        raise ConfigError(
            f"the principal of {cluster.alias} is not known"
            if principal is None
            else f"{principal} is no principal: it has no type",
            field=f"clusters.{cluster.alias}.security",
            hint=f"Give it as --{side}-principal User:NAME, over REST as {side}_principal: who Isthmus is to the "
            f"brokers of {cluster.alias}.",
        )
    return principal


def grants_of(link: Link, side: Side, principal: str, *, only_required: bool = False) -> Grants:
    """Return the rights that a link needs at one side, for its principal there."""
    needs = [need for need in needs_of(link, side) if need.is_required or not only_required]
    found: dict[tuple[Resource, RulePlace, str], Grant] = {}
    notes: dict[str, None] = {}
    for need in needs:
        places, more_notes = _places(link, side, need.about)
        notes.update(dict.fromkeys(more_notes))
        resource = _KINDS.get(need.about, Resource.TOPIC)
        for place in places:
            key = (resource, place, need.operation)
            known = found.get(key)
            rule = Rule(
                resource=resource,
                name=place.name,
                pattern=place.pattern,
                principal=principal,
                host=EVERYTHING,
                operation=need.operation,
                permission=PermissionType.ALLOW,
            )
            purpose = need.purpose if known is None else f"{known.purpose}; {need.purpose}"
            is_required = need.is_required or (known is not None and known.is_required)
            found[key] = Grant(side=side, rule=rule, purpose=purpose, is_required=is_required)
    kept = [grant for key, grant in found.items() if not any(_implies(other, key) for other in found)]
    return Grants(grants=tuple(kept), notes=tuple(notes))


def _implies(other: tuple[Resource, RulePlace, str], one: tuple[Resource, RulePlace, str]) -> bool:
    """Return whether another rule implies one, so that this can be left out."""
    (kind, place, operation), (resource, own, wanted) = other, one
    return other != one and kind is resource and place.covers(own) and wanted in MEANS[operation]


def places_of(link: Link, side: Side, about: About) -> list[RulePlace]:
    """Return the names of a kind of thing at a side, as rules have them."""
    return _places(link, side, about)[0]


def _places(link: Link, side: Side, about: About) -> tuple[list[RulePlace], list[str]]:
    names = link.mm2_names
    syncs = names.offset_syncs(SyncsPlace.SOURCE if side is Side.SOURCE else SyncsPlace.TARGET)
    match about:
        case About.MIRRORED:
            return _topic_places(link, side)
        case About.GROUPS:
            own = link.groups
            return _places_of(own.include, own.exclude, own.naming, side, "groups")
        case About.TRANSACTIONS:
            return [RulePlace(f"isthmus.{link.name}.", RulePattern.PREFIXED)], []
        case About.NAMESPACES:
            return [RulePlace("isthmus.namespace.", RulePattern.PREFIXED)], []
        case About.EVERY_GROUP:
            return [RulePlace(EVERYTHING, RulePattern.LITERAL)], []
        case About.DEAD_LETTERS:
            return [RulePlace(f"{DEAD_LETTERS_PREFIX}{link.name}.", RulePattern.PREFIXED)], []
        case About.OFFSETS_COPY:
            # Only the brokers know the id of the source, which follows.
            return [RulePlace(COPY_PREFIX, RulePattern.PREFIXED)], []
        case _:
            name = {
                About.LEDGER: LEDGER_TOPIC,
                About.GROUP_LOG: OFFSETS_TOPIC,
                About.OFFSET_SYNCS: syncs,
                About.CHECKPOINTS: names.checkpoints,
                About.HEARTBEATS: HEARTBEATS,
                About.POSITIONS: POSITIONS_TOPIC,
                About.CLUSTER: CLUSTER_NAME,
                About.ACCESS: CLUSTER_NAME,
                About.QUOTAS: CLUSTER_NAME,
            }[about]
            return [RulePlace(name, RulePattern.LITERAL)], []


def _topic_places(link: Link, side: Side) -> tuple[list[RulePlace], list[str]]:
    own = link.topics
    places, notes = _places_of(own.include, own.exclude, own.naming, side, "topics")
    if own.mirror_maker is not None and own.mirror_maker.heartbeats:
        name = HEARTBEATS if side is Side.SOURCE else link.mm2_names.mirrored_heartbeats
        places.append(RulePlace(name, RulePattern.LITERAL))
        notes.append(f"of topics of heartbeats only {HEARTBEATS} is in it: those of clusters behind need rules by hand")
    return places, notes


def _places_of(
    include: Sequence[NamePattern], exclude: Sequence[NamePattern], naming: Naming, side: Side, kind: str
) -> tuple[list[RulePlace], list[str]]:
    if not isinstance(naming, NamespaceNaming):
        return _of_patterns(include, exclude, naming, side, kind)
    places: list[RulePlace] = []
    notes: list[str] = []
    for each in naming.maps:
        here = each.source if side is Side.SOURCE else each.target
        if here.is_exact:
            places.append(RulePlace(here.prefix, RulePattern.LITERAL))
        else:
            prefixes = PrefixNaming(source_prefix=each.source.prefix, target_prefix=each.target.prefix)
            found, more_notes = _of_patterns(include, exclude, prefixes, side, kind)
            places += found
            notes += more_notes
    return places, notes


def _of_patterns(
    include: Sequence[NamePattern], exclude: Sequence[NamePattern], naming: Naming, side: Side, kind: str
) -> tuple[list[RulePlace], list[str]]:
    places: list[RulePlace] = []
    notes: list[str] = []
    if exclude:
        notes.append(f"rules cannot leave {kind} out: those that are excluded are in it where a pattern is")
    for pattern in include:
        if pattern.kind == "literal":
            target = naming.to_target(pattern.value)
            if target is not None:
                places.append(RulePlace(pattern.value if side is Side.SOURCE else target, RulePattern.LITERAL))
            continue
        prefix = pattern.value if pattern.kind == "prefix" else fixed_prefix(pattern.value)
        own = naming.source_prefix if isinstance(naming, PrefixNaming) else ""
        if not (prefix.startswith(own) or own.startswith(prefix)):
            continue
        prefix = max(prefix, own, key=len)
        if side is Side.TARGET:
            moved = moved_prefix(naming, prefix)
            if moved is None:
                notes.append(f"the naming has no prefix for {pattern}: the rules at the target are about all {kind}")
            prefix = moved or ""
        if pattern.kind == "regex":
            reach = f"all {kind} that begin with {prefix}" if prefix else f"all {kind}"
            notes.append(f"rules know no regular expressions: instead of {pattern} they are about {reach}")
        places.append(RulePlace(prefix, RulePattern.PREFIXED) if prefix else RulePlace(EVERYTHING, RulePattern.LITERAL))
    return places, notes


def fixed_prefix(expression: str) -> str:
    """Return the beginning of all names that a regular expression matches, as far as that is plain to see."""
    parts = tuple(_characters(expression))
    if "|" in {written for written, is_plain in parts if not is_plain}:
        return ""
    prefix = ""
    for position, (written, is_plain) in enumerate(parts):
        following, plain = parts[position + 1] if position + 1 < len(parts) else ("", True)
        if not is_plain or (not plain and following in _QUANTIFIERS):
            break
        prefix += written
    return prefix


def _characters(expression: str) -> Iterator[tuple[str, bool]]:
    """Yield each character, and whether it is literal."""
    characters = iter(expression)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            yield escaped, bool(escaped) and not escaped.isalnum()
        else:
            yield character, character not in _SPECIAL


def by_place(grants: Iterable[Grant]) -> dict[tuple[Side, Resource, RulePlace], list[Grant]]:
    """Group the grants about the same thing, in their order."""
    found: dict[tuple[Side, Resource, RulePlace], list[Grant]] = {}
    for grant in grants:
        key = (grant.side, grant.rule.resource, RulePlace(grant.rule.name, grant.rule.pattern))
        found.setdefault(key, []).append(grant)
    return found
