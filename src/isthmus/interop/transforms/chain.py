"""The chain of a flow's transforms as the `transform` of its link, and a notice about each step that is not the same.

A predicate on names of topics is the same for all records of a topic. So the chain becomes one transform for each set
of these predicates that is true, with the patterns of their topics. Predicates on records become conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from isthmus.interop.clients.references import Words, escape_text
from isthmus.interop.deployment import Impact, Settings
from isthmus.interop.expressions import NoEquivalent
from isthmus.interop.gathering import Gathering
from isthmus.interop.names import split_list
from isthmus.interop.transforms.composing import Composition
from isthmus.interop.transforms.meanings import (
    Doing,
    Occasion,
    When,
    do,
    is_plain_json,
    reads_fields,
    sets_headers,
    takes_away,
)
from isthmus.interop.transforms.routing import Routing, TargetNames, is_router
from isthmus.interop.transforms.steps import PREDICATES, TRANSFORMS, ChainStep, NotTranslated
from isthmus.interop.transforms.topicnames import regex_of, source_patterns

_TOLERANCE: Final = "errors.tolerance"
_PATTERNS_MAX: Final = 3
_BYTES: Final = (
    "in MirrorMaker 2 they fail on every record that has a key or value, whatever the converters are: these are bytes "
    "there, and converters come behind transforms (Only Struct objects supported). The link does it to JSON"
)
_TRY: Final = (
    "isthmus transform try LINK --topic TOPIC shows what becomes of records. If they are no JSON objects, write a "
    "Python function (docs/transforms.md)."
)
_TEXTS: Final = "numbers of the value become texts in the key: their types are not known"
_TYPES: Final = "Give them, if they are no texts: decode: {value: {format: json, fields: 'id BIGINT'}}."
_ONE_HEADER: Final = (
    "it sets the header, as a text, in place of one of that name that a record has: MirrorMaker 2 adds another one, in "
    "the form of its header.converter"
)
_NO_FIELD: Final = (
    "of a record that lacks the field, or has null there, it removes the header: MirrorMaker 2 adds one without a value"
)
_TWO_FIELDS: Final = (
    "if a record has a field of the new name too, it gets the value of the renamed one: in MirrorMaker 2 that depends "
    "on the hashes of their names"
)
_MASK_TEXT: Final = "the replacement is a text, also for a number: MirrorMaker 2 makes a number of it there"


@dataclass(slots=True)
class TranslatedChain:
    """The result: `transforms` in the form of the file, `treated` keys of the flow, and why nothing may be copied
    before somebody has completed it, "" if it is complete.
    """

    transforms: list[dict[str, Any]] = field(default_factory=list)
    why_held: str = ""
    treated: frozenset[str] = frozenset()


def translate_chain(
    settings: Settings, steps: Sequence[ChainStep], routing: Routing, gathering: Gathering
) -> TranslatedChain:
    """Translate the steps of a flow that do not rename topics, and tell what is not the same or not there."""
    return _Translating(settings, steps, routing, gathering).all()


@dataclass(frozen=True, slots=True)
class _TopicCondition:
    """A predicate on names of topics, at the source: `None` if these are unknown for the reason `why`."""

    patterns: tuple[str, ...] | None
    why: str = ""


class _Translating:
    def __init__(self, settings: Settings, steps: Sequence[ChainStep], routing: Routing, gathering: Gathering) -> None:
        self._settings = settings
        self._steps = [(step, names) for step, names in zip(steps, routing.before, strict=True) if not is_router(step)]
        self._gathering = gathering
        self._made = TranslatedChain()
        self._failed: set[str] = set()
        self._on_bytes: dict[str, None] = {}
        self._conditions = {step.prefix: self._topic_condition(step, names) for step, names in self._steps}
        self._known = list(
            dict.fromkeys(each.patterns for each in self._conditions.values() if each is not None and each.patterns)
        )

    def all(self) -> TranslatedChain:
        self._tell_unused()
        made = self._made
        if not self._steps:
            return made
        sections = [(topics, self._section(true)) for topics, true in self._variants()]
        if self._failed:
            # A step that fails for some topics is left out for all.
            sections = [(topics, self._section(true)) for topics, true in self._variants()]
        if self._on_bytes:
            value = ", ".join(self._on_bytes)
            self._gathering.tell(Impact.CHANGED, self._settings[TRANSFORMS], _BYTES, _TRY, value=value)
        while sections and not sections[-1][1]:
            sections.pop()
        is_tolerant = self._value(_TOLERANCE) == "all"
        for topics, section in sections:
            transform = {**({"topics": list(topics)} if topics else {}), **section}
            made.transforms.append(transform | ({"on_error": "skip"} if is_tolerant and section else {}))
        treated = {key for key in self._settings if self._is_json_converter(key)}
        made.treated = frozenset(treated | ({_TOLERANCE} if made.transforms else set()))
        return made

    def _value(self, key: str) -> str:
        return self._settings[key].value.strip() if key in self._settings else ""

    def _is_json_converter(self, key: str) -> bool:
        """Return whether a setting is of a converter behind steps that read JSON: their link writes JSON too."""
        part, _, rest = key.partition(".")
        read = {step.part for step, _ in self._steps if step.kind == "ConvertFromBytes" and is_plain_json(step)}
        return part in read and (rest == "converter" or rest.startswith("converter."))

    def _variants(self) -> Iterator[tuple[tuple[str, ...], frozenset[tuple[str, ...]]]]:
        """Yield the topics of each transform, and which of the predicates on names are true for them."""
        known = self._known[:_PATTERNS_MAX]
        for count in range(len(known), -1, -1):
            for chosen in combinations(known, count):
                yield _topics_of(chosen), frozenset(chosen)

    def _section(self, true: frozenset[tuple[str, ...]]) -> dict[str, Any]:
        """Return one transform: for topics for which these predicates on names are true."""
        composed = Composition()
        for step, names in self._steps:
            if step.prefix in self._failed:
                continue
            try:
                when = self._when(step, composed, true)
                if when is not None:
                    do(Doing(composed, step, when, names))
                    self._tell_difference(step)
            except NotTranslated as reason:
                self._tell_failed(step, reason)
        try:
            return _escape(composed.transformation().section())
        except NotTranslated as reason:
            self._tell_failed(next(step for step, _ in self._steps if step.kind == "ReplaceField"), reason)
            return {}

    def _when(self, step: ChainStep, composed: Composition, true: frozenset[tuple[str, ...]]) -> When | None:
        """Return for which records of these topics a step is done, `None` for none of them.

        :raises NotTranslated: This cannot be said.
        """
        self._require_plain(step)
        predicate = step.predicate
        if predicate is None:
            return When()
        topics = self._conditions[step.prefix]
        if topics is not None:
            if topics.patterns in self._known[_PATTERNS_MAX:]:
                raise NotTranslated(f"more than {_PATTERNS_MAX} different predicates are on names of topics")
            if topics.patterns is None:
                raise NotTranslated(f"its predicate is on names of topics, and {topics.why}")
            return None if (topics.patterns in true) == step.is_negated else When()
        if not predicate.is_known or predicate.kind not in ("RecordIsTombstone", "HasHeaderKey"):
            raise NotTranslated(f"Isthmus does not know its predicate {predicate.value('type') or predicate.prefix}")
        if predicate.kind == "RecordIsTombstone":
            if step.is_negated:
                return When(Occasion.VALUES, "value IS NOT NULL")
            return When(Occasion.TOMBSTONES, "value IS NULL")
        found = composed.has_header(predicate.value("name"))
        return When(Occasion.HEADER, f"NOT {found}" if step.is_negated else found)

    def _require_plain(self, step: ChainStep) -> None:
        """Require that no value of a step is one that stands elsewhere: it may be a secret, and plans show it.

        :raises NotTranslated: One is.
        """
        for key in sorted(step.keys):
            pieces = self._gathering.pieces(step.setting(key).value)
            if any(not isinstance(piece, Words) for piece in pieces):
                raise NotTranslated(f"{key} refers to a value outside the file, and plans show what transforms say")

    def _topic_condition(self, step: ChainStep, names: TargetNames | None) -> _TopicCondition | None:
        """Return the predicate on names of topics of a step, `None` if it has none."""
        predicate = step.predicate
        if predicate is None or predicate.kind != "TopicNameMatches":
            return None
        if names is None:
            return _TopicCondition(None, "names at the target are unknown")
        try:
            found = source_patterns(predicate.value("pattern"), names)
        except NoEquivalent as reason:
            return _TopicCondition(None, f"{predicate.value('pattern')} is no pattern of names at the source: {reason}")
        if not found:
            why = f"it is true for no topic: names begin with {names.begin!r} at the target"
            self._gathering.tell(Impact.CHANGED, predicate.setting("pattern"), why, "See that this is meant.")
        return _TopicCondition(found)

    def _tell_failed(self, step: ChainStep, reason: NotTranslated) -> None:
        self._failed.add(step.prefix)
        why, value = str(reason), step.value("type")
        if takes_away(step) or self._marks_for_later(step):
            self._made.why_held = f"{step.prefix}type: {why}"
            why = f"{why}. Without it records would come as MirrorMaker 2 does not write them, so nothing is included"
            self._gathering.tell(Impact.NEEDED, step.setting("type"), why, reason.todo, value=value)
        else:
            todo = reason.todo.partition("; then fill in")[0].removesuffix(".") + "."
            self._gathering.tell(Impact.LOST, step.setting("type"), why, todo, value=value)

    def _marks_for_later(self, step: ChainStep) -> bool:
        """Return whether a later step looks for headers that this one sets: it would decide about records without."""
        at = [each.prefix for each, _ in self._steps].index(step.prefix)
        predicates = (later.predicate for later, _ in self._steps[at + 1 :])
        return sets_headers(step) and any(each is not None and each.kind == "HasHeaderKey" for each in predicates)

    def _tell_difference(self, step: ChainStep) -> None:
        tell, setting = self._gathering.tell, step.setting("type")
        if reads_fields(step) and not self._is_decoded_before(step):
            self._on_bytes[setting.written.removesuffix(".type").rpartition(".")[2]] = None
        if step.kind == "ValueToKey":
            tell(Impact.CHANGED, step.setting("fields"), _TEXTS, _TYPES)
        elif step.kind in ("InsertHeader", "HeaderFrom"):
            tell(Impact.CHANGED, step.setting("header" if step.kind == "InsertHeader" else "headers"), _ONE_HEADER)
            if step.kind == "HeaderFrom":
                tell(Impact.CHANGED, step.setting("fields"), _NO_FIELD)
        elif step.kind == "ReplaceField" and step.items("renames"):
            tell(Impact.CHANGED, step.setting("renames"), _TWO_FIELDS)
        elif step.kind == "MaskField" and step.value("replacement"):
            tell(Impact.CHANGED, step.setting("replacement"), _MASK_TEXT)
        elif step.kind == "InsertField" and step.value("offset.field"):
            why = "MirrorMaker 2 fails there: it has no offset for it. The link inserts the offset at the source"
            tell(Impact.CHANGED, step.setting("offset.field"), why)

    def _is_decoded_before(self, step: ChainStep) -> bool:
        at = [each.prefix for each, _ in self._steps].index(step.prefix)
        part = "value" if step.kind == "ValueToKey" else str(step.part)
        return any(each.kind == "ConvertFromBytes" and str(each.part) == part for each, _ in self._steps[:at])

    def _tell_unused(self) -> None:
        """Tell of predicates that no step has, and of settings of steps that are in no chain."""
        used = {step.predicate.prefix for step, _ in self._steps if step.predicate is not None}
        named = {f"{TRANSFORMS}.{name}." for name in split_list(self._value(TRANSFORMS))}
        for name in split_list(self._value(PREDICATES)):
            if f"{PREDICATES}.{name}." not in used:
                why = "no transform has this predicate"
                self._gathering.tell(Impact.UNNEEDED, self._settings[PREDICATES], why, value=name)
        for key, setting in self._settings.items():
            if key.startswith(f"{TRANSFORMS}.") and not any(key.startswith(each) for each in named):
                self._gathering.tell(Impact.UNKNOWN, setting, "transforms does not name it, so it has no effect")


def _topics_of(chosen: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the patterns of topics that match all of several lists of patterns."""
    if len(chosen) < 2:
        return chosen[0] if chosen else ()
    *ahead, last = (f"(?:{'|'.join(map(regex_of, each))})" for each in chosen)
    return (f"/{''.join(f'(?={each}$)' for each in ahead)}{last}/",)


def _escape(section: Mapping[str, Any]) -> dict[str, Any]:
    """Escape all texts for the file."""
    return {escape_text(key): _escape_value(value) for key, value in section.items()}


def _escape_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _escape(value)
    return [escape_text(each) for each in value] if isinstance(value, list) else escape_text(value)
