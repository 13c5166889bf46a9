"""Settings of a link for the other direction: each for the same cluster, or the same names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from isthmus.errors import PlanRefused
from isthmus.model.links.declaration import TARGET_LOGIN
from isthmus.model.namespace import NamespaceKind, NamespaceMap
from isthmus.model.text.patterns import NamePattern

_ACROSS: Final = {
    "source_login": TARGET_LOGIN,
    TARGET_LOGIN: "source_login",
    "properties.source.": "properties.target.",
    "properties.target.": "properties.source.",
}
_FILTERS: Final[Mapping[str, NamespaceKind]] = {
    "topics.include": "topic",
    "topics.exclude": "topic",
    "groups.include": "group",
    "groups.exclude": "group",
}


def reversed_settings(settings: Mapping[str, Any], maps: Sequence[NamespaceMap]) -> dict[str, Any]:
    """Return the settings of the link in the other direction: each cluster keeps its login and properties, and filters
    select the same, by the names that it has behind these `maps`.

    :raises PlanRefused: A filter is a regular expression, and names are not the same on both sides; or the link changes
        records on the way, which the other direction cannot undo.
    """
    if any(key.partition(".")[0] == "transform" and value for key, value in settings.items()):
        raise PlanRefused(
            "the link changes records on the way (transform), so that the other direction would not bring back what "
            "its source had",
            hint="isthmus link promote makes the target a leader of its own; create a link of its own for the way "
            "back, with other names for its topics.",
        )
    return {_across(key): _rename_patterns(key, value, maps) for key, value in settings.items()}


def _across(key: str) -> str:
    """Return the setting of the other direction that is about the same cluster."""
    for one, other in _ACROSS.items():
        if key == one or (one.endswith(".") and key.startswith(one)):
            return f"{other}{key.removeprefix(one)}"
    return key


def _rename_patterns(key: str, value: Any, maps: Sequence[NamespaceMap]) -> Any:
    if isinstance(value, Mapping):
        return {name: _rename_patterns(f"{key}.{name}", each, maps) for name, each in value.items()}
    own = [each for each in maps if each.kind == _FILTERS.get(key)]
    if not isinstance(value, list | tuple) or all(each.source == each.target for each in own):
        return value
    found: dict[str, None] = {}
    for text in value:
        pattern = NamePattern.split(text)
        if pattern.kind == "regex":
            raise PlanRefused(
                f"{key} is {text}, and the topics that it selects have other names at the new source",
                hint="Give names or prefixes in its place, by isthmus link update --set or isthmus filters.",
            )
        found.update(dict.fromkeys(str(each) for one in own for each in _behind(pattern, one)))
    return list(found)


def _behind(pattern: NamePattern, each: NamespaceMap) -> Iterator[NamePattern]:
    """Yield patterns that select in the target's namespace what a name or a prefix selects in the source's."""
    source, target = each.source, each.target
    if source.is_exact or pattern.kind == "literal":
        name = source.prefix if source.is_exact else pattern.value
        if pattern.matches(name) and source.holds(name):
            yield NamePattern("literal", each.to_target(name) or "")
    elif source.prefix.startswith(pattern.value):
        yield NamePattern("prefix", target.prefix)
    elif source.holds(pattern.value):
        yield NamePattern("prefix", each.to_target(pattern.value) or "")
