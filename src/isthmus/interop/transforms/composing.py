"""What a chain of steps makes of a record, in one transform whose assignments all see the record as it came.

Each step is applied to what the steps before it have made, in symbols: a field is one that came, under the same name or
another one, perhaps masked, or it is an expression over the record as it came. So a later step that reads what an
earlier one has made reads that expression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from isthmus.interop.transforms.steps import NotTranslated
from isthmus.model.links.transform import RecordPart, RecordPath

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EMPTY_TEXT: Final = "''"
_RAISES: Final = "raise_error('ValueToKey: the record has no value')"


class Whence(NamedTuple):
    """Where a field is from: the one of the name `came`, masked or not, or an expression and the empty value of its
    type. An expression is NULL where the field that `came` is.
    """

    came: str = ""
    is_masked: bool = False
    expression: str = ""
    empty: str = _EMPTY_TEXT


class Fields:
    """The fields of a key or value, of which only some are known by name: `rest` says whether all others stay."""

    def __init__(self, part: RecordPart) -> None:
        self._part = part
        self._named: dict[str, Whence | None] = {}
        self._rest = True
        self.is_read = False

    @property
    def is_decoded(self) -> bool:
        return self.is_read or not self._rest or bool(self._named)

    def mask(self, names: Sequence[str], replacement: str) -> None:
        """Mask fields, by the empty value of their types if there is no replacement. null stays null.

        :raises NotTranslated: A name cannot be written.
        """
        for name in names:
            self._path(name)
            found = self._get(name)
            if found is None:
                continue
            if not replacement and not found.expression:
                self._named[name] = found._replace(is_masked=True)
                continue
            literal = quote(replacement) if replacement else found.empty
            if found.came:
                literal = f"IF({self._reading(found.came)} IS NULL, NULL, {literal})"
            self._named[name] = Whence(came=found.came, expression=literal)

    def replace(self, include: Sequence[str], exclude: Sequence[str], renames: Mapping[str, str]) -> None:
        """Leave fields out, and give others other names.

        :raises NotTranslated: Fields change their names in a circle, or two of them get the same.
        """
        explicit = dict.fromkeys((*self._named, *include, *exclude, *renames))
        for name in (*explicit, *renames.values()):
            self._path(name)
        passed = {
            name: found
            for name in explicit
            if name not in exclude and (not include or name in include) and (found := self._get(name)) is not None
        }
        places = [renames.get(name, name) for name in passed]
        twice = sorted({place for place in places if places.count(place) > 1})
        if twice:
            raise NotTranslated(f"two fields get the name {twice[0]}, and which of them stays depends on their hashes")
        rest = self._rest and not include
        made: dict[str, Whence | None] = dict.fromkeys(explicit)
        for name, found in sorted(passed.items(), key=lambda each: each[0] in renames):
            new = renames.get(name, name)
            is_away = new in explicit and (new not in passed or renames.get(new, new) != new)
            if new != name and rest and is_away:
                raise NotTranslated(f"field {new} is taken away or renamed, and {name} gets its name")
            made[new] = found
        self._named, self._rest = made, rest

    def forget(self) -> Fields:
        """Return the fields without a change; what was read of them stays read."""
        made = Fields(self._part)
        made.is_read = self.is_read
        return made

    def put(self, name: str, expression: str, empty: str = _EMPTY_TEXT) -> None:
        """Set a field to an expression over the record as it came.

        :raises NotTranslated: Its name cannot be written.
        """
        self._path(name)
        self._named[name] = Whence(expression=expression, empty=empty)

    def drop(self, name: str) -> None:
        self._named[name] = None

    def read(self, name: str) -> str:
        """Return the expression of a field, as a text; NULL if it is not there.

        :raises NotTranslated: It was masked, by a value that depends on its type, or its name cannot be written.
        """
        self._path(name)
        found = self._get(name)
        if found is None:
            return "NULL"
        if found.is_masked:
            raise NotTranslated(f"it reads field {name}, which a step before it masks: with what, depends on its type")
        if found.expression:
            return found.expression
        self.is_read = True
        return self._reading(found.came)

    def write(self, into: Transformation) -> None:
        """Write the changes of fields.

        :raises NotTranslated: No field stays of those that came.
        """
        kept: list[str] = []
        for name, found in self._named.items():
            path = self._path(name)
            if found is None:
                into.drop.extend([path] if self._rest else [])
            elif found.expression or found.came != name:
                into.sets[path] = found.expression or self._reading(found.came)
            elif not self._rest:
                kept.append(path)
            if found is not None and found.is_masked:
                into.mask.append(path)
        if not self._rest:
            into.keep.extend(kept or self._keep_one(into))

    def _keep_one(self, into: Transformation) -> list[str]:
        """Keep a field that is copied under another name, and drop it: something has to be kept, so that all else is
        not.
        """
        for found in self._named.values():
            path = "" if found is None or found.expression else self._path(found.came)
            if path and path not in into.sets:
                into.drop.append(path)
                return [path]
        raise NotTranslated("no field that came stays under its name")

    def _get(self, name: str) -> Whence | None:
        return self._named.get(name, Whence(came=name) if self._rest else None)

    def _path(self, name: str) -> str:
        if not name or "`" in name:
            raise NotTranslated(f"the name of field {name!r} cannot be written")
        return str(RecordPath(self._part, (name,)))

    def _reading(self, name: str) -> str:
        self._path(name)
        return f"{self._part}.{name if _PLAIN.fullmatch(name) else f'`{name}`'}"


@dataclass(slots=True)
class Transformation:
    """One transform of a link, in the form of the file."""

    where: list[str] = field(default_factory=list)
    sets: dict[str, str] = field(default_factory=dict)
    drop: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    mask: list[str] = field(default_factory=list)
    decoded: list[str] = field(default_factory=list)

    def section(self) -> dict[str, Any]:
        """Return the keys that say something."""
        if "false" in self.where:
            return {"where": "false"}
        given = {
            "decode": dict.fromkeys(self.decoded, "json"),
            "where": " AND ".join(dict.fromkeys(self.where)),
            "set": self.sets,
            "drop": self.drop,
            "keep": self.keep,
            "mask": self.mask,
        }
        return {key: value for key, value in given.items() if value}


class Composition:
    """A record on its way through the steps, in symbols."""

    def __init__(self) -> None:
        self.fields = {part: Fields(part) for part in (RecordPart.KEY, RecordPart.VALUE)}
        self._left_out: list[str] = []
        self._headers: dict[str, str | None] = {}
        self._has_header: dict[str, str] = {}
        self._key: dict[str, str] = {}
        self._key_field = ""
        self._passes_tombstones = False

    def leave_out(self, condition: str) -> None:
        """Leave out the records for which an expression is true, which is never NULL."""
        if condition != "false":
            self._left_out.append(condition)

    def has_header(self, name: str) -> str:
        """Return the expression of whether a record has a header."""
        return self._has_header.get(name, f"map_contains_key(headers, {quote(name)})")

    def set_header(self, name: str, expression: str, condition: str = "") -> None:
        """Set a header, if a condition is true; what was there before stays otherwise."""
        if not condition:
            self._headers[name], self._has_header[name] = expression, "true"
            return
        former = self._headers.get(name, f"headers[{quote(name)}]") or "NULL"
        self._has_header[name] = f"({condition} OR {self.has_header(name)})"
        self._headers[name] = f"IF({condition}, {expression}, {former})"

    def drop_header(self, name: str) -> None:
        self._headers[name], self._has_header[name] = None, "false"

    def set_key(self, names: Sequence[str], *, passes_tombstones: bool) -> None:
        """Make the key an object of fields of the value. Records without a value keep their key, or fail.

        :raises NotTranslated: A field was masked, or the key that records without a value keep was read or changed.
        """
        if passes_tombstones and self.fields[RecordPart.KEY].is_decoded:
            raise NotTranslated("tombstones keep their keys, and a step before it works on fields of keys")
        self._key = {name: self.fields[RecordPart.VALUE].read(name) for name in names}
        self._key_field, self._passes_tombstones = "", passes_tombstones
        self.fields[RecordPart.KEY] = self.fields[RecordPart.KEY].forget()

    def extract_key(self, name: str) -> None:
        """Make the key one of the fields that it was made of.

        :raises NotTranslated: It was made of none.
        """
        if name not in self._key or self._key_field:
            raise NotTranslated("the key that it takes a field from is the one that came")
        self._key_field = name

    def require_key_that_came(self) -> None:
        """Require that no step has made the key.

        :raises NotTranslated: One has.
        """
        if self._key:
            raise NotTranslated("it changes the key that a step before it makes")

    def transformation(self) -> Transformation:
        """Return the transform that does the same as all steps.

        :raises NotTranslated: It cannot be said.
        """
        made = Transformation()
        made.where = [_negate(each) for each in self._left_out]
        for name, expression in self._headers.items():
            if expression is None:
                made.drop.append(f"headers.{name}")
            else:
                made.sets[f"headers.{name}"] = expression
        if self._key:
            made.sets["key"] = self._key_expression()
        for part, each in self.fields.items():
            each.write(made)
            if each.is_decoded:
                made.decoded.append(str(part))
        return made

    def _key_expression(self) -> str:
        members = ", ".join(f"{quote(name)}, {each}" for name, each in self._key.items())
        made = f"to_json(named_struct({members}), map('ignoreNullFields', 'false'))"
        if self._key_field:
            made = self._key[self._key_field]
        return f"IF(value IS NULL, {'key' if self._passes_tombstones else _RAISES}, CAST({made} AS BINARY))"


def _negate(condition: str) -> str:
    if condition.startswith("NOT "):
        return condition.removeprefix("NOT ")
    known = {"true": "false", "value IS NULL": "value IS NOT NULL", "value IS NOT NULL": "value IS NULL"}
    return known.get(condition, f"NOT {condition}")


def quote(text: str) -> str:
    """Return a text of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
