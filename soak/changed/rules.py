"""What has to become of records, told without any code of the product; and the transform that is to do the same."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from soak.naming import PREFIX

Headers = tuple[tuple[str, bytes | None], ...]
_REMOVED: Final = "z"
_ORIGIN: Final = ("origin", b"soak")
MODULE: Final = "soak_rules"
"""What the module `soak.changed.functions` is called beside the configuration."""


class Row(NamedTuple):
    """A record as a consumer gets it; `timestamp` is in ms, and `kind` says who set it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    kind: int
    timestamp: int

    @property
    def content(self) -> tuple[object, ...]:
        """All of it but where it stands."""
        return self[1:]


class Fate(enum.Enum):
    """What becomes of a record that does not come to the topic of the target."""

    LEFT_OUT = enum.auto()
    LETTER = enum.auto()


Rule = Callable[[Row], Row | Fate]


def as_it_is(row: Row) -> Row:
    """A record that is copied."""
    return row


def chosen(row: Row) -> Row | Fate:
    """Expressions: some are left out, and those without a value are; fields and headers come and go."""
    if row.value is None:
        return Fate.LEFT_OUT
    fields = json.loads(row.value)
    if fields["kind"] == "c":
        return Fate.LEFT_OUT
    fields["email"] = hashlib.sha256(fields["email"].encode()).hexdigest()
    fields["twice"] = fields["number"] * 2
    del fields["secret"]
    kept = tuple(each for each in row.headers if each[0] != _REMOVED)
    return row._replace(value=_encoded(fields), headers=(*kept, _ORIGIN))


def counted(row: Row, *, failing: Fate) -> Row | Fate:
    """An expression that fails for some records. One without a value has no field to set."""
    if row.value is None:
        return row
    fields = json.loads(row.value)
    if fields["text"] == "none":
        return failing
    fields["text"] = int(fields["text"]) + 1
    return row._replace(value=_encoded(fields))


def turned(row: Row) -> Row | Fate:
    """A function that leaves some out: those without a value, and those of which a byte is odd."""
    if row.value is None or sum(row.value) % 4 == 0:
        return Fate.LEFT_OUT
    return row._replace(key=b"turned", value=row.value[::-1])


def checked(row: Row) -> Row | Fate:
    """A function that fails for some records."""
    return Fate.LETTER if row.value is not None and sum(row.value) % 8 == 0 else row


class Changed(NamedTuple):
    """A topic whose records are changed: by which mapping, and what has to become of them."""

    mapping: Mapping[str, Any]
    rule: Rule


_COUNTED: Final = {"decode": {"value": "json"}, "set": {"value.text": "CAST(value.text AS INT) + 1"}}
CHANGED: Final[Mapping[str, Changed]] = {
    f"{PREFIX}chosen": Changed(
        {
            "decode": {"value": {"format": "json", "fields": "kind STRING, email STRING, number INT"}},
            "where": "value.kind <> 'c'",
            "set": {
                "value.email": "sha2(value.email, 256)",
                "value.twice": "value.number * 2",
                "headers.origin": "'soak'",
            },
            "drop": ["value.secret", f"headers.{_REMOVED}"],
        },
        chosen,
    ),
    f"{PREFIX}turned": Changed({"python": f"{MODULE}:turned", "version": "1"}, turned),
    f"{PREFIX}skipping": Changed({**_COUNTED, "on_error": "skip"}, lambda row: counted(row, failing=Fate.LEFT_OUT)),
    f"{PREFIX}counted": Changed({**_COUNTED, "on_error": "dead-letter"}, lambda row: counted(row, failing=Fate.LETTER)),
    f"{PREFIX}checked": Changed({"python": f"{MODULE}:checked", "version": "1", "on_error": "dead-letter"}, checked),
}
"""By topic at the source. Records of all other topics are copied as they are."""
JSON_TOPICS: Final = frozenset(topic for topic, each in CHANGED.items() if "decode" in each.mapping)


def transform() -> list[dict[str, Any]]:
    """The section `transform` of the link."""
    return [{"topics": [topic], **each.mapping} for topic, each in CHANGED.items()]


def rule_of(topic: str) -> Rule:
    """What has to become of the records of a topic of the link."""
    return CHANGED[topic].rule if topic in CHANGED else as_it_is


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
